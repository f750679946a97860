"""The formula of a kernel in LaTeX and in MathML, with the values of its hyperparameters.

Both are derived from the kernel's expression: `written` turns it into a small tree of rows,
fractions, powers and roots, and each language writes that tree.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from mercer.expressions import nodes
from mercer.expressions.views import Circle, Logistic, Scale, Shift, Unit

# Formulas of more nodes than this are abbreviated to the kernel's name.
MOST_NODES = 120


@dataclass(frozen=True)
class Part:
    """A part of a formula: its form, and the parts or the text inside.

    Forms are "number", "name" (a variable), "word" (a function or kernel), "sign", "row",
    "fraction", "power", "below" (a subscript), "root" and "bracket".
    """

    form: str
    inside: Any


def latex(kernel: Any) -> str:
    r"""The formula in LaTeX, without dollar signs.

    Examples
    --------
    >>> from mercer import kernels as K
    >>> print(latex(2 * K.RBF(0.5)))
    2 \exp\left(-0.5 \lVert x-z\rVert^{2}\right)
    """
    return _latex(written(kernel))


def mathml(kernel: Any) -> str:
    """The formula as a ``<math>`` element, which browsers show without a script."""
    row = _mathml(Part("row", (Part("row", _applied("k")), Part("sign", "="), written(kernel))))
    return f'<math display="block">{row}</math>'


def html(kernel: Any) -> str:
    """The formula, and the text that `parse` reads."""
    return f"<div>{mathml(kernel)}<code>{escape(repr(kernel))}</code></div>"


def written(kernel: Any) -> Part:
    """The formula as parts."""
    try:
        expression = kernel.expression()
    except ValueError:  # widths that are settled at fit
        return _row(*_applied(type(kernel).__name__))
    if sum(1 for _ in expression.walk()) > MOST_NODES:
        return Part("row", _applied(type(kernel).__name__))
    return _written(expression)


def _row(*parts: Part) -> Part:
    return Part("row", parts)


def _applied(word: str, *arguments: str) -> tuple[Part, ...]:
    names = arguments or ("x", "z")
    inside = [Part("name", names[0])]
    for name in names[1:]:
        inside += [Part("sign", ","), Part("name", name)]
    return Part("word", word), Part("bracket", _row(*inside))


def _number(value: float) -> Part:
    return Part("number", f"{value:.4g}")


def _written(e: nodes.Expression) -> Part:
    if isinstance(e, nodes.Constant | nodes.Parameter):
        return _number(e.value)
    if isinstance(e, nodes.Statistic):
        return _row(Part("number", "4"), _statistic(e)) if _is_periodic(e) else _statistic(e)
    if isinstance(e, nodes.Point):
        return _row(*_applied("f", "xz"[e.side]))
    if isinstance(e, nodes.Diagonal):
        name = "xz"[e.side]
        kind = getattr(e.operand, "kind", None)
        if kind is not None and str(kind) == "dot":
            return Part("power", (_norm(Part("name", name)), Part("number", "2")))
        return _row(*_applied(str(kind or "k"), name, name))
    if isinstance(e, nodes.Add):
        return _sum(e)
    if isinstance(e, nodes.Multiply):
        return _product(e)
    if isinstance(e, nodes.Divide):
        return Part("fraction", (_written(e.numerator), _written(e.denominator)))
    if isinstance(e, nodes.Power):
        return _power(e.base, e.exponent)
    if isinstance(e, nodes.Function):
        if e.name == "sqrt":
            inner = _written(e.operand)
            is_square = inner.form == "power" and inner.inside[1] == Part("number", "2")
            return inner.inside[0] if is_square else Part("root", inner)
        if e.name == "inverse_sqrt":
            return Part("fraction", (Part("number", "1"), Part("root", _written(e.operand))))
        return _row(Part("word", e.name), Part("bracket", _written(e.operand)))
    return Part("word", str(e))


def _sum(e: nodes.Add) -> Part:
    parts: list[Part] = []
    for term in e.terms:
        negative, positive = _sign(term)
        if parts or negative:
            parts.append(Part("sign", "−" if negative else "+"))
        parts.append(_written(positive))
    return _row(*parts)


def _sign(term: nodes.Expression) -> tuple[bool, nodes.Expression]:
    """Whether a term is negative, and the term without its sign."""
    value = _value(term)
    if value is not None and value < 0:
        return True, nodes.Constant(-value)
    if isinstance(term, nodes.Multiply):
        numbers = [v for f in term.factors if (v := _value(f)) is not None]
        if sum(v < 0 for v in numbers) % 2:
            return True, nodes.multiply(-1.0, term)
    return False, term


def _value(e: nodes.Expression) -> float | None:
    """The value of an expression without statistics, else None."""
    if isinstance(e, nodes.Constant | nodes.Parameter):
        return float(e.value)
    if isinstance(e, nodes.Power):
        base, exponent = _value(e.base), _value(e.exponent)
        return base**exponent if base is not None and exponent is not None and base > 0 else None
    if isinstance(e, nodes.Multiply):
        values = [_value(f) for f in e.factors]
        product = 1.0
        for value in values:
            if value is None:
                return None
            product *= value
        return product
    return None


def _product(e: nodes.Multiply) -> Part:
    """The number first, then a fraction of what has negative powers."""
    number, above, below = 1.0, [], []
    for factor in e.factors:
        value = _value(factor)
        if value is not None:
            number *= value
        elif isinstance(factor, nodes.Point) and not factor.is_users:
            continue  # a power of two that cancels
        elif isinstance(factor, nodes.Power) and isinstance(factor.base, nodes.Point):
            continue
        elif isinstance(factor, nodes.Power) and (_value(factor.exponent) or 0) < 0:
            below.append(_power(factor.base, nodes.Constant(-(_value(factor.exponent) or 0))))
        elif isinstance(factor, nodes.Function) and factor.name == "inverse_sqrt":
            below.append(Part("root", _written(factor.operand)))
        else:
            inner = _written(factor)
            if isinstance(factor, nodes.Statistic) and _is_periodic(factor):
                number, inner = 4 * number, _statistic(factor)
            above.append(Part("bracket", inner) if isinstance(factor, nodes.Add) else inner)
    head = [Part("sign", "−")] if number < 0 else []
    if abs(abs(number) - 1) > 1e-12 or not (above or below):
        above.insert(0, _number(abs(number)))
    if not below:
        return _row(*head, *above)
    return _row(*head, Part("fraction", (_row(*above or (Part("number", "1"),)), _row(*below))))


def _power(base: nodes.Expression, exponent: nodes.Expression) -> Part:
    value = _value(exponent)
    inner = _written(base)
    if isinstance(base, nodes.Add | nodes.Multiply | nodes.Divide):
        inner = Part("bracket", inner)
    if value is not None and value < 0:
        below = inner if value == -1 else Part("power", (inner, _number(-value)))
        if value == -1 and inner.form == "bracket":
            below = inner.inside
        return Part("fraction", (Part("number", "1"), below))
    return inner if value == 1 else Part("power", (inner, _written(exponent)))


def _statistic(e: nodes.Statistic) -> Part:
    """A statistic of x and z as the view shows them."""
    steps = e.view.steps
    scale = next((s for s in steps if isinstance(s, Scale)), None)
    circle = next((s for s in steps if isinstance(s, Circle)), None)
    kind, x, z = str(e.kind), Part("name", "x"), Part("name", "z")
    if circle is not None and kind == "sqdist":
        inside = _row(
            Part("number", f"{3.141592653589793 / circle.period:.4g}"),
            Part("bracket", _row(_component("x"), Part("sign", "−"), _component("z"))),
        )
        sine = Part("power", (Part("word", "sin"), Part("number", "2")))
        return _row(_each(), sine, Part("bracket", inside))
    if any(isinstance(s, Unit) for s in steps) and kind == "dot":
        top = _row(x, Part("sign", "·"), z)
        return Part("fraction", (top, _row(_norm(x), _norm(z))))
    if any(isinstance(s, Logistic) for s in steps) and kind == "dot":
        return _row(_each(), _logistic(e, "x"), _logistic(e, "z"))
    if kind == "dot":
        return _row(x, Part("sign", "·"), z)
    if kind == "sqdist" and scale is None:
        return Part("power", (_norm(_row(x, Part("sign", "−"), z)), Part("number", "2")))
    if kind in ("sqdist", "l1"):
        difference = _row(_component("x"), Part("sign", "−"), _component("z"))
        top = (
            Part("power", (Part("bracket", difference), Part("number", "2")))
            if kind == "sqdist"
            else _row(Part("sign", "|"), difference, Part("sign", "|"))
        )
        if scale is None:
            return _row(_each(), top)
        length = Part("below", (Part("name", "ℓ"), Part("name", "j")))
        below = Part("power", (length, Part("number", "2"))) if kind == "sqdist" else length
        return _row(_each(), Part("fraction", (top, below)))
    if kind == "minsum":
        both = _row(_component("x"), Part("sign", ","), _component("z"))
        return _row(_each(), Part("word", "min"), Part("bracket", both))
    if kind == "chi2":
        difference = _row(_component("x"), Part("sign", "−"), _component("z"))
        total = _row(_component("x"), Part("sign", "+"), _component("z"))
        square = Part("power", (Part("bracket", difference), Part("number", "2")))
        return _row(_each(), Part("fraction", (square, total)))
    if kind == "conjunction":
        product = _row(_component("x"), _component("z"))
        each = Part("below", (Part("sign", "∏"), Part("name", "j")))
        one = Part("bracket", _row(Part("number", "1"), Part("sign", "+"), product))
        return _row(each, one)
    return _row(*_applied(kind))


def _logistic(e: nodes.Statistic, name: str) -> Part:
    """The logistic function of a feature less its location, divided by its width."""
    steps = e.view.steps
    location = next(s.location for s in steps if isinstance(s, Shift))
    step = next(s for s in steps if isinstance(s, Logistic))
    top = _component(name)
    if location:
        top = _row(top, Part("sign", "−" if location > 0 else "+"), _number(abs(location)))
    inside = Part("fraction", (top, _number(step.width)))
    inside = _row(Part("sign", "−"), inside) if step.falling else inside
    return _row(Part("name", "σ"), Part("bracket", inside))


def _is_periodic(e: nodes.Expression) -> bool:
    """Whether a squared distance is one on circles: 4 Σ sin², written without the 4."""
    return isinstance(e, nodes.Statistic) and any(isinstance(s, Circle) for s in e.view.steps)


def _each() -> Part:
    return Part("below", (Part("sign", "∑"), Part("name", "j")))


def _component(name: str) -> Part:
    return Part("below", (Part("name", name), Part("name", "j")))


def _norm(inside: Part) -> Part:
    return _row(Part("sign", "‖"), inside, Part("sign", "‖"))


LATEX_SIGNS = {"−": "-", "·": r"\cdot ", "∑": r"\sum", "∏": r"\prod", "‖": r"\Vert "}
LATEX_WORDS = {"exp": r"\exp", "tanh": r"\tanh", "sin": r"\sin", "min": r"\min", "log": r"\log"}


def _latex(part: Part) -> str:
    form, inside = part.form, part.inside
    if form == "number":
        digits, e, exponent = inside.partition("e")
        return rf"{digits}\cdot 10^{{{int(exponent)}}}" if e else digits
    if form == "name":
        return {"ℓ": r"\ell", "σ": r"\sigma"}.get(str(inside), str(inside))
    if form == "word":
        plain = "".join(letter for letter in inside if letter.isalnum())
        if len(plain) == 1:
            return plain
        return LATEX_WORDS.get(str(inside), rf"\mathrm{{{plain}}}")
    if form == "sign":
        return LATEX_SIGNS.get(str(inside), str(inside))
    if form == "bracket":
        return rf"\left({_latex(inside)}\right)"
    if form == "root":
        return rf"\sqrt{{{_latex(inside)}}}"
    if form == "fraction":
        return rf"\frac{{{_latex(inside[0])}}}{{{_latex(inside[1])}}}"
    if form in ("power", "below"):
        mark = "^" if form == "power" else "_"
        return f"{_latex(inside[0])}{mark}{{{_latex(inside[1])}}}"
    text = ""
    parts = list(inside)
    for k, p in enumerate(parts):
        if p == Part("sign", "‖"):
            text += r"\lVert " if parts[:k].count(p) % 2 == 0 else r"\rVert"
            continue
        piece = _latex(p)
        glued = not text or p.form in ("sign", "bracket") or parts[k - 1].form == "sign"
        text += piece if glued else f" {piece}"
    return text


def _mathml(part: Part) -> str:
    form, inside = part.form, part.inside
    if form == "number":
        digits, e, exponent = inside.partition("e")
        if not e:
            return f"<mn>{digits}</mn>"
        ten = f"<msup><mn>10</mn><mn>{int(exponent)}</mn></msup>"
        return f"<mrow><mn>{digits}</mn><mo>·</mo>{ten}</mrow>"
    if form in ("name", "word"):
        return f"<mi>{escape(inside)}</mi>"
    if form == "sign":
        return f"<mo>{escape(inside)}</mo>"
    if form == "bracket":
        return f"<mrow><mo>(</mo>{_mathml(inside)}<mo>)</mo></mrow>"
    if form == "root":
        return f"<msqrt>{_mathml(inside)}</msqrt>"
    if form in ("fraction", "power", "below"):
        tag = {"fraction": "mfrac", "power": "msup", "below": "msub"}[form]
        return f"<{tag}>{_mathml(inside[0])}{_mathml(inside[1])}</{tag}>"
    return f"<mrow>{''.join(map(_mathml, inside))}</mrow>"
