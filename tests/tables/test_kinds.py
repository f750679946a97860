"""What the columns of a table hold is worked out from them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from mercer.tables.kinds import described, nonnumbers, number_with_unit, numbers_meant, task_of


def test_the_task_is_worked_out():
    def of(values, text=True, dtype=None):
        return task_of(pd.Series(values, dtype=dtype), text)

    rng = np.random.default_rng(0)
    assert of(["a", "b"] * 20) == "classification"
    assert of([True, False] * 20) == "classification"
    assert of([0, 1] * 20) == "classification"
    assert of([1.0, 2.0, None] * 20) == "classification"
    assert of([1.0, 2.0] * 20, text=False) == "regression"
    assert of(range(40)) == "regression"
    assert of(rng.normal(size=40)) == "regression"
    assert of([1, 2, 3] * 20, dtype="category") == "classification"


def test_columns_are_described():
    n = 60
    frame = pd.DataFrame(
        {
            "number": [None, *range(1, n)],
            "group": ["x", "y", None] * (n // 3),
            "text": [f"sentence number {i} of many" for i in range(n)],
            "void": [None] * n,
        }
    )
    rows = described(frame, ["number", "category", "text", "category"])
    assert [row["missing"] for row in rows] == [1, 20, 0, 60]
    held = [row["holds"] for row in rows]
    assert held == ["1 to 59", "x, y", "25 to 26 letters", "nothing"]


def test_words_among_few_numbers_are_categories():
    column = pd.Series([*map(str, range(1, 20)), "A"] * 20)
    assert numbers_meant(column) is None
    assert nonnumbers(column) == ["A"] * 20
    assert numbers_meant(pd.Series(range(100))) is None


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("{} kg", "0 kg"),
        ("-{}.5kg", "-0.5kg"),
        ("{} m²", "0 m²"),
        ("EUR {},50", "EUR 0,50"),
        ("$ {} each", "$ 0 each"),
        ("P{}", None),
        ("ID-{}", None),
        ("{}", None),
        ("{}-3", None),
        ("2024/{}", None),
    ],
)
def test_numbers_with_a_unit(written, told):
    words = pd.Series([written.format(k) for k in range(30)])
    assert number_with_unit(words) == told


def test_units_are_told_of_where_most_have_the_same_and_many_differ():
    kilos = [f"{k} kg" for k in range(30)]
    assert number_with_unit(pd.Series([*kilos, None, *["0.5 t"] * 29])) == "0 kg"
    assert number_with_unit(pd.Series([*kilos, *["0.5 t"] * 30])) is None
    assert number_with_unit(pd.Series([f"{k % 5} doors" for k in range(30)])) is None
    assert number_with_unit(pd.Series([None, None], dtype=object)) is None
