"""Quadratic programs of every kind the support vector machines make, and a slow solver."""

from __future__ import annotations

import numpy as np
from scipy.optimize import LinearConstraint, minimize

from mercer.solvers.qp.quadratic_program import QuadraticProgram

FORMS = [
    "c_svc",
    "c_svc_weighted",
    "c_svc_no_bias",
    "svr",
    "svr_no_bias",
    "svr_epsilon_zero",
    "nu_svc",
    "nu_svc_no_bias",
    "nu_svr",
    "nu_svr_no_bias",
    "one_class",
]


def gram(m, kind="rbf", seed=0, d=3):
    X = np.random.default_rng(seed).normal(size=(m, d))
    if kind == "repeated":
        X[m // 2 :] = X[: m - m // 2]
    if kind in ("linear", "repeated"):
        return X @ X.T
    return np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=-1))


def make(form, K, C=2.0, seed=1):
    """The problem of a form on the Gram matrix K, with random targets."""
    rng = np.random.default_rng(seed)
    m = K.shape[0]
    y = np.where(np.arange(m) % 2 == 0, 1.0, -1.0)
    rng.shuffle(y)
    t = rng.normal(size=m)
    bound = np.full(m, C)
    one, both = np.zeros(m, dtype=int), np.zeros(2 * m, dtype=int)
    zero = np.zeros(m)
    nothing = np.zeros(1)
    if form == "c_svc_weighted":
        bound = C * rng.uniform(0.1, 3.0, size=m)
    if form.startswith("c_svc"):
        lo, hi = np.minimum(0, y * bound), np.maximum(0, y * bound)
        if form.endswith("no_bias"):
            return QuadraticProgram(K, -y, lo, hi)
        return QuadraticProgram(K, -y, lo, hi, one, nothing)
    if form.startswith("svr"):
        epsilon = 0.0 if form.endswith("zero") else 0.2
        p = np.concatenate([epsilon - t, -epsilon - t])
        lo, hi = np.concatenate([zero, -bound]), np.concatenate([bound, zero])
        if form.endswith("no_bias"):
            return QuadraticProgram(K, p, lo, hi)
        return QuadraticProgram(K, p, lo, hi, both, nothing)
    unit = np.ones(m)
    if form == "nu_svc":
        total = 0.4 * m / 2
        lo, hi = np.minimum(0, y), np.maximum(0, y)
        return QuadraticProgram(K, zero, lo, hi, (y < 0).astype(int), np.array([total, -total]))
    if form == "nu_svc_no_bias":
        return QuadraticProgram(K, zero, zero, unit, one, np.array([0.4 * m]), signs=y)
    if form == "nu_svr":
        total = 0.3 * C * m / 2
        p = np.concatenate([-t, -t])
        lo, hi = np.concatenate([zero, -bound]), np.concatenate([bound, zero])
        return QuadraticProgram(K, p, lo, hi, np.repeat([0, 1], m), np.array([total, -total]))
    if form == "nu_svr_no_bias":
        p, hi = np.concatenate([-t, t]), np.concatenate([bound, bound])
        signs = np.repeat([1.0, -1.0], m)
        return QuadraticProgram(K, p, 0 * hi, hi, both, np.array([0.3 * C * m]), signs)
    if form == "one_class":
        return QuadraticProgram(K, zero, zero, unit, one, np.array([0.3 * m]))
    raise ValueError(form)


def full_matrix(program):
    """Q written out, entry by entry."""
    m, n = program.n_points, len(program.p)
    signs = np.ones(n) if program.signs is None else program.signs
    Q = np.empty((n, n))
    for i in range(n):
        for j in range(n):
            Q[i, j] = signs[i] * signs[j] * program.K[i % m, j % m]
    return Q


def objective(program, a):
    return 0.5 * a @ full_matrix(program) @ a + program.p @ a


def slow_optimum(program):
    """The least value by SLSQP, a general method that knows nothing of the problem's form."""
    Q, n = full_matrix(program), len(program.p)
    constraints = []
    for g, total in enumerate(program.totals):
        row = (program.groups == g).astype(float)
        constraints.append(LinearConstraint(row, total, total))
    start = program.feasible()
    found = minimize(
        lambda a: 0.5 * a @ Q @ a + program.p @ a,
        start,
        jac=lambda a: Q @ a + program.p,
        bounds=list(zip(program.lo, program.hi, strict=True)),
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 2000, "ftol": 1e-14},
    )
    assert found.success or found.status == 8, found.message  # 8: no descent left to find
    assert n == len(found.x)
    return found.fun


def check_feasible(program, a):
    assert np.all(a >= program.lo)
    assert np.all(a <= program.hi)
    for g, total in enumerate(program.totals):
        members = a[program.groups == g]
        np.testing.assert_allclose(members.sum(), total, atol=1e-10 * (1 + np.abs(members).sum()))


def check_optimal(program, result, tol):
    """The conditions of Karush, Kuhn and Tucker, from the definitions."""
    a = result.value.a
    check_feasible(program, a)
    F = full_matrix(program) @ a + program.p
    r = F.copy()
    if program.groups is not None:
        r -= result.value.multipliers[program.groups]
    free = (a > program.lo) & (a < program.hi)
    assert np.all(np.abs(r[free]) <= tol)
    assert np.all(r[a <= program.lo] >= -tol)
    assert np.all(r[a >= program.hi] <= tol)
