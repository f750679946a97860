"""Kernel objects of default width on data of another scale are warned of."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import mercer
from mercer import kernels as K

X = np.random.default_rng(0).normal(size=(60, 3)) * 100
Y = (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize(
    "estimator", [mercer.SVC(), mercer.KernelRidge(), mercer.KernelPCA(), mercer.KernelRidgeCV()]
)
@pytest.mark.parametrize("kernel", [K.RBF(), K.Matern(1.5), K.Laplacian()])
def test_default_widths_on_data_of_another_scale(estimator, kernel):
    with pytest.warns(UserWarning, match="nearly diagonal on X"):
        estimator.set_params(kernel=kernel).fit(X, Y)


@pytest.mark.parametrize(
    ("kernel", "points"),
    [
        (K.RBF(), X / 100),
        (K.RBF(gamma="median"), X),
        (K.RBF(gamma=2.0), X),
        (K.RBF(scales=[100.0] * 3), X),
        (K.RBF() + K.Linear(), X),
        (K.RBF(), X[:5]),
        (K.RBF(), np.repeat(X, 2, axis=0)),
        ("rbf", X),
    ],
)
def test_no_warning_where_the_width_was_chosen_or_fits(kernel, points):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mercer.KernelRidge(kernel=kernel).fit(points, np.arange(float(len(points))))


def test_gaussian_processes_choose_their_width():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*nearly diagonal.*")
        mercer.GaussianProcessRegressor(kernel=K.RBF()).fit(X[:20], X[:20, 0])
