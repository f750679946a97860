"""One thread of BLAS while some ask for it, and as many as before when none does."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from mercer.arrays.threads import one_blas_thread
from mercer.auto import AutoKernelRegressor


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("BLAS takes no orders about its threads")
        yield


@pytest.mark.thread_unsafe(reason="looks at the threads of the process")
def test_the_first_to_come_and_the_last_to_go_set_the_threads(two_threads):
    first, second = one_blas_thread(), one_blas_thread()
    first.__enter__()
    second.__enter__()
    assert blas_threads() == {1}
    first.__exit__(None, None, None)
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == {2}
    with pytest.raises(KeyError), one_blas_thread():
        raise KeyError
    assert blas_threads() == {2}


@pytest.mark.thread_unsafe(reason="looks at the threads of the process")
def test_fits_at_the_same_time_leave_the_threads_as_they_were(two_threads):
    X = np.random.default_rng(0).normal(size=(60, 2))
    fits = [threading.Thread(target=AutoKernelRegressor().fit, args=(X, X[:, 0])) for _ in range(4)]
    for fit in fits:
        fit.start()
    for fit in fits:
        fit.join()
    assert blas_threads() == {2}
