"""``mercer._sklearn`` alone knows private names of scikit-learn."""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib

import pytest
import sklearn.base

import mercer
from mercer import _sklearn

SOURCE = pathlib.Path(mercer.__file__).parent
FILES = [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "_sklearn.py"]
# Attributes of scikit-learn's callbacks, which its base classes do not show.
OF_CALLBACKS = {
    "_init_callback_context",
    "_skl_callbacks_to_teardown",
    *_sklearn.LISTENERS,
}
# Kernels, which are no estimators, have a method of this name.
OF_KERNELS = {"_validate_params"}


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


PRIVATE = OF_CALLBACKS | {
    name
    for owner in vars(sklearn.base).values()
    if inspect.isclass(owner) and owner.__module__.startswith("sklearn.")
    for name in dir(owner)
    if is_private(name)
}


def is_barred(module, name=""):
    parts = [*module.split("."), *name.split(".")]
    return parts[0] == "sklearn" and (parts[1] == "callback" or any(map(is_private, parts)))


def found_in(text, allowed=frozenset()):
    """Private names of scikit-learn in the text of a module, each with its line."""
    for node in ast.walk(ast.parse(text)):
        names = []
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [f"{node.module}.{each.name}" for each in node.names]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names = [node.value]
        for name in names:
            if (name.startswith("sklearn.") and is_barred(name)) or name in PRIVATE - allowed:
                yield node.lineno, name


def test_no_other_module_uses_a_private_name():
    for path in FILES:
        allowed = OF_KERNELS if "kernels" in path.parts else frozenset()
        found = list(found_in(path.read_text(encoding="utf-8"), allowed))
        assert not found, f"{path}: take these from mercer._sklearn: {found}"


@pytest.mark.parametrize(
    "line",
    [
        "from sklearn.utils._param_validation import Interval",
        "from sklearn.utils.validation import _check_y",
        "from sklearn import callback",
        "from sklearn.callback import ProgressBar",
        "import sklearn.utils._missing",
        "import sklearn.callback",
        "importlib.import_module('sklearn.utils._array_api')",
        "estimator._validate_params()",
        "estimator._get_param_names()",
        "getattr(estimator, '_skl_callbacks')",
        "estimator._callback_fit_ctx",
    ],
)
def test_a_private_name_is_found(line):
    assert [number for number, _ in found_in(f"import os\n{line}\n")] == [2]


def test_public_names_are_not_found():
    line = "from sklearn.utils.validation import check_is_fitted\nself._weights = 'sklearn.svm'\n"
    assert not list(found_in(line))


def test_private_names_exist_in_this_version():
    """Those of the callbacks too, where there are any."""
    assert {"_validate_params", "_get_param_names"} <= PRIVATE
    if _sklearn.HAS_CALLBACKS:
        estimator = mercer.SVC().set_callbacks()
        assert hasattr(estimator, "_init_callback_context")
        text = inspect.getsource(importlib.import_module("sklearn.callback._callback_support"))
        assert all(name in text for name in OF_CALLBACKS)
    else:
        assert not hasattr(mercer.SVC(), "set_callbacks")
