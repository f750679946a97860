"""What `import mercer` brings along."""

from __future__ import annotations

import subprocess
import sys

import mercer

# Each takes a good part of the time that the import of an estimator may take.
SLOW = ["scipy.signal", "sklearn.linear_model", "sklearn.metrics", "sklearn.model_selection"]


def imported(code, names):
    """Those of the modules that are there once the code has run in a fresh interpreter."""
    code = f"import sys; {code}; print([name for name in {names} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return run.stdout.strip()


def test_what_is_slow_to_import_waits_for_its_use():
    assert imported("from mercer import *", SLOW) == "[]"


def test_the_command_says_how_it_is_used_before_anything_slow_is_imported():
    assert imported("import mercer.cli.app", ["sklearn", "scipy", "pandas", "matplotlib"]) == "[]"


def test_the_front_door_is_complete():
    everything = {}
    exec("from mercer import *", everything)
    assert set(mercer.__all__) <= set(everything)
    assert set(mercer.__all__) <= set(dir(mercer))
    assert set(mercer.estimators.__all__) <= set(mercer.__all__)
