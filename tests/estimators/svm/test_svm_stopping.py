"""Certificates, early stops, resumed fits and interruption of support vector machines."""

from __future__ import annotations

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose
from sklearn import datasets
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.preprocessing import scale

from mercer import kernels as K
from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from sklearn_versions import needs_callbacks
from svm_examples import blobs, load


def test_the_gap_is_that_of_the_model_itself():
    X, y = blobs(60, gap=0.3)
    model = SVC(C=2.0, tol=0.5, gamma=0.5).fit(X, y)
    gram = K.RBF(0.5)(X)
    beta = np.zeros(60)
    beta[model.support_] = model.dual_coef_[0]
    sign = 2 * y - 1
    hinge = np.maximum(0, 1 - sign * (gram @ beta + model.intercept_)).sum()
    primal = 0.5 * beta @ gram @ beta + 2.0 * hinge
    dual = np.abs(beta).sum() - 0.5 * beta @ gram @ beta
    assert_allclose(model.dual_gap_, (primal - dual) / max(1, abs(dual)), rtol=1e-8)
    assert model.dual_gap_ == model.result_.gap
    assert model.result_.value.violation <= 0.5


@pytest.mark.parametrize("C", [1e3, 1e6])
@pytest.mark.parametrize("budget", [0.01, 200])
def test_a_high_price_is_solved_to_a_small_gap(C, budget):
    X, y = datasets.load_iris(return_X_y=True)
    with sklearn.config_context(working_memory=0.05):
        model = SVC(kernel="linear", C=C, cache_size=budget).fit(X[:100], y[:100])
    assert model.fit_status_ == 0
    assert model.dual_gap_ <= 1e-2
    hard = SVC(kernel="linear", C=np.inf, tol=1e-8).fit(X[:100], y[:100])
    assert_allclose(model.margin_, hard.margin_, rtol=1e-2)


def test_a_gap_that_stays_large_is_said_aloud():
    X, y = datasets.load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match=r"stopped early.* gap .*e.*StandardScaler"):
        model = SVC(kernel="linear", C=1e3, tol=1.0, solver="smo", max_iter=20).fit(X, y)
    assert model.dual_gap_ > 1e-2


@pytest.mark.parametrize("model", [SVC, NuSVC, SVR, NuSVR, OneClassSVM])
def test_stopping_short_is_said_aloud(model):
    X, y = load("iris")
    options = {"nu": 0.2} if model in (NuSVC, NuSVR, OneClassSVM) else {}
    with pytest.warns(ConvergenceWarning, match=r"stopped early.*max_iter .*gap") as caught:
        short = model(max_iter=1, **options).fit(X, y)
    assert caught[0].filename == __file__
    assert short.fit_status_ == 1
    assert np.all(short.n_iter_ == 1)
    assert np.all(np.isfinite(short.predict(X)))
    assert short.dual_gap_ > 1e-3
    with pytest.warns(ConvergenceWarning, match="max_time=1e-09 was over before the first step"):
        late = model(max_time=1e-9, tol=1e-12, **options).fit(X, y)
    assert np.all(late.n_iter_ == 0)
    assert np.all(np.isfinite(late.predict(X)))


@pytest.mark.parametrize("model", [SVC, NuSVC, SVR, NuSVR, OneClassSVM])
def test_a_warm_start_resumes(model):
    X, y = load("iris")
    options = {"nu": 0.2} if model in (NuSVC, NuSVR, OneClassSVM) else {"C": 3.0}
    cold = model(tol=1e-6, solver="smo", **options).fit(X, y)
    half = int(np.max(cold.n_iter_)) // 2
    warm = model(tol=1e-6, solver="smo", warm_start=True, max_iter=half, **options)
    with pytest.warns(ConvergenceWarning):
        warm.fit(X, y)
    warm.set_params(max_iter=-1).fit(X, y)
    assert np.sum(warm.n_iter_) < np.sum(cold.n_iter_)
    method = "predict" if model in (SVR, NuSVR) else "decision_function"
    assert_allclose(getattr(warm, method)(X), getattr(cold, method)(X), atol=1e-4)
    again = warm.fit(X, y)
    assert np.sum(again.n_iter_) <= 3
    # Another price, other data: the start no longer fits, and must not harm.
    name, value = ("nu", 0.3) if "nu" in options else ("C", 0.5)
    moved = warm.set_params(**{name: value}).fit(X, y)
    fresh = clone(moved).set_params(warm_start=False).fit(X, y)
    assert_allclose(getattr(moved, method)(X), getattr(fresh, method)(X), atol=1e-4)
    warm.fit(X[::2], y[::2])


class Stop:
    """A callback that ends the fit, in one way or another, when it has heard enough."""

    def __init__(self, after, how):
        self.after, self.how = after, how

    def setup(self, estimator, context):
        self.heard = 0

    def teardown(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, metadata):
        self.heard += metadata is not None
        if metadata is not None and self.heard >= self.after:
            if self.how == "interrupt":
                raise KeyboardInterrupt
            return True
        return False


@pytest.mark.parametrize(
    "how", [pytest.param("callback", marks=needs_callbacks), "max_time", "max_iter"]
)
def test_stopped_work_is_of_use_and_goes_on(how):
    X, y = load("breast_cancer")
    options = {"C": 100.0, "tol": 1e-6, "solver": "smo"}
    cold = SVC(**options).fit(X, y)
    model = SVC(warm_start=True, **options)
    if how == "callback":
        model.set_callbacks(Stop(1, "stop"))
    else:
        model.set_params(**{how: 1e-9 if how == "max_time" else int(cold.n_iter_[0]) // 2})
    with pytest.warns(ConvergenceWarning, match="warm_start=True lets the next fit go on"):
        model.fit(X, y)
    assert model.fit_status_ == 1
    assert model.dual_gap_ > cold.dual_gap_
    assert model.predict(X).shape == y.shape
    taken = model.n_iter_.sum()
    if how == "callback":
        model.set_callbacks()
    model.set_params(max_iter=-1, max_time=None).fit(X, y)
    assert model.fit_status_ == 0
    assert_allclose(model.decision_function(X), cold.decision_function(X), atol=1e-4)
    if taken > cold.n_iter_.sum() / 3:  # a few steps on another way may be for nothing
        assert model.n_iter_.sum() < cold.n_iter_.sum()


@pytest.mark.parametrize("model", [SVC, SVR, NuSVR])
def test_a_warm_start_follows_a_rising_price(model):
    X, y = load("breast_cancer")
    options = {"solver": "smo", "tol": 1e-5}
    warm, steps, cold = model(warm_start=True, **options), 0, 0
    for C in (0.1, 0.3, 1.0, 3.0, 10.0, 30.0):
        steps += np.sum(warm.set_params(C=C).fit(X, y).n_iter_)
        fresh = model(C=C, **options).fit(X, y)
        cold += np.sum(fresh.n_iter_)
        method = "decision_function" if model is SVC else "predict"
        assert_allclose(getattr(warm, method)(X), getattr(fresh, method)(X), atol=1e-3)
    assert steps < cold


@needs_callbacks
def test_ctrl_c_leaves_everything_as_it_was():
    X, y = load("breast_cancer")
    model = SVC(C=100.0, solver="smo", tol=1e-6, warm_start=True)
    model.set_callbacks(Stop(2, "interrupt"))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.set_callbacks().fit(X, y)
    before = dict(vars(model))
    model.set_callbacks(Stop(1, "interrupt"))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[::2], 1 - y[::2])
    model.set_callbacks()
    assert vars(model) == before


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
@pytest.mark.parametrize("model", [SVC, SVR])
def test_a_warm_start_resumes_on_a_corrected_kernel(model, method):
    X, y = load("iris")
    options = {"kernel": "sigmoid", "coef0": 1.0, "gamma": 0.5, "indefinite": method}
    warm = model(tol=1e-6, solver="smo", warm_start=True, **options).fit(X, y)
    assert np.sum(warm.fit(X, y).n_iter_) <= 3


def test_auto_says_which_solver_did_it():
    X, y = datasets.load_breast_cancer(return_X_y=True)
    raw = SVC(kernel="linear").fit(X, y)
    assert "then interior point" in raw.result_.method
    assert raw.fit_status_ == 0
    assert raw.dual_gap_ < 1e-8
    assert SVC().fit(scale(X), y).result_.method == "smo"


@pytest.mark.parametrize(
    "solver", ["svm.engine.solve_programs", "svm.classification.solve_class_pairs"]
)
def test_an_interrupted_fit_leaves_the_model_alone(solver, monkeypatch):
    X, y = blobs()
    model = SVC(max_iter=10**6 if "programs" in solver else -1).fit(X, y)
    before = dict(vars(model))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"mercer.estimators.{solver}", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.hstack([X, X]), 1 - y)
    assert vars(model) == before
    fresh = clone(model)
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, y)
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_verbose_tells_how_it_went(capsys):
    SVC(verbose=True).fit(*blobs())
    assert "[SVC] smo: converged" in capsys.readouterr().out


def test_a_start_of_equal_parts_is_no_obstacle_where_the_matrix_does_not_fit():
    X = np.random.default_rng(0).normal(size=(1500, 8))
    with sklearn.config_context(working_memory=1):
        model = NuSVR(cache_size=1).fit(X, X[:, 0])
    assert model.result_.status.ok
    assert model.score(X, X[:, 0]) > 0.99


def test_a_second_search_takes_what_the_first_left_of_the_steps():
    X, y = blobs()
    model = NuSVC(nu=0.5, gamma=1e-4, tol=1e-3)
    coarse = NuSVC(nu=0.5, gamma=1e-4, tol=1e-1).fit(X, y).n_iter_[0]
    whole = model.fit(X, y).n_iter_[0]
    assert whole > coarse  # it went on, since rho is small
    model.set_params(max_iter=int(whole) - 1)
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        model.fit(X, y)
    assert model.n_iter_[0] == whole - 1
