"""Blocks of about a second's work, whatever blocks the data came in."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import mercer

dask = pytest.importorskip("dask", reason="Dask is not installed: pip install mercer[dask]")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pytest.importorskip("distributed")

from dask._task_spec import Task  # noqa: E402
from dask.delayed import delayed  # noqa: E402

from mercer.distributed import checkpoint, points, reduction, sizing, spans  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(600, 3))
Y, W = np.sin(X).sum(axis=1), RNG.integers(1, 4, size=600).astype(float)


@pytest.fixture
def blocks_of(monkeypatch):
    """Sets the rows of the blocks that a fit works with."""

    def of(rows):
        monkeypatch.setattr(points, "resized", sizing.resized)
        monkeypatch.setattr(points, "rows_per_block", lambda *_: rows)

    return of


def cut_at(ends, kind):
    """X, Y and W in blocks that end there, as Dask objects."""
    for start, stop in zip([0, *ends[:-1]], ends, strict=True):
        x, weight = X[start:stop], None if kind == "list" else W[start:stop]
        x = pd.DataFrame(x) if kind == "table" else list(x) if kind == "list" else x
        yield delayed((x, Y[start:stop], weight), traverse=False)


@pytest.mark.parametrize("kind", ["array", "table", "list"])
@pytest.mark.parametrize("rows", [1, 7, 50, 1000])
def test_all_rows_in_order_in_blocks_of_the_right_size(kind, rows):
    ends = [*np.unique(RNG.integers(1, 600, size=20)).tolist(), 600]
    lengths = np.diff([0, *ends])
    found, sizes = sizing.resized(list(cut_at(ends, kind)), lengths, rows)
    computed = dask.compute(*found)
    assert [len(x) for x, _, _ in computed] == sizes.tolist()
    assert_array_equal(np.concatenate([np.asarray(x) for x, _, _ in computed]), X)
    assert_array_equal(np.concatenate([y for _, y, _ in computed]), Y)
    if kind == "list":
        assert all(weight is None for _, _, weight in computed)
    else:
        assert_array_equal(np.concatenate([weight for _, _, weight in computed]), W)
    assert max(sizes) < 2 * rows
    # No two neighbours could be one, but for parts of a long block, which have less than asked for.
    assert (sizes[:-1] + sizes[1:] > 0.75 * rows).all()


@pytest.mark.parametrize("rows", [35, 100])
def test_fits_are_those_of_one_machine_however_blocks_are_made(rows, blocks_of):
    """Blocks of 20 rows are joined, of 160 cut, and those of 75 left or cut."""
    blocks_of(rows)
    ridge = mercer.KernelRidge(
        0.1, kernel="rbf", gamma=0.2, solver="nystrom", n_centers=25, random_state=0
    )
    machine = mercer.KernelMachineClassifier(
        alpha=0.5, gamma=0.2, tol=1e-300, solver="nystrom", n_centers=15, random_state=0
    )
    table = pd.DataFrame(X, columns=["u", "v", "w"])
    expected = ridge.fit(table, Y, W).predict(table)
    for chunk in (20, 75, 160):
        columns = dd.from_pandas(table.assign(y=Y, weight=W), chunksize=chunk)
        found = ridge.fit(columns[["u", "v", "w"]], columns["y"], columns["weight"])
        assert_allclose(found.predict(table), expected, atol=1e-10)
    chunks = {0: (20,) * 10 + (160,) + (75, 75) + (90,), 1: -1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rounding ends the steps
        expected = machine.fit(X, Y > 0).decision_function(X)
        found = machine.fit(da.from_array(X, chunks=chunks), da.from_array(Y > 0, chunks=100))
    assert_allclose(found.decision_function(X), expected, atol=1e-10)


@pytest.fixture
def tasks(monkeypatch):
    """For every pass its name, its blocks, and the tasks that map over them."""
    found, mapped = [], reduction.mapped

    def counted(name, piece, common, blocks, *tail):
        parts = mapped(name, piece, common, blocks, *tail)
        work = [task for task in parts[0].dask.values() if isinstance(task, Task)]
        found.append((name, len(parts), len(work)))
        return parts

    monkeypatch.setattr(reduction, "mapped", counted)
    monkeypatch.setattr(spans, "mapped", counted)
    return found


def test_many_small_blocks_cost_few_tasks(blocks_of, tasks):
    """Those that read them are part of the tasks that sum over them."""
    blocks_of(200)
    reads = [da.from_delayed(delayed(X[i : i + 5].copy)(), (5, 3), float) for i in range(0, 600, 5)]
    many = da.concatenate(reads)
    mercer.KernelRidge(kernel="rbf", solver="nystrom", n_centers=20).fit(many, many[:, 0])
    assert tasks.pop(0) == ("survey", 120, 120)
    assert len(tasks) > 2
    assert {(blocks, work) for _, blocks, work in tasks} == {(3, 3)}


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_newton_step_is_a_few_passes_of_one_task_per_block(loss, blocks_of, tasks):
    """One each for the curvature, the gradient, the certificate and two predictions; the search
    for a step takes from one to four."""
    blocks_of(200)
    data = da.from_array(X, chunks=(50, 3)), da.from_array(Y > 0, chunks=50)
    settings = {"gamma": 0.2, "solver": "nystrom", "n_centers": 20, "random_state": 0}
    tol = 1e-6 if loss == "logistic" else 1e-3
    model = mercer.KernelMachineClassifier(loss, tol=tol, **settings).fit(*data, W)
    assert tasks.pop(0) == ("survey", 12, 12)
    assert {(blocks, work) for _, blocks, work in tasks} == {(3, 3)}
    names = [name for name, *_ in tasks]
    steps, starts = model.n_iter_, names.count("GatherSums") - model.n_iter_
    assert steps > 2
    assert names.count("CurvatureSums") <= steps + 1
    assert names.count("predict") <= 2 * steps + 1
    # Each time corners are rounded less the search begins anew.
    assert starts <= (1 if loss == "logistic" else steps)
    intercept = 1 + spans.ROUNDS
    searches = names.count("sums") - intercept - names.count("GatherSums")
    assert steps <= searches <= 4 * steps


@pytest.mark.parametrize("rows", [35, 300])
def test_a_checkpoint_knows_blocks_that_were_joined_or_cut(rows, blocks_of, tmp_path, monkeypatch):
    blocks_of(rows)
    model = mercer.KernelRidge(kernel="rbf", solver="nystrom", n_centers=20, random_state=0)
    data = da.from_array(X, chunks=(100, 3)), da.from_array(Y, chunks=100)
    with checkpoint(tmp_path):
        first = model.fit(*data).dual_coef_
        monkeypatch.setattr(reduction, "_computed", None)
        assert_array_equal(model.fit(*data).dual_coef_, first)


def test_tasks_that_several_need_are_left_alone():
    calls = []

    def read(name):
        calls.append(name)
        return [name]

    shared, own = delayed(read)("shared"), delayed(read)("own")
    first, second = delayed(list.__add__)(shared, own), delayed(list.copy)(shared)
    found = reduction.fused([first, second])
    assert [part.key for part in found] == [first.key, second.key]
    assert len(found[0].dask) == 3
    assert dask.compute(*found) == (["shared", "own"], ["shared"])
    assert sorted(calls) == ["own", "shared"]


def test_rows_of_a_block_follow_the_work():
    def rows(n=10**9, centres=1000, features=10, targets=1, squares=False):
        return sizing.rows_per_block(n, centres, features, targets, squares)

    assert rows(centres=4000) == 2 * rows(centres=8000) + 1 < rows() / 3
    assert rows(squares=True) < rows() / 30
    # Few centres would make blocks that no memory holds.
    assert rows(centres=1) * 8 * 11 <= sizing.BLOCK_BYTES
    # Enough of them for some workers, and no block of a few rows.
    assert 10 <= 10**6 / rows(n=10**6) <= sizing.BLOCKS
    assert rows(n=1000) >= 1000
    assert rows(centres=10**12) == 1
