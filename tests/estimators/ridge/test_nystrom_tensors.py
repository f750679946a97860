"""Ridge over centres that are tensors: what it is for arrays, wherever the points are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from mercer import KernelRidge, KernelRidgeClassifier, KernelRidgeCV
from mercer import kernels as K
from mercer.arrays import as_numpy
from mercer.operators import DenseGram, TensorGram
from mercer.solvers.nystrom.whitening import CentreWhitening, TensorCentreWhitening
from mercer.solvers.result import Status
from tensor_devices import DEVICE, WAYS, tensor, torch, use

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=300)
both = np.column_stack([y, y**2])
weight = RNG.uniform(size=300) * (np.arange(300) % 7 > 0)
NEW = RNG.normal(size=(17, 3))
CENTRES = X[::10]


def ridge(**parameters):
    given = {"kernel": K.RBF(0.5), "solver": "nystrom", "centers": CENTRES, "tol": 1e-10}
    return KernelRidge(parameters.pop("alpha", 0.3), **{**given, **parameters})


@pytest.fixture
def few_rows(monkeypatch):
    """Blocks of few rows, so that there are several."""
    monkeypatch.setattr("mercer.estimators.centres.BLOCK_BYTES", 2**15)


@pytest.fixture
def passes(monkeypatch):
    """As many points as take passes over all, preconditioned by sums over a part."""
    monkeypatch.setattr("mercer.estimators.centres.PASSES_FROM_MULTIPLICATIONS", 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("alpha", [0.3, [0.3, 2.0]])
def test_centres_of_tensors_are_those_of_arrays(
    dtype, weighted, fit_intercept, alpha, few_rows, monkeypatch
):
    use("torch", monkeypatch)
    targets = y if alpha == 0.3 else both
    points, new, s = X.astype(dtype), NEW.astype(dtype), weight if weighted else None
    model = ridge(alpha=alpha, fit_intercept=fit_intercept, centers=points[::10])
    expected = model.fit(points, targets, s).predict(new)
    bound, intercept = model.error_bound_, model.intercept_
    found = model.fit(tensor(points), tensor(targets), s).predict(tensor(new))
    assert model.result_.status.ok
    assert model.result_.gap <= 1e-10
    assert f"tensors on {DEVICE.type}" in model.result_.method
    for array in (found, model.dual_coef_, model.X_fit_):
        assert array.device.type == DEVICE.type
        assert array.dtype == getattr(torch, np.dtype(dtype).name)
    assert tuple(found.shape) == expected.shape
    atol = 1e-9 if dtype == np.float64 else 1e-5
    np.testing.assert_allclose(as_numpy(found), expected, atol=atol)
    rounding = 1e-6 if dtype == np.float64 else 1e-4
    np.testing.assert_allclose(as_numpy(model.error_bound_), bound, rtol=rounding, atol=1e-5)
    np.testing.assert_allclose(as_numpy(torch.as_tensor(model.intercept_)), intercept, atol=atol)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("alpha", [1e-4, 30.0], ids=["double", "single"])
@pytest.mark.parametrize("weighted", [False, True])
def test_passes_over_tensors_reach_what_sums_give(
    dtype, alpha, weighted, passes, few_rows, monkeypatch
):
    use("torch", monkeypatch)
    s = weight if weighted else None
    given = {"alpha": alpha, "fit_intercept": True, "centers": X[:10].astype(dtype), "tol": 1e-9}
    model = ridge(**given).fit(tensor(X.astype(dtype)), tensor(both), s)
    assert "precondition" in model.result_.method
    assert model.result_.status is Status.CONVERGED
    monkeypatch.undo()
    expected = ridge(**given).fit(X.astype(dtype), both, s)
    np.testing.assert_allclose(
        as_numpy(model.predict(tensor(NEW.astype(dtype)))),
        expected.predict(NEW.astype(dtype)),
        atol=1e-6 if dtype == np.float64 else 2e-4,
    )


@pytest.mark.parametrize("centers", ["uniform", "pivoted"])
def test_centres_are_chosen_where_the_points_are(centers, monkeypatch):
    use("torch", monkeypatch)
    model = ridge(centers=centers, n_centers=20, random_state=3)
    expected = model.fit(X, y, weight).predict(NEW)
    chosen = model.X_fit_
    found = model.fit(tensor(X), tensor(y), weight).predict(tensor(NEW))
    np.testing.assert_array_equal(as_numpy(model.X_fit_), chosen)
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-9)
    auto = model.set_params(solver="auto").fit(tensor(X), tensor(y), weight)
    assert auto.result_.method.startswith("nystrom with 20 centres: tensors on")


@pytest.mark.parametrize("kind", ["array", "map", "tensor"])
def test_points_of_the_host_are_brought_to_the_centres(kind, few_rows, tmp_path, monkeypatch):
    use("torch", monkeypatch)
    expected = ridge(fit_intercept=True).fit(X, both, weight).predict(NEW)
    points = X
    if kind == "tensor":
        points = torch.as_tensor(X)
    if kind == "map":
        np.save(tmp_path / "points.npy", X)
        points = np.load(tmp_path / "points.npy", mmap_mode="r")
    model = ridge(fit_intercept=True, centers=tensor(CENTRES)).fit(points, both, weight)
    for array in (model.X_fit_, model.dual_coef_):
        assert array.device.type == DEVICE.type
    np.testing.assert_allclose(as_numpy(model.predict(tensor(NEW))), expected, atol=1e-9)
    monkeypatch.setattr("mercer.estimators.decision_values.BLOCK_BYTES", 2**12)
    found = model.predict(torch.as_tensor(NEW) if kind == "tensor" else NEW)
    assert isinstance(found, torch.Tensor if kind == "tensor" else np.ndarray)
    assert kind != "tensor" or found.device.type == "cpu"
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-9)
    score = ridge(fit_intercept=True).fit(X, both, weight).score(X, both)
    assert model.score(points, both) == pytest.approx(score)


@pytest.mark.parametrize("solver", ["sums", "passes"])
@pytest.mark.parametrize("way", WAYS)
def test_centres_by_kernels_of_triton(way, solver, monkeypatch):
    use(way, monkeypatch)
    if solver == "passes":
        monkeypatch.setattr("mercer.estimators.centres.PASSES_FROM_MULTIPLICATIONS", 0)
    kernel = K.RBF(0.5) + K.Laplacian(0.1)
    model = ridge(kernel=kernel, alpha=1.0, centers=X[:6], tol=1e-6)
    expected = model.fit(X[:60], y[:60]).predict(NEW)
    found = model.fit(tensor(X[:60]), tensor(y[:60])).predict(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 1e-16])
def test_a_regulariser_lost_in_rounding(alpha):
    model = ridge(alpha=alpha, kernel=K.RBF(3.0), centers=X[:12])
    expected = model.fit(X, y).predict(NEW)
    found = model.fit(tensor(X), tensor(y)).predict(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-8)


def test_chunks_of_tensors_are_those_of_arrays():
    parts = np.array_split(np.arange(300), 3)
    model = ridge(fit_intercept=True)
    expected = model.fit(X, y, weight).predict(NEW)
    chunks = [(tensor(X[i]), tensor(y[i]), weight[i]) for i in parts]
    found = model.fit_chunks(chunks).predict(tensor(NEW))
    np.testing.assert_allclose(as_numpy(found), expected, atol=1e-8)
    assert model.dual_coef_.device.type == DEVICE.type
    model.partial_fit(tensor(NEW), tensor(NEW[:, 0]))
    assert model.moments_.n == np.count_nonzero(weight) + len(NEW)


@pytest.mark.parametrize("solver", ["auto", "nystrom"])
@pytest.mark.parametrize("edges", [[0.0], [-0.5, 0.5]], ids=["two", "three"])
def test_classes_are_those_of_arrays(edges, solver):
    labels = np.array(["low", "mid", "high"])[np.digitize(y, edges)]
    model = KernelRidgeClassifier(0.3, kernel=K.RBF(0.5), solver=solver, centers=CENTRES)
    model.set_params(class_weight="balanced", fit_intercept=True)
    expected, classes = model.fit(X, labels).decision_function(NEW), model.predict(NEW)
    model.fit(tensor(X), labels)
    scores = model.decision_function(tensor(NEW))
    assert scores.device.type == DEVICE.type
    np.testing.assert_allclose(as_numpy(scores), expected, atol=1e-7)
    np.testing.assert_array_equal(model.predict(tensor(NEW)), classes)
    assert model.score(tensor(X), labels) > 0.8


@pytest.mark.parametrize("gamma", [0.01, 20.0], ids=["dependent", "independent"])
@pytest.mark.parametrize("block", [4, 128])
def test_whitening_of_a_tensor_is_that_of_an_array(gamma, block, monkeypatch):
    monkeypatch.setattr("mercer.solvers.tensor_factors.pivoted_factor.__defaults__", (block,))
    kernel = K.RBF(gamma)
    Z = np.vstack([X[:40], X[:5]])
    ours, theirs = TensorCentreWhitening(kernel(tensor(Z))), CentreWhitening(kernel(Z))
    assert abs(len(ours.kept) - len(theirs.kept)) <= 2
    assert len(ours.kept) <= 40
    assert len(set(ours.kept)) == len(ours.kept)
    K_MM, among = kernel(Z)[np.ix_(ours.kept, ours.kept)], as_numpy(ours.W)
    np.testing.assert_array_equal(among, np.triu(among))
    np.testing.assert_allclose(among.T @ K_MM @ among, np.eye(len(among)), atol=1e-3)
    V = RNG.normal(size=(len(among), 2))
    np.testing.assert_allclose(ours.apply(V), among @ V, rtol=1e-6)
    np.testing.assert_allclose(ours.pull(V), among.T @ V, rtol=1e-6, atol=1e-6)
    blocks = [kernel(Z, Z[w.kept]) for w in (ours, theirs)]
    pairs = kernel.over(tensor(Z), tensor(Z[ours.kept]))
    Phi = as_numpy(ours.features(TensorGram(pairs)))
    other = theirs.features(DenseGram(blocks[1]))
    np.testing.assert_allclose(Phi @ Phi.T, other @ other.T, atol=1e-6)


def test_what_is_refused(monkeypatch):
    centres = tensor(CENTRES)
    with pytest.raises(TypeError, match=r"KernelRidgeCV.* is not available for tensors"):
        KernelRidgeCV(kernel="rbf", solver="nystrom", centers=centres).fit(X, y)
    with pytest.raises(TypeError, match="which a sparse X does not go with"):
        ridge(centers=centres).fit(csr_array(X), y)
    with pytest.raises(ValueError, match="zero at every centre"):
        ridge(kernel=K.Linear(), centers=0 * CENTRES).fit(tensor(X), y)
    with pytest.raises(ValueError, match="X has 300 points"):
        ridge(centers="uniform", n_centers=301).fit(tensor(X), y)
    monkeypatch.setattr(
        "mercer.arrays.torch_backend.TorchBackend.free_memory", lambda self, X: 9 * 8 * 29**2
    )
    with pytest.raises(MemoryError, match="30 centres need"):
        ridge().fit(tensor(X), y)
