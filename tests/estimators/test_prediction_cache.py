"""Models that keep what they predict with: right, made once, and made again where they change."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from mercer import SVC, SVR, KernelCentroidClassifier, KernelPCA, KernelRidge
from mercer import kernels as K
from mercer.estimators import prediction_cache

rng = np.random.default_rng(0)
X = ["".join(rng.choice(list("abc"), size=n)) for n in rng.integers(1, 30, size=60)]
y = np.array([int("ab" in x) for x in X])
NEW = ["", "abc", "zzz", "cabcabca"]


@pytest.fixture
def made(monkeypatch):
    """The sums that are made."""
    found = []

    class Counted(prediction_cache.Sum):
        def __init__(self, *arguments):
            found.append(arguments)
            super().__init__(*arguments)

    monkeypatch.setattr(prediction_cache, "Sum", Counted)
    return found


@pytest.mark.parametrize("kernel", [K.Substring(max_length=4).normalize(), K.Spectrum(2)], ids=str)
@pytest.mark.parametrize("model", [SVC(), SVR(), KernelRidge(solver="cholesky")], ids=repr)
def test_predictions_by_cached_sums(made, kernel, model):
    model.set_params(kernel=kernel).fit(X, y)
    value = getattr(model, "decision_function", model.predict)
    points = getattr(model, "support_vectors_", None) or model.X_fit_
    coef, intercept = np.ravel(model.dual_coef_), getattr(model, "intercept_", 0.0)
    assert_allclose(value(NEW), kernel(NEW, points) @ coef + intercept, rtol=1e-9, atol=1e-9)
    before = dict(vars(model))
    first = value(X)
    assert len(made) == 1
    assert_array_equal(value(X), first)
    assert_array_equal(np.concatenate([value(X[:7]), value(X[7:])]), first)
    assert len(made) == 1
    assert vars(model) == before
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(X), model.predict(X))


@pytest.mark.parametrize("kernel", [K.Substring(max_length=4).normalize(), K.Spectrum(2)], ids=str)
@pytest.mark.parametrize("texts", [X, ["b"] * 9], ids=["texts", "no components"])
def test_components_by_cached_sums(made, kernel, texts):
    model = KernelPCA(kernel=kernel).fit(texts)
    expected = kernel(NEW, model.X_fit_) @ model.projection_ - model.projection_offset_
    assert_allclose(model.transform(NEW), expected, rtol=1e-9, atol=1e-9)
    assert_allclose(model.transform(NEW[:1]), expected[:1], rtol=1e-9, atol=1e-9)
    assert len(made) == 1


def test_a_sum_is_made_again_when_the_model_changes(made):
    model = KernelRidge(kernel=K.Spectrum(2), solver="cholesky").fit(X, y)
    values = model.predict(NEW)
    model.dual_coef_ *= 2
    assert_allclose(model.predict(NEW), 2 * values, rtol=1e-12)
    assert len(made) == 2
    for kernel in (K.Spectrum(1), K.Substring()):
        again = KernelRidge(kernel=kernel, solver="cholesky").fit(X, y)
        model.set_params(kernel=kernel).fit(X, y)
        assert_array_equal(model.predict(NEW), again.predict(NEW))


def test_sums_go_with_their_models():
    model = KernelCentroidClassifier(kernel=K.Spectrum(2)).fit(X, y)
    model.predict(NEW)
    assert model in prediction_cache._kept
    n = len(prediction_cache._kept)
    del model
    assert len(prediction_cache._kept) == n - 1
