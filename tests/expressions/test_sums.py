"""Sums over points without a look at every pair, against the Gram matrix."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from mercer import kernels as K
from mercer.expressions import Sum, is_summable
from mercer.operators.gram import TiledGram

TEXTS = ["abab", "", "b", "abcabcabc", "ccba", "aé"]
NEW = ["ab", "zab", "", "cabcab", "☃"]
PATH, RING = ([(0, 1), (1, 2)], ["C", "O", "C"]), ([(0, 1), (1, 2), (2, 0)], ["C", "C", "N"])
LONER = ([], ["C"])

CASES = {
    "spectrum": (K.Spectrum(2), TEXTS, NEW),
    "normalised": (K.Spectrum(2).normalize(), TEXTS, NEW),
    "gappy": (K.Gappy(2, 1), TEXTS, NEW),
    "mismatch": (K.Mismatch(2, 1, "abcz☃é"), TEXTS, NEW),
    "sum": (2 * K.Spectrum(1).normalize() + K.Substring(max_length=3), TEXTS, NEW),
    "constant": (K.Spectrum(2) + 3, TEXTS, NEW),
    "sets": (K.SetIntersection(), [{1, 2}, set(), {3}], [{2, 3, 9}, set()]),
    "labels": (K.WeisfeilerLehman(2), [PATH, RING, LONER], [RING, ([(0, 1)], ["C", "S"])]),
    "paths": (K.ShortestPath().normalize(), [PATH, RING, LONER], [RING, LONER]),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_equal_products_with_the_gram_matrix(any_level, name):
    kernel, Y, X = CASES[name]
    assert is_summable(kernel.expression())
    V = np.random.default_rng(0).normal(size=(len(Y), 3))
    summed = Sum(kernel.expression(), Y, V)
    assert_allclose(summed(X), kernel(X, Y) @ V, rtol=1e-12, atol=1e-12)
    assert_allclose(summed(Y), kernel(Y) @ V, rtol=1e-12, atol=1e-12)
    operator = TiledGram(kernel.over(X, Y))
    assert_allclose(operator @ V, kernel(X, Y) @ V, rtol=1e-12, atol=1e-12)


def test_columns_of_tables_are_summed_over():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"text": TEXTS, "more": TEXTS[::-1]})
    kernel = K.Spectrum(2).on("text") + 0.5 * K.Substring().normalize().on("more")
    V = np.random.default_rng(0).normal(size=(len(table), 1))
    assert is_summable(kernel.expression())
    found = Sum(kernel.expression(), table, V)(table[:3])
    assert_allclose(found, kernel(table[:3], table) @ V, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "kernel",
    [
        K.RBF(),
        K.Constant(2.0),
        K.Spectrum(2) * K.Spectrum(3),
        K.exp(K.Spectrum(2)),
        K.WeightedDegree(3),
        K.WLOptimalAssignment(),
        K.Spectrum(2).on("text") + K.RBF().on("number"),
    ],
    ids=repr,
)
def test_other_formulas_are_not_summable(kernel):
    assert not is_summable(kernel.expression())
