"""Word kernels and gap-weighted subsequences, against enumeration by brute force."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, product
from unittest import mock

import numpy as np
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from mercer import SVC
from mercer.kernels.sequences import Alphabet, join, parse_sequence, spell
from mercer.kernels.string import mismatches
from mercer.kernels.string.mismatches import Mismatch
from mercer.kernels.string.subsequences import Subsequence
from mercer.kernels.string.weighted_degree import WeightedDegree
from mercer.kernels.string.words import Gappy, Spectrum

KERNELS = [
    Spectrum(k=2),
    Mismatch(k=3, m=1, alphabet="abc"),
    Gappy(k=2, gaps=1),
    Subsequence(length=2, decay=0.7),
]
WORDS = ["abcabc", "", "a", "ab", "aaaa", "cab", "abcabc", "bbacca"]


def texts(alphabet="abc", **sizes):
    return st.lists(st.text(alphabet, **sizes), min_size=1, max_size=4)


def dot(f, g):
    return sum(f[u] * g[u] for u in f if u in g)


def gram(features, X, Y):
    return np.array([[dot(features(x), features(y)) for y in Y] for x in X], dtype=float)


def spectrum_oracle(s, k):
    return Counter(tuple(s[i : i + k]) for i in range(len(s) - k + 1))


def mismatch_oracle(s, k, m, alphabet):
    words = [s[i : i + k] for i in range(len(s) - k + 1)]
    return {
        u: sum(sum(a != b for a, b in zip(u, w, strict=True)) <= m for w in words)
        for u in product(alphabet, repeat=k)
    }


def gappy_oracle(s, k, gaps):
    return Counter(
        tuple(s[i] for i in places)
        for places in combinations(range(len(s)), k)
        if places[-1] - places[0] + 1 <= k + gaps
    )


def subsequence_oracle(s, length, decay):
    found = Counter()
    for places in combinations(range(len(s)), length):
        found[tuple(s[i] for i in places)] += decay ** (places[-1] - places[0] + 1)
    return found


def weighted_degree_oracle(s, t, degree, shift):
    total = 0.0
    for d in range(1, degree + 1):
        beta = 2 * (degree - d + 1) / (degree * (degree + 1))
        for i, j in product(range(len(s) - d + 1), range(len(t) - d + 1)):
            if abs(i - j) <= shift and s[i : i + d] == t[j : j + d]:
                total += beta * (1 if i == j else 1 / (2 * (abs(i - j) + 1)))
    return total


# Brute force.


@given(X=texts(max_size=9), Y=texts(max_size=9), k=st.integers(1, 4))
def test_spectrum_counts_words(X, Y, k):
    expected = gram(lambda s: spectrum_oracle(s, k), X, Y)
    assert_array_equal(Spectrum(k=k)(X, Y), expected)


@settings(deadline=None)
@given(X=texts(max_size=7), k=st.integers(1, 4), m=st.integers(0, 2))
def test_mismatch_counts_near_words(X, k, m):
    m = min(m, k)
    kernel = Mismatch(k=k, m=m, alphabet="abc")
    expected = gram(lambda s: mismatch_oracle(s, k, m, "abc"), X, X)
    for pairs in (0, 10**9):  # by the words near each word, and by the distances of words
        with mock.patch.object(mismatches, "PAIRS_PER_NEIGHBOUR", pairs):
            assert_array_equal(kernel(X), expected)
            assert_array_equal(kernel(X, X[:1]), expected[:, :1])
            assert_array_equal(kernel.diag(X), np.diag(expected))


@settings(deadline=None)
@given(X=texts("a☃é", max_size=90), k=st.integers(1, 6), m=st.integers(0, 3))
def test_distances_of_words_give_what_words_near_them_do(X, k, m):
    found = []
    for pairs in (0, 10**9):
        with mock.patch.object(mismatches, "PAIRS_PER_NEIGHBOUR", pairs):
            found.append(Mismatch(k=k, m=min(m, k), alphabet="é☃a")(X))
    assert_array_equal(*found)


def test_one_letter_has_one_word():
    K = Mismatch(k=3, m=2, alphabet="a")(["aaaa", "aaa", "a"])
    assert_array_equal(K, np.outer([2, 1, 0], [2, 1, 0]))


def test_many_mismatches_over_many_letters_predict_as_they_train():
    rng = np.random.default_rng(0)
    letters = list("ACDEFGHIKLMNPQRSTVWY")
    X = ["".join(rng.choice(letters, size=30)) for _ in range(20)]
    kernel = Mismatch(k=5, m=2, alphabet="".join(letters)).normalize()
    model = SVC(kernel=kernel).fit(X, np.arange(20) % 2)
    given = SVC(kernel="precomputed").fit(kernel(X), np.arange(20) % 2)
    assert_allclose(model.decision_function(X), given.decision_function(kernel(X)), atol=1e-6)


@given(X=texts(max_size=9), k=st.integers(1, 4), gaps=st.integers(0, 4))
def test_gappy_counts_every_occurrence_once(X, k, gaps):
    expected = gram(lambda s: gappy_oracle(s, k, gaps), X, X)
    assert_array_equal(Gappy(k=k, gaps=gaps)(X), expected)


@settings(deadline=None)
@given(
    X=texts(max_size=8),
    Y=texts(max_size=8),
    length=st.integers(1, 5),
    decay=st.floats(0.05, 1.0),
)
def test_subsequence_weighs_spans(X, Y, length, decay):
    kernel = Subsequence(length=length, decay=decay)
    expected = gram(lambda s: subsequence_oracle(s, length, decay), X, Y)
    assert_allclose(kernel(X, Y), expected, rtol=1e-12)


@settings(deadline=None)
@given(
    X=st.integers(0, 7).flatmap(lambda n: texts("ab", min_size=n, max_size=n)),
    degree=st.integers(1, 9),
    shift=st.integers(0, 9),
)
def test_weighted_degree_compares_positions(X, degree, shift):
    kernel = WeightedDegree(degree=degree, shift=shift)
    expected = [[weighted_degree_oracle(s, t, degree, shift) for t in X] for s in X]
    assert_allclose(kernel(X), expected, rtol=1e-12)
    assert_allclose(kernel.diag(X), np.diag(expected), rtol=1e-12)
    F = kernel.feature_map().fit_transform(X)
    assert_allclose((F @ F.T).toarray(), expected, rtol=1e-10, atol=1e-12)


# Values that can be worked out by hand.


def test_published_subsequence_example():
    """K(cat, car) = λ⁴, K(cat, cat) = 2λ⁴ + λ⁶ (Lodhi et al. 2002, section 2)."""
    decay = 0.3
    K = Subsequence(length=2, decay=decay)(["cat", "car"])
    assert_allclose(K[0, 1], decay**4)
    assert_allclose(K[0, 0], 2 * decay**4 + decay**6)
    assert_allclose(Subsequence(2, decay).normalize()(["cat", "car"])[0, 1], 1 / (2 + decay**2))


def test_no_mismatch_and_no_gaps_are_the_spectrum():
    expected = Spectrum(k=3)(WORDS)
    assert_array_equal(Mismatch(k=3, m=0, alphabet="abc")(WORDS), expected)
    assert_array_equal(Gappy(k=3, gaps=0)(WORDS), expected)


def test_as_many_mismatches_as_symbols_match_everything():
    K = Mismatch(k=2, m=2, alphabet="abcd")(["abc", "d", "dd"])
    assert_array_equal(K, 16 * np.outer([2, 0, 1], [2, 0, 1]))


def test_enough_gaps_are_all_subsequences():
    assert_array_equal(
        Gappy(k=3, gaps=100)(WORDS), np.round(Subsequence(length=3, decay=1.0)(WORDS))
    )


def test_weighted_degree_of_identical_sequences():
    # 20 positions; β_d (20 - d + 1) summed over d.
    beta = [2 * (20 - d + 1) / (20 * 21) for d in range(1, 21)]
    expected = sum(b * (20 - d) for d, b in enumerate(beta))
    assert_allclose(WeightedDegree()(["A" * 20]), [[expected]])


def test_degree_beyond_the_length_counts_the_words_that_fit():
    huge = WeightedDegree(degree=10**9)(["abc", "abd"])
    assert_allclose(huge, [[6e-9 * 2, 3e-9 * 2], [3e-9 * 2, 6e-9 * 2]], rtol=1e-6)


# Validity.


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_proved_and_semidefinite(kernel):
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abc"), size=n)) for n in rng.integers(0, 12, size=40)]
    assert kernel.validity.status == "valid"
    assert "explicit features" in str(kernel.validity.proof)
    eigenvalues = np.linalg.eigvalsh(kernel(X))
    assert eigenvalues[0] > -1e-10 * eigenvalues[-1]


@pytest.mark.parametrize("shift", [0, 1, 3, 20])
def test_weighted_degree_is_semidefinite(shift):
    rng = np.random.default_rng(shift)
    X = ["".join(word) for word in rng.choice(list("ab"), size=(60, 8))]
    kernel = WeightedDegree(degree=3, shift=shift)
    assert kernel.validity.status == "valid"
    eigenvalues = np.linalg.eigvalsh(kernel(X))
    assert eigenvalues[0] > -1e-10 * eigenvalues[-1]


def test_symbol_of_the_shift_weights_is_at_least_one_half():
    theta = np.linspace(0, np.pi, 4001)
    symbol = np.ones_like(theta)
    for r in range(1, 300):
        symbol += np.cos(r * theta) / (r + 1)
        assert symbol.min() >= 0.5 - 1e-12


# Forms of input.


@pytest.mark.parametrize("kernel", [*KERNELS, WeightedDegree(degree=2, shift=1)], ids=repr)
def test_a_string_is_the_list_of_its_characters(kernel):
    X = ["abca", "cabb", "aaab"]
    expected = kernel(X)
    for convert in (list, tuple, np.array):
        found = kernel([convert(list(x)) for x in X])
        assert_allclose(found, expected)
        assert_allclose(kernel(X, [convert(list(x)) for x in X]), expected)


@pytest.mark.parametrize(
    "kernel",
    [
        Spectrum(2),
        Mismatch(2, 1, alphabet=b"abc"),
        Gappy(2, 1),
        Subsequence(2),
        WeightedDegree(3, shift=2),
    ],
    ids=repr,
)
def test_bytes_count_like_strings_and_are_not_compared_with_them(kernel):
    X = ["abca", "cabb", "aaab"]
    Y = [x.encode() for x in X]
    assert_allclose(kernel([bytearray(y) for y in Y]), kernel(Y))
    if isinstance(kernel, Mismatch):
        assert_allclose(kernel(Y), clone(kernel).set_params(alphabet="abc")(X))
        return
    assert_allclose(kernel(Y), kernel(X))
    if not isinstance(kernel, WeightedDegree):  # an empty sequence is of either kind
        assert_allclose(kernel([*X, ""]), kernel([*Y, []]))
    mixed = r"found b'.*' of type bytes among sequences of type str; .*decode"
    for call in (
        lambda: kernel(X, Y),
        lambda: kernel([X[0], Y[1]]),
        lambda: kernel.diag([X[0], Y[1]]),
    ):
        with pytest.raises(TypeError, match=mixed):
            call()
    model = SVC(kernel=kernel).fit(X, [0, 1, 1])
    with pytest.raises(TypeError, match="among sequences of type"):
        model.predict(Y)
    if not isinstance(kernel, Subsequence):
        with pytest.raises(TypeError, match=mixed):
            kernel.feature_map().fit(X).transform(Y)


@pytest.mark.parametrize("kernel", [Spectrum(2), Gappy(2, 1), Subsequence(2)], ids=repr)
def test_tokens_are_symbols(kernel):
    X = ["abca", "cab", "b"]
    words = {"a": "to", "b": ("be", 1), "c": 7}
    assert_allclose(kernel([[words[c] for c in x] for x in X]), kernel(X))


def test_words_of_mixed_token_lists_meet_words_of_strings():
    assert_array_equal(Spectrum(k=2)([["a", "b", "cat"]], ["ab"]), [[1]])
    assert_array_equal(Spectrum(k=1)([["ab"]], ["ab"]), [[0]])


def test_characters_beyond_ascii():
    X = ["naïve", "naï", "😀😀a", "\ud800\udc00"]
    expected = gram(lambda s: spectrum_oracle(s, 2), X, X)
    assert_array_equal(Spectrum(k=2)(X), expected)
    oracle = gram(lambda s: subsequence_oracle(s, 2, 0.5), X, X)
    assert_allclose(Subsequence(length=2)(X), oracle)


@pytest.mark.parametrize("kernel", [*KERNELS, WeightedDegree()], ids=repr)
def test_empty_sequences_have_no_features(kernel):
    assert_array_equal(kernel(["", b"", [], ()]), np.zeros((4, 4)))
    assert_array_equal(kernel.diag([""]), [0])


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_too_short_sequences_have_no_features(kernel):
    size = kernel.get_params().get("k", kernel.get_params().get("length"))
    K = kernel(["abc"[: size - 1], "abcabc"])
    assert K[0, 0] == K[0, 1] == 0 < K[1, 1]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_diagonal_rows_and_symmetry(kernel):
    K = kernel(WORDS)
    assert_allclose(kernel.diag(WORDS), np.diag(K))
    assert_array_equal(K, K.T)
    assert_allclose(kernel(WORDS[:3], WORDS), K[:3], rtol=1e-14)
    assert_array_equal(kernel(np.array(WORDS, dtype=object)), K)
    assert kernel(["abc"]).shape == (1, 1)


@pytest.mark.parametrize("kernel", KERNELS[:3], ids=repr)
def test_feature_map_gives_the_kernel(kernel):
    phi = kernel.feature_map().fit(WORDS)
    F = phi.transform(WORDS)
    assert_allclose((F @ F.T).toarray(), kernel(WORDS))
    assert "ab" in " ".join(phi.get_feature_names_out())


# Memory.


def test_subsequence_in_strips_and_batches():
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abc"), size=n)) for n in (300, 120, 7, 0, 250)]
    kernel = Subsequence(length=3, decay=0.6)
    expected, diagonal = kernel(X), kernel.diag(X)
    with sklearn.config_context(working_memory=0.01):
        assert_allclose(kernel(X), expected, rtol=1e-12)
        assert_allclose(kernel.diag(X), diagonal, rtol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "advice"),
    [
        (Mismatch(k=12, m=6, alphabet="abcdefghijklmnopqrst"), "lower k or m"),
        (Gappy(k=15, gaps=20), "lower k or gaps"),
    ],
    ids=repr,
)
def test_oversized_maps_are_refused_before_they_are_built(kernel, advice):
    with pytest.raises(MemoryError, match=advice):
        kernel.feature_map().fit(["abcdefghijklmnopqrst" * 4])


def test_widths_beyond_float64_are_refused_too():
    with pytest.raises(MemoryError, match=r"about 10\^60\d features.*about 10\^\d+ MiB"):
        Gappy(k=1000, gaps=1000).feature_map().fit(["a" * 3000])


def test_many_objects_that_fit_one_by_one_are_refused_together():
    rng = np.random.default_rng(0)
    X = ["".join(rng.choice(list("abcdefgh"), size=60)) for _ in range(40)]
    kernel = Gappy(k=4, gaps=3)
    with sklearn.config_context(working_memory=0.5):
        kernel(X[:1])
        for use in (kernel, kernel.feature_map().fit):
            with pytest.raises(MemoryError, match=r"the first [0-9]+ objects"):
                use(X)


# Errors.


@pytest.mark.parametrize(
    ("kernel", "name"),
    [
        (Spectrum(k=0), "k"),
        (Spectrum(k=2.5), "k"),
        (Spectrum(k="3"), "k"),
        (Mismatch(k=-1), "k"),
        (Mismatch(m=-1), "m"),
        (Mismatch(k=3, m=4), "m=4"),
        (Mismatch(alphabet=""), "alphabet"),
        (Mismatch(alphabet="ACGA"), "'A' more than once"),
        (Mismatch(alphabet=None), "alphabet"),
        (Gappy(k=0), "k"),
        (Gappy(gaps=-1), "gaps"),
        (Subsequence(length=0), "length"),
        (Subsequence(decay=0), "decay"),
        (Subsequence(decay=1.5), "decay"),
        (Subsequence(decay=float("nan")), "decay"),
        (WeightedDegree(degree=0), "degree"),
        (WeightedDegree(shift=-1), "shift"),
    ],
    ids=repr,
)
def test_bad_parameters_are_named_at_use(kernel, name):
    with pytest.raises((ValueError, TypeError), match=name):
        kernel(["ACGT"])
    with pytest.raises((ValueError, TypeError), match=name):
        _ = kernel.validity


def test_unknown_symbols_are_named():
    with pytest.raises(ValueError, match=r"object 1: the symbol 'N' at position 2 .*alphabet='AC"):
        Mismatch()(["ACGT", "ACNT"])
    with pytest.raises(ValueError, match=r"the symbol b'A' at position 0"):
        Mismatch()([b"ACGT"])


@pytest.mark.parametrize("kernel", [*KERNELS, WeightedDegree()], ids=repr)
@pytest.mark.parametrize("bad", [3, 2.5, {"a"}, {"a": 1}, np.zeros((2, 2))])
def test_what_is_no_sequence_is_refused(kernel, bad):
    with pytest.raises(TypeError, match=r"object 1: .*sequence"):
        kernel(["abc", bad])


def test_unhashable_symbols_are_refused():
    with pytest.raises(TypeError, match=r"object 0: the symbol at position 1 is \['b'\]"):
        Spectrum()([["a", ["b"]]])


def test_a_single_string_is_not_a_collection():
    with pytest.raises(TypeError, match="single str"):
        Spectrum()("abc")


def test_unequal_lengths_are_refused():
    with pytest.raises(ValueError, match=r"3 and of 4 symbols.*equal lengths"):
        WeightedDegree()(["abc", "abcd"])
    with pytest.raises(ValueError, match="equal lengths"):
        WeightedDegree()(["abc"], ["abcd"])


# Sequences.


@given(st.lists(st.sampled_from(["a", "b", b"a", 1, "ab", ("a",)]), max_size=6))
def test_joined_symbols_spell_themselves(symbols):
    assert spell(join(tuple(symbols))) == tuple(symbols)
    assert spell(parse_sequence(symbols)) == tuple(symbols)


@given(
    st.lists(
        st.text("ab😀", max_size=5)
        | st.binary(max_size=5)
        | st.lists(st.sampled_from(["a", b"a", 97, "ab"]), max_size=5),
        max_size=5,
    )
)
def test_codes_are_equal_where_symbols_are(raw):
    sequences = [parse_sequence(x) for x in raw]
    if len({type(x) for x in sequences if len(x)} & {str, bytes}) == 2:
        with pytest.raises(TypeError, match="among sequences of type"):
            Alphabet().encode(sequences, grow=True)
        return
    codes, starts = Alphabet().encode(sequences, grow=True)
    assert np.diff(starts).tolist() == [len(x) for x in sequences]
    symbols = [symbol for x in sequences for symbol in spell(x)]
    for i, j in combinations(range(len(symbols)), 2):
        assert (codes[i] == codes[j]) == (symbols[i] == symbols[j])


@pytest.mark.parametrize("at_once", [1, 100, 10**6])
@pytest.mark.parametrize("kernel", [WeightedDegree(3), WeightedDegree(20, shift=2)], ids=repr)
def test_features_at_positions_of_many_sequences_are_those_of_each(kernel, at_once):
    rng = np.random.default_rng(0)
    X = [*("".join(rng.choice(list("ab"), size=6)) for _ in range(20)), "abbaba"]
    new = ["abbazz", *X[:3]]
    with mock.patch("mercer.kernels.string.weighted_degree.WORDS_AT_ONCE", at_once):
        names = kernel.vocabulary()
        F, G = kernel.rows(X, names, grow=True), kernel.rows(new, names, grow=False)
    for sequences, rows in ((X, F), (new, G)):
        for x, row in zip(sequences, rows.toarray(), strict=True):
            listed = kernel.features(x)
            expected = [listed.get(name, 0.0) for name in names]
            assert_allclose(row, expected, rtol=1e-12)
    assert set(names) == {name for x in X for name in kernel.features(x)}
    assert_allclose((G @ F.T).toarray(), kernel(new, X), rtol=1e-12)
