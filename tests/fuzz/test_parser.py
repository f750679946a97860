"""Random and damaged texts of kernels: each gives a kernel, or an error of syntax.

Whether a kernel is valid is decided in bounded time, too, or refused in a sentence.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from fuzz.driver import fuzz
from mercer import kernels as K
from mercer.kernels.parsing import KernelSyntaxError
from naive_kernels import all_cases

# What a user's kernel may hold, and what it may not.
NUMBERS = [
    *("0", "1", "2", "3", "0.5", "1e-300", "1e308", "1e999", "-1", "1j", "10**9", "0x10", "True"),
]
WORDS = [
    *"()[]{},.:*+-/=@%~!&|^<>'\"\\\n \t#;0123456789",
    *("**", "//", "==", "lambda", "if", "else", "for", "in", "None", "nan", "inf", "np.nan"),
    *("__class__", "__import__('os')", "Kernel", "RBF(", "Linear()", ".on(", ".normalize()"),
    *("gamma=", "scales=[", "left", "self", "f''", "b''", "...", "'a'", "[0, 1]", "'\\ud800'"),
    *("é", "\0", "print(1)"),
]
TOKEN = re.compile(r"\w+|\s+|.", re.DOTALL)


def sentence(rng: np.random.Generator, depth: int = 0) -> str:
    """A kernel by the rules of the grammar; its parameters need not make sense."""
    draw = rng.integers(0, 10 if depth < 6 else 2)
    if draw < 2:
        return CASES[rng.integers(len(CASES))]
    inner = sentence(rng, depth + 1)
    number = NUMBERS[rng.integers(len(NUMBERS))]
    return [
        f"{inner} + {sentence(rng, depth + 1)}",
        f"({inner}) * ({sentence(rng, depth + 1)})",
        f"{number} * ({inner})",
        f"({inner}) ** {number}",
        f"({inner}).normalize()",
        f"({inner}).on([{rng.integers(-3, 5)}, {rng.integers(5)}])",
        f"({inner}).on('a')",
        f"RBF({number})",
    ][draw - 2]


CASES = [repr(kernel) for kernel in all_cases()] + ["RBF()", "Linear()", "Constant(2.0)", "Min()"]


def text(rng: np.random.Generator) -> bytes:
    found = sentence(rng)
    if rng.integers(3):
        tokens = TOKEN.findall(found)
        for _ in range(rng.integers(1, 5)):
            at = rng.integers(len(tokens) + 1)
            word = WORDS[rng.integers(len(WORDS))]
            tokens[at : at + rng.integers(3)] = [word] * rng.integers(0, 3)
        found = "".join(tokens)
    if rng.integers(200) == 0:
        found = rng.choice(["(", "-", "[", "1+", "RBF()+", "(RBF)."]) * int(rng.integers(1, 30_000))
    return found.encode("utf-8", "surrogatepass")


def check(data: bytes) -> str:
    try:
        kernel = K.parse(data.decode("utf-8", "surrogatepass"))
    except KernelSyntaxError:
        return "refused"
    written = repr(kernel)
    assert repr(K.parse(written)) == written
    try:
        return kernel.validity.status
    except ValueError:
        return "refused as a kernel"


@pytest.mark.filterwarnings("ignore")
def test_texts_of_kernels():
    outcomes = fuzz("parser", text, check, 1500)
    assert outcomes["valid"] > 50
    assert outcomes["refused"] > 50
