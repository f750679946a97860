"""The kernel catalogue: an entry and a picture for every kernel in the registry."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from generation.formulas import tex
from generation.pictures import save

from mercer import core
from mercer import kernels as K
from mercer.arrays import n_rows
from mercer.kernels.kernel import NoFiniteFeatureMap

BLUE, ORANGE, GREY = "#1f77b4", "#d95f02", "#999999"

# Letters of a formula that is too wide to stand next to a picture.
LONG = 150
# Where a module's kernels are shown; a kernel of another module is found under the last.
GROUPS = {
    "Dot products": ("dot_product", "algebra.Constant"),
    "Transitions": ("transition",),
    "Distances": ("distance",),
    "Histograms": ("histogram",),
    "Sets": ("sets",),
    "Strings": ("words", "mismatches", "subsequences", "substrings", "weighted_degree"),
    "Trees": ("trees",),
    "Graphs": ("kernels", "refinement"),
    "Given by you": ("given",),
    "Made of other kernels": ("algebra", "transformations", "columns", "power"),
    "Others": (),
}


def _waves(X: np.ndarray) -> np.ndarray:
    return np.hstack([np.cos(2 * X), X])


def _nearness(x: np.ndarray, z: np.ndarray) -> float:
    return float(np.cos(2 * (x - z)).prod())


def _envelope(X: np.ndarray) -> np.ndarray:
    return np.exp(-0.3 * np.sum(X**2, axis=1))


# Those that need an argument, and those whose defaults are dull in a picture.
EXAMPLES: dict[str, K.Kernel] = {
    "Constant": K.Constant(2.0),
    "Polynomial": K.Polynomial(3, gamma=0.5),
    "Sigmoid": K.Sigmoid(gamma=1.0, coef0=1.0),
    "Chi2": K.Chi2(1.0),
    "Periodic": K.Periodic(2.0, 1.0),
    "Spectrum": K.Spectrum(2),
    "Mismatch": K.Mismatch(3, 1, alphabet="acelkmnorstuvy"),
    "Gappy": K.Gappy(3, 1),
    "Subsequence": K.Subsequence(3, 0.6),
    "WeightedDegree": K.WeightedDegree(4),
    "Propagation": K.Propagation(2, bin_width=0.5),
    "RandomWalk": K.RandomWalk(0.15),
    "FromMatrix": K.FromMatrix([[2.0, 1.0, 0.0], [1.0, 2.0, 1.0], [0.0, 1.0, 2.0]]),
    "FromFeatures": K.FromFeatures(_waves),
    "FromFunction": K.FromFunction(_nearness),
    "Sum": K.RBF(2.0) + 0.3 * K.Linear(),
    "Product": K.RBF(0.3) * K.Periodic(2.0),
    "Power": K.Laplacian(1.0) ** 0.5,
    "Exp": K.exp(0.4 * K.Linear()),
    "Normalized": K.Polynomial(3).normalize(),
    "Rescaled": K.Exponential(1.0).rescale(_envelope),
    "Composed": K.RBF(1.0).compose(_waves),
    "OnColumns": K.RBF(1.0).on([0]),
}
WORDS = ["kernel", "kernels", "colonel", "colony", "column", "autumn", "volumes", "calumny"]
SETS = ["bread milk", "bread milk tea", "milk tea", "tea", "beer crisps", "beer bread crisps"]
TREES = [
    "(S (NP he) (VP runs))",
    "(S (NP she) (VP runs))",
    "(S (NP she) (VP (V eats) (NP figs)))",
    "(S (NP he) (VP (V eats) (NP figs)))",
    "(NP (D the) (N fig))",
    "(NP (D the) (N pig))",
]


def _ring(n: int) -> Any:
    return [(i, (i + 1) % n) for i in range(n)], ["C"] * n


def _path(n: int) -> Any:
    return [(i, i + 1) for i in range(n - 1)], [*"O", *"C" * (n - 2), *"O"]


def _star(n: int) -> Any:
    return [(0, i) for i in range(1, n)], [*"N", *"C" * (n - 1)]


GRAPHS = {
    f"{name} {n}": shape(n)
    for name, shape in (("ring", _ring), ("path", _path), ("star", _star))
    for n in (4, 5, 6)
}


def entries() -> dict[str, list[tuple[str, K.Kernel]]]:
    """Every kernel of the registry that is mercer's own, by group."""
    groups: dict[str, list[tuple[str, K.Kernel]]] = {group: [] for group in GROUPS}
    for name, cls in sorted(K.REGISTRY.items()):
        if cls.__module__.startswith("mercer."):
            groups[_group(name, cls)].append((name, EXAMPLES.get(name) or cls()))
    return {group: kernels for group, kernels in groups.items() if kernels}


def _group(name: str, cls: type) -> str:
    module = cls.__module__.rsplit(".", 1)[-1]
    for wanted in (f"{module}.{name}", module):
        for group, modules in GROUPS.items():
            if wanted in modules:
                return group
    return "Others"


# What is written of each.


def write(folder: Path) -> None:
    """The page and its pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = []
    for group, kernels in entries().items():
        pages.append(f"## {group}\n")
        for name, kernel in kernels:
            picture = f"kernel_{name}.svg"
            if draw(kernel, folder / picture):
                pages.append(entry(name, kernel, picture))
            else:
                pages.append(entry(name, kernel))
    (folder / "catalogue.md").write_text("\n".join(pages), encoding="utf-8")


def entry(name: str, kernel: K.Kernel, picture: str | None = None) -> str:
    """A section in Markdown."""
    cls = type(kernel)
    formula = _formula(kernel) + "\n"
    lines = [f"### {name}\n", f"{{py:obj}}`~mercer.kernels.{name}`{_signature(cls)}\n", formula]
    if picture:
        image = [f"```{{image}} generated/{picture}", ":class: kernel-picture"]
        image += [f":alt: {name}: {_caption(kernel)}", "```\n"]
        # A long formula takes the whole width, a short one stands next to the picture.
        lines.insert(3 if len(formula) > LONG else 1, "\n".join(image))
    facts = {
        "domain": str(kernel.domain).replace("its inputs", "whatever its parts take"),
        "validity": _validity(kernel),
        "features": _features(kernel),
        "traits": _traits(kernel),
        "runs in": _where(kernel),
    }
    if name in EXAMPLES:
        facts = {"example": f"`{_written(kernel)}`", **facts}
    lines += [f"- *{fact}*: {value}" for fact, value in facts.items() if value]
    return "\n".join(lines) + "\n"


def _signature(cls: type) -> str:
    shown = [
        p.name if p.default is inspect.Parameter.empty else f"{p.name}={p.default!r}"
        for p in inspect.signature(cls).parameters.values()
    ]
    return f" `({', '.join(shown)})`"


def _written(kernel: K.Kernel) -> str:
    return repr(kernel).replace("<_", "<")


def _formula(kernel: K.Kernel) -> str:
    """From the expression, else from the class's docstring."""
    text = inspect.cleandoc(type(kernel).__doc__ or "")
    first = text.split("\n\n")[0].replace("\n", " ")
    written = re.search(r"\.\. math::(.*?)(?=\n\S|\Z)", text, re.DOTALL)
    if written:
        return f"{_in_markdown(first)}\n\n$$\n{' '.join(written[1].split())}\n$$"
    if type(kernel).__module__.rsplit(".", 1)[-1] in ("dot_product", "distance", "histogram"):
        circle = r", \qquad u(x) = (\cos 2\pi x_j / p, \; \sin 2\pi x_j / p)_j"
        more = circle if isinstance(kernel, K.Periodic) else ""
        return f"$$\nk(x, z) = {tex(kernel.expression())}{more}\n$$"
    return _in_markdown(first)


def _in_markdown(text: str) -> str:
    """From a line of reStructuredText."""
    text = re.sub(r":math:`([^`]*)`", r"$\1$", text).replace("``", "`")
    return text if "`" in text else text.replace("*", r"\*")


def _validity(kernel: K.Kernel) -> str:
    validity = kernel.validity
    if validity.proof is not None:
        return f"a kernel: {validity.proof.rule.replace('|', chr(92) + '|')}"
    if validity.counterexample is not None:
        points = np.asarray(validity.counterexample.points).ravel().tolist()
        shown = " and ".join(f"{x:g}" for x in points)
        eigenvalue = f"{validity.counterexample.eigenvalue:.3g}"
        return f"**not** a kernel ({validity.reason}): {shown} have the eigenvalue {eigenvalue}"
    return f"unknown: {validity.reason}"


def _features(kernel: K.Kernel) -> str:
    points = sample(kernel, 3)
    if points is None:
        return ""
    try:
        with np.errstate(all="ignore"):
            width = kernel.feature_map().fit_transform(points).shape[1]
    except NoFiniteFeatureMap:
        if kernel.is_stationary and kernel.validity.status == "valid":
            return "infinitely many; random Fourier features approximate them"
        known = kernel.validity.status == "valid"
        return "no finite map is built; Nyström approximates one" if known else ""
    except (TypeError, ValueError):
        return ""
    if isinstance(points, np.ndarray):
        return f"{width}, for points of three numbers"
    return f"{width}, for the {n_rows(points)} objects in the picture"


def _traits(kernel: K.Kernel) -> str:
    names = {
        "is_stationary": "a function of $x - z$",
        "is_isotropic": "a function of a distance",
        "is_infinitely_divisible": "every positive power is a kernel",
    }
    return ", ".join(shown for name, shown in names.items() if getattr(kernel, name))


def _where(kernel: K.Kernel) -> str:
    points = sample(kernel, 3)
    if points is None or "<" in repr(kernel):  # a function of the user's
        return ""
    with watched() as used:
        kernel(points)
    if core.level() == "python":
        return ""
    return "native code" if used else "Python and NumPy"


@contextmanager
def watched() -> Iterator[set[str]]:
    """The names of the native routines that are called within."""
    used: set[str] = set()
    native = core._native

    class Spy:
        def __getattr__(self, name: str) -> Any:
            used.add(name)
            return getattr(native(), name)

    core._native = lambda: Spy() if native() is not None else None
    try:
        yield used
    finally:
        core._native = native


# Pictures.


def sample(kernel: K.Kernel, d: int) -> Any:
    """Points that the kernel takes, or None where it takes what nobody can show."""
    domain = str(kernel.domain)
    if isinstance(kernel, K.Precomputed):
        return None
    if isinstance(kernel, K.FromMatrix):
        return [0, 1, 2]
    if domain == "sequences":
        equal = isinstance(kernel, K.WeightedDegree)
        return [w[:6].ljust(6, ".") for w in WORDS] if equal else WORDS
    if domain == "finite sets":
        return [set(s.split()) for s in SETS]
    if domain == "trees":
        return TREES
    if domain == "graphs":
        return list(GRAPHS.values())
    if kernel.domain.is_vectors or isinstance(kernel, K.OnColumns) or domain == "its inputs":
        return np.random.default_rng(0).integers(0, 4, size=(8, d)).astype(float)
    return None


def _names(kernel: K.Kernel, points: Any) -> list[str]:
    domain = str(kernel.domain)
    if domain == "graphs":
        return list(GRAPHS)
    if domain == "finite sets":
        return SETS
    if domain == "trees":
        return [re.sub(r"[()]|\b[A-Z]+\b", "", t).strip() for t in TREES]
    return [str(p) for p in points]


def _caption(kernel: K.Kernel) -> str:
    if not isinstance(sample(kernel, 1), np.ndarray):
        return "the normalised kernel between a few objects"
    if kernel.validity.status == "indefinite":
        return "k(x, z) as x moves, and eigenvalues of a Gram matrix, some negative"
    return "k(x, z) as x moves, and functions drawn from the normal law with this covariance"


def draw(kernel: K.Kernel, path: Path) -> bool:
    """A small picture of the kernel; False where there is nothing to show."""
    points = sample(kernel, 1)
    if points is None:
        return False
    with plt.rc_context({"font.size": 8}):
        figure = _curves(kernel) if isinstance(points, np.ndarray) else _matrix(kernel, points)
        save(figure, path)
    return True


def _curves(kernel: K.Kernel) -> Any:
    """k(x, z) for some z; and functions drawn from N(0, K), or the spectrum if there is no such."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(4.8, 1.75), layout="constrained")
    low = 0.0 if "non-negative" in str(kernel.domain) else -3.0
    x = np.linspace(low, 3.0, 241)[:, None]
    centres = [1.0, 2.0] if low == 0 else [0.0] if kernel.is_stationary else [-1.0, 0.5, 2.0]
    for z, style in zip(centres, ("-", "--", ":"), strict=False):
        left.plot(x[:, 0], kernel(x, np.array([[z]]))[:, 0], style, color=BLUE, label=f"z = {z:g}")
    left.set_title("k(x, z)" if len(centres) > 1 else "k(x, 0)", fontsize=8)
    if len(centres) > 1:
        left.legend(fontsize=6, frameon=False)
    gram = kernel(x)
    if kernel.validity.status == "indefinite":
        few = np.linalg.eigvalsh(kernel(np.linspace(low, 3.0, 8)[:, None]))[::-1]
        colours = np.where(few < -1e-9, ORANGE, BLUE)
        right.bar(np.arange(1, len(few) + 1), few, color=colours)
        right.axhline(0, color=GREY, lw=0.5)
        right.set_yscale("symlog", linthresh=1e-3)
        right.set_title("eigenvalues at 8 points", fontsize=8)
    else:
        values, vectors = np.linalg.eigh(gram)
        noise = np.random.default_rng(3).normal(size=(len(x), 3))
        drawn = vectors @ (np.sqrt(np.maximum(values, 0))[:, None] * noise)
        right.plot(x[:, 0], drawn, lw=0.9)
        right.set_title("functions it makes likely", fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=6)
    return figure


def _matrix(kernel: K.Kernel, points: Any) -> Any:
    """The normalised kernel between a few objects, with their names."""
    G = kernel.normalize()(points)
    names = _names(kernel, points)
    figure, axes = plt.subplots(figsize=(4.0, 2.5), layout="constrained")
    image = axes.imshow(G, cmap="Blues", vmin=0, vmax=1)
    axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_xticks([])
    figure.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=6)
    axes.set_title("k(x, z), normalised", fontsize=8)
    return figure
