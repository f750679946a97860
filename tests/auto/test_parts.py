"""Learned metrics and stacking, against refits without each row and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import nnls
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import KernelRidge, KernelRidgeCV, load, save
from mercer import kernels as K
from mercer.auto import LeaveOneOutStacking, RecursiveFeatureMachine


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    return X, np.sin(X[:, 0] + X[:, 1]) + 0.1 * rng.normal(size=60)


@pytest.mark.parametrize("diagonal", [False, True])
def test_the_second_metric_is_the_mean_outer_product_of_gradients(data, diagonal):
    X, y = data
    first = RecursiveFeatureMachine(1).fit(X, y)
    np.testing.assert_array_equal(first.learned_metric_, np.eye(3))
    step, gradients = 1e-4, np.zeros((60, 3))
    for k in range(3):
        away = step * np.eye(3)[k]
        gradients[:, k] = (first.predict(X + away) - first.predict(X - away)) / (2 * step)
    expected = gradients.T @ gradients
    expected = np.diag(expected.diagonal()) if diagonal else expected
    found = RecursiveFeatureMachine(2, diagonal).fit(X, y)
    assert found.loo_errors_[1] < found.loo_errors_[0]
    np.testing.assert_allclose(
        found.learned_metric_, expected * 3 / np.trace(expected), rtol=1e-3, atol=1e-4
    )


def test_predictions_without_each_row(data):
    X, y = data
    model = RecursiveFeatureMachine(2).fit(X, y)
    Z = model.transform(X)
    for i in (0, 7, 31):
        rest = np.arange(60) != i
        kernel = model.model_.kernel_
        other = KernelRidge(alpha=model.alpha_, kernel=kernel).fit(Z[rest], y[rest] - y.mean())
        assert other.predict(Z[i : i + 1])[0] + y.mean() == pytest.approx(model.loo_predictions_[i])


def test_distances_are_those_of_the_metric_and_targets_may_be_several(data):
    X, y = data
    model = RecursiveFeatureMachine(3).fit(X, np.stack([y, X[:, 2]], axis=1))
    Z = model.transform(X)
    u = X[0] - X[1]
    assert np.sum((Z[0] - Z[1]) ** 2) == pytest.approx(u @ model.learned_metric_ @ u)
    assert model.predict(X[:4]).shape == (4, 2)
    assert model.score(X, np.stack([y, X[:, 2]], axis=1)) > 0.8
    weighted = RecursiveFeatureMachine(2).fit(X, y, np.linspace(0, 2, 60))
    assert np.isfinite(weighted.predict(X)).all()


def test_stacking_by_refits_without_each_row(data):
    X, y = data
    parts = [
        KernelRidgeCV([0.1], kernel=K.RBF(0.5)),
        KernelRidgeCV([1.0], kernel="linear"),
        KernelRidgeCV([1.0], kernel=K.Laplacian(0.3)),
    ]
    model = LeaveOneOutStacking(parts).fit(X, y)
    left_out = np.empty((60, 3))
    for i in range(60):
        rest = np.arange(60) != i
        for m, part in enumerate(parts):
            left_out[i, m] = clone(part).fit(X[rest], y[rest]).predict(X[i : i + 1])[0]
    np.testing.assert_allclose(model.loo_errors_, np.mean((left_out.T - y) ** 2, axis=1))
    expected, _ = nnls(left_out - y.mean(), y - y.mean())
    np.testing.assert_allclose(model.weights_, expected, atol=1e-6)
    fitted = np.stack([clone(part).fit(X, y).predict(X[:5]) for part in parts], axis=1)
    np.testing.assert_allclose(
        model.predict(X[:5]), y.mean() + (fitted - y.mean()) @ expected, atol=1e-6
    )


def test_estimators_without_such_predictions_are_refused(data):
    with pytest.raises(TypeError, match="KernelRidge has no leave-one-out predictions"):
        LeaveOneOutStacking([KernelRidge()]).fit(*data)
    with pytest.raises(ValueError, match="empty"):
        LeaveOneOutStacking([]).fit(*data)


@pytest.mark.parametrize("model", [RecursiveFeatureMachine(2), LeaveOneOutStacking()])
def test_saved_and_loaded(data, model, tmp_path):
    X, y = data
    save(model.fit(X, y), tmp_path / "model.mercer")
    found = load(tmp_path / "model.mercer")
    np.testing.assert_array_equal(found.predict(X), model.predict(X))


REPEATED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "a row of weight two is left out as a whole"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks(
    [RecursiveFeatureMachine(), LeaveOneOutStacking()],
    expected_failed_checks=lambda model: REPEATED,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
