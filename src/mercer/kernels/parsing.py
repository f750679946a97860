"""Read a kernel from its text. A real parser: it walks the syntax and never runs it."""

from __future__ import annotations

import ast
import difflib
import inspect
import math
import re
import sys
from typing import Any

from mercer.kernels.kernel import REGISTRY, Kernel
from mercer.kernels.transformations import exp

_NEWLINE = re.compile(r"\r\n?|\n")
_NUMBERS = {"inf": math.inf, "nan": math.nan}
_METHODS = {"normalize", "on"}
_COMBINATIONS = {"Sum", "Product", "Power", "Exp", "Normalized", "OnColumns"}
_HOLD_FUNCTIONS = {"Composed", "Rescaled", "FromFeatures", "FromFunction", "compose", "rescale"}


class KernelSyntaxError(ValueError):
    """The text is not a kernel; the message points at the column."""


def parse(text: str) -> Kernel:
    """The kernel that a text describes; the inverse of ``repr``.

    Parameters
    ----------
    text : str
        For example ``"0.5 * RBF(gamma=2) + Polynomial(degree=2).normalize()"``.

    Examples
    --------
    >>> parse("2 * RBF(gamma=0.5) + Linear()")
    2.0 * RBF(gamma=0.5) + Linear()
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str; got {type(text).__name__}")
    source = _Source(text)
    if not source.stripped:
        raise source.error(0, "the text is empty; expected a kernel, for example RBF(gamma=1)")
    try:
        tree = ast.parse(source.stripped, mode="eval")
    except SyntaxError as error:
        raise source.error(source.position(error), _syntax_message(text, error)) from None
    except UnicodeEncodeError as error:
        raise source.error(error.start, "half of a surrogate pair is not a character") from None
    except (MemoryError, RecursionError, ValueError):
        raise KernelSyntaxError("the text is nested too deeply or holds a null byte") from None
    try:
        kernel = _Reader(source).read(tree.body)
    except RuntimeError:  # recursion too deep, of Python or of NumPy
        raise KernelSyntaxError("the text is nested too deeply") from None
    if not isinstance(kernel, Kernel):
        raise source.error(0, f"expected a kernel, found {kernel!r}; write Constant({kernel!r})")
    return kernel


class _Source:
    """The text, and where in it the places are that Python's parser names."""

    def __init__(self, text: str):
        self.text, self.stripped = text, text.strip()
        self.lines = [0, *(m.end() for m in _NEWLINE.finditer(self.stripped))]

    def position(self, error: SyntaxError) -> int:
        """Where a syntax error is; the parser leaves it out at the end of the text."""
        if not error.offset or not error.lineno or error.lineno > len(self.lines):
            return len(self.stripped)
        return self.lines[error.lineno - 1] + error.offset - 1

    def start(self, node: ast.expr) -> int:
        """Where a part of the syntax begins, which Python's parser counts in bytes."""
        start = self.lines[node.lineno - 1]
        return start + len(self.stripped[start:].encode()[: node.col_offset].decode())

    def error(self, position: int, message: str) -> KernelSyntaxError:
        """An error that points at a position of the stripped text."""
        position += len(self.text) - len(self.text.lstrip())
        before = _NEWLINE.split(self.text[:position])
        shown = _NEWLINE.split(self.text)[len(before) - 1].rstrip()
        column = len(before[-1]) + 1
        line = f"line {len(before)}, " if _NEWLINE.search(self.text) else ""
        return KernelSyntaxError(
            f"{line}column {column}: {message}\n  {shown}\n  {' ' * (column - 1)}^"
        )


class _Reader:
    def __init__(self, source: _Source):
        self.source = source

    def fail(self, node: ast.expr, message: str) -> KernelSyntaxError:
        return self.source.error(self.source.start(node), message)

    def read(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() as value) if value > sys.float_info.max:
                raise self.fail(node, "the number is too large")
            case ast.Constant(value=bool() | int() | float() | str() | bytes() | None as value):
                return value
            case ast.List():
                return [self.read(e) for e in node.elts]
            case ast.Tuple():
                return tuple(self.read(e) for e in node.elts)
            case ast.Name(id=name) if name in _NUMBERS:
                return _NUMBERS[name]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                value = self.arithmetic(node.operand)
                return -value if isinstance(node.op, ast.USub) else value
            case ast.BinOp():
                return self.binary(node)
            case ast.Call(func=ast.Name(id=name)):
                return self.construct(node, name)
            case ast.Call(func=ast.Attribute(attr=method)):
                return self.method(node, method)
            case ast.Name(id=name):
                raise self.fail(node, self.unknown(name, called=False))
        raise self.fail(node, "expected a kernel, a number or an operator")

    def arithmetic(self, node: ast.expr) -> Any:
        value = self.read(node)
        if isinstance(value, bool) or not isinstance(value, Kernel | int | float):
            raise self.fail(node, f"expected a kernel or a number, found {value!r}")
        return value

    def binary(self, node: ast.BinOp) -> Any:
        left, right = self.arithmetic(node.left), self.arithmetic(node.right)
        for part, value in ((node.left, left), (node.right, right)):
            if not isinstance(value, Kernel) and not math.isfinite(value):
                raise self.fail(part, f"expected a kernel or a finite number, found {value!r}")
        try:
            match node.op:
                case ast.Add():
                    return left + right
                case ast.Sub():
                    return left - right
                case ast.Mult():
                    return left * right
                case ast.Div() if not isinstance(right, Kernel):
                    return left / right
                case ast.Pow() if isinstance(left, Kernel) and not isinstance(right, Kernel):
                    return _built(left**right)
        except (TypeError, ValueError, ArithmeticError) as error:
            raise self.fail(node, str(error)) from None
        raise self.fail(node, "only + - *, and / and ** by a number, combine kernels")

    def arguments(self, node: ast.Call) -> tuple[list, dict]:
        for argument in (*node.args, *node.keywords):
            if isinstance(argument, ast.Starred) or getattr(argument, "arg", "") is None:
                raise self.fail(node, "* and ** arguments are not allowed")
        positional, named = [self.read(a) for a in node.args], {}
        for keyword in node.keywords:
            if keyword.arg in named:
                raise self.fail(keyword.value, f"{keyword.arg} is given twice")
            named[str(keyword.arg)] = self.read(keyword.value)
        return positional, named

    def construct(self, node: ast.Call, name: str) -> Any:
        if name == "exp":
            if len(node.args) != 1 or node.keywords:
                raise self.fail(node, "exp takes one kernel")
            inner = self.read(node.args[0])
            if not isinstance(inner, Kernel):
                raise self.fail(node.args[0], f"exp takes a kernel, found {inner!r}")
            return exp(inner)
        if name in _HOLD_FUNCTIONS:
            raise self.fail(
                node, f"{name} holds a Python function, which cannot be written as text"
            )
        if name not in REGISTRY or name in _COMBINATIONS:
            raise self.fail(node, self.unknown(name, called=True))
        positional, named = self.arguments(node)
        signature = inspect.signature(REGISTRY[name])
        try:
            signature.bind(*positional, **named)
        except TypeError as error:
            takes = ", ".join(signature.parameters) or "nothing"
            raise self.fail(node, f"{name}: {error}; it takes {takes}") from None
        kernel = REGISTRY[name](*positional, **named)
        try:
            kernel.validity  # noqa: B018 (raises where a parameter is out of range)
        except (TypeError, ValueError) as error:
            raise self.fail(node, str(error)) from None
        return kernel

    def method(self, node: ast.Call, name: str) -> Kernel:
        assert isinstance(node.func, ast.Attribute)
        inner = self.read(node.func.value)
        if not isinstance(inner, Kernel):
            raise self.fail(node, f".{name}() needs a kernel before the dot")
        if name in _HOLD_FUNCTIONS:
            raise self.fail(
                node, f"{name} takes a Python function, which cannot be written as text"
            )
        if name not in _METHODS:
            raise self.fail(node, f"unknown method .{name}(); known: .normalize() and .on(columns)")
        positional, named = self.arguments(node)
        try:
            return _built(getattr(inner, name)(*positional, **named))
        except (TypeError, ValueError) as error:
            raise self.fail(node, str(error)) from None

    @staticmethod
    def unknown(name: str, called: bool) -> str:
        if not called and name in REGISTRY:
            return f"{name} needs brackets: {name}()"
        known = sorted(set(REGISTRY) - _COMBINATIONS - _HOLD_FUNCTIONS)
        lower = {k.lower(): k for k in known}
        close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.5)
        hint = f"did you mean {lower[close[0]]}?" if close else f"known kernels: {', '.join(known)}"
        return f"unknown kernel {name!r}; {hint}"


def _built(kernel: Kernel) -> Kernel:
    """The kernel, after an error where a parameter of it is out of range."""
    kernel.expression()
    return kernel


def _syntax_message(text: str, error: SyntaxError) -> str:
    if "<" in text:
        return "a Python function in angle brackets cannot be read back from text"
    return f"not well formed: {error.msg}"
