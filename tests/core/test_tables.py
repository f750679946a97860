"""Numbered features and kernels of sequences: the native routines against their twins."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import core
from mercer.core.reference import sequences, tables
from mercer.kernels import Mismatch, Spectrum


def starts_of(lengths):
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))])


@pytest.mark.parametrize("width", [1, 2, 5])
def test_keys_are_numbered_as_the_twin_does(native_level, width):
    rng = np.random.default_rng(width)
    native, twin = core.table(width), tables.KeyTable(width)
    for grow in (True, True, False):
        keys = rng.integers(0, 2**32 if width == 1 else 6, size=(3000, width)).astype(np.uint32)
        starts = starts_of([0, 1000, 0, 1999, 1])
        found, expected = (t.count_keys(keys, starts, grow) for t in (native, twin))
        for a, b in zip(found, expected, strict=True):
            assert np.array_equal(a, b)
            assert a.dtype == b.dtype
        assert native.size == twin.size
        assert np.array_equal(native.keys(), twin.keys())


def keys_of_one_slot(n):
    """Keys of two numbers whose hash ended in 40 zeros when its constants could be read here."""
    word, inverse = 2**64, lambda odd: pow(odd, -1, 2**64)
    for i in range(1, n + 1):
        mixed = h = i << 40
        for _ in range(3):
            mixed = h ^ mixed >> 29
        mixed = mixed * inverse(0x94D049BB133111EB) % word
        mixed ^= mixed >> 32
        turned = (mixed >> 29 | mixed << 35) % word
        key = turned * inverse(0xBF58476D1CE4E5B9) % word ^ 0x9E3779B97F4A7C15
        yield key % 2**32, key >> 32


def test_keys_cannot_be_chosen_to_have_one_hash(native_level):
    """Half a million such keys took half an hour."""
    keys = np.array(list(keys_of_one_slot(500_000)), dtype=np.uint32)
    table = core.table(2)
    table.count_keys(keys, starts_of([len(keys)]), True)
    assert np.array_equal(table.keys(), keys)


@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(st.lists(st.integers(0, 3), max_size=9), min_size=1, max_size=5),
    k=st.integers(1, 4),
    mismatches=st.integers(0, 2),
    gap=st.integers(0, 2),
)
def test_words_are_counted_as_the_twin_does(data, k, mismatches, gap):
    patterns = np.stack([np.arange(k), np.arange(k)])
    patterns[1, 1:] += gap
    symbols = np.array([c for x in data for c in x], dtype=np.uint32)
    starts = starts_of([len(x) for x in data])
    arguments = symbols, starts, patterns, min(mismatches, k), 4
    native, twin = core.table(k), tables.KeyTable(k)
    found, expected = (t.count_words(*arguments, True) for t in (native, twin))
    # The two come upon neighbours in another order: compare what is counted for each word.
    for i in range(len(data)):
        rows = []
        for table, (at, columns, values) in ((native, found), (twin, expected)):
            words = table.keys()[columns[at[i] : at[i + 1]]]
            rows.append(
                dict(zip(map(tuple, words.tolist()), values[at[i] : at[i + 1]], strict=True))
            )
        assert rows[0] == rows[1]


def test_a_table_grows_past_its_first_size_and_never_mixes_keys(native_level):
    table = core.table(2)
    keys = np.stack([np.arange(100_000), np.arange(100_000)[::-1]], axis=1).astype(np.uint32)
    once = np.arange(len(keys) + 1)
    for grow in (True, False):
        starts, columns, values = table.count_keys(keys, once, grow)
        assert np.array_equal(columns, np.arange(len(keys)))
        assert np.array_equal(starts, once)
        assert np.all(values == 1)
    assert len(table.count_keys(keys[:, ::-1][:5].copy(), np.array([0, 5]), False)[1]) == 5
    assert len(table.count_keys(keys[:5] + np.uint32(1 << 20), np.array([0, 5]), False)[1]) == 0


def test_the_binding_refuses_what_does_not_fit(native_level):
    table, keys = core.table(2), np.zeros((3, 2), dtype=np.uint32)
    with pytest.raises(ValueError, match="as wide"):
        table.count_keys(np.zeros((3, 3), dtype=np.uint32), np.array([0, 3]), True)
    for starts in ([0, 4], [1, 3], [0, 2], [0, 4, 3], []):
        with pytest.raises(ValueError, match="starts"):
            table.count_keys(keys, np.array(starts, dtype=np.int64), True)
    with pytest.raises(TypeError):
        table.count_keys(keys.astype(np.int64), np.array([0, 3]), True)
    word = np.zeros(4, dtype=np.uint32), np.array([0, 4])
    for offsets in ([[1, 2]], [[0, 0]], [[0, -1]], [[0, 1, 2]]):
        with pytest.raises(ValueError, match="offsets"):
            table.count_words(*word, np.array(offsets, dtype=np.int64), 0, 0, True)
    with pytest.raises(ValueError, match="alphabet"):
        table.count_words(word[0] + np.uint32(7), word[1], np.array([[0, 1]]), 1, 4, True)
    with pytest.raises(ValueError, match="mismatches"):
        table.count_words(*word, np.array([[0, 1]]), 3, 4, True)
    with pytest.raises(ValueError, match="width"):
        core.table(0)
    subsequences = core.sequence_routines().common_subsequences
    with pytest.raises(ValueError, match="exist"):
        subsequences(np.zeros(4), np.array([0, 4]), np.array([0]), np.array([1]), 2, 0.5, 1)
    with pytest.raises(ValueError, match="at least one symbol"):
        subsequences(np.zeros(4), np.array([0, 4]), np.array([0]), np.array([0]), 0, 0.5, 1)
    degree = core.sequence_routines().weighted_degree
    with pytest.raises(ValueError, match="equal length"):
        degree(np.zeros((2, 3)), np.zeros((2, 4)), 2.0, np.ones(1), False, 1)
    with pytest.raises(ValueError, match="shorter"):
        degree(np.zeros((2, 3)), np.zeros((2, 3)), 2.0, np.ones(4), False, 1)
    with pytest.raises(ValueError, match="twice"):
        degree(np.zeros((2, 3)), np.zeros((3, 3)), 2.0, np.ones(1), True, 1)
    with pytest.raises(ValueError, match="short enough"):
        degree(*np.zeros((2, 2, 3), np.int16), 181.0, np.ones(1), False, 1)
    with pytest.raises(TypeError):
        degree(np.zeros((2, 3), np.int16), np.zeros((2, 3)), 2.0, np.ones(1), False, 1)


@pytest.mark.parametrize("length", [1, 2, 4, 8, 9, 11])
@pytest.mark.parametrize("decay", [0.3, 1.0])
def test_subsequences_equal_the_twin(native_level, length, decay):
    rng = np.random.default_rng(length)
    lengths = rng.integers(0, 30, size=25)
    symbols = rng.integers(0, 3, size=lengths.sum()).astype(float)
    left, right = (rng.integers(0, 25, size=101) for _ in range(2))
    arguments = symbols, starts_of(lengths), left, right, length, decay
    expected = sequences.common_subsequences(*arguments)
    for threads in (0, 1, 3):
        found = core.sequence_routines().common_subsequences(*arguments, threads)
        assert np.allclose(found, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("k", "far"), [(1, 0), (1, 1), (3, 2), (5, 5), (200, 150)])
def test_windows_equal_the_twin(native_level, k, far):
    rng = np.random.default_rng(k)
    sides = []
    for n in (4, 7):
        lengths = np.array([*rng.integers(0, 100, size=n), k, 3 * k])
        symbols = rng.choice(np.array([0, 1, 253], dtype=np.uint8), size=lengths.sum())
        symbols[: lengths[0]] = 0  # the same everywhere, so that counts in bytes overflow
        sides.append((symbols, starts_of(lengths)))
    weight = rng.random(far + 1)
    windows = core.sequence_routines().common_windows
    expected = sequences.common_windows(*sides[0], *sides[1], k, weight)
    own = sequences.common_windows(*sides[1], *sides[1], k, weight)
    for threads in (0, 3):
        found = windows(*sides[0], *sides[1], k, weight, False, threads)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        square = windows(*sides[1], *sides[1], k, weight, True, threads)
        np.testing.assert_allclose(square, own, rtol=1e-12)
        assert np.array_equal(square, square.T)


def test_windows_refuse_what_does_not_fit(native_level):
    windows = core.sequence_routines().common_windows
    text, starts = np.zeros(4, dtype=np.uint8), np.array([0, 4])
    for change, words in [
        ({0: text + np.uint8(254)}, "below 254"),
        ({1: np.array([0, 5])}, "starts"),
        ({3: np.array([1, 4])}, "starts"),
        ({4: 0}, "symbols"),
        ({4: 255}, "symbols"),
        ({5: np.ones(5)}, "weight"),
        ({5: np.ones(0)}, "weight"),
        ({3: np.array([0, 2, 4]), 6: True}, "twice"),
    ]:
        given = [text, starts, text, starts, 3, np.ones(2), False, 0]
        for place, value in change.items():
            given[place] = value
        with pytest.raises(ValueError, match=words):
            windows(*given)


@pytest.mark.parametrize("dtype", [np.int16, np.float64])
@pytest.mark.parametrize("reach", [0, 3])
@pytest.mark.parametrize(("degree", "length"), [(1.0, 12), (5.0, 12), (40.0, 90), (180.0, 300)])
def test_weighted_degree_equals_the_twin(native_level, reach, degree, length, dtype):
    rng = np.random.default_rng(0)
    S, T = (rng.integers(0, 2, size=(n, length)).astype(dtype) for n in (7, 75))
    S[0] = T[0] = 0  # long runs, whose sums take more than one turn in 16 bits
    S[1] = T[1] = 1
    shifts = 1 / (1.0 + np.arange(reach + 1))
    weighted_degree = core.sequence_routines().weighted_degree
    expected = sequences.weighted_degree(S, T, degree, shifts)
    own = sequences.weighted_degree(T, T, degree, shifts)
    for threads in (0, 2):
        found = weighted_degree(S, T, degree, shifts, False, threads)
        assert np.allclose(found, expected, rtol=1e-14, atol=0)
        square = weighted_degree(T, T, degree, shifts, True, threads)
        assert np.allclose(square, own, rtol=1e-14, atol=0)
        assert np.array_equal(square, square.T)
    empty = weighted_degree(S[:, :0], T[:, :0], degree, shifts[:1], False, 0)
    assert np.array_equal(empty, np.zeros((7, 75)))


@pytest.mark.parametrize("kernel", [Spectrum(2), Mismatch(3, 1, "abc")], ids=str)
def test_a_fitted_map_survives_pickling(any_level, kernel):
    phi = kernel.feature_map().fit(["abcab", "bb", ""])
    again = pickle.loads(pickle.dumps(phi))
    X = ["ab", "cba", "abcabc"]
    assert np.array_equal(again.transform(X).toarray(), phi.transform(X).toarray())
    assert list(again.get_feature_names_out()) == list(phi.get_feature_names_out())
