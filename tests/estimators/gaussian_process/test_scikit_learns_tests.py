"""scikit-learn's own tests of Gaussian processes, with our classes in place of theirs."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from unittest.mock import patch

import pytest
import sklearn
import sklearn.gaussian_process

import mercer

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")

NAMES = ("GaussianProcessClassifier", "GaussianProcessRegressor")
DIFFERENCES = (
    "divides differences of the evidence by a step of 1e-9, which scikit-learn expects to fail; "
    "the gradients of ours are compared with scikit-learn's, and with differences of sensible steps"
)
LEFT_OUT: dict[str, dict[str, str]] = {
    "test_gpc": {"test_lml_gradient": DIFFERENCES},
    "test_gpr": {"test_lml_gradient": DIFFERENCES},
}


def swapped(name):
    """The tests in a module of scikit-learn's, which finds our classes in place of theirs."""
    ours = ModuleType("sklearn.gaussian_process")
    vars(ours).update(
        vars(sklearn.gaussian_process), **{each: getattr(mercer, each) for each in NAMES}
    )
    spec = importlib.util.find_spec(f"sklearn.gaussian_process.tests.{name}")
    module = importlib.util.module_from_spec(spec)
    with patch.dict(sys.modules, {"sklearn.gaussian_process": ours}):
        spec.loader.exec_module(module)
    return {key: test for key, test in vars(module).items() if key.startswith("test_")}


FOUND = {name: swapped(name) for name in LEFT_OUT}
for name, tests in FOUND.items():
    for key, test in tests.items():
        if callable(test) and key not in LEFT_OUT[name]:
            globals()[f"{name}_{key}"] = test


@pytest.fixture
def global_random_seed():
    return 42


def test_what_is_left_out_exists():
    for name, reasons in LEFT_OUT.items():
        assert set(reasons) <= set(FOUND[name])


def test_the_classes_tested_are_ours():
    tests = FOUND["test_gpr"]
    ours = tests["test_gpr_lml_error"].__globals__["GaussianProcessRegressor"]
    assert ours is mercer.GaussianProcessRegressor
