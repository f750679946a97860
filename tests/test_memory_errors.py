"""Errors of memory: which array, its shape and size, and what to do; under a limit of addresses."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import mercer.arrays
from mercer import KernelPCA, KernelRidge
from mercer import kernels as K
from mercer.arrays import physical_memory
from mercer.memory_errors import explained, explaining_memory, is_bare

BEYOND = 10**15  # numbers that no address space has room for


class Numbers:
    @explaining_memory
    def fit(self, X):
        return np.empty((len(X), BEYOND))

    @explaining_memory
    def refuse(self, X):
        raise MemoryError("9 MiB are too many; pass fewer rows")


def test_bare_errors_name_call_points_array_and_advice():
    X = np.zeros((3, 2))
    with pytest.raises(MemoryError) as found:
        Numbers().fit(X)
    text = str(found.value)
    assert text.startswith(
        "Numbers.fit of X of shape (3, 2) needs more memory than there is: unable"
    )
    assert "(3, 1000000000000000) and data type float64; use fewer rows" in text
    assert not is_bare(found.value)
    assert is_bare(found.value.__cause__)
    with pytest.raises(MemoryError, match=r"^9 MiB are too many; pass fewer rows$"):
        Numbers().refuse(X)
    with pytest.raises(MemoryError, match="of 2 objects needs"):
        Numbers().fit(["a", "b"])


@pytest.mark.parametrize("text", ["", "std::bad_alloc"])
def test_errors_without_words_are_given_some(text):
    assert is_bare(MemoryError(text))
    told = str(explained(MemoryError(text), "this", "do that"))
    assert told == "this needs more memory than there is; do that"


@pytest.mark.parametrize("method", ["fourier", "sketch"])
def test_maps_with_too_many_components(method):
    X = np.random.default_rng(0).normal(size=(5, 3))
    kernel = K.RBF() if method == "fourier" else K.Polynomial(2)
    match = r"Map\.\w+ of X of shape \(5, 3\) needs .* with shape .*; use a smaller n_components"
    with pytest.raises(MemoryError, match=match):
        kernel.approximate_map(BEYOND, method=method, random_state=0).fit(X).transform(X)


def test_estimators_name_the_parameter_that_asks_for_less(monkeypatch):
    def no_room(*arguments, **named):
        raise MemoryError("std::bad_alloc")

    monkeypatch.setattr("mercer.estimators.spectral.pca.training_gram", no_room)
    X = np.zeros((7, 2))
    with pytest.raises(MemoryError, match=r"KernelPCA.fit of X of shape \(7, 2\).*n_components"):
        KernelPCA(n_components=2).fit(X)


def test_a_whole_gram_matrix_beyond_memory_is_refused(monkeypatch):
    monkeypatch.setattr(mercer.arrays.memory, "physical_memory", lambda: 2**36)
    X = np.zeros((200_000, 1))
    match = r"Gram matrix of 200,000 x 200,000 in float64 needs 305,175 MiB, and this machine has"
    with pytest.raises(MemoryError, match=match + r" 65,536 MiB; ask for products"):
        K.RBF()(X)
    with pytest.raises(MemoryError, match="Gram matrix of 200,000 x 200,001 in float64"):
        K.Linear()(X, np.zeros((200_001, 1)))
    with pytest.raises(MemoryError, match="Gram matrix of 200,000 x 200,000 in float32"):
        K.RBF()(X.astype(np.float32))
    with pytest.raises(MemoryError, match="n = 200,000 points"):
        KernelRidge(kernel="rbf", solver="cholesky").fit(X, X[:, 0])


def test_containers_limit_memory(monkeypatch, tmp_path):
    present = physical_memory()
    for text, expected in (("1048576\n", 2**20), ("max\n", present), ("", present)):
        (tmp_path / "memory.max").write_text(text)
        monkeypatch.setattr(
            mercer.arrays.memory, "CONTAINER_LIMITS", (str(tmp_path / "memory.max"),)
        )
        mercer.arrays.memory._container.cache_clear()
        assert physical_memory() == expected
    mercer.arrays.memory._container.cache_clear()


LIMITED = """
import re, resource, sys
import numpy as np
from mercer import KernelRidge, core
from mercer import kernels as K
import mercer.cli.app
import mercer.auto.automatic
import sklearn.datasets, sklearn.model_selection

taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = taken + 256 * 2**20
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def told(call):
    try:
        call()
    except MemoryError as error:
        print(error)
    else:
        raise SystemExit("no error")


X = np.linspace(0, 1, 30_000)[:, None]
ends, columns, ones = np.arange(20_001), np.zeros(20_000, dtype=np.int32), np.ones(20_000)
told(lambda: KernelRidge(kernel="rbf", solver="cholesky").fit(X, X[:, 0]))
told(lambda: K.RBF()(X))
told(lambda: core.sparse_routines().sparse_gram(
    ends, columns, ones, ends, columns, ones, 1, False, False, 1))
told(lambda: K.RBF().approximate_map(20_000, random_state=0).fit(X).transform(X))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits addresses as Linux does")
def test_under_a_limit_of_addresses_every_error_says_what_has_no_room():
    ended = subprocess.run([sys.executable, "-c", LIMITED], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ridge, gram, native, features = ended.stdout.splitlines()
    assert "n = 30,000 points needs" in ridge
    assert "Gram matrix of 30,000 x 30,000 in float64 needs 6,866 MiB" in gram
    assert "nable to allocate" in native
    assert "(20000, 20000)" in native
    assert "transform of X of shape (30,000, 1) needs more memory" in features
    assert "(30000, " in features
    assert "a smaller n_components" in features
