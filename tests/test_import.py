"""What `import mercer` brings along."""

from __future__ import annotations

import subprocess
import sys

import mercer

# Each takes a good part of the time that the whole import may take.
SLOW = ["scipy.signal", "sklearn.linear_model", "sklearn.metrics", "sklearn.model_selection"]


def test_what_is_slow_to_import_waits_for_its_use():
    code = f"import sys, mercer; print([name for name in {SLOW} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout.strip() == "[]"


def test_the_front_door_is_complete():
    everything = {}
    exec("from mercer import *", everything)
    assert set(mercer.__all__) <= set(everything)
    assert set(mercer.__all__) <= set(dir(mercer))
