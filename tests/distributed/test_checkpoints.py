"""A fit cut short goes on from its checkpoint, and callbacks hear of fits on collections."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import mercer
from sklearn_versions import needs_callbacks

pytest.importorskip("dask", reason="Dask is not installed: pip install mercer[dask]")
da = pytest.importorskip("dask.array")

from mercer.distributed import checkpoint  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 3))
POINTS, TARGETS = da.from_array(X, chunks=(30, 3)), da.from_array(np.sin(X).sum(axis=1), chunks=70)


def model(kind):
    settings = {"kernel": "rbf", "gamma": 0.3, "n_centers": 15, "random_state": 0}
    if kind == "ridge":
        return mercer.KernelRidge(solver="nystrom", tol=1e-10, **settings), TARGETS
    if kind == "components":
        return mercer.KernelPCA(3, eigen_solver="nystrom", **settings), None
    return mercer.KernelMachineClassifier(solver="nystrom", **settings), TARGETS > 0


@pytest.mark.parametrize(
    "kind", ["ridge", "components", pytest.param("logistic", marks=pytest.mark.long)]
)
def test_a_fit_cut_short_anywhere_goes_on(kind, passes, tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.estimators.centres.PASSES_FROM_MULTIPLICATIONS", 0)
    estimator, y = model(kind)
    attribute = "projection_" if kind == "components" else "dual_coef_"
    expected = getattr(estimator.fit(POINTS, y), attribute)
    passes.clear()
    with checkpoint(tmp_path / "whole"):
        assert_array_equal(getattr(estimator.fit(POINTS, y), attribute), expected)
    names = list(passes)
    assert len(names) > 3
    estimator, y = model(kind)
    for stop in range(len(names) - 1):
        passes.clear()
        passes.fails = 1
        with checkpoint(tmp_path), pytest.raises(ConnectionError):
            estimator.fit(POINTS, y)
        assert passes == names[stop : stop + 1]
    passes.clear()
    with checkpoint(tmp_path):
        estimator.fit(POINTS, y)
    assert passes == names[-1:]
    assert_array_equal(getattr(estimator, attribute), expected)


def test_other_data_and_parameters_have_checkpoints_of_their_own(passes, tmp_path):
    estimator, y = model("ridge")
    with checkpoint(tmp_path):
        first = estimator.fit(POINTS, y).dual_coef_.copy()
        done = len(passes)
        second = estimator.fit(POINTS, 2 * y).dual_coef_
        assert len(passes) > done
        assert not np.allclose(first, second)
        passes.clear()
        estimator.set_params(gamma=0.5).fit(POINTS, y)
        assert len(passes) > 0


def test_a_checkpoint_needs_the_same_centres_again(tmp_path):
    estimator, y = model("ridge")
    with checkpoint(tmp_path), pytest.raises(ValueError, match="random_state=None"):
        estimator.set_params(random_state=None).fit(POINTS, y)


@needs_callbacks
def test_callbacks_hear_and_stop():
    class Listener:
        def __init__(self):
            self.gaps = []

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context, *, metadata):
            if metadata is None:
                return False
            self.gaps.append(metadata["gap"])
            return len(self.gaps) == 2

    listener = Listener()
    estimator, y = model("logistic")
    with pytest.warns(ConvergenceWarning, match="stopped by a callback"):
        estimator.set_callbacks(listener).fit(POINTS, y)
    assert len(listener.gaps) == 2
    assert estimator.predict(X).shape == (200,)
