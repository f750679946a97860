"""KernelCCA on factors of low rank gives what whole Gram matrices give, within its bound."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from cca_examples import generalised_eigenproblem, hidden
from mercer import kernels as K
from mercer.estimators.spectral.cca import KernelCCA


@pytest.mark.parametrize("kernel", [K.RBF(0.5), K.Laplacian(0.5), "linear"], ids=repr)
@pytest.mark.parametrize("m", [2, 3])
def test_a_factor_gives_what_the_whole_matrix_gives(kernel, m):
    views = [*hidden(120), hidden(120, seed=1)[0]][:m]
    new = [*hidden(30, seed=2), hidden(30, seed=3)[0]][:m]
    settings = {"kernel": kernel, "regularization": 0.05}
    whole = KernelCCA(1, solver="dense", **settings).fit(views)
    low = KernelCCA(1, solver="low_rank", **settings).fit(views)
    bound = low.result_.bound
    assert whole.result_.bound is None
    assert_allclose(low.canonical_correlations_, whole.canonical_correlations_, rtol=1e-7)
    assert np.all(whole.canonical_correlations_ - low.canonical_correlations_ <= bound + 1e-12)
    for a, b in zip(low.transform(new), whole.transform(new), strict=True):
        assert_allclose(a, b, atol=1e-5)
    assert low.score(new) == pytest.approx(whole.score(new), abs=1e-5)
    tests = [cca.permutation_test(9, random_state=0) for cca in (low, whole)]
    assert_allclose(tests[0].null_distribution, tests[1].null_distribution, atol=1e-6)
    assert len(low.views_[0].dual_coef_) == len(low.views_[0].pivots_)


def test_a_rank_too_small_is_told_by_the_bound():
    X, Y = hidden(150)
    whole = KernelCCA(1, solver="dense").fit(X, Y).canonical_correlations_
    for rank in (2, 5, 15, 40):
        low = KernelCCA(1, solver="low_rank", max_rank=rank).fit(X, Y)
        missing = whole - low.canonical_correlations_
        # The trace, which scales the penalty, is that of the centred factor and all that is left.
        assert np.all(missing <= low.result_.bound + 0.02)
        assert all(view.pivots_.shape == (rank,) for view in low.views_)
    assert low.result_.bound < 0.1


def test_factors_of_strings_of_given_matrices_and_by_leave_one_out():
    rng = np.random.RandomState(0)
    counts = rng.randint(0, 7, size=60)
    words = ["ab" * c + "cd" * (6 - c) for c in counts]
    X = counts[:, None] + 0.1 * rng.normal(size=(60, 1))
    kernels = [K.RBF(0.2), K.Spectrum(2).normalize()]
    for regularization in (0.05, "loo"):
        settings = {"n_components": 1, "regularization": regularization}
        whole = KernelCCA(kernel=kernels, solver="dense", **settings).fit(X, words)
        low = KernelCCA(kernel=kernels, solver="low_rank", **settings).fit(X, words)
        assert low.regularization_ == whole.regularization_
        assert low.score(X, words) == pytest.approx(whole.score(X, words), abs=1e-6)
        grams = kernels[0](X), kernels[1](words)
        given = KernelCCA(kernel="precomputed", solver="low_rank", **settings).fit(*grams)
        for a, b in zip(given.transform(*grams), whole.transform(X, words), strict=True):
            assert_allclose(a, b, atol=1e-5)


def test_factors_of_float32_points_are_those_of_float64():
    X, Y = (A.astype(np.float32) for A in hidden(120))
    double = KernelCCA(1, solver="low_rank").fit(X.astype(float), Y.astype(float))
    single = KernelCCA(1, solver="low_rank").fit(X, Y)
    assert_allclose(single.canonical_correlations_, double.canonical_correlations_, rtol=1e-12)
    assert len(single.views_[0].pivots_) == len(double.views_[0].pivots_) < 120
    assert_allclose(single.transform(X), double.transform(X.astype(float)), atol=1e-9)


def test_the_choice_between_whole_matrices_and_factors():
    X, Y = hidden(600)
    smooth = KernelCCA(1, gamma=0.5).fit(X, Y)
    assert all(view.pivots_ is not None for view in smooth.views_)
    assert "ranks" in smooth.result_.method
    assert smooth.result_.bound < 1e-6
    rough = KernelCCA(1, gamma=500.0).fit(X, Y)
    assert all(view.pivots_ is None for view in rough.views_)
    free = KernelCCA(1, gamma=0.5, regularization=1e-9).fit(X, Y)
    assert all(view.pivots_ is None for view in free.views_)
    assert KernelCCA(1, gamma=0.5).fit(X[:400], Y[:400]).views_[0].pivots_ is None
    with pytest.raises(ValueError, match="X is constant"):
        KernelCCA(solver="low_rank").fit(np.ones((20, 1)), X[:20])


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(3, 25),
    copies=st.integers(1, 2),
    rho=st.sampled_from([1e-3, 0.1, 3.0]),
    solver=st.sampled_from(["dense", "low_rank"]),
    seed=st.integers(0, 999),
)
def test_any_views_against_the_generalised_eigenproblem(n, copies, rho, solver, seed):
    rng = np.random.RandomState(seed)
    X, Y = (np.repeat(rng.normal(size=(n, d)), copies, axis=0) for d in (1, 2))
    cca = KernelCCA(2, gamma=0.5, regularization=rho, solver=solver).fit(X, Y)
    grams = [K.RBF(0.5)(X), K.RBF(0.5)(Y)]
    expected = generalised_eigenproblem(grams, rho)[: cca.n_components_]
    assert_allclose(cca.canonical_correlations_, expected, atol=1e-6)
