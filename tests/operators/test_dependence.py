"""Alignment, independence and two samples: the formulas, and what chance makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import config_context

from mercer import centred_alignment, gram, hsic, mmd
from mercer import kernels as K


def centred(A):
    H = np.eye(len(A)) - 1 / len(A)
    return H @ A @ H


def points(seed=0, n=60):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    return x, np.c_[x[:, 0] ** 2 + 0.1 * rng.normal(size=n), rng.normal(size=n)]


@pytest.mark.parametrize("memory", [1024, 0.01])
def test_values_are_those_of_the_formulas(memory):
    x, z = points()
    A, B = K.RBF(0.5)(x), K.Laplacian(0.5)(z)
    with config_context(working_memory=memory):  # stored, or a few rows at a time
        ops = gram(K.RBF(0.5), x), gram(K.Laplacian(0.5), z)
        for P, Q in (ops, (A, B)):
            found = hsic(P, Q).statistic
            assert found == pytest.approx(np.trace(centred(A) @ centred(B)) / 60**2, rel=1e-10)
            a, b = centred(A), centred(B)
            expected = np.sum(a * b) / np.linalg.norm(a) / np.linalg.norm(b)
            assert centred_alignment(P, Q) == pytest.approx(expected, rel=1e-10)
            second = np.arange(60) >= 25
            means = A[:25, :25].mean() + A[25:, 25:].mean() - 2 * A[:25, 25:].mean()
            assert mmd(P, second).statistic == pytest.approx(means, rel=1e-9)


def test_each_permutation_is_the_statistic_of_permuted_points():
    x, z = points(n=20)
    A, B = K.RBF(0.5)(x), K.RBF(0.5)(z)
    rng = np.random.RandomState(3)
    order = rng.permutation(20)
    test = hsic(A, B, n_permutations=1, random_state=3)
    assert test.null_distribution[0] == pytest.approx(hsic(A, B[order][:, order]).statistic)
    signs = np.arange(20) >= 8
    moved = np.random.RandomState(3).permutation(signs)
    test = mmd(A, signs, n_permutations=1, random_state=3)
    assert test.null_distribution[0] == pytest.approx(mmd(A, moved).statistic)


def test_p_values_are_small_where_there_is_something_and_even_where_not():
    x, z = points()
    assert hsic(K.RBF()(x), K.RBF()(z), 99, random_state=0).pvalue == 0.01
    rng = np.random.default_rng(0)
    independent, same = [], []
    for seed in range(60):
        a, b = rng.normal(size=(2, 30, 1))
        independent.append(hsic(K.RBF()(a), K.RBF()(b), 19, random_state=seed).pvalue)
        both = np.concatenate([a, b])
        same.append(mmd(K.RBF()(both), np.arange(60) < 30, 19, random_state=seed).pvalue)
    for pvalues in (independent, same):
        assert 0.35 < np.mean(pvalues) < 0.7
        assert np.mean(np.array(pvalues) <= 0.1) < 0.25  # 0.1 expected, 60 draws


def test_equal_points_are_never_significant():
    ones = np.ones((10, 10))
    assert hsic(ones, ones, 19, random_state=0).pvalue == 1
    assert mmd(ones, np.arange(10) < 5, 19, random_state=0).pvalue == 1
    assert centred_alignment(ones, ones) == 0
    # Constants whose means are rounded.
    x, _ = points(n=50)
    tenth = np.full((50, 50), 0.1)
    for other in (tenth, 3 * tenth, K.RBF()(x)):
        assert centred_alignment(tenth, other) == 0
        assert hsic(tenth, other, 19, random_state=0).pvalue == 1


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e5])
def test_dependence_is_found_however_far_the_points_are_from_zero(offset):
    x = np.linspace(-2, 2, 60)[:, None]
    A, B = gram(K.Linear(), x + offset), gram(K.Linear(), x**3 + offset)
    assert hsic(A, B, 99, random_state=0).pvalue == 0.01


@pytest.mark.parametrize("gamma", [1e-4, 1e-8])
def test_dependence_is_found_by_kernels_that_hardly_vary(gamma):
    x = np.linspace(-2, 2, 60)[:, None]
    A, B = gram(K.RBF(gamma), x), gram(K.RBF(gamma), x**3)
    assert hsic(A, B, 99, random_state=0).pvalue == 0.01


@pytest.mark.parametrize("scale", [1e-170, 1e170])
def test_alignment_is_free_of_scale(scale):
    x, z = points()
    A, B = K.RBF()(x), K.RBF()(z)
    assert centred_alignment(scale * A, scale * B) == pytest.approx(centred_alignment(A, B))


def test_bad_input_is_refused():
    A = np.eye(4)
    with pytest.raises(ValueError, match="same points"):
        hsic(A, np.eye(5))
    with pytest.raises(ValueError, match="square"):
        centred_alignment(np.ones((3, 4)), A)
    with pytest.raises(ValueError, match="one sample"):
        mmd(A, np.zeros(4, dtype=bool))
    with pytest.raises(ValueError, match="True or False"):
        mmd(A, np.array([0, 1, 1, 0]))
    for count in (-1, 2.5):
        with pytest.raises(ValueError, match="n_permutations"):
            hsic(A, A, n_permutations=count)
        with pytest.raises(ValueError, match="n_permutations"):
            mmd(A, np.arange(4) < 2, n_permutations=count)
