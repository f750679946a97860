"""Every dependency has one lower bound, which docs/development.md names."""

from __future__ import annotations

import re

import pytest

from lower_bounds import PYPROJECT, constraints, lowest, requirements

DEVELOPMENT = (PYPROJECT.parent / "docs" / "development.md").read_text(encoding="utf-8")


def packages():
    return dict(line.split("==") for line in constraints())


def test_a_package_has_one_bound_in_all_extras():
    names = [line.split("==")[0] for line in constraints()]
    assert len(names) == len(set(names))


def test_every_bound_is_found():
    assert {re.match(r"[\w-]+", each)[0] for each in requirements()} == set(packages())
    assert packages()["scikit-learn"] == "1.7"


def test_a_requirement_without_a_lower_bound_is_an_error():
    with pytest.raises(ValueError, match="'numpy' does not have the form"):
        lowest("numpy")


def test_the_bounds_on_the_page_for_developers():
    """The table of bounds lists what is in pyproject.toml, no more and no less."""
    section = DEVELOPMENT.split("### Oldest versions")[1].split("\n#")[0]
    rows = re.findall(r"(?m)^\| ([\w-]+) \| ([\d.]+) \|", section)
    assert dict(rows) == packages()
