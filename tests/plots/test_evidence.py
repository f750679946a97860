"""The evidence over two hyperparameters, and curves of Gaussian processes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from mercer import (  # noqa: E402
    GaussianProcessClassifier,
    GaussianProcessRegressor,
    KernelRidge,
)
from mercer import kernels as K  # noqa: E402
from mercer.plots import EvidenceDisplay, RegressionDisplay  # noqa: E402

x = np.linspace(0, 6, 30)[:, None]
t = 5 + np.sin(x[:, 0]) + 0.2 * np.random.default_rng(0).normal(size=30)


def test_evidence_around_what_was_found():
    model = GaussianProcessRegressor(1.0 * K.RBF(), normalize_y=True).fit(x, t)
    display = EvidenceDisplay.from_estimator(model, names=("right__gamma", "noise"), n_points=5)
    values = model.hyperparameters_
    np.testing.assert_allclose(display.found, (values["right__gamma"], values["noise"]))
    assert display.evidence[2, 2] == pytest.approx(model.log_marginal_likelihood_value_)
    assert display.evidence.max() == display.evidence[2, 2]
    theta = np.log([values["left__value"], display.first[0], display.second[4]])
    assert display.evidence[4, 0] == pytest.approx(model.log_marginal_likelihood(theta))
    assert display.ax_.get_xlabel() == "right__gamma"
    assert display.ax_.get_ylabel() == "noise"


def test_evidence_of_classes_and_what_has_none():
    model = GaussianProcessClassifier(1.0 * K.RBF()).fit(x, t > 5)
    assert EvidenceDisplay.from_estimator(model, n_points=3).evidence.shape == (3, 3)
    with pytest.raises(ValueError, match="expected two of"):
        EvidenceDisplay.from_estimator(model, names=("noise", "right__gamma"))
    with pytest.raises(TypeError, match="KernelRidge has no evidence"):
        EvidenceDisplay.from_estimator(KernelRidge().fit(x, t))


def test_a_process_has_a_band_and_samples():
    model = GaussianProcessRegressor(1.0 * K.RBF(), normalize_y=True).fit(x, t)
    display = RegressionDisplay.from_estimator(model, level=0.9, n_points=20, n_samples=3)
    mean, std = model.predict(display.x[:, None], return_std=True)
    np.testing.assert_allclose(display.mean, mean)
    np.testing.assert_allclose(display.upper, mean + norm.ppf(0.95) * std)
    np.testing.assert_allclose(display.points[1], t)
    assert display.samples.shape == (20, 3)
    assert len(display.samples_) == 3
    assert display.band_.get_label() == "90% band for new targets"
    with pytest.raises(ValueError, match="n_samples=2: KernelRidge"):
        RegressionDisplay.from_estimator(KernelRidge().fit(x, t), n_samples=2)
