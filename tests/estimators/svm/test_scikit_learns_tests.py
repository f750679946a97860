"""scikit-learn's own tests of its support vector machines, with our classes in place of theirs."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType
from unittest.mock import patch

import pytest
import sklearn
import sklearn.svm

from mercer.estimators import svm
from sklearn_versions import since

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")

PRIVATE = "reads or writes a private attribute of scikit-learn's classes: "
LINEAR = "a test of LinearSVC or LinearSVR, or of liblinear behind them"
LEFT_OUT = {
    "test_svm": {
        "test_tweak_params": PRIVATE + "_dual_coef_",
        "test_gamma_scale": PRIVATE + "_gamma; ours is kernel_.gamma",
        "test_svc_raises_error_internal_representation": PRIVATE + "_n_support",
        "test_bad_input": "demands an error where a machine trained on dense points is asked about "
        "sparse ones; ours answers. Its other claims are in test_svm_inputs.py",
        "test_sparse_precomputed": "demands an error for a sparse precomputed matrix; ours is "
        "trained on it",
        "test_svr_errors": "a kernel function that returns the wrong shape is to be noticed in "
        "predict; ours is noticed in fit",
        "test_custom_kernel_not_array_input": "its kernel is right only where both arguments are "
        "the training points; ours is asked about support vectors. Strings with a function as "
        "kernel are in test_svm_inputs.py",
        **dict.fromkeys(
            (
                "test_linearsvr",
                "test_linearsvr_fit_sampleweight",
                "test_linearsvc_parameters",
                "test_linearsvc",
                "test_linearsvc_crammer_singer",
                "test_linearsvc_fit_sampleweight",
                "test_crammer_singer_binary",
                "test_linearsvc_iris",
                "test_dense_liblinear_intercept_handling",
                "test_liblinear_set_coef",
                "test_linearsvc_verbose",
                "test_linear_svm_convergence_warnings",
                "test_lsvc_intercept_scaling_zero",
                "test_linearsvm_liblinear_sample_weight",
                "test_dual_auto",
                "test_dual_auto_edge_cases",
            ),
            LINEAR,
        ),
    },
    "test_sparse": dict.fromkeys(
        ("test_linearsvc", "test_linearsvc_iris", "test_sparse_liblinear_intercept_handling"),
        LINEAR,
    ),
}
if since("1.9"):
    LEFT_OUT["test_svm"]["test_svc_nusvc_probA_probB_deprecated"] = (
        "LIBSVM's probA_ and probB_, which scikit-learn has deprecated and will remove; "
        "probabilities are calibrated by CalibratedClassifierCV"
    )
else:
    LEFT_OUT["test_svm"]["test_negative_sample_weights_mask_all_samples"] = (
        "asks for LIBSVM's words where NuSVC has no weight left; ours are those of scikit-learn "
        "1.9, whose test of it is run there"
    )
# Defaults of ours that a test needs otherwise, besides the "sigmoid" kernel's indefinite="clip".
DEFAULTS = {
    # Two fits are compared more finely than the tolerance of 1e-3 makes them equal.
    "test_svm_with_infinite_C": {"tol": 1e-9},
}


def swapped(name):
    """The tests in a module of scikit-learn's, which finds our classes in ``sklearn.svm``."""
    ours = ModuleType("sklearn.svm")
    vars(ours).update(vars(sklearn.svm), **{each: getattr(svm, each) for each in svm.__all__})
    spec = importlib.util.find_spec(f"sklearn.svm.tests.{name}")
    module = importlib.util.module_from_spec(spec)
    with patch.dict(sys.modules, {"sklearn.svm": ours}), patch.object(sklearn, "svm", ours):
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


@pytest.fixture(autouse=True)
def defaults(request, monkeypatch):
    """Correct "sigmoid", which is no kernel, and set what else a test needs."""
    call = getattr(request.node, "callspec", None)
    changed = dict(DEFAULTS.get(request.function.__name__, {}))
    if call is not None and call.params.get("kernel") == "sigmoid":
        changed["indefinite"] = "clip"
    for name in svm.__all__:
        for parameter, value in changed.items():
            monkeypatch.setitem(getattr(svm, name).__init__.__kwdefaults__, parameter, value)


def test_what_is_left_out_exists():
    for name, reasons in LEFT_OUT.items():
        assert set(reasons) <= set(FOUND[name])


def test_the_classes_tested_are_ours():
    assert FOUND["test_svm"]["test_libsvm_parameters"].__globals__["svm"].SVC is svm.SVC
    assert FOUND["test_sparse"]["test_svc"].__globals__["svm"].SVC is svm.SVC
    assert FOUND["test_svm"]["test_n_support"].__globals__["OneClassSVM"] is svm.OneClassSVM
