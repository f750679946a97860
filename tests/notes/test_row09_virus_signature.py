"""Row 9. Finding a signature in strings: section 16.2.1 and exercise 1 of chapter 16.

(Shalev-Shwartz and Ben-David.) Map a string to the indicators of all its substrings. Whether a
string contains v is then one coordinate: e_v, of norm one, is 1 on the strings that contain v and 0
on the others, a gap of one. The kernel is the number of common substrings, which needs no map; a
string of d symbols has at most d(d+1)/2 of them, so its image has length at most d.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import mercer
from mercer import kernels as K


def substrings(x):
    """All distinct non-empty substrings."""
    return {x[i:j] for i in range(len(x)) for j in range(i + 1, len(x) + 1)}


ALL_SMALL = ["".join(s) for d in range(1, 5) for s in product("ab", repeat=d)]


def test_kernel_is_the_number_of_common_substrings():
    by_hand = np.array([[len(substrings(s) & substrings(t)) for t in ALL_SMALL] for s in ALL_SMALL])
    np.testing.assert_array_equal(K.Substring()(ALL_SMALL), by_hand)


def test_kernel_is_the_inner_product_of_the_indicators_of_every_string():
    # psi has one coordinate for each of the 2 + 4 + 8 + 16 strings of length at most 4.
    psi = np.array([[1.0 if v in s else 0.0 for v in ALL_SMALL] for s in ALL_SMALL])
    np.testing.assert_array_equal(K.Substring()(ALL_SMALL), psi @ psi.T)


def test_length_of_the_image_is_at_most_the_length_of_the_string():
    rng = np.random.default_rng(0)
    strings = ["".join(rng.choice(list("abcd"), size=d)) for d in range(1, 40)]
    norms = np.sqrt(K.Substring().diag(strings))
    assert np.all(norms <= [len(s) for s in strings])


@pytest.mark.parametrize("v", ["a", "ab", "bb", "aba", "abab"])
def test_exercise_1_norm_one_and_a_gap_of_one(v):
    psi = np.array([[1.0 if u in s else 0.0 for u in ALL_SMALL] for s in ALL_SMALL])
    h = np.array([1 if v in s else -1 for s in ALL_SMALL])
    w = np.array([1.0 if u == v else 0.0 for u in ALL_SMALL])
    assert np.linalg.norm(w) == 1
    scores = psi @ w
    assert set(scores[h == 1]) == {1.0}
    assert set(scores[h == -1]) == {0.0}
    np.testing.assert_array_equal(np.sign(scores - 0.5), h)
    # Scaled so that the labels are met exactly, every functional margin is one.
    np.testing.assert_array_equal(h * (2 * scores - 1), 1)


@pytest.mark.parametrize("v", ["ab", "bb", "aba"])
def test_the_hard_margin_machine_does_at_least_as_well(v):
    # margin_ is the distance to the border; half of the gap of one is there for the taking.
    h = np.array([1 if v in s else -1 for s in ALL_SMALL])
    model = mercer.SVC(kernel=K.Substring(), C=np.inf, tol=1e-8).fit(ALL_SMALL, h)
    assert model.score(ALL_SMALL, h) == 1.0
    assert model.margin_ >= 0.5 - 1e-5


SIGNATURE = bytes([0xDE, 0xAD, 0x07, 0xBE])


def byte_strings(n, seed):
    """Byte strings of lengths 4 to 16, half of them with the signature planted somewhere.

    Some of the clean ones hold a part of it, which must not be taken for the whole.
    """
    rng = np.random.default_rng(seed)
    strings, labels = [], []
    while len(strings) < n:
        length = int(rng.integers(4, 17))
        text = bytes(rng.integers(0, 256, size=length, dtype=np.uint8))
        infected = len(strings) % 2 == 0
        size = 4 if infected else int(rng.integers(1, 4))
        start = int(rng.integers(0, 4 - size + 1))
        piece = SIGNATURE[start : start + size]
        place = int(rng.integers(0, length - size + 1))
        text = text[:place] + piece + text[place + size :]
        if (SIGNATURE in text) == infected:
            strings.append(text)
            labels.append(1 if infected else -1)
    return strings, np.array(labels)


def test_a_planted_signature_is_found_in_byte_strings():
    train, y = byte_strings(200, seed=0)
    test, truth = byte_strings(400, seed=1)
    assert min(map(len, train)) == 4
    assert max(map(len, train)) == 16
    model = mercer.SVC(kernel=K.Substring(), C=1.0).fit(train, y)
    assert model.score(test, truth) > 0.97

    # The weight of each substring, from the support vectors: the heaviest, and of equals the
    # longest, is the signature.
    weights: dict[bytes, float] = {}
    for i, coefficient in zip(model.support_, model.dual_coef_.ravel(), strict=True):
        for v in substrings(train[i]):
            weights[v] = weights.get(v, 0.0) + coefficient
    heaviest = max(weights, key=lambda v: (round(weights[v], 6), len(v)))
    assert heaviest == SIGNATURE


def test_the_kernel_learns_what_counting_letters_does_not():
    train, y = byte_strings(200, seed=2)
    test, truth = byte_strings(400, seed=3)
    letters = mercer.SVC(kernel=K.Substring(max_length=1), C=1.0).fit(train, y)
    whole = mercer.SVC(kernel=K.Substring(), C=1.0).fit(train, y)
    assert whole.score(test, truth) > letters.score(test, truth)
