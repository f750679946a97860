"""Read a kernel from its text. A real parser: it walks the syntax and never runs it."""

from __future__ import annotations

import ast
import difflib
import inspect
import math
from typing import Any

from mercer.kernels.kernel import REGISTRY, Kernel
from mercer.kernels.transformations import exp

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
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        at = (
            error.offset or len(text.strip()) + 1
        )  # the parser leaves it out at the end of the text
        raise _error(text, at, _syntax_message(text, error)) from None
    except (MemoryError, RecursionError, ValueError):
        raise KernelSyntaxError("the text is nested too deeply or holds a null byte") from None
    try:
        kernel = _Reader(text).read(tree.body)
    except RecursionError:
        raise KernelSyntaxError("the text is nested too deeply") from None
    if not isinstance(kernel, Kernel):
        raise _error(text, 1, f"expected a kernel, found {kernel!r}; write Constant({kernel!r})")
    return kernel


class _Reader:
    def __init__(self, text: str):
        self.text = text

    def fail(self, node: ast.AST, message: str) -> KernelSyntaxError:
        return _error(self.text, getattr(node, "col_offset", 0) + 1, message)

    def read(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | bytes() | None as value):
                return value
            case ast.List() | ast.Tuple():
                return [self.read(e) for e in node.elts]
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
        try:
            match node.op:
                case ast.Add():
                    return left + right
                case ast.Sub():
                    return left - right
                case ast.Mult():
                    return left * right
                case ast.Pow() if not isinstance(right, Kernel):
                    if not isinstance(left, Kernel):
                        raise self.fail(node, "a power of a number: write the number itself")
                    return left**right
        except TypeError as error:
            raise self.fail(node, str(error)) from None
        raise self.fail(node, "only + - * and ** (by a number) combine kernels")

    def arguments(self, node: ast.Call) -> tuple[list, dict]:
        for argument in (*node.args, *node.keywords):
            if isinstance(argument, ast.Starred) or getattr(argument, "arg", "") is None:
                raise self.fail(node, "* and ** arguments are not allowed")
        positional = [self.read(a) for a in node.args]
        return positional, {str(k.arg): self.read(k.value) for k in node.keywords}

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
            return getattr(inner, name)(*positional, **named)
        except TypeError as error:
            raise self.fail(node, str(error)) from None

    @staticmethod
    def unknown(name: str, called: bool) -> str:
        if not called and name in REGISTRY:
            return f"{name} needs brackets: {name}()"
        known = sorted(set(REGISTRY) - _COMBINATIONS - _HOLD_FUNCTIONS)
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {close[0]}?" if close else f"known kernels: {', '.join(known)}"
        return f"unknown kernel {name!r}; {hint}"


def _syntax_message(text: str, error: SyntaxError) -> str:
    if "<" in text:
        return "a Python function in angle brackets cannot be read back from text"
    return f"not well formed: {error.msg}"


def _error(text: str, column: int, message: str) -> KernelSyntaxError:
    shown = text.strip().splitlines()[0] if text.strip() else ""
    return KernelSyntaxError(f"column {column}: {message}\n  {shown}\n  {' ' * (column - 1)}^")
