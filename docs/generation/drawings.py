"""Drawings of the site: what is derived from a kernel's line, decision trees, the front picture."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from generation.pictures import save

BLUE, ORANGE, GREEN, GREY = "#dbe9f6", "#fde4cc", "#ddf0dd", "#f0f0f0"
EDGE, LINE = "#4a5568", "#8895a7"

# A question, or an answer where nothing follows it; answers are names of the library.
Tree = dict[str, Any]

ESTIMATORS: Tree = {
    "a class": {
        "no time to choose": "AutoKernelClassifier",
        "up to tens of thousands of points": "SVC",
        "probabilities": 'KernelMachineClassifier("logistic")',
        "more than that": "KernelRidgeClassifier(n_centers=...)",
        "points that come one by one": "KernelPerceptron",
    },
    "a number": {
        "no time to choose": "AutoKernelRegressor",
        "the mean": "KernelRidgeCV",
        "the mean, some targets wild": 'SVR, or KernelMachineRegressor("huber")',
        "quantiles, counts": "KernelMachineRegressor",
        "a curve over a few features": "LocalLinearRegressor",
        "beyond 100,000 points": 'KernelRidge(solver="nystrom")',
    },
    "no target": {
        "how likely is this point?": "KernelDensity",
        "does it belong?": "OneClassSVM",
        "what are the main directions?": "KernelPCA",
        "what do two views share?": "KernelCCA",
        "are these dependent?": "hsic",
        "are these samples alike?": "mmd",
    },
}
KERNELS: Tree = {
    "numbers": {
        "smooth effects": "RBF, Matern(2.5); scales=",
        "rough effects, steps": "Laplacian, Matern(0.5)",
        "something that recurs": "Periodic * RBF",
        "products of a few features": "Polynomial, Conjunction",
        "thousands, mostly zero": "Linear",
        "counts, histograms": "Min, Chi2",
        "yes and no": "Tanimoto",
    },
    "sequences": {
        "words matter, not where": "Spectrum, Mismatch",
        "parts of any length": "Substring",
        "with gaps": "Gappy, Subsequence",
        "places matter, equal lengths": "WeightedDegree",
    },
    "structures": {
        "sets": "SetIntersection, SetJaccard",
        "trees": "SubsetTree, PartialTree",
        "graphs with labels": "WeisfeilerLehman",
        "graphs without": "ShortestPath, Graphlet",
    },
    "a table of several kinds": {"each column its own": "k1.on(...) + k2.on(...)"},
    "your own similarity": {"a matrix": "Precomputed", "a function": "FromFunction, check_kernel"},
}


def write(folder: Path) -> None:
    """All drawings."""
    folder.mkdir(parents=True, exist_ok=True)
    draw_tree("What do you want to know?", ESTIMATORS, folder / "choose_estimator.svg")
    draw_tree("What are your points?", KERNELS, folder / "choose_kernel.svg")
    draw_ideas(folder / "ideas.svg")
    draw_front(folder / "front.svg")


def _box(axes: Any, x: float, y: float, w: float, h: float, text: str, **style: Any) -> None:
    """A box whose left side is at x and whose middle is at y."""
    colour = style.pop("colour", BLUE)
    shape = {"boxstyle": "round,pad=0,rounding_size=0.12", "fc": colour, "ec": EDGE, "lw": 0.8}
    axes.add_patch(plt.matplotlib.patches.FancyBboxPatch((x, y - h / 2), w, h, **shape))
    axes.text(x + w / 2, y, text, ha="center", va="center", **{"fontsize": 8, **style})


# Decision trees, from left to right.


def draw_tree(question: str, tree: Tree, path: Path) -> None:
    """A question, its branches, their cases, and an answer to each."""
    rows = sum(len(cases) for cases in tree.values())
    height = 0.34 * rows + 0.3
    figure = plt.figure(figsize=(8.6, height))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 8.6), ylim=(height, 0))
    axes.axis("off")
    columns = {"root": (0.1, 1.35), "branch": (1.85, 1.45), "case": (3.7, 1.95)}
    columns["answer"] = (6.0, 2.5)
    top, middles = 0.32, []
    for branch, cases in tree.items():
        places = [top + 0.34 * k for k in range(len(cases))]
        middle = float(np.mean(places))
        middles.append(middle)
        for y, (case, answer) in zip(places, cases.items(), strict=True):
            _link(axes, columns["branch"], middle, columns["case"], y)
            _link(axes, columns["case"], y, columns["answer"], y)
            _box(axes, *_at(columns["case"], y, 0.27), case, colour=GREY, fontsize=7.5)
            style = {"colour": GREEN, "fontsize": 7, "family": "monospace"}
            _box(axes, *_at(columns["answer"], y, 0.27), answer, **style)
        _box(axes, *_at(columns["branch"], middle, 0.4), fill(branch, 18))
        top = places[-1] + 0.34
    for middle in middles:
        _link(axes, columns["root"], float(np.mean(middles)), columns["branch"], middle)
    root = _at(columns["root"], float(np.mean(middles)), 0.6)
    _box(axes, *root, fill(question, 16), colour=ORANGE, fontsize=8.5)
    save(figure, path)


def _at(column: tuple[float, float], y: float, height: float) -> tuple[float, float, float, float]:
    return column[0], y, column[1], height


def _link(axes: Any, start: tuple[float, float], y: float, end: tuple[float, float], z: float):
    x0, x1 = start[0] + start[1], end[0]
    middle = (x0 + x1) / 2
    axes.plot([x0, middle, middle, x1], [y, y, z, z], color=LINE, lw=0.9, zorder=0)


# The four ideas.


def draw_ideas(path: Path) -> None:
    """From one line to all that is derived, and from kernel to estimator."""
    figure = plt.figure(figsize=(8.6, 4.3))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 8.6), ylim=(4.6, 0.05))
    axes.axis("off")
    axes.text(0.1, 0.2, "1   one line", fontsize=9, weight="bold", color=EDGE)
    formula = r"$e^{-\gamma\,\mathrm{sqdist}}$"
    _box(axes, 0.1, 1.35, 1.5, 0.8, formula, colour=ORANGE, fontsize=13)
    derived = [
        ("Gram matrices", "fused tiles in C++,\nand their NumPy twin"),
        ("gradients", "by every hyper-\nparameter"),
        ("feature maps", "exact, or random\nFourier"),
        ("the proof", "rule by rule,\nor a refutation"),
        ("text and files", "parsed back,\nnever run"),
    ]
    axes.plot([1.6, 1.85, 1.85, 7.88], [1.35, 1.35, 0.7, 0.7], color=LINE, lw=1.2)
    for k, (name, more) in enumerate(derived):
        x = 2.1 + 1.3 * k
        arrow = {"arrowstyle": "->", "color": LINE, "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
        axes.annotate("", (x + 0.58, 0.98), (x + 0.58, 0.7), arrowprops=arrow)
        axes.text(x + 0.58, 1.14, name, ha="center", va="center", fontsize=7.5, weight="bold")
        _box(axes, x, 1.35, 1.16, 0.74, f"\n{more}", fontsize=6.8)
    stages = [
        ("kernel", "2   known to be valid", "proof, points that\nrefute it, or “unknown”"),
        ("operator", "3   not an array", "stored, features, or\ntiles made on the way"),
        ("solver", "4   with a certificate", "the answer, its gap,\nwhy it stopped"),
        ("estimator", "scikit-learn’s", "fit, predict, pipelines,\nsave and load"),
    ]
    for k, (name, idea, more) in enumerate(stages):
        x = 0.1 + 2.15 * k
        axes.text(x, 2.55, idea, fontsize=9, weight="bold", color=EDGE)
        _box(axes, x, 3.05, 1.75, 0.5, name, colour=GREEN, fontsize=10)
        _box(axes, x, 3.8, 1.75, 0.6, more, colour=GREY, fontsize=7.5)
        axes.plot([x + 0.875] * 2, [3.3, 3.5], color=LINE, lw=0.9)
        if k:
            arrow = {"arrowstyle": "->", "color": EDGE, "lw": 1.2}
            axes.annotate("", (x, 3.05), (x - 0.4, 3.05), arrowprops=arrow)
    flow = "data flow to the right; nothing on the left knows of what is on its right"
    axes.text(4.3, 4.42, flow, ha="center", fontsize=7.5, style="italic", color=EDGE)
    save(figure, path)


# The front page.


def draw_front(path: Path) -> None:
    """A composite kernel at work, its proof, and its gap falling."""
    from sklearn.datasets import make_moons

    import mercer
    from mercer import kernels as K
    from mercer.plots import DecisionDisplay, GapDisplay, ProofDisplay

    X, y = make_moons(2000, noise=0.15, random_state=4)
    kernel = K.RBF(2.0) + K.Polynomial(2)
    model = mercer.SVC(kernel=kernel, C=100.0, tol=1e-6).fit(X, y)
    few = np.arange(0, len(X), 8)
    figure, axes = plt.subplots(
        1, 3, figsize=(10, 2.7), layout="constrained", width_ratios=[1.0, 1.7, 0.8]
    )
    DecisionDisplay.from_estimator(model, X[few], y[few], ax=axes[0])
    axes[0].set(xticks=[], yticks=[], xlabel="", ylabel="")
    axes[0].set_title("a machine on a sum of kernels", fontsize=10)
    ProofDisplay.from_kernel(kernel, ax=axes[1], fontsize=7)
    axes[1].set_title("why the sum is a kernel", fontsize=10)
    GapDisplay.from_estimator(model, ax=axes[2])
    axes[2].set_title("how far from the optimum", fontsize=10)
    axes[2].set(xlabel="steps recorded")
    save(figure, path)
