"""Quadratic programs of explicit features: coordinate descent against the other solvers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import clone, config_context

from mercer import SVC, SVR, OneClassSVM, core
from mercer import kernels as K
from mercer.core.reference import descent as twin
from mercer.operators import FeatureGram
from mercer.solvers.qp.coordinate_descent import descend
from mercer.solvers.qp.quadratic_program import QuadraticProgram
from mercer.solvers.qp.smo import smo


def program(groups, signs=False, n=80, d=6, seed=0):
    rng = np.random.default_rng(seed)
    phi = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    y = np.sign(phi @ rng.normal(size=d) + 0.5 * rng.normal(size=n))
    p, lo, hi = -y, np.minimum(0, 2 * y), np.maximum(0, 2 * y)
    s = None
    if signs:  # two variables per point, as in regression
        s = np.repeat([1.0, -1.0], n)
        p = np.concatenate([0.1 - y, 0.1 + y])
        lo, hi = np.zeros(2 * n), np.ones(2 * n)
    membership = {0: None, 1: np.zeros(len(p), dtype=int), 2: (np.tile(y, len(p) // n) > 0) * 1}
    totals = {0: (), 1: np.zeros(1), 2: np.array([-1.0, 1.0])}
    if signs:
        totals[1], totals[2] = np.full(1, 20.0), np.array([8.0, 12.0])
    gram = FeatureGram(sp.csr_array(phi), sp.csr_array(phi))
    return QuadraticProgram(gram, p, lo, hi, membership[groups], totals[groups], s)


@pytest.mark.parametrize("signs", [False, True])
@pytest.mark.parametrize("groups", [0, 1, 2])
def test_it_ends_where_the_other_solver_does(any_level, groups, signs):
    given = program(groups, signs)
    start = given.feasible()
    found, steps = descend(given, start, 1e-5, 10**9, lambda: np.inf, lambda *told: None)
    assert steps >= np.count_nonzero(found != start)
    exact = smo(given, tol=1e-6).value
    near = given.feasible(found)
    assert given.solution(near).objective <= exact.objective + 1e-4 * abs(exact.objective)
    np.testing.assert_allclose(found, near, atol=1e-3)  # the sums nearly hold
    again = descend(given, start, 1e-5, 10**9, lambda: np.inf, lambda *told: None)
    assert np.array_equal(found, again[0])


def test_it_stops_when_told_and_leaves_other_programmes_alone():
    given = program(1)
    told = []

    def tell(*args):
        told.append(args)
        return True

    descend(given, given.feasible(), 0.0, 10**9, lambda: np.inf, tell)
    assert len(told) == 1
    assert descend(given, given.feasible(), 0.0, 10**9, lambda: 0.0, print) is not None
    _, steps = descend(given, given.feasible(), 0.0, 1000, lambda: np.inf, lambda *told: None)
    assert 1000 - len(given.p) < steps <= 1000
    assert descend(given, given.feasible(), 0.0, 10, lambda: np.inf, print) is None
    dense = QuadraticProgram(given.K.dense(), given.p, given.lo, given.hi)
    assert descend(dense, dense.feasible(), 1e-3, 10**9, lambda: np.inf, print) is None
    hard = QuadraticProgram(given.K, given.p, given.lo, np.full(80, np.inf))
    assert descend(hard, hard.feasible(), 1e-3, 10**9, lambda: np.inf, print) is None


def test_points_without_features_go_to_a_bound(any_level):
    phi = sp.csr_array((3, 2))
    gram = FeatureGram(phi, phi)
    given = QuadraticProgram(gram, np.array([-1.0, 1.0, 0.0]), np.zeros(3), np.ones(3))
    found, _ = descend(given, np.full(3, 0.5), 1e-6, 10**9, lambda: np.inf, lambda *args: None)
    assert found.tolist() == [1.0, 0.0, 0.5]


def test_the_binding_refuses_what_does_not_fit(native_level):
    starts, columns = np.array([0, 1, 2]), np.array([0, 1], dtype=np.int32)
    ones, none = np.ones(2), np.zeros(0)
    good = {
        "starts": starts,
        "columns": columns,
        "values": ones,
        "width": 2,
        "a": np.zeros(2),
        "p": -ones,
        "lo": 0 * ones,
        "hi": ones,
        "sign": None,
        "group": None,
        "totals": none,
        "tol": 1e-3,
        "seed": 0,
    }
    assert core.coordinate_descent(*good.values()).rounds == 0
    for change, words in [
        ({"width": 1}, "columns"),
        ({"starts": np.array([0, 1, 3])}, "starts"),
        ({"values": np.ones(3)}, "value per entry"),
        ({"a": np.zeros(3)}, "whole number"),
        ({"p": np.ones(3)}, "per variable"),
        ({"hi": np.array([1.0, np.inf])}, "finite"),
        ({"a": np.array([0.0, 2.0])}, "within"),
        ({"totals": np.zeros(1)}, "groups"),
        ({"totals": np.zeros(1), "group": np.array([0, 1], dtype=np.int32)}, "groups that exist"),
    ]:
        with pytest.raises(ValueError, match=words):
            core.coordinate_descent(*{**good, **change}.values())
    assert twin.CoordinateDescent(*good.values()).rounds == 0


def words(rng, n, letters="ACGT", length=30):
    return ["".join(x) for x in rng.choice(list(letters), size=(n, length))]


MODELS = [SVC(C=1.0), SVC(C=1.0, fit_intercept=False), SVR(), OneClassSVM()]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_estimators_on_sparse_features_equal_those_on_the_matrix(model, monkeypatch):
    rng = np.random.default_rng(0)
    X = words(rng, 300)
    y = np.array([x.count("AC") > 1 for x in X]).astype(int)
    kernel = K.Spectrum(4).normalize()
    used = []
    monkeypatch.setattr(
        "mercer.solvers.qp.smo_search.descend",
        lambda *args: used.append(found := descend(*args)) or found,
    )
    small = clone(model).set_params(kernel=kernel, tol=1e-5, cache_size=0.5)
    with config_context(working_memory=0.5):  # the matrix does not fit
        small.fit(X, y)
    steps = [found[1] for found in used if found is not None]
    assert steps
    assert small.n_iter_ >= max(steps)
    stored = clone(model).set_params(kernel="precomputed", tol=1e-5).fit(kernel(X), y)
    name = "predict" if isinstance(model, SVR) else "decision_function"
    found, expected = getattr(small, name)(X), getattr(stored, name)(kernel(X))
    np.testing.assert_allclose(found, expected, atol=1e-3)
