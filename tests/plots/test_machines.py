"""Decisions, gaps, regularisers, Gram matrices, spectra and proofs: what is drawn is what is so."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_hex  # noqa: E402

from mercer import (  # noqa: E402
    SVC,
    SVR,
    KernelCentroidClassifier,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeCV,
    OneClassSVM,
)
from mercer import kernels as K  # noqa: E402
from mercer.plots import (  # noqa: E402
    BandwidthDisplay,
    DecisionDisplay,
    DensityDisplay,
    GapDisplay,
    GramDisplay,
    ProofDisplay,
    RegularizationDisplay,
    SpectrumDisplay,
)
from mercer.plots import kernels as kernel_plots  # noqa: E402

X, Y = make_moons(120, noise=0.2, random_state=0)


def test_regions_margins_and_support_vectors():
    model = SVC(C=1.0, gamma=1.0).fit(X, Y)
    display = DecisionDisplay.from_estimator(model, X, Y, n_points=40)
    grid = np.stack(np.meshgrid(display.x, display.y), axis=-1).reshape(-1, 2)
    np.testing.assert_array_equal(display.regions.ravel(), model.predict(grid))
    np.testing.assert_allclose(display.scores.ravel(), model.decision_function(grid))
    assert display.margins_.levels.tolist() == [-1, 0, 1]
    np.testing.assert_allclose(display.circles_.get_offsets(), X[model.support_])
    assert display.x[0] < X[:, 0].min() < X[:, 0].max() < display.x[-1]


def test_support_vectors_on_a_picture_of_other_points():
    machine = SVC(gamma=1.0).fit(X, Y)
    display = DecisionDisplay.from_estimator(machine, X[:30], n_points=10)
    np.testing.assert_allclose(display.circles_.get_offsets(), X[machine.support_])
    assert display.ax_.get_xlim() == (display.x[0], display.x[-1])
    assert display.ax_.get_ylim() == (display.y[0], display.y[-1])
    perceptron = KernelPerceptron(K.RBF(), random_state=0).fit(X, Y)
    display = DecisionDisplay.from_estimator(perceptron, X[:30], n_points=10)
    np.testing.assert_allclose(display.circles_.get_offsets(), X[perceptron.support_])
    scaled = make_pipeline(StandardScaler(), SVC(gamma=1.0)).fit(X, Y)
    display = DecisionDisplay.from_estimator(scaled, X, n_points=10)
    np.testing.assert_allclose(display.circles_.get_offsets(), X[scaled[-1].support_])
    assert DecisionDisplay.from_estimator(scaled, X[:30], n_points=10).circles_ is None


def test_regions_of_three_named_classes_of_a_table():
    table, y = load_iris(return_X_y=True, as_frame=True)
    table, y = table.iloc[:, :2], np.array(["one", "two", "three"])[y]
    model = make_pipeline(StandardScaler(), SVC()).fit(table, y)
    display = DecisionDisplay.from_estimator(model, table, y, n_points=20)
    assert display.scores is None
    assert display.ax_.get_xlabel() == "sepal length (cm)"
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert texts == ["one", "three", "two"]
    without = DecisionDisplay.from_estimator(KernelCentroidClassifier().fit(table, y), table)
    assert without.circles_ is None
    with pytest.raises(ValueError, match="two features"):
        DecisionDisplay.from_estimator(model, np.ones((4, 3)))
    with pytest.raises(TypeError, match="SVR is no classifier"):
        DecisionDisplay.from_estimator(SVR().fit(X, Y), X)


def test_the_frontier_of_one_class():
    model = OneClassSVM(nu=0.2, gamma=1.0).fit(X)
    display = DecisionDisplay.from_estimator(model, X, n_points=40)
    grid = np.stack(np.meshgrid(display.x, display.y), axis=-1).reshape(-1, 2)
    np.testing.assert_array_equal(2 * display.regions.ravel() - 1, model.predict(grid))
    assert display.margins_.levels.tolist() == [0]
    np.testing.assert_allclose(display.circles_.get_offsets(), X[model.support_])
    outside = display.ax_.collections[-3].get_offsets()
    np.testing.assert_allclose(outside, X[model.predict(X) == -1])
    assert legend(display) == ["outside", "inside"]
    scaled = make_pipeline(StandardScaler(), model).fit(X)
    display = DecisionDisplay.from_estimator(scaled, X, np.where(Y, 1, -1), n_points=10)
    np.testing.assert_array_equal(display.points[1], Y)
    np.testing.assert_allclose(display.circles_.get_offsets(), X[scaled[-1].support_])


def test_gaps_fall():
    Z = np.random.default_rng(0).normal(size=(300, 3))
    model = KernelRidge(kernel="rbf", solver="pcg", tol=1e-8).fit(Z, Z[:, 0])
    display = GapDisplay.from_estimator(model)
    np.testing.assert_allclose(display.line_.get_ydata(), model.result_.history)
    assert display.ax_.get_yscale() == "log"
    with pytest.raises(ValueError, match="no record"):
        GapDisplay.from_estimator(KernelCentroidClassifier().fit(X, Y))
    short = GapDisplay(history=[0.1], name="one step").plot()
    assert all(tick == round(tick) for tick in short.ax_.get_xticks())
    assert legend(short) == ["the only record: 1.0e-01"]


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def test_gaps_of_zero_are_seen():
    display = GapDisplay(history=[np.inf, 0.5, 0.0]).plot()
    assert display.line_.get_xdata().tolist() == [2]
    assert display.zeros_.get_xdata().tolist() == [3]
    assert legend(display) == ["zero"]
    low, high = display.ax_.get_xlim()
    assert low < 1 < 3 < high
    display.figure_.canvas.draw()
    solved = GapDisplay(history=[0.0]).plot()
    assert solved.zeros_.get_xdata().tolist() == [1]
    assert solved.ax_.get_ylim()[0] == 0  # where the mark is
    solved.figure_.canvas.draw()
    assert GapDisplay(history=[0.5, 0.1]).plot().zeros_ is None


def test_the_path_of_regularisers():
    alphas = [1.0, 0.01, 0.1]
    model = KernelRidgeCV(alphas=alphas, kernel="rbf").fit(X, Y)
    display = RegularizationDisplay.from_estimator(model)
    x, scores = display.line_.get_data()
    assert x.tolist() == sorted(alphas)
    np.testing.assert_allclose(scores, model.loo_scores_[[1, 2, 0]])
    assert display.chosen == model.alpha_


def test_one_regulariser_and_zero_have_their_place():
    one = RegularizationDisplay(alphas=np.array([2.0]), scores=np.array([-1.0]), chosen=2.0).plot()
    low, high = one.ax_.get_xlim()
    assert 0 < low < 2 < high
    some = np.array([0.0, 1e-3, 1.0])
    zero = RegularizationDisplay(alphas=some, scores=-some, chosen=0.0).plot()
    at = zero.ax_.transAxes.inverted().transform(zero.ax_.transData.transform(np.c_[some, -some]))
    assert np.all(np.diff(at[:, 0]) > 0.1)  # told apart
    assert 0 < at[0, 0] < 0.2


def test_gram_matrices_are_sorted_by_class():
    kernel = K.RBF(0.5)
    display = GramDisplay.from_kernel(kernel, X, Y)
    order = np.argsort(Y, kind="stable")
    np.testing.assert_allclose(display.image_.get_array(), kernel(X[order]))
    assert display.bounds == [0, 60, 120]
    assert GramDisplay.from_kernel(K.Linear(), X).image_.get_clim()[0] < 0
    words = GramDisplay.from_kernel(K.Spectrum(2), ["abc", "abd", "xyz"], ["p", "p", "q"])
    assert words.classes == ["p", "q"]


def test_many_points_are_thinned(monkeypatch):
    monkeypatch.setattr(kernel_plots, "MOST_POINTS", 30)
    assert GramDisplay.from_kernel(K.RBF(), X, Y).K.shape == (30, 30)
    assert len(SpectrumDisplay.from_kernel(K.RBF(), X).eigenvalues) == 30


def test_spectra_tell_what_is_not_a_kernel():
    display = SpectrumDisplay.from_kernel(K.RBF(0.5), X)
    expected = np.linalg.eigvalsh(K.RBF(0.5)(X))[::-1]
    np.testing.assert_allclose(display.eigenvalues, expected, atol=1e-10)
    assert display.negative_ is None
    assert len(SpectrumDisplay.from_kernel(K.Sigmoid(1.0, 1.0), X).negative_.get_ydata()) > 0


def test_spectra_of_one_value_and_of_none():
    one = SpectrumDisplay.from_kernel(K.Linear(), X[:, :1])
    assert one.line_.get_marker() == "."
    assert one.line_.get_xdata().tolist() == [1]
    nothing = SpectrumDisplay.from_kernel(K.Linear(), np.zeros((3, 2)))
    assert [text.get_text() for text in nothing.ax_.texts] == ["all eigenvalues are zero"]


def test_points_of_a_gram_matrix_are_counted():
    few = GramDisplay.from_kernel(K.RBF(), X[:2])
    assert all(tick == round(tick) for tick in few.ax_.get_xticks())
    assert all(tick == round(tick) for tick in few.ax_.get_yticks())


def test_proofs_have_a_box_for_every_node():
    kernel = (K.RBF(0.5) + 2 * K.Linear()) * K.Polynomial(2)
    display = ProofDisplay.from_kernel(kernel)
    assert len(display.boxes_) == len(kernel.validity.proof.rules())
    assert "product" in display.boxes_[0].get_text()
    with pytest.raises(ValueError, match="no proof"):
        ProofDisplay.from_kernel(K.Sigmoid(1.0, 1.0))


@pytest.mark.parametrize("size", [(2.6, 2.0), (5.0, 3.6), (11.0, 7.0)])
def test_boxes_of_a_proof_do_not_overlap(size):
    figure, ax = plt.subplots(figsize=size)
    kernel = (K.RBF(0.5) + 0.5 * K.Polynomial(2)) * K.Linear().normalize()
    display = ProofDisplay.from_kernel(kernel, ax=ax)
    figure.canvas.draw()
    boxes = [text.get_bbox_patch().get_window_extent() for text in display.boxes_]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    assert all(ax.bbox.padded(1).fully_overlaps(box) for box in boxes)
    large = ProofDisplay.from_kernel(kernel, ax=ax, fontsize=20)
    assert {text.get_fontsize() for text in large.boxes_} == {20}


@pytest.mark.parametrize(("style", "ink"), [("default", "black"), ("dark_background", "white")])
def test_lines_are_seen_on_any_ground(style, ink):
    with plt.style.context(style):
        drawn = DecisionDisplay.from_estimator(SVC(gamma=1.0).fit(X, Y), X, Y, n_points=20)
        proof = ProofDisplay.from_kernel(K.RBF())
    assert to_hex(drawn.circles_.get_edgecolors()[0]) == to_hex(ink)
    assert to_hex(drawn.margins_.get_edgecolor()[0]) == to_hex(ink)
    assert to_hex(proof.boxes_[0].get_color()) == to_hex(ink)
    assert to_hex(proof.boxes_[0].get_bbox_patch().get_facecolor()) != to_hex(ink)


@pytest.mark.parametrize(
    ("draw", "error", "told"),
    [
        (lambda: GramDisplay.from_kernel(K.RBF(), X, Y[:9]), ValueError, "inconsistent"),
        (lambda: ProofDisplay.from_kernel("rbf"), TypeError, "kernel='rbf'"),
        (
            lambda: DecisionDisplay.from_estimator(SVC().fit(X, Y), X, Y[:9]),
            ValueError,
            "inconsistent",
        ),
        (
            lambda: DecisionDisplay.from_estimator(SVC().fit(X, Y), X, Y + 5),
            ValueError,
            r"not among the classes \[0, 1\]",
        ),
        (
            lambda: RegularizationDisplay.from_estimator(KernelRidge().fit(X, Y)),
            TypeError,
            "expected a KernelRidgeCV",
        ),
        (
            lambda: DensityDisplay.from_estimator(SVC().fit(X, Y)),
            TypeError,
            "expected a KernelDensity",
        ),
        (lambda: BandwidthDisplay.from_estimator(SVC().fit(X, Y)), TypeError, "no bandwidth"),
    ],
)
def test_what_cannot_be_drawn_is_named(draw, error, told):
    with pytest.raises(error, match=told):
        draw()
