"""Callbacks hear of every iteration and can stop a fit, which leaves a usable model."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer.solvers.result import Status
from sklearn_versions import needs_callbacks

X, Y = load_breast_cancer(return_X_y=True)
X, Y = StandardScaler().fit_transform(X)[:200], Y[:200]


class Listener:
    """Remembers what it is told, and stops after some iterations."""

    def __init__(self, stop_after=None):
        self.stop_after = stop_after
        self.told = []
        self.closed = False

    def setup(self, estimator, context):
        self.told.append("setup")

    def teardown(self, estimator, context):
        self.closed = True

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context, *, metadata):
        if metadata is None:
            return False
        self.told.append(metadata["gap"])
        return self.stop_after is not None and len(self.told) > self.stop_after


ITERATIVE = {
    "SVC": {"C": 100.0},
    "SVR": {},
    "NuSVC": {"nu": 0.1},
    "NuSVR": {},
    "OneClassSVM": {"tol": 1e-9, "nu": 0.3},
    "KernelMachineClassifier": {"alpha": 1e-3, "kernel": "rbf"},
    "KernelMachineRegressor": {"alpha": 1e-2, "kernel": "rbf", "loss": "poisson"},
    "KernelRidge": {"solver": "gd", "kernel": "rbf"},
    "KernelRidgeClassifier": {"solver": "pcg", "n_centers": 10},
}


@needs_callbacks
@pytest.mark.parametrize("n_centers", [None, 20])
def test_a_listener_hears_how_cross_validated_ridge_ended(n_centers):
    listener = Listener()
    model = mercer.KernelRidgeCV(kernel="rbf", n_centers=n_centers).set_callbacks(listener)
    assert model.fit(X, Y).result_.gap == listener.told[-1]
    assert listener.closed


@needs_callbacks
@pytest.mark.parametrize("name", ITERATIVE)
def test_a_listener_hears_of_iterations_and_can_stop(name):
    quiet = getattr(mercer, name)(**ITERATIVE[name]).fit(X, Y)
    listener = Listener()
    heard = getattr(mercer, name)(**ITERATIVE[name]).set_callbacks(listener).fit(X, Y)
    assert listener.closed
    assert len(listener.told) >= 2
    assert (heard.predict(X) == quiet.predict(X)).all()
    stopper = Listener(stop_after=1)
    with pytest.warns(ConvergenceWarning, match="stopped by a callback"):
        early = getattr(mercer, name)(**ITERATIVE[name]).set_callbacks(stopper).fit(X, Y)
    assert early.result_.status is Status.STOPPED
    assert early.predict(X).shape == (200,)


@needs_callbacks
def test_components_are_announced_and_stopped():
    pca = mercer.KernelPCA(3, kernel="rbf", eigen_solver="krylov", random_state=0)
    exact = pca.fit(X).eigenvalues_
    listener = Listener()
    np.testing.assert_allclose(pca.set_callbacks(listener).fit(X).eigenvalues_, exact)
    gaps = listener.told[1:]
    assert len(gaps) == pca.result_.n_iter
    assert gaps[-1] < 1e-9 < gaps[0]
    with pytest.warns(ConvergenceWarning, match="stopped by a callback"):
        pca.set_callbacks(Listener(stop_after=1)).fit(X)
    assert pca.result_.status is Status.STOPPED
    every = mercer.KernelPCA(kernel="rbf").fit(X).eigenvalues_
    for value, residual in zip(pca.eigenvalues_, pca.residuals_, strict=True):
        assert np.abs(every - value).min() <= residual
    assert pca.transform(X).shape == (200, 3)


@needs_callbacks
@pytest.mark.parametrize("name", ["SVC", "KernelMachineClassifier"])
def test_a_bar_shows_the_gap_falling(name, capsys):
    from sklearn.callback import ProgressBar

    model = getattr(mercer, name)(**ITERATIVE[name]).set_callbacks(ProgressBar())
    tol = model.set_params(tol=1e-4).fit(X, Y).tol
    shown = re.findall(r"gap below (1e[+-]\d\d)", capsys.readouterr().out)
    levels = [float(level) for level in shown]
    assert len(levels) >= 3
    assert levels == sorted(set(levels), reverse=True)
    assert levels[-1] <= tol


@needs_callbacks
def test_an_error_still_closes_the_callbacks():
    listener = Listener()
    model = mercer.KernelMachineClassifier(kernel="gauss").set_callbacks(listener)
    with pytest.raises(ValueError, match="kernel"):
        model.fit(X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.set_params(kernel="rbf").fit(X, Y)
    assert listener.closed


UNFINISHED = {
    "SVC": {"max_iter": 1, "solver": "smo"},
    "SVR": {"max_iter": 1, "solver": "smo"},
    "OneClassSVM": {"max_iter": 1, "solver": "smo"},
    "KernelMachineClassifier": {"alpha": 1e-3, "max_iter": 1},
    "KernelRidge": {"solver": "gd", "kernel": "rbf", "max_iter": 1},
    "KernelRidgeClassifier": {"solver": "gd", "kernel": "rbf", "max_iter": 1},
    "KernelPCA": {
        "n_components": 3,
        "kernel": "rbf",
        "gamma": 1.0,
        "eigen_solver": "randomized",
        "iterated_power": 0,
        "random_state": 0,
    },
    "KernelCCA": {"n_components": 9, "gamma": [1e-3, 2e-3], "regularization": 0.0},
}


@pytest.mark.parametrize("name", UNFINISHED)
def test_a_warning_points_at_the_line_of_the_user(name):
    model = getattr(mercer, name)(**UNFINISHED[name])
    second = X[:, :3] if name == "KernelCCA" else Y
    calls = [model.fit, make_pipeline(model).fit]
    calls += [
        getattr(model, also) for also in ("fit_transform", "fit_predict") if hasattr(model, also)
    ]
    for call in calls:
        with pytest.warns(ConvergenceWarning, match=f"{name} stopped early") as caught:
            call(X, second)
        assert {warning.filename for warning in caught} == {__file__}


def test_a_warning_points_at_the_line_of_a_search():
    search = GridSearchCV(mercer.SVC(max_iter=1, solver="smo"), {"C": [1.0]}, cv=2)
    with pytest.warns(ConvergenceWarning) as caught:
        search.fit(X, Y)
    assert {warning.filename for warning in caught} == {__file__}


def test_an_undetermined_solution_is_warned_of_at_the_line_of_the_user():
    with pytest.warns(ConvergenceWarning, match="undetermined") as caught:
        mercer.KernelRidge(0.0).fit(np.ones((4, 2)), np.arange(4.0))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", ["KernelSGDClassifier", "KernelPerceptron"])
def test_taking_all_steps_asked_for_is_no_failure(name):
    model = getattr(mercer, name)(random_state=0)
    noise = np.random.default_rng(0).integers(0, 2, size=len(X))
    # One point twice, under two labels: no perceptron separates them.
    points, labels = np.vstack([X[:1], X]), np.append(1 - noise[0], noise)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = model.fit(points, labels).result_
    assert result.status is Status.COMPLETED
    assert result.status.ok
    assert "max_iter" not in result.message
