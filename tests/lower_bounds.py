"""The oldest version of each dependency that pyproject.toml allows, for ``make test-oldest``.

Printed as pip's constraints, they make an environment with these and nothing newer.
"""

from __future__ import annotations

import pathlib
import re
import tomllib

PYPROJECT = pathlib.Path(__file__).parents[1] / "pyproject.toml"
# What users install, and what the tests want. A GPU's libraries are tested by make gpu-test.
EXTRAS = ("cli", "plots", "parquet", "dask", "test")


def requirements() -> list[str]:
    """What the package and these extras require, as pyproject.toml says it."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return [*project["dependencies"], *(each for extra in EXTRAS for each in extras[extra])]


def lowest(requirement: str) -> str:
    """The oldest version that a requirement allows, as a constraint.

    >>> lowest("dask[array,dataframe]>=2025.1")
    'dask==2025.1'
    """
    found = re.fullmatch(r"([\w-]+)(\[[\w,]+\])?>=([\d.]+)", requirement)
    if found is None:
        raise ValueError(f"{requirement!r} does not have the form 'name>=version'")
    return f"{found[1]}=={found[3]}"


def constraints() -> list[str]:
    """The oldest version of every package, one line each."""
    return sorted({lowest(requirement) for requirement in requirements()})


if __name__ == "__main__":
    print("\n".join(constraints()))
