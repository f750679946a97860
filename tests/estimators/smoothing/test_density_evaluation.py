"""Ways to evaluate a density: tolerances, grids, parts of features, bounds, local widths."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.datasets import load_digits

from mercer.estimators.smoothing.density import KernelDensity
from mercer.kernels.smoothing.windows import SMOOTHING_KERNELS

SMOOTH = ["gaussian", "biweight", "triweight"]
CLOSED = ["gaussian", "hypercube", "tophat", "epanechnikov", "biweight", "triweight"]


def cloud(n=400, d=2, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(size=(n // 2, d)), 0.2 * rng.normal(size=(n // 2, d)) + 2])


def weights(n=400):
    return np.random.default_rng(9).uniform(0.2, 2, size=n)


# Tolerances


@pytest.mark.parametrize("kernel", [k for k in SMOOTHING_KERNELS if k != "hypercube"])
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize(("rtol", "atol"), [(1e-3, 0.0), (0.0, 1e-4), (1e-7, 1e-9)])
def test_a_tree_keeps_its_tolerance(kernel, d, rtol, atol):
    X, Z = cloud(1500, d), cloud(300, d, seed=1) * 2
    h = np.linspace(0.2, 0.6, d)
    exact = KernelDensity(kernel=kernel, bandwidth=h, method="exact").fit(X, None, weights(1500))
    tree = KernelDensity(kernel=kernel, bandwidth=h, method="tree", rtol=rtol, atol=atol)
    p, found = exact.pdf(Z), tree.fit(X, None, weights(1500)).pdf(Z)
    assert np.all(np.abs(found - p) <= atol + rtol * p + 1e-12 * p)


@pytest.mark.parametrize("kernel", SMOOTH)
@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("atol", [1e-2, 1e-3])
def test_a_grid_keeps_its_tolerance(kernel, d, atol):
    X, Z = cloud(1500, d), cloud(300, d, seed=1) * 2
    h = np.linspace(0.5, 1.2, d)
    exact = KernelDensity(kernel=kernel, bandwidth=h, method="exact").fit(X, None, weights(1500))
    grid = KernelDensity(kernel=kernel, bandwidth=h, method="grid", atol=atol)
    p, found = exact.pdf(Z), grid.fit(X, None, weights(1500)).pdf(Z)
    assert np.all(np.abs(found - p) <= atol)


def test_a_grid_with_a_matrix():
    X, Z, H = cloud(), cloud(seed=1), np.array([[0.3, 0.1], [0.1, 0.2]])
    exact = KernelDensity(bandwidth=H).fit(X).pdf(Z)
    found = KernelDensity(bandwidth=H, method="grid", atol=1e-3).fit(X).pdf(Z)
    assert np.abs(found - exact).max() <= 1e-3


def test_far_from_the_data_logarithms_stay_right():
    X, far = cloud(), np.array([[60.0, 0.0], [1e5, 1e5], [-200.0, 4.0]])
    exact = KernelDensity(bandwidth=0.3, method="exact").fit(X).score_samples(far)
    assert np.isfinite(exact).all()
    for method in ("tree", "grid"):
        kde = KernelDensity(bandwidth=0.3, method=method, rtol=1e-6, atol=1e-3).fit(X)
        np.testing.assert_allclose(kde.score_samples(far), exact, rtol=1e-10)


@pytest.mark.parametrize("kernel", [*SMOOTHING_KERNELS])
@pytest.mark.parametrize("tolerance", [{}, {"rtol": 1e-4}, {"atol": 1e-3}])
def test_auto_keeps_every_tolerance(kernel, tolerance):
    X, Z = cloud(2000), cloud(1200, seed=1)
    exact = KernelDensity(kernel=kernel, bandwidth=0.3, method="exact").fit(X).pdf(Z)
    found = KernelDensity(kernel=kernel, bandwidth=0.3, **tolerance).fit(X).pdf(Z)
    bound = tolerance.get("atol", 0.0) + (tolerance.get("rtol", 0.0) + 1e-10) * exact
    assert np.all(np.abs(found - exact) <= bound)


@pytest.mark.parametrize("h", [1, 3, 4, 5])
def test_raw_digits_to_the_last_digit(h):
    """Where a tree with default settings has been known to be off by hundreds of nats."""
    X = load_digits().data
    squared = (X**2).sum(axis=1)[:, None] + (X**2).sum(axis=1) - 2 * X @ X.T  # whole numbers
    by_hand = logsumexp(-squared / (2 * h**2), axis=1) - np.log(len(X))
    by_hand -= 64 / 2 * np.log(2 * np.pi * h**2)
    np.testing.assert_allclose(
        KernelDensity(bandwidth=h).fit(X).score_samples(X), by_hand, rtol=0, atol=1e-10
    )


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "tree", "kernel": "hypercube"}, "radial"),
        ({"method": "grid"}, "atol above zero"),
        ({"method": "grid", "atol": 1e-3, "kernel": "tophat"}, "edges"),
        ({"method": "tree", "adaptive": 0.5}, "bandwidth of its own"),
    ],
)
def test_methods_that_do_not_apply_say_why(parameters, message):
    with pytest.raises(ValueError, match=message):
        KernelDensity(**parameters).fit(cloud())
    with pytest.raises(ValueError, match="too large"):
        KernelDensity(method="grid", atol=1e-3).fit(cloud(d=4))
    with pytest.raises(ValueError, match="raise atol"):
        KernelDensity(method="grid", atol=1e-30).fit(cloud()).pdf(cloud())


# Grids


@pytest.mark.parametrize("kernel", [*SMOOTHING_KERNELS])
def test_density_on_a_grid(kernel):
    X = cloud(300, 1)
    kde = KernelDensity(kernel=kernel, bandwidth=0.5).fit(X, None, weights(300))
    (axis,), p = kde.grid(4096)
    assert p.sum() * (axis[1] - axis[0]) == pytest.approx(1, abs=5e-3)
    exact = kde.pdf(axis[:, None])
    # Where the kernel jumps, single cells differ; the area between does not.
    assert np.abs(p - exact).mean() * np.ptp(axis) < 5e-3
    if kernel in SMOOTH:
        assert np.abs(p - exact).max() < 1e-4


def test_grid_of_two_features_and_a_box_of_ones_own():
    X, H = cloud(), np.array([[0.3, 0.1], [0.1, 0.2]])
    kde = KernelDensity(bandwidth=H).fit(X)
    (a, b), p = kde.grid((300, 200), low=[-1.0, 0.0], high=[3.0, 1.0])
    assert p.shape == (300, 200)
    mesh = np.stack(np.meshgrid(a, b, indexing="ij"), axis=-1).reshape(-1, 2)
    np.testing.assert_allclose(p.ravel(), kde.pdf(mesh), atol=1e-3)
    far = kde.grid(16, low=100.0, high=101.0)[1]
    assert np.abs(far).max() == 0
    with pytest.raises(ValueError, match="below high"):
        kde.grid(8, low=1.0, high=0.0)
    with pytest.raises(ValueError, match="n_points"):
        kde.grid(1)


@pytest.mark.parametrize("d", [1, 2])
def test_a_grid_over_a_box_that_is_small_beside_the_kernel(d):
    kde = KernelDensity().fit(cloud(d=d))
    axes, p = kde.grid(32, low=0.0, high=1e-7)
    mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, d)
    np.testing.assert_allclose(p.ravel(), kde.pdf(mesh), rtol=1e-12)


# Parts of the features


@pytest.mark.parametrize("kernel", CLOSED)
@pytest.mark.parametrize("adaptive", [0.0, 0.5])
def test_marginal_is_the_integral(kernel, adaptive):
    X = cloud(40)
    kde = KernelDensity(kernel=kernel, bandwidth=[0.7, 1.1], adaptive=adaptive)
    kde.fit(X, None, weights(40))
    t = np.linspace(-8, 10, 3001)
    for x in (0.1, 1.7):
        joint = kde.pdf(np.column_stack([np.full(len(t), x), t]))
        integral = np.trapezoid(joint, t)
        assert kde.marginal([0]).pdf([[x]])[0] == pytest.approx(integral, rel=2e-2)


@pytest.mark.parametrize("kernel", CLOSED)
@pytest.mark.parametrize("adaptive", [0.0, 0.5])
def test_conditional_is_joint_over_marginal(kernel, adaptive):
    X = cloud(40, 3)
    kde = KernelDensity(kernel=kernel, bandwidth=[1.7, 2.1, 1.9], adaptive=adaptive)
    kde.fit(X, None, weights(40))
    Z = np.random.default_rng(0).uniform(-1, 2, size=(20, 2))
    whole = np.column_stack([Z[:, 0], np.full(20, 0.8), Z[:, 1]])
    expected = kde.pdf(whole) / kde.marginal([1]).pdf([[0.8]])
    np.testing.assert_allclose(kde.conditional({1: 0.8}).pdf(Z), expected, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
def test_parts_with_a_matrix(kernel):
    H = np.array([[2.0, 0.6, 0.1], [0.6, 1.5, -0.4], [0.1, -0.4, 1.0]])
    kde = KernelDensity(kernel=kernel, bandwidth=H).fit(cloud(60, 3))
    t = np.linspace(-12, 12, 4001)
    line = np.column_stack([np.full(len(t), 0.3), t, np.full(len(t), 0.5)])
    two = kde.marginal([0, 2])
    assert two.pdf([[0.3, 0.5]])[0] == pytest.approx(np.trapezoid(kde.pdf(line), t), rel=1e-4)
    expected = kde.pdf(line) / two.pdf([[0.3, 0.5]])
    found = kde.conditional({0: 0.3, 2: 0.5}).pdf(t[:, None])
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-10)


def test_parts_that_are_not_there():
    kde = KernelDensity(kernel="cosine").fit(cloud())
    with pytest.raises(ValueError, match="no marginal of its own kind"):
        kde.marginal([0])
    tophat = KernelDensity(kernel="tophat").fit(cloud())
    with pytest.raises(ValueError, match="in reach"):
        tophat.conditional({0: 99.0})
    with pytest.raises(ValueError, match="every feature"):
        tophat.conditional({0: 0.0, 1: 0.0})
    for absent in ([2], [0.5], ["a"], [0, 0]):
        with pytest.raises(ValueError, match="columns 0 to 1"):
            tophat.marginal(absent)


def test_parts_keep_names_and_weights():
    frame = pytest.importorskip("pandas").DataFrame(cloud(d=3), columns=["a", "b", "c"])
    kde = KernelDensity().fit(frame)
    part, given = kde.marginal(["c", "a"]), kde.conditional({"b": 0.5})
    assert list(part.feature_names_in_) == ["c", "a"]
    Z = frame[["c", "a"]]
    np.testing.assert_array_equal(part.pdf(Z), kde.marginal([2, 0]).pdf(Z))
    Z = frame[["a", "c"]]
    np.testing.assert_array_equal(given.pdf(Z), kde.conditional({1: 0.5}).pdf(Z))
    more = part.partial_fit(frame[["c", "a"]][:1])
    assert more.sample_weight_[-1] == pytest.approx(1 / 401)


# Bounds


@pytest.mark.parametrize("kernel", [*SMOOTHING_KERNELS])
@pytest.mark.parametrize("bounds", [(0, None), (None, 3.0), (0.0, 3.0)])
@pytest.mark.parametrize("h", [0.3, 2.5])
def test_reflection_keeps_all_mass_inside(kernel, bounds, h):
    X = np.random.default_rng(0).uniform(0, 3, size=(50, 1))
    kde = KernelDensity(kernel=kernel, bandwidth=h, bounds=bounds).fit(X)
    low = -60.0 if bounds[0] is None else 0.0
    high = 60.0 if bounds[1] is None else 3.0
    t = np.linspace(low, high, 20_001)
    assert np.trapezoid(kde.pdf(t[:, None]), t) == pytest.approx(1, abs=2e-3)
    outside = kde.pdf([[-0.1 if bounds[0] is not None else 3.1]])
    assert outside[0] == 0
    draws = kde.sample(500, random_state=0)
    assert np.all((draws >= low) & (draws <= high))


def test_reflection_written_out():
    X, z, h = np.array([[0.2], [1.5]]), 0.1, 0.4
    normal = stats.norm(scale=h)
    by_hand = np.mean(normal.pdf(z - X) + normal.pdf(-z - X))
    kde = KernelDensity(bandwidth=h, bounds=(0, np.inf)).fit(X)
    assert kde.pdf([[z]])[0] == pytest.approx(by_hand, rel=1e-12)
    k = (normal.pdf(z - X) + normal.pdf(-z - X))[:, 0]
    assert kde.standard_error([[z]])[0] == pytest.approx(k.std() / np.sqrt(2), rel=1e-10)


def test_bounds_of_single_features():
    X = np.abs(cloud())
    kde = KernelDensity(bandwidth=0.4, bounds=[(0, None), (None, None)]).fit(X)
    side = np.linspace(0, 8, 400), np.linspace(-4, 8, 400)
    mesh = np.stack(np.meshgrid(*side, indexing="ij"), axis=-1)
    p = kde.pdf(mesh.reshape(-1, 2)).reshape(400, 400)
    assert np.trapezoid(np.trapezoid(p, side[1]), side[0]) == pytest.approx(1, abs=1e-4)
    inner = kde.conditional({0: 0.05})
    expected = kde.pdf(np.column_stack([np.full(9, 0.05), np.arange(9.0)]))
    expected /= kde.marginal([0]).pdf([[0.05]])
    np.testing.assert_allclose(inner.pdf(np.arange(9.0)[:, None]), expected, rtol=1e-9, atol=1e-13)
    with pytest.raises(ValueError, match="row 0, column 0, outside bounds"):
        KernelDensity(bounds=(0, None)).fit([[-1.0]])
    with pytest.raises(ValueError, match="below its high"):
        KernelDensity(bounds=(1, 0)).fit([[0.5]])
    with pytest.raises(ValueError, match="expected a pair"):
        KernelDensity(bounds=[(0, 1)] * 3).fit(X)


def test_reflections_far_from_the_data_count():
    # All points lie on the bound, so that each has its image's density once more.
    kde = KernelDensity(bandwidth=0.01, bounds=(0, 1)).fit([[0.0], [0.0]])
    for Z in ([[0.9]], [[0.9], [0.0]]):
        expected = np.log(2) + stats.norm(scale=0.01).logpdf(0.9)
        assert kde.score_samples(Z)[0] == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("scale", [0.3, 4.0])
def test_conditional_with_bounds_and_a_matrix(scale):
    X = 0.1 * np.random.default_rng(0).uniform(size=(20, 3))
    H = scale * np.array([[1.0, 0.9, 0.8], [0.9, 1.0, 0.85], [0.8, 0.85, 1.0]])
    kde = KernelDensity(bandwidth=H, bounds=[(0, 1), (0, 1), (0, None)]).fit(X)
    Z = np.random.default_rng(1).uniform(size=(30, 2))
    for value in (0.0, 0.97):
        joint = kde.pdf(np.column_stack([np.full(30, value), Z]))
        expected = joint / kde.marginal([0]).pdf([[value]])
        np.testing.assert_allclose(kde.conditional({0: value}).pdf(Z), expected, rtol=1e-9)


def test_adaptive_widths_see_the_reflection():
    X = np.linspace(0, 1, 201)[:, None]
    kde = KernelDensity(bandwidth=0.1, bounds=(0, 1), adaptive=0.5).fit(X)
    log_p = KernelDensity(bandwidth=0.1, bounds=(0, 1)).fit(X).score_samples(X)
    np.testing.assert_allclose(kde.local_bandwidths_, np.exp(-0.5 * (log_p - log_p.mean())))


# Bandwidths of single points


def test_adaptive_widths():
    X, w, h = cloud(100), weights(100) / weights(100).sum(), 0.4
    pilot = KernelDensity(bandwidth=h).fit(X, None, w)
    log_p = pilot.score_samples(X)
    s = np.exp(-0.5 * (log_p - w @ log_p))
    kde = KernelDensity(bandwidth=h, adaptive=0.5).fit(X, None, w)
    np.testing.assert_allclose(kde.local_bandwidths_, s)
    Z = cloud(20, seed=1)
    by_hand = sum(
        w[j] * stats.multivariate_normal(X[j], (h * s[j]) ** 2 * np.eye(2)).pdf(Z)
        for j in range(100)
    )
    np.testing.assert_allclose(kde.pdf(Z), by_hand, rtol=1e-10)
    given = KernelDensity(bandwidth=h, adaptive=s).fit(X, None, w)
    np.testing.assert_allclose(given.pdf(Z), by_hand, rtol=1e-10)
    for bad in (s[:5], -s):
        with pytest.raises(ValueError, match="positive factor for each"):
            KernelDensity(adaptive=bad).fit(X)


@pytest.mark.parametrize("kernel", [*SMOOTHING_KERNELS])
def test_adaptive_density_integrates_to_one(kernel):
    X = cloud(60, 1) ** 3
    kde = KernelDensity(kernel=kernel, bandwidth=0.5, adaptive=0.5).fit(X)
    t = np.linspace(-150, 160, 400_001)
    assert np.trapezoid(kde.pdf(t[:, None]), t) == pytest.approx(1, abs=2e-3)


# Draws, more points


@pytest.mark.parametrize("kernel", [*SMOOTHING_KERNELS])
@pytest.mark.parametrize("options", [{}, {"adaptive": 0.5}, {"bounds": (-1.0, None)}])
def test_draws_pass_a_test_of_fit(kernel, options):
    X = np.maximum(cloud(30, 1), -0.9)
    kde = KernelDensity(kernel=kernel, bandwidth=0.6, **options).fit(X, None, weights(30))
    draws = kde.sample(3000, random_state=0)[:, 0]
    t = np.linspace(-60, 60, 240_001)
    cdf = np.cumsum(kde.pdf(t[:, None])) * (t[1] - t[0])
    assert stats.kstest(draws, lambda x: np.interp(x, t, cdf)).pvalue > 1e-3


@pytest.mark.parametrize("parameters", [{}, {"bandwidth": "isj"}, {"adaptive": 0.5}])
def test_points_that_come_in_parts(parameters):
    X, w = cloud(90, 1), weights(90)
    whole = KernelDensity(**parameters).fit(X, None, w)
    parts = KernelDensity(**parameters)
    for rows in (slice(0, 30), slice(30, 31), slice(31, 90)):
        parts.partial_fit(X[rows], None, w[rows])
    np.testing.assert_allclose(parts.score_samples(X), whole.score_samples(X), rtol=1e-9)
    assert parts.partial_fit(X).sample_weight_.shape == (180,)
    with pytest.raises(ValueError, match="2 features"):
        parts.partial_fit(np.zeros((1, 2)))
