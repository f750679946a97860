"""scikit-learn's own tests of its kernel PCA, with our class in place of theirs."""

from __future__ import annotations

import importlib.util
from unittest.mock import patch

import pytest
import sklearn.decomposition

from mercer import KernelPCA

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

LEFT_OUT = {
    "test_kernel_pca_precomputed_non_symmetric": "a precomputed matrix that is not symmetric is no "
    "Gram matrix; ours refuses it and says where it differs from its transpose",
    "test_precomputed_kernel_not_psd": "asks for the words of scikit-learn's error; ours names the "
    "kernel and offers three corrections. Its claim is in test_pca.py",
}


def swapped():
    spec = importlib.util.find_spec("sklearn.decomposition.tests.test_kernel_pca")
    module = importlib.util.module_from_spec(spec)
    with patch.object(sklearn.decomposition, "KernelPCA", KernelPCA):
        spec.loader.exec_module(module)
    return {key: test for key, test in vars(module).items() if key.startswith("test_")}


FOUND = swapped()
globals().update({name: test for name, test in FOUND.items() if name not in LEFT_OUT})


@pytest.fixture
def global_random_seed():
    return 42


def test_what_is_left_out_exists():
    assert set(LEFT_OUT) <= set(FOUND)


def test_the_class_tested_is_ours():
    assert FOUND["test_kernel_pca"].__globals__["KernelPCA"] is KernelPCA
