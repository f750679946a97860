"""How long imports of mercer take beside scikit-learn's own, in fresh interpreters.

Alternating repeats, the median of each; run on an idle machine. The first round fills a bytecode
cache of its own and is left out.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

STATEMENTS = (
    "pass",
    "import mercer.cli.app",
    "import sklearn",
    "import mercer.kernels",
    "import sklearn.svm",
    "from mercer import SVC",
)


def seconds(statement: str, cache: str) -> float:
    environment = os.environ | {"PYTHONPYCACHEPREFIX": cache, "PYTHONDONTWRITEBYTECODE": ""}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True, env=environment)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    with tempfile.TemporaryDirectory() as cache:
        rounds = [[seconds(s, cache) for s in STATEMENTS] for _ in range(repeats + 1)][1:]
    medians = dict(zip(STATEMENTS, map(statistics.median, zip(*rounds, strict=True)), strict=True))
    print(f"{'':<24}{'seconds':>8}{'over import sklearn':>22}{'over import sklearn.svm':>26}")
    for statement, t in medians.items():
        over = [t - medians[base] for base in ("import sklearn", "import sklearn.svm")]
        print(f"{statement:<24}{t:8.3f}{over[0]:22.3f}{over[1]:26.3f}")


if __name__ == "__main__":
    main()
