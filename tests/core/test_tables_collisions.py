"""Keys chosen to collide are found as fast as any others, and results depend on no seed."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from mercer import core

pytestmark = pytest.mark.usefixtures("native_level")
N = 20_000
WORD = 2**64 - 1


def rotated(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & WORD


def of_one_fixed_hash() -> np.ndarray:
    """Keys of four numbers to which multiplications and rotations by constants give one hash."""
    C = 0xBF58476D1CE4E5B9
    inverse = pow(C, -1, 2**64)
    rng = np.random.default_rng(0)
    keys, state = [], 0x9E3779B97F4A7C15
    for first in rng.integers(0, 2**64, N, dtype=np.uint64, endpoint=False).tolist():
        h = rotated((state ^ first) * C & WORD, 29)
        second = rotated(12345, 64 - 29) * inverse & WORD ^ h
        assert rotated((h ^ second) * C & WORD, 29) == 12345
        keys.append([first & 0xFFFFFFFF, first >> 32, second & 0xFFFFFFFF, second >> 32])
    return np.array(keys, dtype=np.uint32)


def grid(*sides: int) -> np.ndarray:
    return np.stack([side.ravel() for side in np.indices(sides)], axis=1).astype(np.uint32)


FAMILIES = {
    "one value of a fixed hash": of_one_fixed_hash,
    "one after another": lambda: np.arange(N, dtype=np.uint32)[:, None],
    "far apart": lambda: (np.arange(N, dtype=np.uint32) << np.uint32(17))[:, None],
    "a grid": lambda: grid(27, 27, 27),
    "a grid of upper bits": lambda: grid(27, 27, 27) << np.uint32(27),
    "bits": lambda: grid(*[2] * 14) << np.uint32(31),
    "wide": lambda: np.pad(grid(140, 140), ((0, 0), (30, 30))),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_no_key_is_far_from_its_place(family):
    """At a load of at most one half, random keys lie within some sixty places."""
    keys = np.unique(FAMILIES[family](), axis=0)
    table = core.table(keys.shape[1])
    rows = table.count_keys(np.ascontiguousarray(keys), np.array([0, len(keys)]), True)
    assert table.size == len(keys)
    np.testing.assert_array_equal(rows[1], np.arange(len(keys)))
    np.testing.assert_array_equal(table.keys(), keys)
    assert table.longest_probe < 300


CODE = """
import hashlib, numpy as np
from mercer import core, kernels as K
rng = np.random.default_rng(0)
texts = ["".join(rng.choice(list("abcdefgh"), 60)) for _ in range(20)]
features = K.Spectrum(3).feature_map().fit(texts)
rows = features.transform(texts)
weight, alpha = np.arange(9.0), rng.normal(size=(1, 2))
text = rng.integers(0, 300, 2000).astype(np.uint32)
ends = np.array([0, len(text)])
total = core.suffix_routines().SubstringSum(text, ends, 300, alpha, weight, False)
found = [*features.get_feature_names_out(), rows.indptr.tolist(), rows.indices.tolist(), rows.data]
found += [total.values(text, ends, 1).tobytes(), total.heaviest(0, 9)[0].tolist()]
print(hashlib.sha256(repr(found).encode()).hexdigest())
"""


def test_results_do_not_depend_on_the_seed(native_level):
    """Another process has another seed, and the same columns and sums."""
    found = {
        subprocess.run(
            [sys.executable, "-c", CODE],
            env={**os.environ, "MERCER_ISA": native_level},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    }
    assert len(found) == 1
