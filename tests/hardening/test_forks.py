"""A process forked while other threads compute can compute too: no lock of theirs is left to it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system"),
    pytest.mark.thread_unsafe(reason="processes of its own"),
]
# One thread of BLAS: with more, OpenBLAS cannot be forked while it computes.
CODE = """
import os, signal, sys, threading, time, warnings
import numpy as np
import mercer
from mercer import kernels as K
from mercer.arrays.threads import one_blas_thread

warnings.simplefilter("ignore")
sys.setswitchinterval(1e-5)
rng = np.random.default_rng(0)
X = rng.normal(size=(60, 30))
texts = ["".join(rng.choice(list("acgt"), size=400)) for _ in range(30)]

def points():
    model = mercer.SVC(kernel=K.RBF(0.05)).fit(X, X[:, 0] > 0)
    return lambda: model.predict(X)


def composite():
    kernel = 0.5 * K.RBF(0.05) * K.Polynomial(2) + K.Matern(nu=1.5)
    model = mercer.KernelRidge(kernel=kernel).fit(X, X[:, 0])
    return lambda: model.predict(X)


def components():
    model = mercer.KernelPCA(n_components=2, kernel=K.RBF(0.05)).fit(X)
    return lambda: model.transform(X)


def words():
    features = K.Spectrum(5).feature_map().fit(texts)
    return lambda: features.transform(texts)


def substrings():
    model = mercer.SVC(kernel=K.Substring()).fit(texts, np.arange(30) % 2)
    return lambda: model.predict(texts)


def limited():
    def work():
        with one_blas_thread():
            X @ X.T
    return work


work = {name}()
work()


def forever():
    while True:
        work()


for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
for _ in range({forks}):
    time.sleep(rng.uniform(0, 0.005))
    child = os.fork()
    if not child:
        work()
        os._exit(0)
    deadline = time.monotonic() + 60
    while not os.waitpid(child, os.WNOHANG)[0]:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
            print("the child hangs", flush=True)
            os._exit(1)
        time.sleep(0.001)
print("all through", flush=True)
os._exit(0)
"""
KINDS = ("points", "composite", "components", "words", "substrings", "limited")


@pytest.mark.parametrize("name", KINDS)
def test_children_of_a_process_whose_threads_compute(name):
    code = CODE.replace("{name}", name).replace("{forks}", "20")
    environment = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.stdout.strip() == "all through", run.stderr


CHANGED = """
import os, threading, time
import numpy as np
from mercer import core

table = core.table(3)
keys = np.random.default_rng(0).integers(0, 2**32, (3_000_000, 3), dtype=np.uint32, endpoint=False)
starts = np.array([0, len(keys)])
grower = threading.Thread(target=table.count_keys, args=(keys, starts, True))
grower.start()
while grower.is_alive():
    child = os.fork()
    if not child:
        try:
            table.count_keys(keys[:5], np.array([0, 5]), False)
        except RuntimeError as error:
            os._exit(2 if "was changing this object" in str(error) else 3)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status:
        break
grower.join()
print(status, table.size > 0)
os._exit(0)
"""


@pytest.mark.usefixtures("native_level")
def test_an_object_that_was_being_changed_is_refused_in_the_child():
    """It would never be whole there; the parent's is."""
    run = subprocess.run(
        [sys.executable, "-c", CHANGED], capture_output=True, text=True, timeout=600
    )
    assert run.stdout.split() == ["2", "True"], run.stderr
