"""Sorted suffixes and sums over substrings: the native classes, their twins and a slow oracle."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mercer import core
from mercer import kernels as K
from mercer.core.reference import suffixes as twin
from mercer.expressions import Sum

TEXTS = st.lists(st.lists(st.integers(0, 2), max_size=14), min_size=1, max_size=5)


def joined(texts):
    starts = np.concatenate([[0], np.cumsum([len(x) for x in texts])]).astype(np.int64)
    return np.array([c for x in texts for c in x], dtype=np.uint32), starts


def slow(s, t, weight, presence):
    """Every substring listed."""
    counts = []
    for x in (s, t):
        parts = [tuple(x[i:j]) for i in range(len(x)) for j in range(i + 1, len(x) + 1)]
        counts.append(dict.fromkeys(parts, 1) if presence else Counter(parts))
    step = np.diff(weight, append=weight[-1])
    return sum(
        n * counts[1].get(u, 0) * (step[len(u) - 1] if len(u) < len(weight) else 0.0)
        for u, n in counts[0].items()
    )


@pytest.mark.parametrize("presence", [True, False])
@settings(max_examples=80, deadline=None)
@given(texts=TEXTS, depth=st.integers(0, 15), seed=st.integers(0, 99))
@example(texts=[[], []], depth=3, seed=0)
@example(texts=[[0] * 14, [0] * 13], depth=15, seed=0)
def test_rows_are_what_listing_gives(presence, texts, depth, seed):
    symbols, starts = joined(texts)
    weight = np.concatenate([[0], np.cumsum(np.random.default_rng(seed).random(depth))])
    which = np.arange(len(texts))
    expected = [[slow(s, t, weight, presence) for t in texts] for s in texts]
    routines = core.suffix_routines()
    for found in (
        routines.Suffixes(symbols, starts, 3, depth).rows(which, weight, presence, 2),
        twin.Suffixes(symbols, starts, 3, depth).rows(which, weight, presence),
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("presence", [True, False])
@settings(max_examples=80, deadline=None)
@given(texts=TEXTS, new=TEXTS, depth=st.integers(0, 15), seed=st.integers(0, 99))
@example(texts=[[0, 1, 0]], new=[[0, 2, 0, 7, 0, 1, 9, 1]], depth=4, seed=0)
def test_sums_over_all_sequences_at_once(presence, texts, new, depth, seed):
    rng = np.random.default_rng(seed)
    weight = np.concatenate([[0], np.cumsum(rng.random(depth))])
    alpha = rng.normal(size=(len(texts), 2))
    K_new = np.array([[slow(t, s, weight, presence) for s in texts] for t in new])
    routines = core.suffix_routines()
    for kind in (routines, twin):
        sums = kind.SubstringSum(*joined(texts), 3, alpha, weight, presence)
        found = sums.values(*joined(new), 2)
        np.testing.assert_allclose(found, K_new @ alpha, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("letters", [1, 6, 40, 300])
@pytest.mark.parametrize("presence", [True, False])
def test_sums_over_long_texts_of_many_letters(native_level, letters, presence):
    """States with many edges, found by a table, against rows of sorted suffixes."""
    rng = np.random.default_rng(letters)
    texts = [rng.integers(0, letters, size=n) for n in (3000, 0, 1, 2000, 700)]
    new = [rng.integers(0, letters + 1, size=n) for n in (900, 0, 5)] + [texts[0][500:800]]
    weight, alpha = np.arange(13.0), rng.normal(size=(len(texts), 2))
    routines = core.suffix_routines()
    sums = routines.SubstringSum(*joined(texts), letters, alpha, weight, presence)
    found = sums.values(*joined(new), 2)
    suffixes = routines.Suffixes(*joined([*new, *texts]), letters + 1, 12)
    K = suffixes.rows(np.arange(len(new)), weight, presence, 1)[:, len(new) :]
    np.testing.assert_allclose(found, K @ alpha, rtol=1e-9, atol=1e-9)
    for x, value in zip(new, found, strict=True):
        np.testing.assert_allclose(
            sums.along(x.astype(np.uint32), 1).sum(axis=0), value, rtol=1e-8, atol=1e-8
        )


@pytest.mark.parametrize("letters", [1, 2, 4, 300])
def test_long_texts_equal_the_twin(native_level, letters):
    rng = np.random.default_rng(letters)
    texts = [rng.integers(0, letters, size=n) for n in (5000, 0, 300, 4000)]
    texts.append(texts[0][100:900])
    symbols, starts = joined(texts)
    weight, which = np.arange(5001.0), np.arange(len(texts))
    for presence in (True, False):
        found, expected = (
            kind.Suffixes(symbols, starts, letters, 5000).rows(which, weight, presence, 1)
            for kind in (core.suffix_routines(), twin)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_the_binding_refuses_what_does_not_fit(native_level):
    routines = core.suffix_routines()
    symbols, starts, weight = np.zeros(4, dtype=np.uint32), np.array([0, 4]), np.arange(5.0)
    with pytest.raises(ValueError, match="alphabet"):
        routines.Suffixes(symbols + np.uint32(3), starts, 3, 4)
    with pytest.raises(ValueError, match="at least one sequence"):
        routines.Suffixes(symbols[:0], np.array([0]), 3, 4)
    with pytest.raises(ValueError, match="starts"):
        routines.Suffixes(symbols, np.array([0, 5]), 3, 4)
    suffixes = routines.Suffixes(symbols, starts, 1, 4)
    with pytest.raises(ValueError, match="each length"):
        suffixes.rows(np.array([0]), weight[:4], True, 1)
    for which in (-1, 1):
        with pytest.raises(ValueError, match="exist"):
            suffixes.rows(np.array([which]), weight, True, 1)
    with pytest.raises(ValueError, match="each sequence"):
        routines.SubstringSum(symbols, starts, 1, np.zeros((2, 1)), weight, True)
    with pytest.raises(ValueError, match="alphabet"):
        routines.SubstringSum(symbols, starts, 0, np.zeros((1, 1)), weight, True)


@pytest.mark.parametrize("count", ["presence", "occurrences"])
@pytest.mark.parametrize("normalised", [False, True])
def test_a_model_sums_over_its_support_at_once(any_level, count, normalised):
    rng = np.random.default_rng(0)
    X, T = (["".join(rng.choice(list("abc"), size=n)) for n in (9, 1, 30, 0, 12)] for _ in "XT")
    kernel = K.Substring(count=count, weighting="exponential")
    kernel = 2 * kernel.normalize() + kernel if normalised else kernel
    V = rng.normal(size=(5, 3))
    found = Sum(kernel.expression(), X, V)(T)
    np.testing.assert_allclose(found, kernel(T, X) @ V, rtol=1e-10, atol=1e-10)
