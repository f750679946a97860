"""The same answers whatever the number of threads, and from several threads at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mercer
from every_estimator import lesson, made, names, said
from mercer import kernels as K

# So many points that the core takes all the threads it is given.
N = 400
# Threads of BLAS wait for each other and take long where other processes have the cores.
LONG = os.environ.get("MERCER_TEST_LENGTH", "1") != "1"
TESTS = Path(__file__).parents[1]
SCRIPT = """
import sys, warnings
import numpy as np
from every_estimator import lesson, made, names, said
warnings.simplefilter("ignore")
found = {}
for name in names():
    given = lesson(name, int(sys.argv[1]))
    for k, values in enumerate(said(made(name).fit(*given), given[0])):
        found[f"{name} {k}"] = values
np.savez(sys.argv[2], **found)
"""


@pytest.mark.thread_unsafe(reason="processes of its own")
def test_one_thread_and_two_give_the_same_answers(tmp_path):
    found = []
    for threads in ("1", "2"):
        path = tmp_path / f"{threads}.npz"
        limits = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads if LONG else "1"}
        environment = {**os.environ, **limits, "PYTHONPATH": str(TESTS)}
        command = [sys.executable, "-c", SCRIPT, str(N), str(path)]
        subprocess.run(command, env=environment, check=True)
        with np.load(path) as values:
            found.append(dict(values))
    one, two = found
    assert {key.split()[0] for key in one} == set(names())
    assert one.keys() == two.keys()
    for key, values in one.items():
        np.testing.assert_allclose(two[key], values, rtol=1e-8, atol=1e-8, err_msg=key)


KERNEL = 0.5 * K.RBF(0.3) + K.Polynomial(2)


@pytest.fixture(scope="module")
def shared():
    """A model of every kind, which all threads ask."""
    return {name: made(name).fit(*lesson(name, 60)) for name in names()}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("shared") / "model.mercer"


@pytest.mark.force_parallel_threads(4)
@pytest.mark.parametrize("name", names())
def test_fits_and_predictions_in_several_threads(name, shared):
    given = lesson(name, 60)
    found = said(made(name).fit(*given), given[0])
    # The search of the automatic models magnifies rounding, which depends on where in memory
    # arrays lie.
    rtol = 1e-6 if name.startswith("AutoKernel") else 1e-9
    for one, other in zip(found, said(shared[name], given[0]), strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-12)


@pytest.mark.force_parallel_threads(4)
def test_one_kernel_in_several_threads():
    X = lesson("KernelPCA", 300)[0]
    kernel = K.parse(repr(KERNEL))
    assert repr(kernel) == repr(KERNEL)
    found = KERNEL(X)
    np.testing.assert_array_equal(kernel(X), found)
    np.testing.assert_allclose(mercer.gram(KERNEL, X) @ X, found @ X, rtol=1e-10)
    assert KERNEL.validity.status == "valid"


@pytest.mark.force_parallel_threads(4)
def test_one_file_read_and_written_by_several_threads(shared, path):
    X = lesson("SVC", 60)[0]
    for _ in range(3):
        mercer.save(shared["SVC"], path)
        found = mercer.load(path).decision_function(X)
        np.testing.assert_array_equal(found, shared["SVC"].decision_function(X))
