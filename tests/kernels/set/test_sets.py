"""Set kernels, against Python's own sets."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from itertools import chain, combinations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mercer import SVC
from mercer.kernels.set.sets import SetConjunction, SetIntersection, SetJaccard, parse_set

KERNELS = [SetIntersection(), SetConjunction(), SetJaccard()]
CARTS = [{"milk", "bread"}, {"milk"}, set(), {"bread", "beer", "milk"}, {"beer"}]


def intersection(a, b):
    return len(a & b)


def subsets(a):
    return set(chain.from_iterable(combinations(sorted(a), n) for n in range(len(a) + 1)))


def conjunction(a, b):
    return len(subsets(a) & subsets(b))


def jaccard(a, b):
    return len(a & b) / len(a | b) if a or b else 1.0


ORACLES = [
    (SetIntersection(), intersection),
    (SetConjunction(), conjunction),
    (SetJaccard(), jaccard),
]
carts = st.lists(st.sets(st.integers(0, 7), max_size=6), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("kernel", "oracle"), ORACLES, ids=lambda v: getattr(v, "__name__", None) or repr(v)
)
@given(X=carts, Y=carts)
def test_equals_enumeration(kernel, oracle, X, Y):
    assert_allclose(kernel(X), [[oracle(a, b) for b in X] for a in X])
    assert_allclose(kernel(X, Y), [[oracle(a, b) for b in Y] for a in X])
    assert_allclose(kernel.diag(X), [oracle(a, a) for a in X])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_proved_and_semidefinite(kernel):
    rng = np.random.default_rng(0)
    X = [set(rng.choice(9, size=n, replace=False)) for n in rng.integers(0, 8, size=60)]
    assert kernel.validity.status == "valid"
    eigenvalues = np.linalg.eigvalsh(kernel(X))
    assert eigenvalues[0] > -1e-10 * eigenvalues[-1]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_any_iterable_of_items_is_a_set(kernel):
    K = kernel(CARTS)
    for convert in (list, tuple, frozenset, dict.fromkeys, lambda a: [*a, *a]):
        assert_array_equal(kernel([convert(a) for a in CARTS]), K)
    # A generator is used up by one evaluation.
    assert_array_equal(kernel([(item for item in a) for a in CARTS]), K)
    objects = np.empty(len(CARTS), dtype=object)
    objects[:] = CARTS
    assert_array_equal(kernel(objects), K)
    assert_array_equal(kernel(objects[:, None]), K)


def test_items_of_any_hashable_type():
    X = [{1, "a", (2, 3), None}, {1.0, b"a", (2, 3)}, np.array([1, 2, 1])]
    assert_array_equal(SetIntersection()(X), [[4, 2, 1], [2, 3, 1], [1, 1, 2]])


def test_empty_sets():
    X = [set(), set(), {1}]
    assert_array_equal(SetIntersection()(X), [[0, 0, 0], [0, 0, 0], [0, 0, 1]])
    assert_array_equal(SetConjunction()(X), [[1, 1, 1], [1, 1, 1], [1, 1, 2]])
    assert_array_equal(SetJaccard()(X), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    for kernel, corner in zip(KERNELS, (0, 1, 1), strict=True):
        assert_array_equal(kernel([set()]), [[corner]])


@pytest.mark.parametrize("kernel", KERNELS[:2], ids=repr)
def test_feature_map_gives_the_kernel(kernel):
    F = kernel.feature_map().fit_transform(CARTS)
    assert sp.issparse(F)
    assert_allclose((F @ F.T).toarray(), kernel(CARTS))


def test_a_million_products():
    rng = np.random.default_rng(0)
    X = [set(rng.integers(0, 10**6, size=20).tolist()) | {-1} for _ in range(300)]
    F = SetIntersection().feature_map().fit_transform(X)
    assert F.nnz == sum(map(len, X))
    K = SetIntersection()(X)
    assert_array_equal(K, (F @ F.T).toarray())
    assert K[0, 1] == len(X[0] & X[1])
    assert_allclose(SetJaccard()(X)[0, 1], jaccard(X[0], X[1]))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@given(X=carts, Y=carts)
def test_rows_of_sparse_matrices_are_sets(kernel, X, Y):
    A, B = (sp.csr_array([[float(j in a) for j in range(8)] for a in part]) for part in (X, Y))
    assert_array_equal(kernel(A), kernel(X))
    assert_array_equal(kernel(A.tocoo(), B), kernel(X, Y))
    assert_array_equal(kernel(A, Y), kernel(X, Y))
    A.data[:] = -3.5
    assert_array_equal(kernel.diag(A), kernel.diag(X))
    A.data[:] = 0.0  # stored, but zero
    assert_array_equal(kernel(A), kernel([set() for _ in X]))


def test_sparse_matrices_without_rows_are_refused():
    with pytest.raises(ValueError, match="X is empty"):
        SetIntersection()(sp.csr_array((0, 5)))


def supermarket(rng, n, products, size=50, wanted=5):
    """Carts, and whether one has any of the wanted products; half of them have."""
    carts = rng.integers(wanted, products, (n, size))
    y = rng.random(n) < 0.5
    carts[y, 0] = rng.integers(0, wanted, y.sum())
    return carts, np.where(y, 1, -1)


@pytest.mark.parametrize("form", ["sets", "lists", "csr"])
def test_learning_needs_nothing_as_long_as_the_list_of_products(form):
    products = 10**9
    rng = np.random.default_rng(0)
    X, y = supermarket(rng, 600, products)
    if form == "csr":
        starts = np.arange(0, X.size + 1, X.shape[1])
        X = sp.csr_array((np.ones(X.size), X.ravel(), starts), shape=(len(X), products))
    else:
        X = [set(a) if form == "sets" else a for a in X.tolist()]
    tracemalloc.start()
    model = SVC(kernel=SetIntersection()).fit(X[:400], y[:400])
    correct = model.score(X[400:], y[400:])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert correct > 0.95
    assert peak < products / 10


def test_any_power_of_a_conjunction_is_a_kernel():
    root = SetConjunction() ** 0.3
    assert root.validity.status == "valid"
    assert np.linalg.eigvalsh(root(CARTS))[0] > -1e-12


def test_large_conjunctions():
    big = set(range(1023))
    assert SetConjunction()([big])[0, 0] == 2.0**1023
    assert_array_equal(SetConjunction()([big], [{1, 2}]), [[4]])
    with pytest.raises(ValueError, match=r"1024 items in common.*SetIntersection"):
        SetConjunction()([set(range(1024))])
    with pytest.raises(MemoryError, match="a set of 40 items"):
        SetConjunction().feature_map().fit([set(range(40))])
    with pytest.raises(MemoryError, match=r"about 10\^602 subsets"):
        SetConjunction().feature_map().fit([set(range(2000))])


def test_columns_are_in_the_same_order_in_every_process():
    program = """
import datetime
from mercer.kernels import SetConjunction, SetIntersection
day = datetime.date(2024, 1, 1)
X = [{"milk", "bread", 1.5, None, ("a", 2), frozenset("xyz"), day}, {"bread", "tea", 2}]
for kernel in (SetIntersection(), SetConjunction()):
    phi = kernel.feature_map().fit(X)
    print(phi.transform(X[1:]).indices, [v in ("milk", {"milk", day}) for v in phi.vocabulary_])
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("text", ["milk", b"milk", np.str_("milk")])
def test_a_plain_string_is_refused(kernel, text):
    with pytest.raises(TypeError, match=r"object 1: found b?.*milk.* wrap it: \{x\}"):
        kernel([{"milk"}, text])


@pytest.mark.parametrize("bad", [None, 3, float("nan"), [["a"]], [{"a"}], np.zeros((2, 2))])
def test_what_is_no_set_is_refused(bad):
    with pytest.raises(
        TypeError, match="where a set was expected, or another iterable of hashable"
    ):
        parse_set(bad)


def test_a_known_vocabulary_is_looked_up_and_not_gone_through():
    class Unlisted(dict):
        def __iter__(self):
            raise AssertionError("all items are gone through")

    rows = SetIntersection().rows(
        [frozenset({"milk", "tea"}), frozenset()], Unlisted(milk=0, beer=1), grow=False
    )
    assert_array_equal(rows.toarray(), [[1, 0], [0, 0]])
