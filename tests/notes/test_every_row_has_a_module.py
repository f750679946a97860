"""Every row of the feature table, 1 to 24, has one test module here, with tests in it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROWS = range(1, 25)


def modules(row: int) -> list[Path]:
    return sorted(FOLDER.glob(f"test_row{row:02d}_*.py"))


@pytest.mark.parametrize("row", ROWS)
def test_row_has_one_module_with_a_docstring_and_tests(row):
    found = modules(row)
    assert len(found) == 1, f"row {row}: expected one module test_row{row:02d}_*.py, found {found}"
    tree = ast.parse(found[0].read_text(encoding="utf-8"))
    docstring = ast.get_docstring(tree)
    assert docstring is not None
    assert docstring.startswith(f"Row {row}.")
    tests = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert tests, f"{found[0].name} holds no test"


def test_there_are_no_modules_for_other_rows():
    known = {path for row in ROWS for path in modules(row)}
    assert set(FOLDER.glob("test_row*.py")) == known
