"""Common substrings, against enumeration by brute force, and the sorted suffixes behind them."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from mercer.core.reference.suffixes import SortedSuffixes
from mercer.kernels.kernel import NoFiniteFeatureMap
from mercer.kernels.sequences import Alphabet
from mercer.kernels.string.substrings import Substring

KERNELS = [
    Substring(),
    Substring(min_length=2, max_length=3),
    Substring(weighting="exponential", decay=0.3),
    Substring(count="occurrences"),
    Substring(count="occurrences", weighting="exponential"),
    Substring(count="occurrences", weighting="bounded", max_length=2),
]
WORDS = ["abab", "", "ba", "aaaa", "b", "abab", "cabbac"]


def substrings(s):
    n = len(s)
    return Counter(tuple(s[i:j]) for i in range(n) for j in range(i + 1, n + 1))


def oracle(s, t, kernel):
    f, g = substrings(s), substrings(t)
    total = 0.0
    for u in f.keys() & g.keys():
        if len(u) < kernel.min_length or len(u) > (kernel.max_length or np.inf):
            continue
        weight = kernel.decay ** len(u) if kernel.weighting == "exponential" else 1
        total += weight * (1 if kernel.count == "presence" else f[u] * g[u])
    return total


def gram(X, Y, kernel):
    return np.array([[oracle(x, y, kernel) for y in Y] for x in X])


texts = st.lists(st.text("ab", max_size=10) | st.text("abc", max_size=6), min_size=1, max_size=5)


@settings(deadline=None)
@given(
    X=texts,
    Y=texts,
    count=st.sampled_from(["presence", "occurrences"]),
    weighting=st.sampled_from(["constant", "exponential", "bounded"]),
    min_length=st.integers(1, 4),
    extra=st.none() | st.integers(0, 8),
    decay=st.floats(0.05, 1.0),
)
def test_equals_enumeration(X, Y, count, weighting, min_length, extra, decay):
    if weighting == "bounded" and extra is None:
        extra = 2
    max_length = None if extra is None else min_length + extra
    kernel = Substring(count, weighting, min_length, max_length, decay)
    assert_allclose(kernel(X), gram(X, X, kernel), rtol=1e-12)
    assert_allclose(kernel(X, Y), gram(X, Y, kernel), rtol=1e-12)
    assert_allclose(kernel.diag(X), np.diag(gram(X, X, kernel)), rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_all_short_strings_at_once(kernel):
    X = ["".join(word) for n in range(6) for word in product("ab", repeat=n)]
    assert_allclose(kernel(X), gram(X, X, kernel), rtol=1e-12)


def test_counts_worked_out_by_hand():
    # abab: a b ab ba aba bab abab; ba: b a ba.
    assert_array_equal(Substring()(["abab", "ba"]), [[7, 3], [3, 3]])
    assert_array_equal(Substring(count="occurrences")(["abab", "ba"])[0], [16, 5])
    n = 50
    assert_array_equal(Substring()(["a" * n]), [[n]])
    expected = sum((n - i) ** 2 for i in range(n))
    assert_array_equal(Substring(count="occurrences")(["a" * n]), [[expected]])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_proved_and_semidefinite(kernel):
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abc"), size=n)) for n in rng.integers(0, 15, size=40)]
    assert kernel.validity.status == "valid"
    eigenvalues = np.linalg.eigvalsh(kernel(X))
    assert eigenvalues[0] > -1e-10 * eigenvalues[-1]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_forms_of_input(kernel):
    K = kernel(WORDS)
    assert_array_equal(K, K.T)
    assert_allclose(kernel(WORDS[:2], WORDS), K[:2], rtol=1e-14)
    assert_allclose(kernel(WORDS, WORDS[:2]), K[:, :2], rtol=1e-14)
    assert_allclose(kernel([list(word) for word in WORDS]), K)
    assert_allclose(kernel([word.encode() for word in WORDS]), K)
    with pytest.raises(TypeError, match="of type bytes among sequences of type str"):
        kernel(WORDS, [word.encode() for word in WORDS])
    tokens = {"a": "to", "b": 7, "c": None}
    assert_allclose(kernel([[tokens[c] for c in word] for word in WORDS]), K)
    assert_array_equal(kernel(["", b"", []]), np.zeros((3, 3)))


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_blocks_that_fit_the_budget(kernel):
    rng = np.random.default_rng(1)
    X = ["".join(rng.choice(list("ab"), size=n)) for n in rng.integers(0, 60, size=12)]
    expected, part = kernel(X), kernel(X[:5], X[3:])
    with sklearn.config_context(working_memory=0.03):
        assert_allclose(kernel(X), expected, rtol=1e-12)
        assert_allclose(kernel(X[:5], X[3:]), part, rtol=1e-12)


def test_long_byte_strings_share_a_signature():
    rng = np.random.default_rng(0)
    signature = bytes(rng.integers(0, 256, size=12, dtype=np.uint8))
    files = [rng.integers(0, 256, size=100_000, dtype=np.uint8).tobytes() for _ in range(3)]
    files[:2] = [f[:500] + signature + f[500:] for f in files[:2]]
    K = Substring(min_length=6, max_length=16)(files)
    assert K[0, 1] == sum(12 - n + 1 for n in range(6, 13))  # the signature's own substrings
    assert K[0, 2] == K[1, 2] == 0
    # Twelve bytes are enough to make nearly every place of a random file unique.
    n = len(files[0])
    assert K[0, 0] == pytest.approx(sum(n - length + 1 for length in range(6, 17)))


def test_long_repetitive_strings():
    n = 20_000
    X = ["a" * n, "ab" * (n // 2), "a" * (n // 2)]
    K = Substring()(X)
    assert_array_equal(K, [[n, 1, n // 2], [1, 2 * n - 1, 1], [n // 2, 1, n // 2]])
    occurrences = Substring(count="occurrences")(X)
    # Every a^l occurs n - l + 1 times in the first and n/2 - l + 1 times in the third.
    lengths = np.arange(1, n // 2 + 1)
    assert occurrences[0, 2] == np.sum((n - lengths + 1) * (n // 2 - lengths + 1))
    assert occurrences[0, 1] == n * (n // 2)


def test_exponential_weights_do_not_cancel():
    """Substrings that count are far lighter than those too short to count."""
    kernel = Substring(weighting="exponential", decay=0.1, min_length=30)
    common = "".join(np.random.default_rng(0).choice(list("abcd"), size=32))
    K = kernel(["x" + common + "y", "z" + common])
    assert_allclose(K[0, 1], 3e-30 + 2e-31 + 1e-32, rtol=1e-12)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_feature_map_where_lengths_are_bounded(kernel):
    if kernel.max_length is None:
        with pytest.raises(NoFiniteFeatureMap, match="max_length"):
            kernel.feature_map()
    else:
        F = kernel.feature_map().fit_transform(WORDS)
        assert_allclose((F @ F.T).toarray(), kernel(WORDS))


def test_feature_map_with_exponential_weights():
    kernel = Substring("occurrences", "exponential", max_length=4, decay=0.3)
    F = kernel.feature_map().fit_transform([[*word, 0] for word in WORDS])
    assert_allclose((F @ F.T).toarray(), kernel([[*word, 0] for word in WORDS]))


def test_oversized_feature_map_is_refused():
    phi = Substring(max_length=10**6).feature_map()
    with pytest.raises(MemoryError, match="lower max_length"):
        phi.fit(["ab" * 100_000])


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (Substring(count="all"), "count"),
        (Substring(weighting="linear"), "weighting"),
        (Substring(weighting="bounded"), "max_length"),
        (Substring(min_length=0), "min_length"),
        (Substring(min_length=1.5), "min_length"),
        (Substring(max_length=0), "max_length"),
        (Substring(min_length=3, max_length=2), "max_length=2 is less than min_length=3"),
        (Substring(decay=-1), "decay"),
    ],
    ids=repr,
)
def test_bad_parameters_are_named_at_use(kernel, name):
    with pytest.raises((ValueError, TypeError), match=name):
        kernel(["ab"])


# Sorted suffixes.


def common_prefix(a, b):
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    return n


@settings(deadline=None)
@given(X=texts, depth=st.none() | st.integers(1, 5))
def test_sorted_suffixes_against_sorting_lists(X, depth):
    symbols, starts = Alphabet().encode(X, grow=True)
    codes = np.split(symbols.astype(np.int64), starts[1:-1]) if X else []
    found = SortedSuffixes(codes, depth)
    suffixes = [(i, x[j:][:depth]) for i, x in enumerate(X) for j in range(len(x))]
    assert Counter(zip(found.owner, found.length, strict=True)) == Counter(
        (i, len(suffix)) for i, suffix in suffixes
    )
    assert len(found.lcp) == len(suffixes)
    weight = np.append(0, np.arange(1.0, 30.0) ** 2)
    for i, x in enumerate(X):
        own = [x[j:][:depth] for j in range(len(x))]
        longest, summed = Counter(), Counter()
        for owner, suffix in suffixes:
            shared = [common_prefix(suffix, other) for other in own]
            longest[owner, len(suffix), max(shared, default=0)] += 1
            summed[owner, len(suffix), float(sum(weight[n] for n in shared))] += 1
        shape = (found.owner.tolist(), found.length.tolist())
        assert Counter(zip(*shape, found.longest_match(i).tolist(), strict=True)) == longest
        sums = found.weighted_matches(i, weight).tolist()
        assert Counter(zip(*shape, sums, strict=True)) == summed
