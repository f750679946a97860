"""Formulas in LaTeX and MathML say what the kernel computes."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

import mercer
from mercer import kernels as K
from mercer.kernels.formulas import latex, mathml
from naive_kernels import CASES

WRITTEN = {
    r"2 \exp\left(-0.5 \lVert x-z\rVert^{2}\right)": 2 * K.RBF(0.5),
    r"\exp\left(-0.3 \sum_{j} |x_{j}-z_{j}|\right)": K.Laplacian(0.3),
    r"\exp\left(-\sum_{j} \frac{\left(x_{j}-z_{j}\right)^{2}}{\ell_{j}^{2}}\right)": K.RBF(
        1.0, scales=[1, 2]
    ),
    r"\exp\left(-2 \lVert x-z\rVert\right)": K.Exponential(1.0) ** 2,
    r"\left(0.5 x\cdot z+1\right)^{3}": K.Polynomial(3, gamma=0.5),
    r"\frac{1}{0.125 \lVert x-z\rVert^{2}+1}": K.RationalQuadratic(1.0, 2.0),
    r"\exp\left(-2 \sum_{j} \sin^{2}\left(1.571\left(x_{j}-z_{j}\right)\right)\right)": (
        K.Periodic(2.0, 1.0)
    ),
    r"\frac{x\cdot z}{\lVert x\rVert^{2}+\lVert z\rVert^{2}-x\cdot z}": K.Tanimoto(),
    r"\prod_{j}\left(1+x_{j} z_{j}\right)": K.Conjunction(),
    r"2-x\cdot z": K.Constant(2.0) - K.Linear(),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_latex(text):
    assert latex(WRITTEN[text]) == text


def test_large_and_small_numbers():
    assert latex(K.RBF(1.5e-7)) == r"\exp\left(-1.5\cdot 10^{-7} \lVert x-z\rVert^{2}\right)"


@pytest.mark.parametrize("name", CASES)
def test_every_kernel_is_written(name):
    """With matched brackets, and as well-formed MathML of known elements."""
    for kernel in CASES[name]:
        text = latex(kernel)
        assert text.count("{") == text.count("}")
        assert text.count(r"\left") == text.count(r"\right")
        assert text.count(r"\lVert") == text.count(r"\rVert")
        root = ElementTree.fromstring(mathml(kernel))
        known = {"math", "mrow", "mn", "mi", "mo", "msup", "msub", "mfrac", "msqrt"}
        assert {element.tag for element in root.iter()} <= known


def test_matplotlib_reads_the_formulas():
    """Its parser of mathematics is a second opinion on what is well-formed LaTeX."""
    from matplotlib.mathtext import MathTextParser

    parser = MathTextParser("path")
    for kernel in WRITTEN.values():
        text = latex(kernel).replace(r"\lVert", r"\Vert").replace(r"\rVert", r"\Vert")
        assert parser.parse(f"${text}$").width > 0


def test_names_are_escaped_and_long_formulas_abbreviated():
    evil = K.FromFunction(np.dot)
    assert "<script" not in mathml(evil.compose(np.abs))
    total = sum([K.RBF(float(g)) * K.Linear() for g in range(1, 60)])
    assert latex(total) == r"\mathrm{Sum}\left(x,z\right)"


def test_notebooks_show_formulas_proofs_and_results():
    kernel = K.RBF(0.5) + K.FromFunction(np.dot, valid=True)
    assert kernel._repr_latex_().startswith("$k(x, z) = ")
    shown = kernel._repr_html_()
    assert "<math" in shown
    assert "RBF(gamma=0.5)" in shown
    assert "FromFunction(f=&lt;dot" in shown
    assert "[sum of kernels]" in kernel.validity._repr_html_()
    assert "Not a kernel" in K.Sigmoid(1.0, 1.0).validity._repr_html_()
    model = mercer.KernelRidge(kernel=K.RBF()).fit([[0.0], [1.0]], [0.0, 1.0])
    shown = model.result_._repr_html_()
    assert "<th>gap</th>" in shown
    assert "exact" in shown
