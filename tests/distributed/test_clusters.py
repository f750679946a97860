"""Clusters of processes: workers and a scheduler that are killed, and what travels."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import mercer
from sklearn_versions import needs_callbacks

pytest.importorskip("dask", reason="Dask is not installed: pip install mercer[dask]")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

from clusters import cluster, kill_during  # noqa: E402

from mercer.distributed.keeping import kept  # noqa: E402

pytestmark = pytest.mark.long
FEATURES = ["u", "v", "w"]
CENTRES = {"kernel": "rbf", "gamma": 0.3, "n_centers": 40, "random_state": 0, "solver": "nystrom"}


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Points in files, which every graph begins with.

    So many rows to a block that NumPy sums an array that is not aligned in another order.
    """
    folder = tmp_path_factory.mktemp("parquet")
    rng = np.random.default_rng(0)
    for i in range(8):
        X = rng.normal(size=(10_000, 3))
        part = pd.DataFrame(X, columns=FEATURES).assign(y=np.sin(X).sum(axis=1))
        part.to_parquet(folder / f"{i:02d}.parquet")
    return dd.read_parquet(folder, blocksize=None, aggregate_files=False)


def ridge():
    return mercer.KernelRidge(alpha=0.1, **CENTRES)


def logistic():
    return mercer.KernelMachineClassifier(alpha=1.0, tol=1e-2, **CENTRES)


@pytest.mark.parametrize(
    ("make", "phases"),
    [
        (ridge, ["survey", "rows", "FeatureSums", "ProductSums"]),
        (logistic, ["targets", "predict", "GatherSums", "CurvatureSums", "sums"]),
    ],
)
def test_a_worker_killed_in_any_phase_changes_no_bit(make, phases, table):
    X, y = table[FEATURES], table["y"]
    y = y > 0 if make is logistic else y
    with cluster() as client:
        expected = make().fit(X, y)
        for phase in phases:
            client.wait_for_workers(2)
            with kill_during(client, phase) as killed:
                found = make().fit(X, y)
            assert len(killed) == 1, phase
            assert_array_equal(found.dual_coef_, expected.dual_coef_)
        predicted = expected.predict(X).compute()
        client.wait_for_workers(2)
        with kill_during(client, "predict") as killed:
            again = expected.predict(X).compute()
        assert len(killed) == 1
        assert_array_equal(again, predicted)


def test_arrays_that_travel_are_summed_in_the_same_order():
    """Wherever in a message they come to lie, which the length of their key decides."""
    array = np.random.default_rng(0).normal(size=20_000)
    with cluster() as client, kept(None, "nothing"):
        here, there = client.scheduler_info()["workers"]
        for length in range(8):
            made = client.submit(np.array, array, key="x" * (20 + length), workers=[here])
            total = client.submit(np.sum, made, workers=[there])
            assert total.result() == array.sum()


def test_the_bits_do_not_depend_on_how_many_workers_there_are(table):
    found = []
    for workers in (1, 2):
        with cluster(workers):
            found.append(ridge().fit(table[FEATURES], table["y"]).dual_coef_)
    assert_array_equal(*found)


@needs_callbacks
def test_centres_are_sent_to_each_worker_once_and_threads_are_capped(table):
    def what_is_kept(dask_worker):
        from threadpoolctl import threadpool_info

        names = [name for name in dask_worker.plugins if name.startswith("mercer-")]
        return names, [pool["num_threads"] for pool in threadpool_info()]

    seen = []
    with cluster() as client:

        class Watch:
            def setup(self, estimator, context): ...
            def teardown(self, estimator, context): ...
            def on_fit_task_begin(self, estimator, context): ...

            def on_fit_task_end(self, estimator, context, *, metadata):
                if metadata is not None:
                    seen.append(client.run(what_is_kept))
                return False

        logistic().set_callbacks(Watch()).fit(table[FEATURES], table["y"] > 0)
        assert len(seen) > 1
        for kept in seen:
            assert kept == seen[0]
            assert len(kept) == 2
            for names, threads in kept.values():
                assert len(names) == 1
                assert set(threads) == {1}
        assert all(names == [] for names, _ in client.run(what_is_kept).values())


@contextmanager
def scheduler_of_its_own(folder, name):
    """A scheduler and two workers in processes that can be killed by themselves."""
    file = folder / f"{name}.json"
    python, started = [sys.executable, "-m"], []

    def start(*arguments):
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        started.append(subprocess.Popen([*python, *arguments], cwd=folder, **silent))

    try:
        start(
            "distributed.cli.dask_scheduler",
            "--port",
            "0",
            "--no-dashboard",
            "--scheduler-file",
            file,
        )
        for _ in range(2):
            start(
                "distributed.cli.dask_worker",
                "--scheduler-file", file, "--nthreads", "1", "--no-nanny", "--no-dashboard",
                "--death-timeout", "60",
            )  # fmt: skip
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        yield file, started[0]
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def test_a_fit_goes_on_after_the_scheduler_died(table, tmp_path):
    from mercer.distributed import checkpoint

    X, y = table[FEATURES], table["y"]
    expected = ridge().fit(X, y).dual_coef_
    folder = tmp_path / "checkpoint"
    model = ridge()
    with scheduler_of_its_own(tmp_path, "first") as (file, scheduler):
        client = distributed.Client(scheduler_file=str(file), timeout=60)
        client.wait_for_workers(2, timeout=60)

        def kill_it_later():
            while not list(folder.glob("rows-*")):
                time.sleep(0.01)
            scheduler.kill()

        killer = threading.Thread(target=kill_it_later)
        killer.start()
        with checkpoint(folder), pytest.raises(Exception) as error:  # noqa: PT011 (Dask's own)
            model.fit(X, y)
        killer.join()
        client.close(timeout=5)
    assert not hasattr(model, "dual_coef_"), error
    done = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert any(name.startswith("rows-") for name in done)
    assert not any(name.startswith("ProductSums-") for name in done)
    with (
        scheduler_of_its_own(tmp_path, "second") as (file, _),
        distributed.Client(scheduler_file=str(file), timeout=60) as client,
        checkpoint(folder),
    ):
        client.wait_for_workers(2, timeout=60)
        model.fit(X, y)
    assert_array_equal(model.dual_coef_, expected)
    kept = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert done.items() <= kept.items()
