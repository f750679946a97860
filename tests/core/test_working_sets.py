"""Working sets in the native module against their NumPy twin, at every level this machine runs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from instruction_levels import LEVELS, module_of
from mercer.core.reference import working_sets as twin
from mercer.core.reference.working_sets import State

FORMS = ["pairs", "two groups", "free", "two variables a point", "signs"]
DTYPES = [np.float32, np.float64]


def gram(n, dtype, seed=0, repeated=False):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    if repeated:
        X[n // 2 :] = X[: n - n // 2]
    return np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=-1)).astype(dtype)


class Setting:
    """The arrays of a problem; what it is solved with is given to `problem`."""

    def __init__(self, form, n=37, q=8, tol=1e-7, C=2.0, column=None, seed=1):
        rng = np.random.default_rng(seed)
        y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
        lo, hi = np.minimum(0, C * y), np.maximum(0, C * y)
        p, a = -y, np.zeros(n)
        self.groups, self.sign = 1, None
        group = np.zeros(n)
        if form == "two groups":
            self.groups, group, p = 2, y < 0, 0 * y
            a = np.where(y > 0, 0.3 * C, -0.3 * C)
        elif form == "free":
            self.groups = 0
        elif form == "two variables a point":
            t = rng.normal(size=n)
            p = np.concatenate([0.1 - t, -0.1 - t])
            lo, hi = np.repeat([0.0, -C], n), np.repeat([C, 0.0], n)
            group, a = np.zeros(2 * n), np.zeros(2 * n)
        elif form == "signs":
            self.sign, p, a = y, 0 * y, np.full(n, 0.3 * C)
            lo, hi = 0 * y, np.full(n, C)
        self.p, self.lo, self.hi, self.a = p.astype(float), lo, hi, a
        self.group = np.asarray(group, dtype=np.int32)
        self.column = np.arange(n) if column is None else column
        self.q, self.tol = q, tol

    def problem(self, module):
        a, F = self.a.copy(), self.p.copy()
        made = module.Problem(
            a,
            F,
            self.p,
            self.lo,
            self.hi,
            self.group,
            self.groups,
            self.column,
            self.sign,
            self.q,
            self.tol,
            1e-12,
        )
        return made, a, F

    def matrix(self, K):
        copies = len(self.a) // len(self.column)
        Q = np.tile(K[np.ix_(self.column, self.column)].astype(np.float64), (copies, copies))
        return Q if self.sign is None else Q * np.outer(self.sign, self.sign)

    def objective(self, K, a):
        return 0.5 * a @ self.matrix(K) @ a + self.p @ a


def run(module, setting, K, threads=0):
    problem, a, F = setting.problem(module)
    slot = np.arange(len(K))
    states, steps = module.advance([problem], K, [slot], 1e9, [10**6], threads)
    return states[0], steps[0], a, F, problem


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("repeated", [False, True])
def test_agrees_with_the_twin(level, dtype, form, repeated):
    K, setting = gram(37, dtype, repeated=repeated), Setting(form)
    state, _, a, F, problem = run(module_of(level), setting, K)
    other, _, b, _, _ = run(twin, setting, K)
    assert state == other == State.DONE
    assert problem.violation <= setting.tol
    assert_allclose(setting.objective(K, a), setting.objective(K, b), rtol=1e-6, atol=1e-6)
    assert np.all((a >= setting.lo) & (a <= setting.hi))
    for g in range(setting.groups):
        inside = setting.group == g
        assert_allclose(a[inside].sum(), setting.a[inside].sum(), atol=1e-12)
    assert_allclose(F, setting.matrix(K) @ a + setting.p, atol=1e-12)
    if not repeated:
        assert_allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("q", [2, 5, 16, 100])
def test_one_round_is_that_of_the_twin(level, form, q):
    K, setting = gram(37, np.float64), Setting(form, q=q)
    mine, a, F = setting.problem(module_of(level))
    theirs, b, G = setting.problem(twin)
    if np.any(setting.a):
        F += setting.matrix(K) @ setting.a
        G += setting.matrix(K) @ setting.a
    for _ in range(3):
        assert mine.select() == theirs.select()
        assert_allclose(mine.violation, theirs.violation, rtol=1e-9)
        assert_array_equal(mine.set, theirs.set)
        points = mine.set % len(setting.column)
        tile = K[np.ix_(points, points)]
        steps, _, _, net = mine.work(tile, 8)
        taken, _, _, moved = theirs.work(tile, 8)
        assert steps == taken
        assert_allclose(net, moved, atol=1e-9)
        mine.follow(K @ net)
        theirs.follow(K @ net)
        assert_allclose(a, b, atol=1e-9)
        assert_allclose(F, G, atol=1e-9)
        a[:], F[:] = b, G


@pytest.mark.parametrize("level", LEVELS)
def test_many_problems_on_parts_of_one_matrix(level):
    module, K = module_of(level), gram(60, np.float64)
    parts = [np.arange(0, 40), np.arange(20, 60), np.r_[0:10, 30:55], np.arange(0, 60, 2)]
    settings = [Setting("pairs", n=len(part), column=part) for part in parts]
    answers = []
    for threads in (0, 1, 2, 7):
        made = [setting.problem(module) for setting in settings]
        states, _ = module.advance(
            [problem for problem, _, _ in made], K, [np.arange(60)] * 4, 1e9, [10**6] * 4, threads
        )
        assert np.all(states == State.DONE)
        answers.append([a for _, a, _ in made])
    for other in answers[1:]:
        for a, b in zip(answers[0], other, strict=True):
            assert_array_equal(a, b)
    for setting, a in zip(settings, answers[0], strict=True):
        _, _, b, _, _ = run(twin, setting, K)
        assert_allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("module", [twin, *map(module_of, LEVELS)])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("steps", [3, 10**6])
def test_the_certificate_is_the_definition(module, form, steps):
    K, setting = gram(37, np.float64), Setting(form)
    problem, a, _ = setting.problem(module)
    module.advance([problem], K, [np.arange(37)], 1e9, [steps], 0)
    multipliers, objective, squared_norm, violation, gap = problem.measure()
    Q, lo, hi = setting.matrix(K), setting.lo, setting.hi
    F = Q @ a + setting.p

    def dual_gap(levels):
        r = F - levels[setting.group] if setting.groups else F
        return np.sum(r * a - np.minimum(r * lo, r * hi))

    assert_allclose(objective, setting.objective(K, a), atol=1e-10)
    assert_allclose(squared_norm, a @ Q @ a, atol=1e-10)
    assert_allclose(gap * max(1.0, abs(objective)), dual_gap(multipliers), atol=1e-10)
    for move in np.random.default_rng(0).normal(scale=0.1, size=(20, setting.groups)):
        assert dual_gap(multipliers) <= dual_gap(multipliers + move) + 1e-12
    worst = 0.0
    if setting.groups:
        for g in range(setting.groups):
            inside = setting.group == g
            worst = max(worst, F[inside & (a > lo)].max() - F[inside & (a < hi)].min())
    else:
        worst = max(0.0, F[a > lo].max(), -F[a < hi].min())
    assert_allclose(violation, worst, atol=1e-10)


@pytest.mark.parametrize("module", [twin, *map(module_of, LEVELS)])
def test_shares_of_work_do_not_change_the_path(module):
    K, setting = gram(60, np.float64), Setting("pairs", n=60, C=1e3, tol=1e-9)
    _, steps, expected, _, _ = run(module, setting, K)
    problem, a, _ = setting.problem(module)
    taken, state = 0, State.GOING
    while state == State.GOING:
        states, more = module.advance([problem], K, [np.arange(60)], 1.0, [10**6], 0)
        state, taken = states[0], taken + more[0]
    assert taken == steps
    assert_array_equal(a, expected)


@pytest.mark.parametrize("module", [twin, *map(module_of, LEVELS)])
def test_waits_for_rows_and_goes_on_as_if_they_had_been_there(module):
    K, setting = gram(50, np.float64), Setting("pairs", n=50, q=6)
    _, steps, expected, _, _ = run(module, setting, K)
    problem, a, _ = setting.problem(module)
    rows, slot, count, taken = np.full_like(K, np.nan), np.full(50, -1), 0, 0
    for _ in range(1000):
        states, more = module.advance([problem], rows, [slot], 1e9, [10**6], 0)
        taken += more[0]
        if states[0] == State.DONE:
            break
        assert states[0] == State.WAITING
        needed = np.unique(problem.needed)
        assert np.all(slot[needed] < 0)
        rows[count : count + len(needed)] = K[needed]
        slot[needed] = np.arange(count, count + len(needed))
        count += len(needed)
    assert taken == steps
    assert_array_equal(a, expected)


@pytest.mark.parametrize("module", [twin, *map(module_of, LEVELS)])
def test_keeps_to_its_share_of_work_and_steps(module):
    K, setting = gram(60, np.float64), Setting("pairs", n=60, C=1e4, tol=1e-10)
    problem, _, _ = setting.problem(module)
    states, steps = module.advance([problem], K, [np.arange(60)], 1e9, [5], 0)
    assert states[0] == State.GOING
    assert steps[0] == 5
    states, steps = module.advance([problem], K, [np.arange(60)], 200.0, [10**6], 0)
    assert states[0] == State.GOING
    assert 0 < steps[0] <= 200


@pytest.mark.parametrize("module", [twin, *map(module_of, LEVELS)])
@pytest.mark.parametrize("form", ["pairs", "free"])
def test_an_objective_that_falls_without_end(module, form):
    K = np.zeros((4, 4)) if form == "free" else np.ones((4, 4))
    setting = Setting(form, n=4, q=4, C=np.inf)
    state, _, _, _, _ = run(module, setting, K)
    assert state == State.UNBOUNDED


@pytest.mark.parametrize("module", [twin, *map(module_of, LEVELS)])
def test_values_that_are_no_numbers_end(module):
    K = gram(20, np.float64)
    K[3] = K[:, 3] = np.nan
    state, _, _, _, _ = run(module, Setting("pairs", n=20), K)
    assert state in list(State)


@pytest.mark.parametrize("level", LEVELS)
def test_the_binding_refuses_what_does_not_fit(level):
    module = module_of(level)
    setting = Setting("pairs", n=6)
    K, slot = gram(6, np.float64), np.arange(6)

    def refused(match, **changes):
        changed = Setting("pairs", n=6)
        for name, value in changes.items():
            setattr(changed, name, value)
        with pytest.raises((ValueError, TypeError), match=match):
            changed.problem(module)

    refused("one entry per variable", lo=np.zeros(5))
    refused("groups that exist", group=np.full(6, 1, dtype=np.int32))
    refused("between 0 and 64 groups", groups=-1)
    refused("columns that exist", column=np.full(6, -1))
    refused("whole number of variables", column=np.arange(4))
    refused("at least two variables", q=1)
    refused("one sign per variable", sign=np.ones(5))
    refused("incompatible", lo=np.zeros(6, dtype=np.float32))
    problem, _, _ = setting.problem(module)
    with pytest.raises(ValueError, match="slots of rows that exist"):
        module.advance([problem], K, [slot + 1], 1.0, [1], 0)
    with pytest.raises(ValueError, match="columns that exist"):
        module.advance([problem], K[:5, :5].copy(), [slot[:5].copy()], 1.0, [1], 0)
    with pytest.raises(ValueError, match="a slot per column"):
        module.advance([problem], K, [slot[:5].copy()], 1.0, [1], 0)
    with pytest.raises(ValueError, match="steps per problem"):
        module.advance([problem], K, [slot], 1.0, [], 0)
    with pytest.raises(ValueError, match="slots per problem"):
        module.advance([problem], K, [], 1.0, [1], 0)
    problem.select()
    with pytest.raises(ValueError, match="tile of the working set"):
        problem.work(np.eye(3), 1)
    with pytest.raises(ValueError, match="one change per point"):
        problem.follow(np.zeros(5))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("intercept", [True, False])
def test_all_pairs_of_classes_are_those_of_the_twin(level, dtype, intercept):
    sizes = [7, 1, 12, 5]
    rng = np.random.default_rng(0)
    K = gram(sum(sizes) + 3, dtype)
    column = rng.permutation(len(K))[: sum(sizes)]  # some points are of no class
    starts = np.concatenate([[0], np.cumsum(sizes)])
    C = rng.uniform(0.5, 3.0, len(K))
    q = np.array([2, 4, 8, 30, 30, 5])
    arguments = (K, starts, column, C, q, intercept, 1e-7, 1e-6, 10_000)
    mine = module_of(level).solve_pairs(*arguments, 2)
    theirs = twin.solve_pairs(*arguments, 0)
    assert_array_equal(mine[-1], np.full(6, State.DONE))
    for one, other in zip(mine[:-2], theirs[:-2], strict=True):
        assert_allclose(one, other, atol=3e-6)
    ends = np.concatenate(
        [[0], np.cumsum([sizes[i] + sizes[j] for i, j in combinations(range(4), 2)])]
    )
    for pair, (i, j) in enumerate(combinations(range(4), 2)):
        points = np.concatenate([column[starts[c] : starts[c + 1]] for c in (i, j)])
        y = np.repeat([1.0, -1.0], [sizes[i], sizes[j]])
        a, F = (values[ends[pair] : ends[pair + 1]] for values in mine[:2])
        assert_allclose(F, K[np.ix_(points, points)].astype(float) @ a - y, atol=1e-12)
        assert np.all((y * a >= 0) & (y * a <= C[points]))
        if intercept:
            assert abs(a.sum()) < 1e-12


@pytest.mark.parametrize("level", LEVELS)
def test_pairs_of_classes_that_make_no_sense_are_refused(level):
    solve = module_of(level).solve_pairs
    K, C, q = np.eye(4), np.ones(4), np.array([4])
    starts, column = np.array([0, 2, 4]), np.arange(4)

    def call(K=K, starts=starts, column=column, C=C, q=q):
        return solve(K, starts, column, C, q, True, 1e-3, 1e-2, 100, 0)

    call()
    for wrong in (
        {"K": np.ones((4, 3))},
        {"starts": np.array([0, 2, 5])},
        {"starts": np.array([0, 4, 4])},
        {"starts": np.array([0, 4])},
        {"column": np.array([0, 1, 2, 4])},
        {"column": np.array([0, 1, 2, -1])},
        {"C": np.array([1.0, 1.0, 0.0, 1.0])},
        {"C": np.ones(3)},
        {"q": np.array([1])},
        {"q": np.array([4, 4])},
    ):
        with pytest.raises(ValueError, match=r"\w"):
            call(**wrong)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 100])
def test_symmetry_looks_at_every_pair(level, dtype, n):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n, n)).astype(dtype)
    symmetric = A + A.T
    gap, largest = module_of(level).symmetry(symmetric, 2)
    assert gap == 0
    assert largest == np.abs(symmetric).max()
    for _ in range(5):
        i, j = rng.integers(n, size=2)
        moved = symmetric.copy()
        moved[i, j] += 1
        gap, _ = module_of(level).symmetry(moved, 0)
        assert gap == np.abs(moved - moved.T).max()
