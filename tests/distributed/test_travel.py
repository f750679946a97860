"""What goes to the workers and comes back in every pass, in bytes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import mercer

pytest.importorskip("dask", reason="Dask is not installed: pip install mercer[dask]")
da = pytest.importorskip("dask.array")
pytest.importorskip("distributed")

from mercer.distributed import keeping, reduction  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
RNG = np.random.default_rng(0)
N, D, M = 4000, 3, 60
X = RNG.normal(size=(N, D))
Y = np.column_stack([np.sin(X).sum(axis=1), X[:, 0]])
POINTS = da.from_array(X, chunks=(1000, D))
SETTINGS = {"gamma": 0.3, "solver": "nystrom", "n_centers": M, "random_state": 0}
# What a message has besides numbers: names, shapes, the estimator with its parameters.
WORDS = 1500


@pytest.fixture
def travelled(monkeypatch):
    """For each pass its name, bytes to a task besides its block, and bytes back from it."""
    passes, computed = [], reduction._computed

    def noted(name, token, piece, common, blocks):
        size = [0, 0]

        def measured(given, block, *more):
            vectors = [each for each in more if np.shape(each)[:1] == (1000,)]
            beside = [each for each in more if np.shape(each)[:1] != (1000,)]
            assert len(vectors) <= (2 if name == "sums" else 1)  # kept where the block is
            found = piece(given, block, *more)
            there, back = len(pickle.dumps((given, beside))), len(pickle.dumps(found))
            size[:] = max(size[0], there), max(size[1], back)
            return found

        found = computed(name, token, measured, common, blocks)
        passes.append((name, *size))
        return found

    class Place(dict):
        """Notes what is sent to the workers to be kept."""

        def __setitem__(self, place, value):
            passes.append(("kept", len(pickle.dumps(value)), 0))
            super().__setitem__(place, value)

    monkeypatch.setattr(reduction, "_computed", noted)
    monkeypatch.setattr(keeping, "_HERE", Place())
    return passes


def steps(passes):
    """The passes after the moments, or the centres if there are none."""
    last = max(i for i, (name, *_) in enumerate(passes) if name in ("FeatureSums", "kept"))
    return passes[last + 1 :]


@pytest.mark.parametrize("targets", [1, 2])
def test_a_step_of_ridge_sends_m_numbers_for_each_target(targets, travelled, monkeypatch):
    monkeypatch.setattr("mercer.estimators.centres.PASSES_FROM_MULTIPLICATIONS", 0)
    model = mercer.KernelRidge(1.0, kernel="rbf", tol=1e-10, **SETTINGS)
    y = da.from_array(Y[:, :targets], chunks=(1000, targets))
    model.fit(POINTS, y)
    names = [name for name, *_ in travelled]
    assert names.count("kept") == 1
    assert names.count("FeatureSums") == 1
    passes = steps(travelled)
    assert len(passes) > 3
    assert {name for name, *_ in passes} == {"TargetSums", "ProductSums"}
    for _, there, back in passes:
        assert there <= 8 * M * targets + WORDS
        assert back <= 8 * (M + 1) * (targets + 1) + WORDS
        assert max(there, back) < 8 * M**2 / 2


@pytest.mark.long
def test_a_newton_step_sends_m_numbers(travelled, monkeypatch):
    """With many centres; with few of them M x M come back, and those of a pass are few bytes."""
    monkeypatch.setattr("mercer.distributed.points.MANY", M)
    y = da.from_array(Y[:, 0] > 0, chunks=1000)
    model = mercer.KernelMachineClassifier(**SETTINGS).fit(POINTS, y)
    assert [name for name, *_ in travelled].count("kept") == 1
    passes = steps(travelled)
    assert {name for name, *_ in passes} == {"GatherSums", "ProductSums", "sums", "rows"}
    for name, there, back in passes:
        if name != "rows":  # points that precondition, once
            assert max(there, back) <= 8 * (M + 1) + WORDS
    monkeypatch.undo()
    few = clone(model).fit(POINTS, y)
    assert abs(few.decision_function(X) - model.decision_function(X)).max() < 1e-3


def test_centres_that_are_given_go_once(travelled):
    points = RNG.normal(size=(N, 200))
    model = mercer.KernelRidge(1.0, kernel="rbf", solver="nystrom", centers=points[:M])
    model.fit(da.from_array(points, chunks=(1000, 200)), da.from_array(Y[:, 0]))
    kept = [size for name, size, _ in travelled if name == "kept"]
    assert len(kept) == 1
    assert kept[0] > 8 * M * 200
    assert max(there for name, there, _ in travelled if name != "kept") <= 8 * M + WORDS
