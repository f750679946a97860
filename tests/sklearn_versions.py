"""What tests expect of the version of scikit-learn they run with."""

from __future__ import annotations

import pytest
import sklearn
from sklearn.utils.fixes import parse_version

from mercer._sklearn import HAS_CALLBACKS

VERSION = parse_version(parse_version(sklearn.__version__).base_version)

needs_callbacks = pytest.mark.skipif(
    not HAS_CALLBACKS, reason="scikit-learn has callbacks from version 1.9 on"
)


def since(version: str) -> bool:
    """Whether scikit-learn is of this version or a later one."""
    return parse_version(version) <= VERSION
