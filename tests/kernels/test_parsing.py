"""Text to kernel: what is read, and messages that point at the column."""

from __future__ import annotations

import math
import os
import re
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from mercer import kernels as K

TRIES = 200 * int(os.environ.get("MERCER_TEST_LENGTH", "1"))
PIECES = [
    *("RBF", "RBF()", "RBF(0.5)", "Linear()", "Spectrum(3)", "Constant(2.0)", "Precomputed()"),
    *("exp(", "sum(", ".normalize()", ".on('a')", ".on([0, 1])", ".rescale(", "(", ")", "[", "]"),
    *(",", "=", "+", "-", "*", "/", "**", "2", "-1", "0.5", "1e400", "inf", "nan", "None", "True"),
    *("b'A'", "'x'", "gamma=", "scales=[1, 2]", "lambda", "__import__('os')", "#", ";", "\n"),
    *("é", "\x00"),
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("RBF()", K.RBF()),
        (" 2 * RBF(0.5) + Linear() ", 2 * K.RBF(0.5) + K.Linear()),
        ("Matern(nu=inf)", K.Matern(nu=math.inf)),
        ("RBF(scales=[1, 2.5])", K.RBF(scales=[1, 2.5])),
        ("exp(0.1 * Linear()).normalize()", K.exp(0.1 * K.Linear()).normalize()),
        ("(RBF() + 1) ** 2", (K.RBF() + 1) ** 2),
        ("-RBF()", -K.RBF()),
        ("RBF() - (Linear() - Cosine())", K.RBF() - (K.Linear() - K.Cosine())),
        ("Spectrum(3).on('dna') + RBF().on(['a', 'b'])", None),
        ("Mismatch(3, 1, alphabet=b'AC')", K.Mismatch(3, 1, alphabet=b"AC")),
        ("Constant(0.0) + Constant(2.0)", K.Sum(K.Constant(0.0), K.Constant(2.0))),
    ],
)
def test_reads(text, expected):
    kernel = K.parse(text)
    assert isinstance(kernel, K.Kernel)
    if expected is not None:
        assert kernel.key() == expected.key()
    assert K.parse(repr(kernel)).key() == kernel.key()


@pytest.mark.parametrize(
    ("text", "column", "match"),
    [
        ("RBG()", 1, "did you mean RBF"),
        ("2 * RBF(gama=3)", 5, "gama"),
        ("Linear() + RBF(gamma=-1)", 12, "gamma"),
        ("Linear() + ", 11, "not well formed"),
        ("RBF() + Linear", 9, r"needs brackets: Linear\(\)"),
        ("RBF() / Linear()", 1, r"only \+ - \*, and / and \*\* by a number"),
        ("RBF() + 'a'", 9, "'a'"),
        ("3.0", 1, "expected a kernel"),
        ("__import__('os').system('true')", 1, "unknown kernel '__import__'"),
        ("RBF().__class__()", 1, "unknown method"),
        ("(lambda: 1)()", 1, "expected a kernel"),
        ("RBF(*[1])", 1, "not allowed"),
        ("Composed(RBF(), 1)", 1, "Python function"),
        ("RBF().rescale(1)", 1, "Python function"),
        ("Sum(RBF(), RBF())", 1, "unknown kernel 'Sum'"),
        ("Polynomial(degree=2.5)", 1, "degree"),
        ("RBF() + Spectrum(3)", 1, "k.on"),
        ("", 1, "the text is empty"),
        ("RBF(gamma=1, gamma=2)", 20, "gamma is given twice"),
        ("inf * RBF()", 1, "finite number, found inf"),
        ("RBF() + nan", 9, "finite number, found nan"),
        ("2 ** 3 * RBF()", 1, r"only \+ - \*, and / and \*\* by a number"),
        ("Linear() + 2 * Linear() ** 2.5", 16, "infinitely divisible"),
        ("Linear() ** -1", 1, "exponent"),
        ("RBF().on(None)", 1, "column name"),
        ("RBF().on([RBF()])", 1, "column|int"),
        ("RBF(gamma=1" + "0" * 400 + ")", 11, "too large"),
        ("   RBG()", 4, "did you mean RBF"),
        ("   RBF( + ", 7, "not well formed"),
        ("Spectrum().on('größe') + RBG()", 26, "did you mean RBF"),
        ("RBF() + \ud800", 9, "surrogate"),
        ("RBF(gamma='é') + RBF(", 21, "not well formed"),
    ],
)
def test_errors_point_at_the_column(text, column, match):
    with pytest.raises(K.KernelSyntaxError, match=match) as caught:
        K.parse(text)
    message = str(caught.value)
    assert message.startswith(f"column {column}:")
    shown, caret = message.splitlines()[-2:]
    assert caret.index("^") - 2 == column - 1
    assert shown.strip() == text.strip()


def test_errors_in_later_lines():
    with pytest.raises(K.KernelSyntaxError) as caught:
        K.parse("\n (RBF() +\n  Linear(1) +\n RBF())")
    message = str(caught.value)
    assert message.startswith("line 3, column 3: Linear")
    assert message.splitlines()[-2:] == ["    Linear(1) +", "    ^"]


@pytest.mark.parametrize(
    "kernel",
    [
        K.RBF(scales=[np.float64(1.0), 2.0]),
        K.FromMatrix([[np.float64(1)]]),
        K.FromMatrix(np.eye(2)),
        K.FromMatrix(sp.csr_array(np.eye(2))),
        K.Mismatch(alphabet=[np.str_("a"), np.str_("b")]),
        K.Mismatch(alphabet=("a",)),
        K.RBF().on(np.int64(0)),
        K.RBF().on([np.int64(0)]),
        K.RBF().on((0, 1)),
        K.RBF().on(np.array(["a", "b"])),
        K.RBF(gamma=Fraction(1, 3)),
    ],
    ids=repr,
)
def test_what_is_written_is_read(kernel):
    again = K.parse(repr(kernel))
    assert repr(again) == repr(kernel)
    for name, value in kernel.get_params(deep=False).items():
        found = getattr(again, name)
        if isinstance(value, tuple | list | str):
            assert type(found) is type(value)
        if isinstance(value, Fraction):
            assert found == float(value)


def test_depth_and_types():
    with pytest.raises(K.KernelSyntaxError, match=r"nested too deeply|not well formed"):
        K.parse("(" * 5000 + "RBF()" + ")" * 5000)
    with pytest.raises(K.KernelSyntaxError, match="nested too deeply"):
        K.parse("-" * 3000 + "RBF()")
    with pytest.raises(TypeError, match="must be a str"):
        K.parse(3)


@settings(max_examples=TRIES, deadline=None, derandomize=True)
@given(
    st.text(alphabet="RBF()LineargammaExp*+-.,=0123 '[]", max_size=40)
    | st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join)
)
def test_nothing_but_a_kernel_or_a_clear_error(text):
    try:
        outcome = K.parse(text)
    except K.KernelSyntaxError as error:
        outcome = error
    assert isinstance(outcome, K.Kernel) or re.match(r"(line \d+, )?column", str(outcome))


@pytest.mark.parametrize("text", ["rbf", "rbf()", "RfB(1)"])
def test_names_are_recognised_whatever_their_case(text):
    with pytest.raises(K.KernelSyntaxError, match=r"did you mean RBF\?"):
        K.parse(text)


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_text_is_said_to_be_empty(text):
    with pytest.raises(K.KernelSyntaxError, match="the text is empty"):
        K.parse(text)


def test_a_kernel_is_divided_by_a_number_only():
    assert repr(K.parse("RBF() / 2 + 1 / 4 * Linear()")) == "0.5 * RBF(gamma=1.0) + 0.25 * Linear()"
    for text in ("2 / RBF()", "RBF() / Linear()", "RBF() / 0", "1 / 0 * RBF()"):
        with pytest.raises(K.KernelSyntaxError, match="column 1"):
            K.parse(text)


def test_nested_lists_and_tiny_divisors_are_refused():
    with pytest.raises(ValueError, match=r"nested too deeply|dimension|shape"):
        K.parse(f"FromMatrix({'[' * 60}0{']' * 60})")
    with pytest.raises(ValueError, match="one over it overflows"):
        K.parse("Linear() / 1e-320")
