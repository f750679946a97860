"""Columns that identify rows are recognised, and those that describe them are not."""

from __future__ import annotations

import itertools
import uuid

import numpy as np
import pandas as pd
import pytest

from mercer.tables import identifiers
from mercer.tables.identifiers import why_identifier

FIRST = ["Anna", "Ben", "Clara", "David", "Emma", "Finn", "Greta", "Hans", "Ida", "Jan"]
LAST = ["Abel", "Bauer", "Clausen", "Dietz", "Engel", "Fischer", "Graf", "Huber", "Imhof", "Jung"]
PERSONS = [f"{a} {b}" for a, b in itertools.product(FIRST, LAST)]
RNG = np.random.default_rng(0)
ADJECTIVES = ["small", "big", "red", "green", "old", "young", "fast", "slow"]
NOUNS = ["cat", "dog", "house", "tree", "river", "mountain", "table", "chair", "window", "garden"]


def sentences(words, n=100):
    def phrase():
        return f"the {RNG.choice(ADJECTIVES)} {RNG.choice(NOUNS)}"

    return [" ".join(phrase() for _ in range(words)) for _ in range(n)]


IDENTIFIERS = {
    "codes": [f"{'case' if i % 2 else 'ctrl'}_{i:04d}" for i in range(40)],
    "genes": ["AMPC", "AROH", "DEOP1", "S10", "TUFB", "ALAS", *(f"RRN{i}" for i in range(30))],
    "persons": PERSONS,
    "surnames first": [f"{b}, Mr. {a}" for a, b in itertools.product(FIRST, LAST)],
    "uuids": [str(uuid.UUID(int=int(i) << 64)) for i in RNG.integers(1 << 60, size=40)],
    "hex": [f"{i:016x}" for i in RNG.integers(1 << 60, size=40)],
    "addresses": [f"{i} {LAST[i % 10]} Street" for i in range(60)],
    "links": [f"https://example.org/archive/articles/of/{i}.html" for i in range(60)],
}
DESCRIPTIONS = {
    "DNA": ["".join(RNG.choice(list("acgt"), 57)) for _ in range(50)],
    "peptides": ["".join(RNG.choice(list("ACDEFGHIKLMNPQRSTVWY"), 9)) for _ in range(50)],
    "SMILES": ["C" * i + "(=O)O" for i in range(1, 25)] + ["C" * i + "c1ccccc1" for i in range(25)],
    "prose": sentences(6),
    "products": [w.removeprefix("the ").upper() for w in sentences(2)],
    "short words": ["".join(RNG.choice(list("abcdefgh"), 4)) for _ in range(100)],
    "categories": ["red", "green"] * 30,
    "quantities": RNG.normal(size=50),
    "days": [f"12/{i % 28 + 1:02d}/{2000 + i}" for i in range(40)],
    "weights": [f"{i / 7:.3f} kg" for i in range(40)],
    "years": np.arange(1950, 2000),
}


@pytest.mark.parametrize("kind", IDENTIFIERS)
def test_identifiers(kind):
    assert why_identifier("x", IDENTIFIERS[kind]) == identifiers.IDENTIFIES_ROWS
    assert why_identifier("x", pd.Series(IDENTIFIERS[kind])) == identifiers.IDENTIFIES_ROWS
    assert why_identifier("name", IDENTIFIERS[kind]) == identifiers.NAMES_ROWS


@pytest.mark.parametrize("kind", DESCRIPTIONS)
def test_descriptions(kind):
    assert why_identifier("x", DESCRIPTIONS[kind]) is None
    assert why_identifier("x", pd.Series(DESCRIPTIONS[kind])) is None


def test_addresses_and_numbers_of_persons():
    mail = [f"{a}@example.org" for a in FIRST * 4]
    assert why_identifier("contact", mail) == identifiers.E_MAIL
    for pattern in ("+49 30 {}", "0171-{}", "(0171) {}"):
        dialled = [pattern.format(1000000 + 7919 * i) for i in range(40)]
        assert why_identifier("x", dialled) == identifiers.PHONE


def test_whole_numbers():
    shuffled = RNG.permutation(100)
    for name in ("id", "PassengerId", "row", ""):
        assert why_identifier(name, shuffled) == identifiers.NUMBERS_ROWS
    assert why_identifier("customer_id", 10**6 * shuffled) == identifiers.IDENTIFIES_ROWS
    assert why_identifier("customer_id", shuffled // 2) is None
    assert why_identifier("price index", 10**6 * shuffled) is None
    assert why_identifier("paid", shuffled) is None


def test_few_rows_and_gaps():
    assert why_identifier("id", np.arange(19)) is None
    assert why_identifier("x", [f"c{i}" if i < 15 else None for i in range(40)]) is None
    gaps = [f"c{i}" if i % 4 else None for i in range(40)]
    assert why_identifier("x", gaps) == identifiers.IDENTIFIES_ROWS
