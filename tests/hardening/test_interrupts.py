"""Ctrl-C in the middle of a fit, sent as a signal: nothing half done is left, and fits work on.

Automatic models keep the best kernel that they have found: see tests/auto/test_choices.py.
"""

from __future__ import annotations

import os
import signal
import threading
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from every_estimator import lesson, made, names, said

# Points that take long enough to be interrupted, fewer where bandwidths are searched for, and
# seconds until the signals, of which `make test-all` asks for more.
N, FEW = 250, 80
LENGTH = int(os.environ.get("MERCER_TEST_LENGTH", "1"))
SECONDS = (0.02, 0.05, 0.11, *np.geomspace(0.002, 0.3, LENGTH // 2).tolist())


@pytest.fixture
def heard():
    """Signals are heard, even where a shell started the tests in the background, deaf to them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# An interrupted search ends with the best model found, which tests of its own check.
SEARCHES = ("AutoKernelClassifier", "AutoKernelRegressor", "StructureSearch")


@pytest.mark.usefixtures("heard")
@pytest.mark.thread_unsafe(reason="signals go to the main thread")
@pytest.mark.parametrize("name", [name for name in names() if name not in SEARCHES])
def test_an_interrupted_fit_leaves_the_estimator_as_it_was(name):
    given = lesson(name, FEW if name.startswith(("Local", "Nadaraya")) else N)
    fitted = made(name).fit(*given)
    expected = said(fitted, given[0])
    as_it_was = 0
    for seconds in SECONDS:
        for model in (made(name), clone(fitted).fit(*given)):
            before = fit_until_interrupted(model, given, seconds)
            if vars(model).keys() == before.keys() and all(
                vars(model)[key] is value for key, value in before.items()
            ):
                as_it_was += 1
            else:  # the signal came when all was done
                assert_same(said(model, given[0]), expected)
            assert_same(said(model.fit(*given), given[0]), expected)
    assert as_it_was > len(SECONDS)


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


def fit_until_interrupted(model, given, seconds):
    """What the model held before the fit that the signal ended; it is fitted again and again."""
    timer = threading.Timer(seconds, signal.raise_signal, (signal.SIGINT,))
    before = dict(vars(model))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            timer.start()
            while True:
                before = dict(vars(model))
                model.fit(*given)
        except KeyboardInterrupt:
            timer.join()
    return before
