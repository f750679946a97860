"""A kernel's expression as TeX."""

from __future__ import annotations

import math

from mercer.expressions.nodes import (
    Add,
    Constant,
    Diagonal,
    Divide,
    Expression,
    Function,
    Multiply,
    Parameter,
    Point,
    Power,
    Statistic,
)
from mercer.expressions.views import Circle, Logistic, Map, RowUnit, Unit

LETTERS = {
    "gamma": r"\gamma",
    "alpha": r"\alpha",
    "coef0": "c",
    "value": "c",
    "length_scale": r"\ell",
    "period": "p",
    "exponent": "t",
}
STATISTICS = {
    "dot": r"{x} \cdot {z}",
    "sqdist": r"\lVert {x} - {z} \rVert^2",
    "l1": r"\lVert {x} - {z} \rVert_1",
    "minsum": r"\sum_j \min({x}_j, {z}_j)",
    "chi2": r"\sum_j \frac{{({x}_j - {z}_j)^2}}{{{x}_j + {z}_j}}",
    "conjunction": r"\prod_j (1 + {x}_j {z}_j)",
}
ROOTS = {math.sqrt(n): rf"\sqrt{{{n}}}" for n in (2, 3, 5)}


def tex(e: Expression) -> str:
    """The expression, its parameters by their letters."""
    return _tex(_without_units(e))


def _without_units(e: Expression) -> Expression:
    """The expression without the powers of two that keep rows within range, which cancel."""
    if isinstance(e, Point) and isinstance(e.function, RowUnit):
        return Constant(1.0)
    return e.rebuild(tuple(_without_units(child) for child in e.children()))


def _tex(node: Expression) -> str:
    match node:
        case Constant(value=value):
            return _number(value)
        case Parameter(path=path):
            return LETTERS.get(path.rsplit("__", 1)[-1], rf"\mathrm{{{path}}}")
        case Statistic():
            return _statistic(node, "x", "z")
        case Diagonal(operand=Statistic() as operand, side=side):
            at = "xz"[side]
            shown = _statistic(operand, at, at)
            return rf"\lVert {at} \rVert^2" if shown == rf"{at} \cdot {at}" else shown
        case Point(side=side):
            return f"f({'xz'[side]})"
        case Add(terms=terms):
            return _sum([_tex(term) for term in terms])
        case Multiply() | Divide():
            return _product(node)
        case Power(base=base, exponent=exponent):
            if isinstance(exponent, Constant) and exponent.value < 0:
                return _product(node)
            return rf"{_closed(base)}^{{{_tex(exponent)}}}"
        case Function(name=name, operand=operand):
            return _function(name, operand)
    raise TypeError(f"no formula for {node!r}")


def _number(value: float) -> str:
    for root, shown in ROOTS.items():
        if math.isclose(abs(value), root):
            return f"-{shown}" if value < 0 else shown
    return f"{value:g}"


def _statistic(node: Statistic, x: str, z: str) -> str:
    for step in node.view.steps:
        if isinstance(step, Unit):
            return rf"\frac{{{x} \cdot {z}}}{{\lVert {x} \rVert \, \lVert {z} \rVert}}"
        if isinstance(step, Circle):
            x, z = f"u({x})", f"u({z})"
        if isinstance(step, Logistic):
            x, z = f"s({x})", f"s({z})"
        if isinstance(step, Map):
            x, z = rf"\phi({x})", rf"\phi({z})"
    return STATISTICS[str(node.kind)].format(x=x, z=z)


def _sum(terms: list[str]) -> str:
    text = terms[0]
    for term in terms[1:]:
        text += f" - {term[1:]}" if term.startswith("-") else f" + {term}"
    return text


def _closed(node: Expression) -> str:
    """In brackets where a power or a factor needs them."""
    shown = _tex(node)
    return rf"\bigl({shown}\bigr)" if isinstance(node, Add | Multiply | Divide) else shown


def _product(node: Expression) -> str:
    sign, above, below = 1, [], []
    for factor in _factors(node):
        if isinstance(factor, Constant):
            sign *= -1 if factor.value < 0 else 1
            size = abs(factor.value)
            if size == 1:
                continue
            if size < 1 and math.isclose(1 / size, round(1 / size)):
                below.append(str(round(1 / size)))
            else:
                above.append(_number(size))
        elif isinstance(factor, Power) and _is_negative(factor.exponent):
            power = -factor.exponent.value
            below.append(_closed(factor.base) + ("" if power == 1 else f"^{{{power:g}}}"))
        else:
            above.append(
                rf"\bigl({_tex(factor)}\bigr)" if isinstance(factor, Add) else _tex(factor)
            )
    if isinstance(node, Divide):
        below.append(_tex(node.denominator))
    text = r" \, ".join(above) or "1"
    if below:
        under = r" \, ".join(below)
        text = rf"\frac{{{text}}}{{{under}}}"
    return f"-{text}" if sign < 0 else text


def _factors(node: Expression) -> tuple[Expression, ...]:
    if isinstance(node, Divide):
        return _factors(node.numerator)
    return node.factors if isinstance(node, Multiply) else (node,)


def _is_negative(exponent: Expression) -> bool:
    return isinstance(exponent, Constant) and exponent.value < 0


def _function(name: str, operand: Expression) -> str:
    if name == "sqrt" and isinstance(operand, Statistic) and str(operand.kind) == "sqdist":
        return _tex(operand).removesuffix("^2")
    if name == "sqrt":
        return rf"\sqrt{{{_tex(operand)}}}"
    if name == "inverse_sqrt":
        return rf"\frac{{1}}{{\sqrt{{{_tex(operand)}}}}}"
    return rf"\{name}\Bigl({_tex(operand)}\Bigr)"
