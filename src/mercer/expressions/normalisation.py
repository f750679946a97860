"""Normalised kernels, k(x,z) / sqrt(k(x,x) k(z,z)), without overflow or cancellation.

The normalised exponential of k is exp(-D), with D the half squared distance of the feature vectors,

    D(x, z) = k(x,x)/2 + k(z,z)/2 - k(x,z) = ‖phi(x) - phi(z)‖² / 2.

Where k(x,x) is large, these three terms cancel. So D is not formed from them but from the distance
of the points, by rules for sums, products and powers. It is then exactly zero at equal points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from mercer.expressions.lowering import is_nonnegative, side_of, split
from mercer.expressions.nodes import (
    ONE,
    ZERO,
    Add,
    Constant,
    Diagonal,
    Divide,
    Expression,
    Function,
    Multiply,
    Point,
    Power,
    Statistic,
    add,
    apply_function,
    diagonal,
    divide,
    exp,
    multiply,
    positive,
    power,
    sqrt,
    step,
)
from mercer.expressions.simplification import lower
from mercer.expressions.statistics import STATISTICS
from mercer.expressions.views import Unit

# Statistics with a distance that is theirs: x·x/2 + z·z/2 - x·z = ‖x - z‖²/2, and
# Σ x_j/2 + Σ z_j/2 - Σ min(x_j, z_j) = ‖x - z‖₁/2.
_DISTANCES = {"dot": STATISTICS["sqdist"], "minsum": STATISTICS["l1"]}


def normalised(e: Expression) -> Expression:
    """k(x,z) / sqrt(k(x,x) k(z,z)), zero where either diagonal entry is.

    Of an exponential this is again an exponential, of x·z the inner product of unit vectors, of a
    product the product of the normalised factors, of a power the power of the normalised base, of a
    sum with exponentials a weighted sum of the normalised terms: nothing overflows on the way.
    """
    if _is_positive_number(e):
        return divide(e, e)
    match e:
        case Statistic(kind=kind) if kind is STATISTICS["dot"]:
            return Statistic(kind, e.view.then(Unit()))
        case Function(name="exp"):
            terms = e.operand.terms if isinstance(e.operand, Add) else (e.operand,)
            return exp(-add(*map(_distance_of_term, terms)))
        case Power():
            return _normalised_power(e)
        case Multiply():
            return _normalised_product(e)
        case Add() if any(map(_grows, e.terms)) and all(map(_has_nonnegative_diagonal, e.terms)):
            return add(*(_weighted(t, e) for t in e.terms))
    return _over_diagonals(e)


def half_squared_distance(e: Expression) -> Expression:
    """k(x,x)/2 + k(z,z)/2 - k(x,z), exactly zero at equal points wherever that can be had."""
    if not _has_points(e):
        return ZERO
    match e:
        case Statistic(kind=kind) if STATISTICS.get(kind.name) is kind and kind.name in _DISTANCES:
            return 0.5 * Statistic(_DISTANCES[kind.name], e.view)
        case Add():
            return add(*map(half_squared_distance, e.terms))
        case Multiply():
            return _distance_of_product(e)
        case Divide() if not _has_points(e.denominator):
            return divide(half_squared_distance(e.numerator), e.denominator)
        case Power(exponent=Constant(value=n)) if n.is_integer() and n >= 2:
            return _distance_of_power(e.base, int(n))
        case Function(name="exp") if _has_points(diagonal(e, 0)):
            # √(k(x,x) k(z,z)) (1 - exp(-D)) + (√k(x,x) - √k(z,z))²/2, with D that of the exponent.
            roots = [exp(0.5 * diagonal(e.operand, side)) for side in (0, 1)]
            apart = 1 - exp(-half_squared_distance(e.operand))
            return multiply(*roots, apart) + 0.5 * power(roots[0] - roots[1], 2)
    return _mean(e) - e


def _distance_of_product(e: Multiply) -> Expression:
    f, k = _rescaled(e)
    if f != ONE and not _is_normalising(f):
        # f(x) f(z) D + (f(x) - f(z)) (f(x) k(x,x) - f(z) k(z,z)) / 2, with D that of k.
        left, right = diagonal(f, 0), diagonal(f, 1)
        change = left * diagonal(k, 0) - right * diagonal(k, 1)
        return left * right * half_squared_distance(k) + 0.5 * (left - right) * change
    first, *others = e.factors
    if any(side_of(factor) is not None for factor in e.factors):
        return _mean(e) - e
    if not _has_points(first):
        return multiply(first, half_squared_distance(multiply(*others)))
    return _distance_of_two(first, multiply(*others))


def _distance_of_two(a: Expression, b: Expression) -> Expression:
    """Of their product."""
    A, B = half_squared_distance(a), half_squared_distance(b)
    means = _mean(a) * B + _mean(b) * A
    return means - A * B + _half_difference(a) * _half_difference(b)


def _distance_of_power(base: Expression, n: int) -> Expression:
    """By repeated squaring."""
    if n % 2:
        return _distance_of_two(power(base, n - 1), base)
    root = power(base, n // 2)
    D = half_squared_distance(root)
    return D * (diagonal(root, 0) + diagonal(root, 1) - D) + power(_half_difference(root), 2)


def _mean(e: Expression) -> Expression:
    return 0.5 * diagonal(e, 0) + 0.5 * diagonal(e, 1)


def _half_difference(e: Expression) -> Expression:
    return 0.5 * diagonal(e, 0) - 0.5 * diagonal(e, 1)


def _distance_of_term(term: Expression) -> Expression:
    """The half squared distance; of a kernel it is never negative, whatever rounding does."""
    if not _has_points(term):
        return _mean(term) - term  # zero, but with a derivative for each hyperparameter
    D = half_squared_distance(term)
    return positive(D) if _is(_is_kernel, term) and not _is(is_nonnegative, D) else D


def _normalised_power(e: Power) -> Expression:
    if _has_nonnegative_diagonal(e.base):
        return power(normalised(e.base), e.exponent)
    # An even power is as good on a base whose diagonal is negative.
    even = isinstance(e.exponent, Constant) and e.exponent.value % 2 == 0
    return power(_over_diagonals(e.base, absolute=even), e.exponent)


def _normalised_product(e: Multiply) -> Expression:
    """The product of the normalised factors; those that may be negative are normalised together."""
    f, k = _rescaled(e)
    if f != ONE:  # f(x) f(z) keeps its sign
        signs = (step(g) - step(-g) for g in (diagonal(f, 0), diagonal(f, 1)))
        return multiply(*signs, normalised(k))
    known = [factor for factor in e.factors if _has_nonnegative_diagonal(factor)]
    others = [factor for factor in e.factors if factor not in known]
    found = multiply(*map(normalised, known))
    return multiply(found, _over_diagonals(multiply(*others))) if others else found


def _rescaled(e: Multiply) -> tuple[Expression, Expression]:
    """f and k where e is f(x) f(z) k(x,z); f is one where there is no such function."""
    left, right = ([f for f in e.factors if side_of(f) == side] for side in (0, 1))
    if Counter(diagonal(f, 1) for f in left) != Counter(right):
        return ONE, e
    return multiply(*left), multiply(*(f for f in e.factors if side_of(f) is None))


def _is_normalising(f: Expression) -> bool:
    """Whether f has a factor k(x,x)^(-1/2), with which k(x,x) f(z) may be huge."""
    return any(isinstance(node, Function) and node.name == "inverse_sqrt" for node in f.walk())


def _weighted(term: Expression, e: Add) -> Expression:
    """A term of a normalised sum: normalised, times the root of its share of k(x,x) and k(z,z)."""
    return multiply(normalised(term), *(sqrt(_share(term, e, side)) for side in (0, 1)))


def _share(term: Expression, e: Add, side: int) -> Expression:
    """The part of k(x,x) that is the term's, from exponents less the largest of them."""
    parts = [_factor_and_exponent(diagonal(t, side)) for t in e.terms]
    largest = parts[0][1]
    for _, a in parts[1:]:
        largest = largest + positive(a - largest)
    sizes = [multiply(f, exp(a - largest)) for f, a in parts]
    return divide(sizes[e.terms.index(term)], add(*sizes), at_zero=0.0)


def _factor_and_exponent(e: Expression) -> tuple[Expression, Expression]:
    """e as f exp(a)."""
    factors = e.factors if isinstance(e, Multiply) else (e,)
    exponents = [f.operand for f in factors if isinstance(f, Function) and f.name == "exp"]
    return multiply(*(f for f in factors if not _is_exp(f))), add(*exponents)


def _over_diagonals(e: Expression, absolute: bool = False) -> Expression:
    sides = (diagonal(e, 0), diagonal(e, 1))
    if _is_positive_number(sides[0]):
        return divide(e, sides[0])
    if absolute:
        sides = tuple(sqrt(power(side, 2)) for side in sides)
    return multiply(e, *(apply_function("inverse_sqrt", side) for side in sides))


def _has_points(e: Expression) -> bool:
    return any(isinstance(node, Statistic | Diagonal | Point) for node in e.walk())


def _is(test: Callable[[Expression], bool], e: Expression) -> bool:
    """Whether a formula passes a test of its form, once its hyperparameters are numbers."""
    try:
        return test(lower(e))
    except ValueError:  # a root of a negative number, which is refused where it is evaluated
        return False


def _is_positive_number(e: Expression) -> bool:
    return _is(lambda lowered: isinstance(lowered, Constant) and lowered.value > 0, e)


def _is_exp(e: Expression) -> bool:
    return isinstance(e, Function) and e.name == "exp"


def _grows(term: Expression) -> bool:
    """Whether a term has an exponential that depends on the point even at k(x,x)."""
    factors = term.factors if isinstance(term, Multiply) else (term,)
    return any(_is_exp(f) and _has_points(diagonal(f, 0)) for f in factors)


def _has_nonnegative_diagonal(e: Expression) -> bool:
    return _is(is_nonnegative, diagonal(e, 0))


def _is_kernel(e: Expression) -> bool:
    """Whether a formula without hyperparameters is positive semidefinite by its form alone."""
    match e:
        case Constant():
            return e.value >= 0
        case Statistic():
            return e.kind.is_kernel
        case Add():
            return all(map(_is_kernel, e.terms))
        case Multiply():
            f, k = _rescaled(e)
            return _is_kernel(k) if f != ONE else all(map(_is_kernel, e.factors))
        case Power(exponent=Constant(value=n)):
            return n >= 0 and n.is_integer() and _is_kernel(e.base)
        case Function(name="exp"):
            terms = e.operand.terms if isinstance(e.operand, Add) else (e.operand,)
            return all(_is_kernel(t) or _is_minus_distance(t) for t in terms)
    return False


def _is_minus_distance(e: Expression) -> bool:
    """Whether e is -c times a distance whose negative exponential is a kernel."""
    factor, rest = split(e)
    inner = rest[0].operand if isinstance(rest[0], Function) and rest[0].name == "sqrt" else rest[0]
    return factor <= 0 and len(rest) == 1 and isinstance(inner, Statistic) and inner.kind.vanishes
