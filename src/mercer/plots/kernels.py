"""Gram matrices sorted by class, spectra of kernels, and proofs as trees."""

from __future__ import annotations

from textwrap import fill

import numpy as np
from sklearn.utils.validation import check_consistent_length

from mercer.arrays import n_rows
from mercer.kernels import Kernel
from mercer.kernels.validity import Proof
from mercer.operators import gram
from mercer.plots.axes import BLUE, GREY, ORANGE, axes_or_new, count_along, ink, pyplot, some

# Points beyond which a part of them is shown: a picture has no more pixels.
MOST_POINTS = 600
# Letters in a line of a proof's box.
LINE = 34
# Size of its letters where there is room, and the space about them in sizes.
LARGEST, PADDING = 8, 0.35


class GramDisplay:
    """A Gram matrix, its points sorted by class.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        In the order shown.
    bounds : list of int
        Where classes begin, and n.
    classes : list of str
    name : str
        Of the kernel.

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    image_ : the picture of the matrix
    """

    def __init__(self, *, K, bounds=(), classes=(), name=""):
        self.K = K
        self.bounds = bounds
        self.classes = classes
        self.name = name

    @classmethod
    def from_kernel(cls, kernel, X, y=None, *, ax=None, **image) -> GramDisplay:
        """From a kernel and points.

        Parameters
        ----------
        kernel : Kernel
        X : points, in the form the kernel takes
        y : array-like of shape (n,), default=None
            Classes to sort by.
        ax : matplotlib axes, default=None
        **image
            Of ``imshow``.
        """
        shown = some(n_rows(X), MOST_POINTS)
        bounds, classes = [0, len(shown)], []
        if y is not None:
            check_consistent_length(X, y)
            labels = np.asarray(y)[shown]
            found, counts = np.unique(labels, return_counts=True)
            shown = shown[np.argsort(labels, kind="stable")]
            bounds, classes = [0, *np.cumsum(counts).tolist()], [str(label) for label in found]
        K = np.asarray(gram(kernel, X).rows(shown))[:, shown]
        name = repr(kernel) if isinstance(kernel, Kernel) else ""
        return cls(K=K, bounds=bounds, classes=classes, name=name).plot(ax=ax, **image)

    def plot(self, ax=None, **image) -> GramDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        signed = self.K.min() < 0
        size = float(np.abs(self.K).max())
        style = {"cmap": "RdBu_r", "vmin": -size, "vmax": size} if signed else {"cmap": "viridis"}
        self.image_ = ax.imshow(self.K, **{"interpolation": "nearest", **style, **image})
        ax.figure.colorbar(self.image_, ax=ax, shrink=0.8)
        if len(self.classes):
            for place in self.bounds[1:-1]:
                for line in (ax.axhline, ax.axvline):
                    line(place - 0.5, color="white", linewidth=0.8)
            middles = [(a + b - 1) / 2 for a, b in zip(self.bounds, self.bounds[1:], strict=False)]
            ax.set_xticks(middles, self.classes)
            ax.set_yticks(middles, self.classes)
        else:
            count_along(ax.xaxis)
            count_along(ax.yaxis)
        ax.set_title(fill(self.name, 60), fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self


class SpectrumDisplay:
    """The eigenvalues of a Gram matrix, largest first: how fast a kernel's features fade.

    Parameters
    ----------
    eigenvalues : ndarray of shape (n,)
    rounding : float
        Below this size an eigenvalue is rounding.
    name : str
        Of the kernel.

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    line_ : the eigenvalues that are not negative
    negative_ : those that are, or None
    """

    def __init__(self, *, eigenvalues, rounding=0.0, name=""):
        self.eigenvalues = eigenvalues
        self.rounding = rounding
        self.name = name

    @classmethod
    def from_kernel(cls, kernel, X, *, ax=None, **line) -> SpectrumDisplay:
        """From a kernel and points, a few hundred of which are taken.

        Parameters
        ----------
        kernel : Kernel
        X : points, in the form the kernel takes
        ax : matplotlib axes, default=None
        **line
            Of the curve.
        """
        shown = some(n_rows(X), MOST_POINTS)
        K = np.asarray(gram(kernel, X).rows(shown), dtype=np.float64)[:, shown]
        values = np.linalg.eigvalsh(K)[::-1]
        rounding = len(K) * float(np.finfo(float).eps) * float(np.abs(values).max())
        name = repr(kernel) if isinstance(kernel, Kernel) else ""
        return cls(eigenvalues=values, rounding=rounding, name=name).plot(ax=ax, **line)

    def plot(self, ax=None, **line) -> SpectrumDisplay:
        """Draw on ``ax``, or on axes of its own."""
        ax = axes_or_new(ax)
        values = np.asarray(self.eigenvalues)
        place = np.arange(1, len(values) + 1)
        positive = values > self.rounding
        # A line through one place is not seen.
        marker = {"marker": "."} if positive.sum() == 1 else {}
        (self.line_,) = ax.plot(
            place[positive], values[positive], **{"color": BLUE, **marker, **line}
        )
        self.negative_ = None
        below = values < -self.rounding
        if np.any(below):
            (self.negative_,) = ax.plot(
                place[below], -values[below], ".", color=ORANGE, label="negative: not a kernel"
            )
            ax.legend(frameon=False)
        if self.rounding > 0 and np.any(np.abs(values) <= self.rounding):
            ax.axhline(self.rounding, color=GREY, linestyle=":", linewidth=0.8)
        if not np.any(positive | below):
            middle = {"ha": "center", "va": "center", "transform": ax.transAxes}
            ax.text(0.5, 0.5, "all eigenvalues are zero", **middle)
        ax.set(xlabel="place", ylabel="eigenvalue", yscale="log")
        count_along(ax.xaxis)
        ax.set_title(fill(self.name, 60), fontsize="small")
        ax.spines[["top", "right"]].set_visible(False)
        self.ax_, self.figure_ = ax, ax.figure
        return self


class ProofDisplay:
    """A proof that a kernel is one, drawn as a tree.

    Parameters
    ----------
    proof : Proof

    Attributes
    ----------
    ax_, figure_ : the matplotlib axes and figure
    boxes_ : list of the texts, the claim of the whole first
    """

    def __init__(self, *, proof):
        self.proof = proof

    @classmethod
    def from_kernel(cls, kernel, *, ax=None, **text) -> ProofDisplay:
        """From a kernel with a proof.

        Parameters
        ----------
        kernel : Kernel
        ax : matplotlib axes, default=None
        **text
            Of the boxes; without ``fontsize`` letters are as large as the boxes have room, up to 8.
        """
        if not isinstance(kernel, Kernel):
            raise TypeError(f"kernel={kernel!r}; expected a mercer kernel, as kernels.RBF() is")
        validity = kernel.validity
        if validity.proof is None:
            raise ValueError(
                f"{kernel!r} has no proof to draw: its validity is {validity.status!r}"
            )
        return cls(proof=validity.proof).plot(ax=ax, **text)

    def plot(self, ax=None, **text) -> ProofDisplay:
        """Draw on ``ax``, or on a figure that the tree fits."""
        depth, width = _depth(self.proof), _leaves(self.proof)
        if ax is None:
            size = (max(4.5, 2.6 * width), max(2.0, 1.25 * depth))
            _, ax = pyplot().subplots(figsize=size, layout="constrained")
        self.boxes_ = []
        self._draw(ax, self.proof, 0.0, 0, {"fontsize": LARGEST, "color": ink(ax), **text})
        ax.set(xlim=(-0.55, width - 0.45), ylim=(-depth + 0.4, 0.6))
        ax.axis("off")
        if not {"fontsize", "size"} & set(text):
            largest = LARGEST * min(1.0, 0.95 * self._room(ax))
            for box in self.boxes_:
                box.set_fontsize(largest)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw(self, ax, proof: Proof, left: float, level: int, text: dict) -> float:
        """Draw a proof with its premises from ``left`` on, and return its middle."""
        place, middles = left, []
        own = len(self.boxes_)
        self.boxes_.append(None)
        for premise in proof.premises:
            middles.append(self._draw(ax, premise, place, level + 1, text))
            place += _leaves(premise)
        middle = float(np.mean(middles)) if middles else left
        for below in middles:
            ax.plot([middle, below], [-level, -level - 1], color=GREY, linewidth=0.9, zorder=0)
        ground = "white" if ink(ax) == "black" else "black"
        box = {"boxstyle": f"round,pad={PADDING}", "facecolor": ground, "edgecolor": BLUE}
        words = f"{fill(proof.claim, LINE)}\n{fill(f'by: {proof.rule}', LINE)}"
        style = {"ha": "center", "va": "center", "bbox": box, **text}
        self.boxes_[own] = ax.text(middle, -level, words, **style)
        return middle

    def _room(self, ax) -> float:
        """How many times larger boxes could be until two touch, or one leaves the axes."""
        whole, dots = ax.get_window_extent(), ax.figure.dpi / 72
        spans = [box.get_window_extent() for box in self.boxes_]
        half = np.array([(s.width, s.height) for s in spans]) / 2 + PADDING * LARGEST * dots
        middles = ax.transData.transform([box.get_position() for box in self.boxes_])
        edges = np.minimum(middles - (whole.x0, whole.y0), (whole.x1, whole.y1) - middles)
        apart = np.abs(middles[:, None] - middles) / (half[:, None] + half)
        pairs = apart.max(axis=2)[np.triu_indices(len(spans), 1)]
        return float(min((edges / half).min(), pairs.min(initial=np.inf)))


def _depth(proof: Proof) -> int:
    return 1 + max(map(_depth, proof.premises), default=0)


def _leaves(proof: Proof) -> int:
    return max(1, sum(map(_leaves, proof.premises)))
