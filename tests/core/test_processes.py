"""The core among threads, processes, signals and limits: what a whole interpreter sees."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from joblib import Parallel, delayed

from mercer import core
from mercer import kernels as K


def run(code, **environment):
    """The lines a fresh interpreter prints."""
    clean = {k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env=clean | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.split()


def test_threads_go_by_the_variable_and_by_the_cores_we_may_run_on(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3,2")
    assert core.threads(10**9, 10) == 3
    for nonsense in ("", "0", "many"):
        monkeypatch.setenv("OMP_NUM_THREADS", nonsense)
        assert core.threads(10**9, 10) >= 1
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    assert core.threads(100, 10) == 0


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity on this system")
def test_fewer_cores_give_fewer_threads():
    code = """
        import os
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        from mercer import core
        print(core.threads(10**9, 10))
    """
    assert run(code) == ["1"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="threads are counted in /proc")
def test_no_thread_is_left_behind():
    code = """
        import os, time
        import numpy as np
        from mercer import kernels as K

        def count():
            return len(os.listdir("/proc/self/task"))

        X, V = np.random.default_rng(0).normal(size=(3000, 20)), np.ones((3000, 1))
        before = count()
        K.RBF(0.1).over(X).products(V, np.zeros((3000, 0)))
        deadline = time.monotonic() + 60  # the system may list one that has ended for a moment
        while count() > before and time.monotonic() < deadline:
            time.sleep(0.01)
        print(count() - before)
    """
    assert run(code, OMP_NUM_THREADS="3", OPENBLAS_NUM_THREADS="1") == ["0"]


def row_sums(X, start):
    return (
        K.RBF(0.1)
        .over(X[start : start + 50], X)
        .products(np.ones((len(X), 1)), np.zeros((50, 0)))[0]
    )


def test_workers_read_memory_maps(any_level):
    X = np.random.default_rng(0).normal(size=(400, 10))
    starts = range(0, 400, 50)
    found = Parallel(n_jobs=2, max_nbytes=1000)(delayed(row_sums)(X, s) for s in starts)
    np.testing.assert_allclose(
        np.vstack(found), np.vstack([row_sums(X, s) for s in starts]), rtol=1e-12
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_after_use_works(any_level):
    X, V, nothing = (
        np.random.default_rng(0).normal(size=(1500, 10)),
        np.ones((1500, 1)),
        np.zeros((1500, 0)),
    )
    pairs = K.RBF(0.1).over(X)
    expected = pairs.products(V, nothing)[0]
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(pairs.products(V, nothing)[0], expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_same_bits_for_any_number_of_threads(dtype, native_level, monkeypatch):
    rng = np.random.default_rng(0)
    X, V, U = (rng.normal(size=(700, c)).astype(dtype) for c in (12, 3, 2))
    pairs = (K.RBF(0.1) * K.Polynomial(2) + K.Laplacian(0.2)).over(X)
    found = {}
    for threads in range(9):
        monkeypatch.setattr(core, "threads", lambda *_, t=threads: t)
        found[threads] = [
            *pairs.products(V, U),
            pairs.products(V, np.zeros((700, 0)))[0],
            pairs.gram(),
        ]
    for threads in range(1, 9):
        for a, b in zip(found[0], found[threads], strict=True):
            np.testing.assert_array_equal(a, b)


WORK = {
    "product": "pairs.product(np.ones((n, 1)), 2)",
    "symmetric product": "pairs.symmetric_product(np.ones((n, 1)), 2)",
    "gram": "while True: pairs.gram(np.empty((n, n)), True, 2)",
    "log_sum_exp": "pairs.log_sum_exp(None, 2)",
    "arg_min": "pairs.arg_min(2)",
}
INTERRUPTED = """
    import signal, threading
    import numpy as np
    from mercer import core
    from mercer.core import Kind, Leaf, Op, Program

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job ignores it
    n = {points}
    X = np.random.default_rng(0).normal(size=(n, 1))
    norms = np.einsum("ij,ij->i", X, X)
    step = np.array([[Op.EXP_NEGATIVE, 0, 0, 0, 0]], np.int32)
    program = Program(step, np.array([[-0.1, 0.0]]), 1, 0)
    leaf = Leaf(Kind.SQDIST, X, X, X, X, norms, norms)
    pairs = core.pairs(program, [leaf], [], [], n, n, np.float64)
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    try:
        {work}
    except KeyboardInterrupt:
        print("interrupted")
"""


@pytest.mark.parametrize("work", WORK)
def test_an_interrupt_ends_long_work(work, native_level):
    """Each of these but the Gram matrix would go on for many minutes."""
    code = textwrap.dedent(INTERRUPTED).replace("{work}", WORK[work])
    code = code.replace("{points}", "6_000" if work == "gram" else "1_000_000")
    assert run(code, MERCER_ISA=native_level) == ["interrupted"]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="peak memory as Linux tells it")
def test_a_product_of_many_points_needs_little_memory():
    code = """
        import resource
        import numpy as np
        from mercer import kernels as K

        def peak():
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

        n = 100_000
        X = np.random.default_rng(0).normal(size=(n, 10)).astype(np.float32)
        V = np.ones((n, 1), np.float32)
        few = X[:500]
        K.RBF(0.1).over(few, X[:500]).products(V[:500], np.zeros((500, 0)))
        before = peak()
        K.RBF(0.1).over(few, X).products(V, np.zeros((500, 0)))
        K.RBF(0.1).over(X, few).products(V[:500], np.ones((n, 1)))
        print(peak() - before)
    """
    (megabytes,) = map(float, run(code))
    assert megabytes < 100
