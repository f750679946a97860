"""Online learners in the native module against their NumPy twin, at every level there is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from instruction_levels import LEVELS, module_of
from mercer import core
from mercer.core.reference import online as twin


def arguments(sources=9, targets=6, machines=2, steps=40, budget=-1, dtype=np.float64, seed=0):
    """Small whole numbers, so that every sum is exact and the order of summing does not matter."""
    rng = np.random.default_rng(seed)
    coef = np.zeros((machines, sources))
    queue = rng.permutation(sources)[: max(0, min(budget, 3))].astype(np.int64)
    coef[:, queue] = rng.integers(-3, 4, size=(machines, len(queue)))
    K = rng.integers(-4, 5, size=(sources, targets)).astype(dtype)
    return {
        "K": K,
        "Y": rng.choice([-1.0, 1.0], size=(targets, machines)),
        "F": np.ascontiguousarray(coef @ K.astype(float)),
        "coef": coef,
        "bias": rng.integers(-2, 3, size=machines).astype(float),
        "target": rng.integers(targets, size=steps),
        "source": rng.integers(sources, size=steps),
        "threshold": rng.integers(0, 3, size=steps).astype(float),
        "inclusive": True,
        "queue": queue,
        "budget": budget,
    }


def copies(given):
    return {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in given.items()}


@pytest.mark.parametrize("level", LEVELS)
@settings(max_examples=60, deadline=None)
@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 4), st.integers(0, 80)),
    budget=st.sampled_from([-1, 1, 2, 5, 100]),
    dtype=st.sampled_from([np.float32, np.float64]),
    inclusive=st.booleans(),
    biased=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_native_and_twin_agree_to_the_bit(level, sizes, budget, dtype, inclusive, biased, seed):
    one = arguments(*sizes, budget=budget, dtype=dtype, seed=seed) | {"inclusive": inclusive}
    one["bias"] = one["bias"] if biased else None
    other = copies(one)
    changed, queue = module_of(level).visit(**one)
    expected, ages = twin.visit(**other)
    assert_array_equal(changed, expected)
    assert_array_equal(queue, ages)
    for name in ("F", "coef", "bias"):
        assert_array_equal(one[name], other[name])


def test_scores_stay_those_of_the_coefficients():
    for budget in (-1, 3):
        one = arguments(budget=budget, seed=5)
        twin.visit(**one)
        assert_allclose(one["F"], one["coef"] @ one["K"])


def test_a_budget_is_kept_and_the_oldest_goes_first():
    K = np.eye(4)
    coef = np.zeros((1, 4))
    changed, queue = core.learner().visit(
        K,
        np.ones((4, 1)),
        np.zeros((1, 4)),
        coef,
        None,
        np.array([0, 1, 0, 2, 3]),
        np.array([0, 1, 0, 2, 3]),
        np.zeros(5),
        True,
        np.zeros(0, dtype=np.int64),
        2,
    )
    assert_array_equal(changed.ravel(), [1, 1, 0, 1, 1])
    assert_array_equal(queue, [2, 3])
    assert_array_equal(coef, [[0, 0, 1, 1]])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"Y": np.ones((5, 2))}, "a row of labels per target"),
        ({"F": np.zeros((2, 5))}, "scores are"),
        ({"coef": np.zeros((2, 8))}, "coefficients are"),
        ({"bias": np.zeros(3)}, "a bias per machine"),
        ({"source": np.zeros(39, dtype=np.int64)}, "a source and a threshold per step"),
        ({"threshold": np.zeros(41)}, "a source and a threshold per step"),
        ({"target": np.full(40, 6)}, "targets that exist"),
        ({"target": np.full(40, -1)}, "targets that exist"),
        ({"source": np.full(40, 9)}, "sources that exist"),
        ({"queue": np.array([9]), "budget": 2}, "sources that exist"),
        ({"queue": np.array([1, 1]), "budget": 2}, "a source is queued once"),
        ({"budget": 0}, "a budget of at least one"),
    ],
)
def test_wrong_sizes_are_refused(level, change, words):
    with pytest.raises(ValueError, match=words):
        module_of(level).visit(**(arguments() | change))


@pytest.mark.parametrize("level", LEVELS)
def test_other_dtypes_and_read_only_outputs_are_refused(level):
    given = arguments()
    for name, dtype in (("K", np.int64), ("F", np.float32), ("target", np.int32)):
        with pytest.raises(TypeError):
            module_of(level).visit(**(given | {name: given[name].astype(dtype)}))
    frozen = given["F"].copy()
    frozen.setflags(write=False)
    with pytest.raises(TypeError):
        module_of(level).visit(**(given | {"F": frozen}))
    read_only = copies(given)
    for name in ("K", "Y", "target", "source", "threshold", "queue"):
        read_only[name].setflags(write=False)
    module_of(level).visit(**read_only)


@pytest.mark.parametrize("level", LEVELS)
def test_values_that_are_no_numbers_neither_crash_nor_change(level):
    given = arguments(seed=3)
    given["K"][:] = np.nan
    other = copies(given)
    changed, _ = module_of(level).visit(**given)
    assert_array_equal(changed, twin.visit(**other)[0])
