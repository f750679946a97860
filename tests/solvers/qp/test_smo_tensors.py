"""Working sets on a device: the kernels against their twins, and all that goes around them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import set_twins
from mercer import kernels as K
from mercer.arrays import as_numpy
from mercer.operators import gram
from mercer.solvers.qp import smo_tensors as module
from mercer.solvers.qp.restricted_gram import restrict
from mercer.solvers.qp.smo import smo
from mercer.solvers.qp.support_vectors import solve_program, solve_programs
from mercer.solvers.result import Status
from quadratic_programs import FORMS, check_feasible, make
from tensor_devices import DEVICE, tensor, torch

FORMULAS = {"rbf": K.RBF(0.5), "linear": K.Linear(), "far": K.RBF(0.5)}


@pytest.fixture(autouse=True)
def at_hand(monkeypatch):
    """Kernels that are there: Triton's on a device, their twins on the host."""
    if DEVICE.type == "cpu":
        monkeypatch.setattr(module, "kernels", lambda: set_twins)


def pair_of(form, m=30, kind="rbf", C=2.0, dtype=np.float64, seed=0):
    """A problem on the host, and the same on the device."""
    X = np.random.default_rng(seed).normal(size=(m, 3)).astype(dtype)
    X = X + 1e4 if kind == "far" else X
    program = make(form, FORMULAS[kind](X.astype(np.float64)), C)
    return program, replace(program, K=gram(FORMULAS[kind], tensor(X), store=False))


def solve(programs, tol=1e-3, max_iter=None, max_time=None, starts=None, report=None):
    return module.smo_tensors(
        programs,
        tol=tol,
        max_iter=max_iter,
        max_time=max_time,
        starts=starts or [None] * len(programs),
        report=report,
    )


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", FORMULAS)
@pytest.mark.parametrize("size", [16, 1024])
def test_every_form_ends_at_its_optimum(form, kind, size, monkeypatch):
    monkeypatch.setattr(module, "_LARGEST_WORKING_SET", size)
    program, there = pair_of(form, 30, kind)
    (found,) = solve([there], tol=1e-4)
    assert found.status.ok
    check_feasible(program, found.value.a)
    assert found.value.violation <= 1e-4
    # The certificate is that of double precision.
    exact = program.solution(found.value.a)
    scale = max(1.0, abs(exact.objective))
    assert exact.violation <= 1.001e-4
    np.testing.assert_allclose(found.value.gradient, exact.gradient, atol=1e-9 * scale)
    best = solve_program(program, tol=1e-6).value.objective
    np.testing.assert_allclose(exact.objective, best, atol=1e-3 * scale)


@given(
    form=st.sampled_from(FORMS),
    sizes=st.lists(st.integers(2, 20), min_size=1, max_size=4),
    C=st.sampled_from([1e-3, 1.0, 30.0]),
    seed=st.integers(0, 99),
    single=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_programmes_of_any_sizes_at_once(form, sizes, C, seed, single):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(20, 2)).astype(np.float32 if single else np.float64)
    X[rng.integers(20, size=5)] = X[0]
    whole, host = gram(K.RBF(0.7), tensor(X), store=False), K.RBF(0.7)(X.astype(np.float64))
    programs, expected = [], []
    for m in sizes:
        index = rng.permutation(20)[:m]
        program = make(form, host[np.ix_(index, index)], C, seed=seed)
        programs.append(replace(program, K=restrict(whole, index)))
        expected.append((program, smo(program, tol=1e-5)))
    with pytest.MonkeyPatch.context() as patch:
        if DEVICE.type == "cpu":
            patch.setattr(module, "kernels", lambda: set_twins)
        results = solve(programs, tol=1e-3)
    for found, (program, best) in zip(results, expected, strict=True):
        assert found.status.ok == best.status.ok
        if best.status is Status.INFEASIBLE:
            assert found.status is Status.INFEASIBLE
            continue
        check_feasible(program, found.value.a)
        room = np.sum(program.hi - program.lo)
        missing = found.value.objective - best.value.objective
        assert -1e-6 * (1 + room) <= missing <= 1e-3 * room + 1e-6


def test_steps_are_counted_for_each_and_told_for_all():
    _, there = pair_of("c_svc", 30, C=20.0)
    steps = solve([there])[0].n_iter
    assert steps > 20
    for limit in (0, 1, 7, steps // 2):
        for result in solve([there, there], max_iter=limit):
            assert result.status is Status.MAX_ITER
            assert result.n_iter == limit
    told = []
    solve([there, there], report=lambda n, violation: told.append((n, violation)))
    assert [n for n, _ in told] == sorted(n for n, _ in told)
    assert told[-1][0] == 2 * steps
    stopped = solve([there], report=lambda n, violation: n > 0)[0]
    assert stopped.status is Status.STOPPED
    assert 0 < stopped.n_iter < steps
    late = solve([there], max_time=0.0)[0]
    assert late.status is Status.MAX_TIME
    np.testing.assert_allclose(late.value.a, 0.0)


def test_within_the_violation_and_out_of_steps_it_says_so(monkeypatch):
    _, there = pair_of("c_svc", 12)
    steps = solve([there], tol=0.1)[0].n_iter
    monkeypatch.setattr(module, "LARGEST_GAP", 0.0)  # no gap is small enough
    (early,) = solve([there], tol=0.1, max_iter=steps)
    assert early.value.violation <= 0.1
    assert early.status is Status.MAX_ITER
    assert early.n_iter == steps


def test_what_cannot_be_reached_is_given_up(monkeypatch):
    monkeypatch.setattr(module, "_ROUNDS_WITHOUT_PROGRESS", (2, 2))
    program, there = pair_of("c_svc", 12)
    (found,) = solve([there], tol=1e-30)
    assert found.status is Status.STALLED
    assert program.solution(found.value.a).violation < 1e-10


def test_machines_go_in_turns_where_memory_is_short(monkeypatch):
    _, there = pair_of("c_svc", 12)
    programs = [replace(there, lo=C * there.lo, hi=C * there.hi) for C in (1.0, 2.0, 3.0)]
    told = []
    together = solve(programs)
    monkeypatch.setattr(module, "_MOST_PROGRAMS", 1)
    apart = solve(programs, report=lambda n, violation: told.append(n))
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_allclose(one.value.a, other.value.a, atol=1e-12)
        assert one.n_iter == other.n_iter
    assert told == sorted(told)
    stopped = solve(programs, report=lambda n, violation: n > together[0].n_iter)
    assert [result.status.ok for result in stopped] == [True, False, False]


@pytest.mark.parametrize("form", ["c_svc", "c_svc_no_bias", "nu_svr_no_bias"])
def test_a_matrix_that_is_not_stored(form, monkeypatch):
    _, there = pair_of(form, 20)
    (stored,) = solve([there, there])[:1]
    monkeypatch.setattr(module, "device_budget", lambda device: 100)
    for tiled in solve([there, there]):
        assert tiled.value.objective == pytest.approx(stored.value.objective, rel=1e-4)
        assert tiled.status.ok


def test_double_takes_over_where_float32_leads_no_further(monkeypatch):
    made = []
    original = module._Matrix.__init__

    def noted(self, gram):
        original(self, gram)
        made.append(self.single)

    monkeypatch.setattr(module._Matrix, "__init__", noted)
    X = 30 * np.random.default_rng(0).normal(size=(60, 3))
    program = make("nu_svc", X @ X.T, 1.0)  # no margin: what is left is rounding
    there = replace(program, K=gram(K.Linear(), tensor(X), store=False))
    (found,) = solve([there])
    assert made == [True, False]
    assert found.status.ok
    assert program.solution(found.value.a).violation <= 1.001e-3


def test_double_is_not_for_those_that_are_done(monkeypatch):
    made, look = [], module._Batch.look
    original = module._Matrix.__init__

    def noted(self, gram):
        original(self, gram)
        made.append(self.single)

    def still(self, going):
        violations, _, spent = look(self, going)
        return violations, violations <= 1e-3, spent

    monkeypatch.setattr(module._Matrix, "__init__", noted)
    monkeypatch.setattr(module._Batch, "look", still)
    _, there = pair_of("c_svc", 20, C=20.0)
    (first,) = solve([there], tol=1e-4)
    made.clear()
    assert all(found.status.ok for found in solve([there, there], starts=[first.value.a, None]))
    assert made == [True]


def test_from_where_the_last_ended_there_is_nothing_to_do():
    _, there = pair_of("nu_svc", 20)
    (first,) = solve([there], tol=1e-4)
    (again,) = solve([there], tol=1e-4, starts=[first.value.a])
    assert again.n_iter == 0
    np.testing.assert_allclose(again.value.a, first.value.a, atol=1e-12)


def test_what_cannot_be():
    _, there = pair_of("one_class", 6)
    (found,) = solve([replace(there, totals=np.array([6.5]))])
    assert found.status is Status.INFEASIBLE
    with pytest.raises(ValueError, match=r"C=inf.*finite C, or pass X\.cpu\(\)"):
        solve([replace(there, hi=np.full(6, np.inf))])
    with pytest.raises(ValueError, match=r"use solver='smo', or pass X\.cpu\(\)"):
        solve_programs([there], solver="interior_point")
    assert solve_programs([]) == []


@pytest.mark.parametrize("groups", [0, 1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_within_a_set_are_those_of_the_twin(groups, dtype):
    from mercer.core.triton import working_sets as triton_sets

    rng = np.random.default_rng(groups)
    points = rng.normal(size=(2, 8, 3))
    start = 0.0
    if DEVICE.type == "cpu":
        points[:, 5] = points[:, 4]  # ties
    else:  # which a device, whose sums of products are rounded once, may break in another way
        start = 0.1 * rng.normal(size=(2, 8))
    Q = np.exp(-((points[:, :, None] - points[:, None]) ** 2).sum(-1)).astype(dtype)
    sign = np.where(rng.uniform(size=(2, 8)) > 0.5, 1.0, -1.0)
    lo, hi = np.minimum(2 * sign, 0), np.maximum(2 * sign, 0)
    lo[:, -1] = hi[:, -1] = 0.0  # nobody's
    count = {"dtype": torch.int32}
    rest = (
        torch.as_tensor(start - sign), torch.as_tensor(lo), torch.as_tensor(hi),
        torch.as_tensor(rng.integers(max(1, groups), size=(2, 8)), **count), torch.as_tensor(Q),
        torch.full((2,), 1e-6, dtype=torch.float64), torch.tensor([900, 3], **count),
    )  # fmt: skip
    found, expected = (torch.zeros((2, 8), dtype=torch.float64) for _ in range(2))
    steps, taken = torch.zeros(2, **count), torch.zeros(2, **count)
    found, steps, *there = (tensor(A.numpy().copy()) for A in (found, steps, *rest))
    triton_sets.work(found, *there, steps, 1e-12, 40, groups)
    set_twins.work(expected, *rest, taken, 1e-12, 40, groups)
    steps, taken = as_numpy(steps).tolist(), taken.tolist()
    if DEVICE.type == "cpu":
        np.testing.assert_allclose(as_numpy(found), expected.numpy(), atol=1e-9)
        assert steps == taken
    else:  # another way to the same end, up to the violation that is left
        np.testing.assert_allclose(as_numpy(found), expected.numpy(), atol=1e-5)
        assert steps[1] == taken[1]
    assert taken[1] == 3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gradients_follow_as_the_twin_says(dtype):
    from mercer.core.triton import working_sets as triton_sets

    rng = np.random.default_rng(0)
    matrix, column = rng.normal(size=(9, 9)).astype(dtype), rng.integers(9, size=(2, 11))
    point, count = rng.integers(9, size=(2, 20)), np.array([19, 0], dtype=np.int32)
    given = (
        matrix, column.astype(np.int32), rng.normal(size=(2, 11)), point.astype(np.int32),
        rng.normal(size=(2, 20)).astype(dtype), count,
    )  # fmt: skip
    there, here = ([make_(A.copy()) for A in given] for make_ in (tensor, torch.as_tensor))
    triton_sets.follow(*there)
    set_twins.follow(*here)
    np.testing.assert_allclose(as_numpy(there[2]), here[2].numpy(), rtol=1e-5)
    np.testing.assert_array_equal(as_numpy(there[2])[1], given[2][1])
