"""Alignment, independence and two samples: the formulas, and what chance makes of them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import pdist
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


def median_rbf(A, B=None):
    """exp(-r² / (2 m²)) by its definition, m the median of all distances of A."""
    r = np.linalg.norm(A[:, None] - (A if B is None else B)[None], axis=2)
    return np.exp(-(r**2) / (2 * np.median(pdist(A)) ** 2))


def test_points_have_gaussian_kernels_of_median_width():
    x, z = points()
    expected = np.trace(centred(median_rbf(x)) @ centred(median_rbf(z))) / 60**2
    assert hsic(x, z, 0).statistic == pytest.approx(expected, rel=1e-10)
    wide = 3 * z[:40] + 1
    A = median_rbf(np.concatenate([x, wide]))
    expected = A[:60, :60].mean() + A[60:, 60:].mean() - 2 * A[:60, 60:].mean()
    assert mmd(x, wide, 0).statistic == pytest.approx(expected, rel=1e-10)
    second = np.arange(100) >= 60
    assert mmd(np.concatenate([x, wide]), second, 0).statistic == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_the_median_width_follows_points_of_any_size(size):
    x, z = points()
    assert hsic(size * x, z, 0).statistic == pytest.approx(hsic(x, z, 0).statistic, rel=1e-9)


def test_most_points_may_be_the_same():
    x = np.r_[np.zeros(30), np.ones(10)][:, None]
    assert hsic(x, x, 0).statistic == pytest.approx(
        np.sum(centred(np.exp(-((x - x.T) ** 2) / 2)) ** 2) / 40**2
    )
    assert hsic(np.ones((10, 2)), np.ones((10, 2))).pvalue == 1


def test_kernels_are_given_by_name():
    x, z = points()
    by_name = hsic(x, z, kernel_x=K.RBF(0.5), kernel_y=K.Laplacian(0.5))
    by_gram = hsic(gram(K.RBF(0.5), x), gram(K.Laplacian(0.5), z))
    assert by_name.statistic == pytest.approx(by_gram.statistic, rel=1e-12)
    assert by_name.pvalue == by_gram.pvalue
    both, second = np.concatenate([x, z]), np.arange(120) >= 60
    for kernel in (K.RBF(0.5), K.FromFunction(lambda a, b: a @ b, valid=True)):
        by_gram = mmd(gram(kernel, both), second)
        for found in (mmd(x, z, kernel=kernel), mmd(both, second, kernel=kernel)):
            assert found.statistic == pytest.approx(by_gram.statistic, rel=1e-12)
            assert found.pvalue == by_gram.pvalue


def test_points_of_any_form_are_read():
    x, z = points()
    pd = pytest.importorskip("pandas")
    forms = (x.tolist(), pd.DataFrame(x), sp.csr_array(x))
    for form in forms:
        assert hsic(form, z, 0).statistic == pytest.approx(hsic(x, z, 0).statistic, rel=1e-9)
        assert mmd(form, z, 0).statistic == pytest.approx(mmd(x, z, 0).statistic, rel=1e-9)
        assert mmd(z, form, 0).statistic == pytest.approx(mmd(x, z, 0).statistic, rel=1e-9)
    column, other = x[:, :1], z[:, :1]
    for form in (column.ravel(), column.ravel().tolist(), pd.Series(column.ravel())):
        assert hsic(form, other, 0).statistic == hsic(column, other, 0).statistic
        assert mmd(form, other.ravel(), 0).statistic == mmd(column, other, 0).statistic
    words, others = ["abab", "abb", "bab"], ["ccc", "cac"]
    A = K.Spectrum(2)(words + others)
    expected = A[:3, :3].mean() + A[3:, 3:].mean() - 2 * A[:3, 3:].mean()
    assert mmd(words, others, kernel=K.Spectrum(2)).statistic == pytest.approx(expected)


def test_a_symmetric_array_is_a_gram_matrix_unless_its_kernel_is_given():
    x, z = points(n=20)
    A = K.RBF()(x)
    assert hsic(A, z, 0).statistic == pytest.approx(hsic(gram(K.RBF(), x), z, 0).statistic)
    one_hot = np.eye(4)[[0, 1, 2, 3]]
    r2 = 2 * (1 - np.eye(4))
    as_points = hsic(one_hot, one_hot, 0, kernel_x=K.RBF(), kernel_y=K.RBF()).statistic
    assert as_points == pytest.approx(np.sum(centred(np.exp(-r2)) ** 2) / 4**2)


def test_by_default_there_are_p_values_and_they_are_the_same_each_time():
    x, z = points()
    for test, again in ((hsic(x, z), hsic(x, z)), (mmd(x, z), mmd(x, z))):
        assert len(test.null_distribution) == 199
        assert test.pvalue == again.pvalue <= 0.01
    rng = np.random.default_rng(1)
    independent = [hsic(*rng.normal(size=(2, 25, 2))).pvalue for _ in range(40)]
    same = [mmd(rng.normal(size=(25, 2)), rng.normal(size=(20, 2))).pvalue for _ in range(40)]
    for pvalues in (independent, same):
        assert 0.35 < np.mean(pvalues) < 0.65
        assert np.mean(np.array(pvalues) <= 0.1) < 0.25  # 0.1 expected, 40 draws


def test_kernels_in_the_place_of_points_are_refused_with_the_call_to_make():
    x, z = points()
    k = K.RBF(1.0)
    with pytest.raises(TypeError, match=r"X is the kernel .* mmd\(X, Y, kernel=RBF\(gamma=1.0\)\)"):
        mmd(k, x, z)
    with pytest.raises(TypeError, match=r"Y is the kernel .* call hsic\(X, Y, kernel_x=RBF"):
        hsic(x @ x.T, k)
    with pytest.raises(TypeError, match=r"K is the kernel .* call centred_alignment\(gram\(RBF"):
        centred_alignment(k, x)
    with pytest.raises(TypeError, match="X is a Gram operator, which includes its kernel"):
        hsic(gram(k, x), z, kernel_x=k)
    with pytest.raises(TypeError, match=r"kernel must be a mercer kernel.*got 'rbf'"):
        mmd(x, z, kernel="rbf")
    with pytest.raises(ValueError, match="n_permutations"):
        mmd(x, z, z)
    with pytest.raises(ValueError, match="X has 2 features and Y has 1"):
        mmd(x, z[:, :1])
