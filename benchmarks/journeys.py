"""How many functions and files of mercer a reader meets on the way through an ordinary call.

    python benchmarks/journeys.py [--list]

Counts the distinct functions of the package that run, and the files they are in: on the way through
`SVC().fit` on small dense data, through `KernelRidge.predict`, and through `mercer fit` up to the
search for a kernel. Functions that run on import or were generated do not count.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

import mercer
from mercer.cli.app import app

HOME = str(Path(mercer.__file__).parent)


class Reached(Exception):
    """The journey has come to its end."""


def journey(walk: Callable[[], object], end: str | tuple = ()) -> dict[str, set[str]]:
    """Functions that run, by file, up to the first in a file whose name begins with ``end``."""
    met: dict[str, set[str]] = defaultdict(set)

    def note(frame, event, argument):
        if event != "call" or not frame.f_code.co_filename.startswith(HOME):
            return
        place = frame.f_code.co_filename.removeprefix(HOME + "/")
        if end and place.startswith(end):
            raise Reached
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED  # bodies of classes are not
        if is_function and not frame.f_code.co_name.startswith("<"):
            met[place].add(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        walk()
    except Reached:
        pass
    finally:
        sys.setprofile(None)
    return met


def fit_svc() -> dict[str, set[str]]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    mercer.SVC().fit(X, y)  # what is imported or remembered once is no part of the journey
    return journey(lambda: mercer.SVC().fit(X, y))


def predict_ridge() -> dict[str, set[str]]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    model = mercer.KernelRidge(kernel="rbf").fit(X, y)
    model.predict(X)
    return journey(lambda: model.predict(X))


def fit_command() -> dict[str, set[str]]:
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "table.csv"
        rows = [f"{a:.3f},{b:.3f},{'yn'[int(a + b > 0)]}" for a, b in rng.normal(size=(80, 2))]
        table.write_text("\n".join(["a,b,answer", *rows]))
        asked = ["fit", str(table), "--target", "answer", "--quiet", "-o"]
        app([*asked, str(Path(folder) / "first.mercer")], standalone_mode=False)
        return journey(
            lambda: app([*asked, str(Path(folder) / "second.mercer")], standalone_mode=False),
            end=("solvers/", "auto/search.py", "auto/table_search.py", "auto/graph_search.py"),
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="name the functions")
    asked = parser.parse_args()
    journeys = {
        "SVC().fit": fit_svc,
        "KernelRidge.predict": predict_ridge,
        "mercer fit, before the search": fit_command,
    }
    for name, walk in journeys.items():
        met = walk()
        print(f"{name}: {sum(map(len, met.values()))} functions in {len(met)} files")
        for place in sorted(met) if asked.list else ():
            print(f"    {place}: {', '.join(sorted(met[place]))}")


if __name__ == "__main__":
    main()
