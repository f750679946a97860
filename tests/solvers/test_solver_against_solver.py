"""Working sets against interior points, on the data that trouble solvers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from mercer.estimators.svm.forms import c_svc, epsilon_svr, nu_svc, nu_svr, one_class
from mercer.kernels import RBF
from mercer.operators import gram
from mercer.solvers.qp import support_vectors
from mercer.solvers.qp.interior_point import interior_point
from mercer.solvers.qp.restricted_gram import RestrictedGram
from mercer.solvers.qp.row_cache import CachedRows
from mercer.solvers.qp.smo import smo, smo_together
from quadratic_programs import check_feasible

FORMS = ["c_svc", "c_svc_no_bias", "nu_svc", "svr", "nu_svr", "one_class"]


def points(kind, n, d, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if kind == "duplicates":
        X = X[rng.integers(0, max(1, n // 4), size=n)]
    elif kind == "identical":
        X[:] = X[0]
    elif kind == "constant feature":
        X[:, 0] = 3.0
    elif kind == "huge":
        X *= 1e6
    elif kind == "tiny":
        X *= 1e-6
    return X


def form_on(name, X, C, seed):
    rng = np.random.default_rng(seed)
    n = len(X)
    K = RBF(0.5)(X)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    y[:2] = [1.0, -1.0]
    weight = rng.uniform(0.1, 3.0, size=n)
    t = rng.normal(size=n)
    if name.startswith("c_svc"):
        return c_svc(K, y, C * weight, not name.endswith("no_bias"))
    if name == "nu_svc":
        largest = 2 * min(weight[y > 0].sum(), weight[y < 0].sum()) / weight.sum()
        return nu_svc(K, y, 0.7 * largest, weight, True)
    if name == "svr":
        return epsilon_svr(K, t, 0.1, C * weight, True)
    if name == "nu_svr":
        return nu_svr(K, t, 0.4, C * weight, True)
    return one_class(K, 0.4, weight)


@pytest.mark.parametrize("name", FORMS)
@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(["plain", "duplicates", "identical", "constant feature", "huge", "tiny"]),
    n=st.integers(2, 70),
    d=st.integers(1, 4),
    C=st.sampled_from([1e-3, 1.0, 100.0]),
    seed=st.integers(0, 10**6),
)
def test_both_solvers_find_the_same_optimum(name, kind, n, d, C, seed):
    program = form_on(name, points(kind, n, d, seed), C, seed).program
    pairs, path = smo(program, tol=1e-6), interior_point(program, tol=1e-6)
    assert pairs.status.ok
    check_feasible(program, pairs.value.a)
    assert pairs.value.violation <= 1e-6
    scale = max(1.0, abs(path.value.objective))
    assert pairs.value.objective <= path.value.objective + 1e-5 * scale
    # The certificate holds for either: nothing lies below the objective by more than the gap.
    for one, other in ((pairs, path), (path, pairs)):
        missing = one.value.objective - other.value.objective
        assert missing <= one.gap * max(1.0, abs(one.value.objective)) + 1e-9 * scale


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_kernels_of_any_size(scale):
    X = points("plain", 40, 2, 0)
    y = np.where(X[:, 0] > 0.1, 1.0, -1.0)
    K = RBF(0.5)(X)
    plain = smo(c_svc(K, y, np.full(40, 5.0), True).program, tol=1e-8).value
    scaled = smo(c_svc(scale * K, y, np.full(40, 5.0 / scale), True).program, tol=1e-8).value
    assert_allclose(scaled.coefficients * scale, plain.coefficients, atol=1e-5)


def test_one_point_of_each_class():
    K = RBF(0.5)(np.array([[0.0], [1.0]]))
    value = smo(c_svc(K, np.array([1.0, -1.0]), np.full(2, 1e6), True).program, tol=1e-10).value
    alpha = 1 / (1 - np.exp(-0.5))  # the margin of two points, by hand
    assert_allclose(value.coefficients, [alpha, -alpha], rtol=1e-8)
    assert_allclose(value.multipliers, [0.0], atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_programmes_on_parts_of_a_matrix_together_are_as_each_alone(dtype):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 3)).astype(dtype)
    label = np.sort(rng.integers(0, 4, size=1200))
    X += label[:, None].astype(dtype) / 2
    operator = gram(RBF(0.7), X, store=False)
    assert "recomputed" in operator.reason
    programs = []
    for i, j in [(0, 1), (0, 2), (1, 3)]:
        index = np.flatnonzero((label == i) | (label == j))
        sign = np.where(label[index] == i, 1.0, -1.0)
        part = RestrictedGram(operator, index)
        programs.append(c_svc(part, sign, np.full(len(index), 3.0), True).program)
    together = smo_together(programs, tol=1e-4)
    alone = [smo(program, tol=1e-4) for program in programs]
    tiled = [smo(program, tol=1e-4, budget=0) for program in programs]
    for program, *found in zip(programs, together, alone, tiled, strict=True):
        index = program.K.index
        K = RBF(0.7)(X[index].astype(np.float64))
        for result in found:
            assert result.status.ok
            F = K @ result.value.coefficients + program.p
            assert program.violation(result.value.a, F) <= 1.1e-4
            assert_allclose(result.value.objective, found[0].value.objective, rtol=1e-5)
    for one, other in zip(together, smo_together(programs, tol=1e-4), strict=True):
        np.testing.assert_array_equal(one.value.a, other.value.a)


def test_rows_are_computed_once_and_when_asked_for():
    X = points("plain", 1100, 3, 0)
    operator = gram(RBF(0.5), X, store=False)
    kept = CachedRows(operator, [np.arange(1100)])
    kept.fetch([(0, np.array([7, 3, 7]))])
    kept.fetch([(0, np.array([3, 1000]))])
    assert kept.count == 3
    (slot,) = kept.slots
    assert_allclose(kept.rows[slot[[7, 3, 1000]]], RBF(0.5)(X[[7, 3, 1000]], X), rtol=1e-12)
    K = RBF(0.5)(X[:5])
    assert CachedRows(K, [np.arange(5)]).rows is K


def test_rows_are_computed_as_far_as_programmes_go():
    X = points("plain", 1100, 3, 0)
    operator = gram(RBF(0.5), X, store=False)
    parts = [np.r_[0:300, 300:700], np.r_[0:300, 700:1100], np.arange(300, 1100)]
    kept = CachedRows(operator, parts)
    kept.rows[:] = np.nan
    kept.fetch([(0, np.array([5, 400])), (1, np.array([5]))])
    kept.fetch([(2, np.array([400, 900]))])
    for program, points_ in ((0, [5, 400]), (1, [5]), (2, [400, 900])):
        found = kept.rows[kept.slots[program][points_]][:, parts[program]]
        assert_allclose(found, RBF(0.5)(X[points_], X[parts[program]]), rtol=1e-12)
    assert kept.count == 3
    assert np.isnan(kept.rows[kept.slots[2][900], :300]).all()
    assert kept.slots[1][400] == -1


@pytest.mark.parametrize("name", ["c_svc", "c_svc_no_bias", "nu_svc", "svr"])
def test_interior_points_on_what_is_undecided(name):
    program = form_on(name, points("plain", 620, 2, 0), 100.0, 0).program
    early = smo(program, tol=1e-6, max_iter=3000)
    assert not early.status.ok
    found = support_vectors._undecided(
        program, early.value, tol=1e-6, max_iter=200, max_time=None, report=None
    )
    assert found.status.ok
    assert found.value.violation <= 1e-6
    check_feasible(program, found.value.a)
    assert found.value.objective <= early.value.objective
    best = interior_point(program, tol=1e-6).value.objective
    assert_allclose(found.value.objective, best, rtol=1e-6, atol=1e-8)
