"""Every display compared with a picture that was looked at: tests/plots/images.

``MERCER_REDRAW=1 pytest tests/plots/test_images.py`` draws them anew; look at them before they are
kept.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib.testing.compare import compare_images  # noqa: E402
from matplotlib.testing.decorators import remove_ticks_and_titles  # noqa: E402

import mercer  # noqa: E402
from mercer import kernels as K  # noqa: E402
from mercer import plots  # noqa: E402

IMAGES = Path(__file__).parent / "images"
STYLE = {"figure.figsize": (3.2, 2.4), "figure.dpi": 60, "font.size": 6, "lines.markersize": 3}
# Root of the mean square of what pixels, from 0 to 255, may differ by: edges, and letters more.
TOLERANCE = {"ProofDisplay": 20.0}
X, Y = make_moons(80, noise=0.15, random_state=0)
x = np.linspace(-2, 2, 90)[:, None] ** 3 / 4
DIGITS = load_digits().data[:60] / 16


def two_views():
    noise = np.random.default_rng(0).normal(size=(80, 2))
    return X, X**2 + 0.1 * noise


DRAWN = {
    "BandwidthDisplay": lambda draw: draw(mercer.KernelDensity(bandwidth="lscv").fit(x)),
    "CanonicalDisplay": lambda draw: draw(
        mercer.KernelCCA(1, kernel=K.RBF(1.0), regularization=0.1).fit(*two_views()), *two_views()
    ),
    "DecisionDisplay": lambda draw: draw(mercer.SVC(gamma=2.0).fit(X, Y), X, Y, n_points=60),
    "DensityDisplay": lambda draw: draw(mercer.KernelDensity(bandwidth="silverman").fit(X)),
    "EvidenceDisplay": lambda draw: draw(
        mercer.GaussianProcessRegressor(1.0 * K.RBF(0.5), noise=0.1, optimizer=None).fit(
            x, np.sin(3 * x[:, 0])
        ),
        n_points=9,
    ),
    "GapDisplay": lambda draw: draw(
        mercer.KernelRidge(kernel="rbf", solver="pcg", tol=1e-6).fit(X, X[:, 0])
    ),
    "GramDisplay": lambda draw: draw(K.RBF(2.0), X, Y),
    "PartsDisplay": lambda draw: draw(
        mercer.GaussianProcessRegressor(
            1.0 * K.RBF(2.0) + K.Linear(), noise=0.1, optimizer=None
        ).fit(x, np.sin(3 * x[:, 0]) + x[:, 0])
    ),
    "PreImageDisplay": lambda draw: draw(
        mercer.KernelPCA(8, kernel=K.RBF(0.05), fit_inverse_transform=True).fit(DIGITS),
        DIGITS[:4],
        shape=(8, 8),
    ),
    "ProjectionDisplay": lambda draw: draw(mercer.KernelPCA(2, kernel=K.RBF(2.0)).fit(X), X, Y),
    "ProofDisplay": lambda draw: draw((K.RBF(0.5) + K.Linear()) * K.Polynomial(2)),
    "RegressionDisplay": lambda draw: draw(
        mercer.LocalLinearRegressor(bandwidth=0.4).fit(x, np.sin(3 * x[:, 0]))
    ),
    "RegularizationDisplay": lambda draw: draw(
        mercer.KernelRidgeCV(alphas=np.logspace(-4, 2, 13), kernel="rbf").fit(X, Y)
    ),
    "ScreeDisplay": lambda draw: draw(mercer.KernelPCA(5, kernel=K.RBF(2.0)).fit(X)),
    "SpectrumDisplay": lambda draw: draw(K.Sigmoid(1.0, 1.0), X),
}


def test_every_display_has_its_picture():
    assert sorted(DRAWN) == sorted(plots.__all__)
    assert {path.stem for path in IMAGES.glob("*.png")} == set(DRAWN)


@pytest.mark.skipif(
    matplotlib.__version_info__ < (3, 11),
    reason="the pictures were drawn with matplotlib 3.11; earlier versions place axes otherwise",
)
@pytest.mark.thread_unsafe(reason="pyplot's figures are the process's")
@pytest.mark.parametrize("name", DRAWN)
def test_displays_look_as_they_did(name, tmp_path):
    cls = getattr(plots, name)
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE, "backend": "agg"}):
        display = DRAWN[name](getattr(cls, "from_kernel", getattr(cls, "from_estimator", None)))
        axes = display.ax_ if hasattr(display, "ax_") else display.axes_.flat[0]
        if name != "ProofDisplay":  # which is all letters; fonts differ a little
            remove_ticks_and_titles(axes.figure)
            for text in axes.figure.findobj(matplotlib.text.Text):
                text.set_text("")
        found, expected = tmp_path / f"{name}.png", IMAGES / f"{name}.png"
        axes.figure.savefig(found, metadata={"Software": None})
        matplotlib.pyplot.close(axes.figure)
    if os.environ.get("MERCER_REDRAW"):
        shutil.copy(found, expected)
    shutil.copy(expected, tmp_path / "expected.png")
    difference = compare_images(tmp_path / "expected.png", found, TOLERANCE.get(name, 4.0))
    assert difference is None, difference
