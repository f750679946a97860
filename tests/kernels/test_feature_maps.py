"""Feature maps: weights, algebra, sparsity, budget, truncation, approximation."""

from __future__ import annotations

import contextlib
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from scipy.special import comb
from sklearn.base import clone

import mercer
from mercer import kernels as K
from naive_kernels import CASES, points

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(8, 4)), RNG.normal(size=(6, 4))
EXPLICIT = ["Spectrum", "Mismatch", "Gappy", "SetIntersection", "Subtree", "WeisfeilerLehman"]
EXPLICIT += ["WLOptimalAssignment", "ShortestPath", "Graphlet", "Propagation"]


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("coef0", [0.0, 0.7])
def test_polynomial_maps_have_the_multinomial_weights(degree, coef0):
    kernel = K.Polynomial(degree, 0.6, coef0)
    phi = kernel.feature_map().fit(X)
    size = comb(4 + degree, degree) if coef0 else comb(3 + degree, degree)
    assert phi.n_features_out_ == size
    exact = kernel(X, Y)
    np.testing.assert_allclose(
        phi.transform(X) @ phi.transform(Y).T, exact, rtol=0, atol=1e-13 * np.abs(exact).max()
    )
    assert len(phi.get_feature_names_out()) == size


@pytest.mark.parametrize(
    "kernel", [K.Linear(), K.Polynomial(2), K.Polynomial(4, coef0=0.0)], ids=repr
)
def test_sparse_points_give_sparse_features(kernel):
    S = sp.random_array((9, 12), density=0.2, random_state=0, format="csr")
    phi = kernel.feature_map().fit(S)
    F = phi.transform(S)
    assert sp.issparse(F)
    np.testing.assert_allclose((F @ F.T).toarray(), kernel(S), rtol=1e-11, atol=1e-14)


def test_products_of_sparse_maps():
    S = sp.random_array((7, 6), density=0.4, random_state=1, format="csr")
    kernel = K.Linear() * (K.Linear() + 1.0)
    F = kernel.feature_map().fit_transform(S)
    assert sp.issparse(F)
    np.testing.assert_allclose((F @ F.T).toarray(), kernel(S), rtol=1e-12, atol=1e-14)


def test_a_map_beyond_the_budget_is_refused_before_it_is_built():
    images = np.zeros((1000, 1024))
    phi = K.Polynomial(2).feature_map().fit(images)
    assert phi.n_features_out_ == comb(1026, 2)
    with pytest.raises(MemoryError, match="525,825 features"):
        phi.transform(images)
    with (
        sklearn.config_context(working_memory=1),
        pytest.raises(MemoryError, match="1,048,576 features"),
    ):
        K.Conjunction().feature_map().fit(np.ones((5, 20))).transform(np.ones((5, 20)))


def peak_mib(action):
    tracemalloc.start()
    try:
        with contextlib.suppress(MemoryError):
            action()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def test_sparse_maps_beyond_the_budget_are_refused_before_they_are_built():
    wide = sp.csr_array(np.eye(5, 1500) + np.eye(5, 1500, k=7))
    phi = K.Polynomial(3).feature_map().fit(wide)
    assert phi.n_features_out_ == comb(1503, 3, exact=True)
    assert peak_mib(lambda: phi.transform(wide)) < 5  # few entries, in half a billion columns
    F = phi.transform(wide)
    _, column = np.unique(F.indices, return_inverse=True)  # without the columns of zeros
    F = sp.csr_array((F.data, column, F.indptr)).toarray()
    np.testing.assert_allclose(F @ F.T, K.Polynomial(3)(wide), rtol=1e-12)
    full = sp.random_array((50, 400), density=0.2, random_state=0, format="csr")
    text = ["".join(RNG.choice(list("abcdefgh"), size=200)) for _ in range(20)]
    squared = K.Spectrum(5) * K.Spectrum(5)
    for kernel, points_, budget in [(K.Polynomial(3), full, 64), (squared, text, 2)]:
        phi = kernel.feature_map().fit(points_)
        with sklearn.config_context(working_memory=budget):
            assert peak_mib(lambda phi=phi, X=points_: phi.transform(X)) < budget
            with pytest.raises(MemoryError, match="entries that are not zero"):
                phi.transform(points_)
    many = sp.random_array((400, 8), density=0.9, random_state=0, format="csr")
    with sklearn.config_context(working_memory=0.5):  # the Gram takes 1.2 MiB, features more
        operator = mercer.gram(K.Polynomial(3, coef0=0.0) + K.Polynomial(2), many)
        assert "tiles" in operator.reason
        np.testing.assert_allclose((operator @ np.ones(400))[0], operator.rows([0]).sum())
    with pytest.raises(MemoryError, match="more than a sparse matrix can number"):
        K.Polynomial(20).feature_map().fit(wide).transform(wide)


def test_sizes_beyond_float64_are_refused_or_computed():
    X = np.zeros((3, 2000))
    with pytest.raises(MemoryError, match=r"about 10\^602 features"):
        K.Conjunction().feature_map().fit(X).transform(X)
    assert "stored" in mercer.gram(K.Conjunction(), np.zeros((3, 20_000))).reason
    few = RNG.normal(size=(3, 2)) / 100
    assert "stored" in mercer.gram(K.Polynomial(2000), few).reason
    kernel = K.Polynomial(2000)
    F = kernel.feature_map().fit_transform(few[:, :1])
    np.testing.assert_allclose(F @ F.T, kernel(few[:, :1]), rtol=1e-9)
    far = np.array([[6.0], [-6.5]])
    F = K.RBF().truncated_map(300).fit_transform(far)
    np.testing.assert_allclose(F @ F.T, K.RBF()(far), rtol=1e-9, atol=1e-12)
    for huge in (K.Linear() ** 10**20, K.Polynomial(10**20)):
        with pytest.raises(MemoryError, match="degree"):
            huge.feature_map()


@pytest.mark.parametrize(
    "kernel",
    [K.Linear(), K.Polynomial(2), K.Conjunction(), K.Min(), K.Linear() * K.Min() + 1, K.Cosine()],
    ids=repr,
)
def test_maps_take_as_many_features_as_they_were_fitted_on(kernel):
    phi = kernel.feature_map().fit(np.ones((2, 4)))
    for d in (3, 5):
        with pytest.raises(ValueError, match=f"X has {d} features; .* fitted on 4"):
            phi.transform(np.ones((2, d)))
    assert phi.fit(np.ones((2, 3))).transform(np.ones((2, 3))).shape[0] == 2


L = K.Linear()


@pytest.mark.parametrize(
    "kernel",
    [1.5 * L - L, L - L, -1 * (-1 * L), 2 * (L + 1) - 2, -1 * (L - 3 * L)],
    ids=repr,
)
def test_maps_of_differences_that_are_sums(kernel):
    F = kernel.feature_map().fit_transform(X)
    np.testing.assert_allclose(F @ F.T, kernel(X), atol=1e-12)


def test_maps_of_differences_and_of_a_constant_polynomial():
    with pytest.raises(K.NoFiniteFeatureMap):
        (L - 2 * L).feature_map()
    F = K.Polynomial(0, coef0=-1.0).feature_map().fit_transform(X)
    np.testing.assert_array_equal(F, np.ones((8, 1)))


def test_matrix_maps_check_indices():
    phi = K.FromMatrix(np.diag([1.0, 2.0])).feature_map().fit([0])
    np.testing.assert_allclose(phi.transform([[1], [0]]) ** 2, [[0, 2], [1, 0]], atol=1e-15)
    for bad in ([-1], [2], [1.7]):
        with pytest.raises(ValueError, match=r"X .*ind"):
            phi.transform(bad)


@pytest.mark.parametrize("name", EXPLICIT)
def test_structured_maps_equal_their_kernels(name):
    kernel = CASES[name][0]
    A, B = points(kernel, 8, np.random.default_rng(1)), points(kernel, 5, np.random.default_rng(2))
    phi = kernel.feature_map().fit(A)
    left, right = phi.transform(A), phi.transform(B)
    assert sp.issparse(left)
    np.testing.assert_allclose((left @ right.T).toarray(), kernel(A, B), rtol=1e-12)
    normal = kernel.normalize()
    psi = normal.feature_map().fit(A)
    np.testing.assert_allclose((psi.transform(A) @ psi.transform(B).T).toarray(), normal(A, B))


def test_min_has_a_finite_map_on_integers_only():
    counts = np.array([[3, 0], [1, 2], [5, 5]])
    phi = K.Min().feature_map().fit(counts)
    np.testing.assert_array_equal(phi.transform(counts) @ phi.transform(counts).T, K.Min()(counts))
    with pytest.raises(ValueError, match="integers from 0"):
        K.Min().feature_map().fit([[0.5]])
    for bad in (1e300, 2.0**53 + 2):
        with pytest.raises(ValueError, match=r"from 0 to 2\^53"):
            K.Min().feature_map().fit([[bad]])
    with pytest.raises(MemoryError, match=r"about 10\^19 features"):
        K.Min().feature_map().fit(np.full((1, 2000), 2.0**53)).transform([[1.0] * 2000])


def test_the_gaussian_refuses_and_its_truncation_converges():
    with pytest.raises(K.NoFiniteFeatureMap):
        K.RBF().feature_map()
    kernel = K.RBF(0.3, scales=[1.0, 2.0, 1.0, 0.5])
    errors = []
    for order in (2, 6, 12, 20):
        F = kernel.truncated_map(order).fit_transform(X / 2)
        errors.append(np.max(np.abs(F @ F.T - kernel(X / 2))))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-9
    with pytest.raises(ValueError, match="order"):
        kernel.truncated_map(-1)


STATIONARY = [
    K.RBF(0.3),
    K.RBF(0.3, scales=[1.0, 2.0, 0.5, 1.0]),
    K.Laplacian(0.2),
    K.Exponential(0.4),
    K.Matern(0.5),
    K.Matern(1.5, 2.0),
    K.Matern(2.5),
    K.Matern(np.inf),
    K.RationalQuadratic(0.8, 1.5),
    K.Periodic(2.0, 1.2),
    K.RBF(0.2) * K.Laplacian(0.1),
    2.0 * K.RBF(0.2) + 0.5 * K.Matern() + 1.0,
    K.RBF(0.1) ** 2,
    (K.RBF(0.2) + 3.0 * K.Laplacian(0.1)) * K.RBF(0.1),
    (2.0 * K.RBF(0.3)).normalize(),
    (K.RBF(0.3) + K.Laplacian(0.2) + 1.0).normalize(),
    K.exp(K.RBF(0.3)),
    K.exp(2.0 * K.RBF(0.3) + 0.5 * K.Laplacian(0.2)),
    0.0 * K.RBF(),
    (0.0 * K.RBF() + 0.0 * K.Laplacian()) * K.RBF(),
]


@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
def test_fourier_features_converge(kernel):
    exact = kernel(X, Y)
    scale = kernel(X[:1]).item()
    for size in (200, 20_000):
        phi = kernel.approximate_map(size, random_state=0).fit(X)
        error = np.abs(phi.transform(X) @ phi.transform(Y).T - exact).max()
        assert phi.transform(X).shape == (8, size)
        assert error <= 6 * scale / np.sqrt(size / 2)


def test_approximate_maps_are_seeded_and_pickle():
    for method in ("fourier", "nystrom"):
        first = K.RBF().approximate_map(6, method, random_state=3).fit(X)
        again = clone(first).fit(X)
        np.testing.assert_array_equal(first.transform(Y), again.transform(Y))
        stored = pickle.loads(pickle.dumps(first))
        np.testing.assert_array_equal(stored.transform(Y), first.transform(Y))


def test_nystrom_is_exact_with_every_point_and_bounded_by_the_kernel():
    kernel = K.RBF(0.5)
    phi = kernel.approximate_map(8, "nystrom", random_state=0).fit(X)
    np.testing.assert_allclose(phi.transform(X) @ phi.transform(X).T, kernel(X), atol=1e-10)
    few = kernel.approximate_map(3, "nystrom", random_state=0).fit(X).transform(X)
    assert np.linalg.eigvalsh(kernel(X) - few @ few.T)[0] > -1e-10
    doubled = np.vstack([X, X])
    F = kernel.approximate_map(16, "nystrom", random_state=0).fit(doubled).transform(doubled)
    np.testing.assert_allclose(F @ F.T, kernel(doubled), atol=1e-10)


def test_nystrom_works_on_structured_objects():
    words = ["abab", "abba", "baab", "aaaa", "bbbb"]
    kernel = K.Subsequence(2).normalize()
    F = kernel.approximate_map(5, "nystrom", random_state=0).fit(words).transform(words)
    np.testing.assert_allclose(F @ F.T, kernel(words), atol=1e-10)


def test_sketches_of_polynomials():
    kernel = K.Polynomial(2, 0.5, 1.0)
    F = kernel.approximate_map(20_000, "sketch", random_state=0).fit(X).transform(X)
    assert np.abs(F @ F.T - kernel(X)).max() < 0.1 * kernel(X).max()
    with pytest.raises(TypeError, match="Polynomial"):
        K.RBF().approximate_map(10, "sketch").fit(X)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 7}, "even"),
        ({"n_components": 2.5}, "n_components"),
        ({"method": "magic"}, "method"),
    ],
)
def test_wrong_arguments_are_named(arguments, match):
    with pytest.raises(ValueError, match=match):
        K.RBF().approximate_map(**arguments)


def test_unsuitable_kernels_are_told_what_to_use():
    with pytest.raises(TypeError, match="nystrom"):
        K.Linear().approximate_map(10).fit(X)
    with pytest.raises(ValueError, match="n_components=20"):
        K.RBF().approximate_map(20, "nystrom").fit(X)
    with pytest.raises(ValueError, match="too few"):
        (K.RBF() + K.Laplacian() + 1.0).approximate_map(4).fit(X)
    for signed in (K.RBF() - 0.5 * K.Laplacian(), K.exp(-K.RBF()), (1 - K.RBF()) * K.RBF()):
        with pytest.raises(ValueError, match="non-negative weights"):
            signed.approximate_map(10).fit(X)


def test_a_stationary_kernel_whose_spectrum_is_unknown_points_to_nystrom():
    class _Bump(K.RBF):
        unscaled_frequencies = mercer.kernels.vector.distance._Stationary.unscaled_frequencies

    with pytest.raises(TypeError, match=r"known spectrum.*use method='nystrom'"):
        _Bump().approximate_map(10).fit(X)


FINITE = [
    K.Linear() + K.Polynomial(2),
    K.Linear() * K.Polynomial(2, coef0=0.0),
    (K.Linear() + 2.0) ** 3,
    3.0 * K.Conjunction() + 1.0,
    (K.Polynomial(2) + K.Conjunction()).normalize(),
    K.Polynomial(2).rescale(lambda X: np.asarray(X)[:, 0] + 2),
    K.Polynomial(2).rescale(K.exp(-0.1 * K.sqnorm)),
    K.Linear().compose(lambda X: np.hstack([X, X**2])),
    K.Polynomial(2).on([0, 2]) + K.Linear().on([1]),
]


@pytest.mark.parametrize("kernel", FINITE, ids=repr)
def test_feature_maps_travel_through_the_algebra(kernel):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    phi = kernel.feature_map().fit(X)
    assert phi.transform(X).shape == (6, phi.n_features_out_)
    np.testing.assert_allclose(phi.transform(X) @ phi.transform(Y).T, kernel(X, Y), rtol=1e-10)


@pytest.mark.parametrize(
    "kernel", [K.RBF() + K.Linear(), K.exp(K.Linear()), K.RBF() ** 2], ids=repr
)
def test_no_finite_map_is_said(kernel):
    with pytest.raises(K.NoFiniteFeatureMap, match="approximate_map"):
        kernel.feature_map()


@pytest.mark.parametrize("column", [-1, 10**9])
@pytest.mark.parametrize("kernel", [K.Substring(max_length=3), K.SetIntersection()])
def test_a_vocabulary_with_columns_that_are_not_there_is_refused(kernel, column):
    """As a file may have one: SciPy would write outside its arrays."""
    X = points(kernel, 6, np.random.default_rng(0))
    features = kernel.feature_map().fit(X)
    features.transform(X).toarray()
    name = next(iter(features.vocabulary_))
    features.vocabulary_[name] = column
    with pytest.raises(ValueError, match="the vocabulary numbers a feature beyond"):
        features.transform(X)
