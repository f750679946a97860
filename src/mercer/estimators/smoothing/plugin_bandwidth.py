"""The plug-in bandwidth matrix: the smallest estimated mean integrated squared error."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from mercer.expressions import PairMatrix, exp, statistic

# The plug-in matrix has fourth derivatives in so many features at most.
PLUGIN_FEATURES = 6


def plugin_matrix(X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """H that minimises the asymptotic mean integrated squared error with estimated derivatives.

    Data are sphered, ψ₄ (the integrals of f times its fourth derivatives) are estimated with a
    Gaussian pilot whose width removes the leading bias, for which ψ₆ is estimated with a pilot
    whose width comes from the normal law: two stages, and one matrix of any orientation.

    References
    ----------
    T. Duong and M. L. Hazelton, Plug-in bandwidth matrices for bivariate kernel density estimation,
    Journal of Nonparametric Statistics 15 (2003); J. E. Chacón and T. Duong, Multivariate plug-in
    bandwidth selection with unconstrained pilot bandwidth matrices, Test 19 (2010).
    """
    d = X.shape[1]
    if d > PLUGIN_FEATURES:
        raise ValueError(
            f"bandwidth='plugin' takes fourth derivatives in up to {PLUGIN_FEATURES} features, and "
            f"X has {d}; use 'mlcv', or reduce the features first"
        )
    centred = X - weight @ X
    scales = np.sqrt(weight @ centred**2)
    covariance = (centred / scales).T @ (weight[:, None] * centred / scales)
    values, vectors = np.linalg.eigh(covariance)
    if values[0] < 1e-10 * values[-1]:
        raise ValueError(
            f"bandwidth='plugin' gives a full matrix, and the {d} columns of X are linearly "
            "dependent; drop one of them, or use one bandwidth for each feature"
        )
    root = scales[:, None] * (vectors * np.sqrt(values))  # covariance = root rootᵀ
    Z = np.linalg.solve(root, centred.T).T
    size = 1 / np.sum(weight**2)

    # Of a radial function F(s), s = ‖z‖²/2, all fourth derivatives at zero are F''(0) times one
    # tensor, so that stage one is about numbers: the pilot's own and the normal law's.
    c = (2 * np.pi) ** (-d / 2)
    laplacian_at_zero = _second_at_zero(c, 1.0, d, 1)
    normal = _second_at_zero((4 * np.pi) ** (-d / 2), 2.0, d, 2)
    # |F''(0)| g^-(d+6) / n is the bias of the diagonal terms, normal g²/2 that of smoothing.
    g6 = abs(2 * laplacian_at_zero / (normal * size)) ** (1 / (d + 8))
    psi6 = _derivatives(Z, weight, g6, laplacian=True)
    diagonal = _symmetric_deltas(d) * (c / size)

    def bias(log_g: float) -> float:
        g = np.exp(log_g)
        return float(np.sum((diagonal * g ** -(d + 4.0) + 0.5 * g**2 * psi6) ** 2))

    log_g: float = minimize_scalar(
        bias, bounds=(np.log(g6) - 2, np.log(g6) + 2), method="bounded"
    ).x
    psi4 = _derivatives(Z, weight, float(np.exp(log_g)), laplacian=False).reshape(d * d, d * d)
    return root @ _smallest_error(psi4, size, d) @ root.T


def _second_at_zero(c: float, variance: float, d: int, laplacians: int) -> float:
    """F''(0) for F(s) the Gaussian c exp(-s / v), v = variance, after so many Laplacians.

    The Laplacian of F(s) is 2 s F'' + d F'; of a polynomial times exp(-s/v), again one.
    """
    polynomial = np.polynomial.Polynomial([c])
    s = np.polynomial.Polynomial([0, 1.0])

    def slope(p):
        return p.deriv() - p / variance

    for _ in range(laplacians):
        polynomial = 2 * s * slope(slope(polynomial)) + d * slope(polynomial)
    return float(slope(slope(polynomial))(0.0))


def _symmetric_deltas(d: int) -> np.ndarray:
    """δ_ab δ_cd + δ_ac δ_bd + δ_ad δ_bc, shape (d, d, d, d)."""
    one = np.eye(d)
    return (
        np.einsum("ab,ce->abce", one, one)
        + np.einsum("ac,be->abce", one, one)
        + np.einsum("ae,bc->abce", one, one)
    )


def _derivatives(Z: np.ndarray, weight: np.ndarray, g: float, laplacian: bool) -> np.ndarray:
    """Σ_ij w_i w_j ∂⁴F(z_i - z_j), (d, d, d, d), for F = φ_g or its Laplacian.

    For a function of s = ‖z‖²/2, ∂⁴F = F'''' zzzz + F''' (δzz, six terms) + F'' (δδ, three terms).
    Sums of monomials of differences come from one product of the core with monomials of points.
    """
    d = Z.shape[1]
    Z = Z / g
    s = 0.5 * statistic("sqdist")
    c = (2 * np.pi) ** (-d / 2) * g ** (-d - 4.0 - 2.0 * laplacian)
    # The polynomials before exp(-s): of F'', F''' and F''''.
    polynomial = np.polynomial.Polynomial([-d, 2.0] if laplacian else [1.0])
    factors = []
    for order in range(1, 5):
        polynomial = polynomial.deriv() - polynomial
        if order >= 2:
            factors.append(polynomial.coef)
    total = np.zeros((d,) * 4)
    deltas = np.eye(d)
    for coefficients, degree in zip(factors, (0, 2, 4), strict=True):
        kernel = sum(float(a) * s**k for k, a in enumerate(coefficients)) * exp(-s)
        moment = _difference_moments(PairMatrix(kernel, Z), Z, weight, degree)
        if degree == 4:
            total += moment
        elif degree == 2:
            for a, b in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
                others = [k for k in range(4) if k not in (a, b)]
                term = np.multiply.outer(deltas, moment)
                total += np.moveaxis(term, (0, 1, 2, 3), (a, b, *others))
        else:
            total += moment * _symmetric_deltas(d)
    return c * total


def _difference_moments(
    pairs: PairMatrix, Z: np.ndarray, weight: np.ndarray, degree: int
) -> np.ndarray:
    """Σ_ij w_i w_j G_ij (z_i - z_j)^⊗degree, of shape (d,) * degree."""
    d = Z.shape[1]
    monomials = [m for k in range(degree + 1) for m in combinations_with_replacement(range(d), k)]
    place = {m: i for i, m in enumerate(monomials)}
    columns = np.column_stack([np.prod(Z[:, list(m)], axis=1) for m in monomials])
    left = columns * weight[:, None]
    sums = left.T @ pairs.products(left, np.zeros((len(Z), 0)))[0]  # of monomials of both
    moment = np.zeros((d,) * degree)
    for index in combinations_with_replacement(range(d), degree):
        value = 0.0
        for chosen in range(2**degree):
            ours = tuple(sorted(index[k] for k in range(degree) if not chosen >> k & 1))
            theirs = tuple(sorted(index[k] for k in range(degree) if chosen >> k & 1))
            value += (-1) ** len(theirs) * sums[place[ours], place[theirs]]
        for order in set(permutations(index)):
            moment[order] = value
    return moment


def _smallest_error(psi4: np.ndarray, size: float, d: int) -> np.ndarray:
    """H that minimises |H|^(-1/2) (4π)^(-d/2) / n + ¼ vec(H)ᵀ Ψ vec(H)."""
    psi4 = 0.5 * (psi4 + psi4.T)
    lower = np.tril_indices(d)
    normal = (4 / ((d + 2) * size)) ** (1 / (d + 4))
    roughness = (4 * np.pi) ** (-d / 2) / size

    def unpack(t: np.ndarray) -> np.ndarray:
        L = np.zeros((d, d))
        L[lower] = t
        L[np.diag_indices(d)] = normal * np.exp(np.diag(L))
        return L

    def error(t: np.ndarray) -> float:
        L = unpack(t)
        h = (L @ L.T).ravel()
        return float(roughness / np.prod(np.diag(L)) + 0.25 * h @ psi4 @ h) * size * normal**d

    found = minimize(error, np.zeros(len(lower[0])), method="BFGS", options={"gtol": 1e-7})
    L = unpack(found.x)
    return L @ L.T
