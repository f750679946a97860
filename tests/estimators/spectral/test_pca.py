"""KernelPCA against scikit-learn's, a centred-Gram oracle and PCA on explicit features."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose
from sklearn import datasets
from sklearn import decomposition as sk
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import kernels as K
from mercer.estimators.spectral.pca import KernelPCA
from pca_examples import DATA, assert_same_up_to_sign


@parametrize_with_checks([KernelPCA(), KernelPCA(n_components=2, kernel="rbf")])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


NAMED = [
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2, "gamma": 0.1},
    {"kernel": "poly"},
    {"kernel": "rbf"},
    {"kernel": "rbf", "gamma": 0.01},
    {"kernel": "cosine"},
]


def oracle(Ktrain, Ktest, k):
    """Schölkopf's recipe, written with the centring matrices."""
    n, m = len(Ktrain), len(Ktest)
    J, Jm = np.full((n, n), 1 / n), np.full((m, n), 1 / n)
    centred = Ktrain - J @ Ktrain - Ktrain @ J + J @ Ktrain @ J
    values, vectors = np.linalg.eigh(centred)
    values, vectors = values[::-1][:k], vectors[:, ::-1][:, :k]
    cross = Ktest - Jm @ Ktrain - Ktest @ J + Jm @ Ktrain @ J
    return values, cross @ vectors / np.sqrt(values), np.trace(centred)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("params", NAMED, ids=str)
@pytest.mark.parametrize("solver", ["auto", "dense", "arpack"])
def test_equal_to_scikit_learn(data, params, solver):
    train, test = DATA[data]
    params = {**params, "n_components": 3, "eigen_solver": solver, "random_state": 0}
    ours, theirs = KernelPCA(**params).fit(train), sk.KernelPCA(**params).fit(train)
    scale = np.sqrt(theirs.eigenvalues_[0])
    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-9)
    # Even the signs agree, since both make the largest entry of a vector positive.
    assert_allclose(ours.transform(test), theirs.transform(test), atol=1e-8 * scale)
    assert_allclose(ours.fit_transform(train), theirs.fit_transform(train), atol=1e-8 * scale)
    assert_allclose(ours.transform(train), ours.fit_transform(train), atol=1e-8 * scale)
    assert ours.result_.gap < 1e-10


@pytest.mark.parametrize("data", DATA)
def test_the_sketch_is_close(data):
    train, test = DATA[data]
    exact = KernelPCA(2, kernel="rbf", gamma=0.01).fit(train)
    sketched = KernelPCA(
        2, kernel="rbf", gamma=0.01, eigen_solver="randomized", random_state=0
    ).fit(train)
    assert_allclose(sketched.eigenvalues_, exact.eigenvalues_, rtol=1e-4)
    assert_allclose(sketched.transform(test), exact.transform(test), atol=2e-2)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize("params", NAMED, ids=str)
def test_all_components_are_as_many_as_scikit_learn_keeps(data, params):
    train, _ = DATA[data]
    ours, theirs = KernelPCA(**params).fit(train), sk.KernelPCA(**params).fit(train)
    assert ours.eigenvalues_.shape == theirs.eigenvalues_.shape
    assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, atol=1e-10 * ours.eigenvalues_[0])
    assert ours.explained_variance_ratio_.sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("data", DATA)
@pytest.mark.parametrize(
    "kernel",
    [K.RBF(0.05), K.Polynomial(3, gamma=0.1), K.Laplacian(0.1), K.RBF(0.1) * K.Linear() + 1.0],
    ids=repr,
)
def test_equal_to_the_oracle(data, kernel):
    train, test = DATA[data]
    values, projected, trace = oracle(kernel(train), kernel(test, train), 4)
    pca = KernelPCA(4, kernel=kernel).fit(train)
    assert_allclose(pca.eigenvalues_, values, rtol=1e-9)
    assert_same_up_to_sign(pca.transform(test), projected, atol=1e-7 * np.sqrt(values[0]))
    assert_allclose(pca.explained_variance_ratio_, values / trace, rtol=1e-9)
    assert_allclose(pca.explained_variance_, values / (len(train) - 1), rtol=1e-9)


@pytest.mark.parametrize("data", ["iris", "wine"])
def test_explained_variance_is_that_of_linear_pca(data):
    train, test = DATA[data]
    ours, theirs = KernelPCA(3).fit(train), sk.PCA(3).fit(train)
    assert_allclose(ours.explained_variance_, theirs.explained_variance_, rtol=1e-9)
    assert_allclose(ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-9)
    assert_same_up_to_sign(ours.transform(test), theirs.transform(test), atol=1e-8)


def test_projections_equal_pca_on_the_explicit_features():
    train, test = DATA["iris"]
    kernel = K.Polynomial(2)
    phi = kernel.feature_map().fit(train)
    features, new = (
        F.toarray() if sp.issparse(F) else F for F in (phi.transform(train), phi.transform(test))
    )
    explicit = sk.PCA(5, svd_solver="full").fit(features)
    pca = KernelPCA(5, kernel=kernel).fit(train)
    assert_same_up_to_sign(pca.transform(test), explicit.transform(new), atol=1e-8)
    assert_allclose(pca.explained_variance_ratio_, explicit.explained_variance_ratio_, rtol=1e-9)


@pytest.mark.parametrize("solver", ["dense", "arpack", "randomized"])
def test_ratios_are_of_the_whole_variance_however_few_are_kept(solver):
    train, _ = DATA["wine"]
    every = KernelPCA(kernel="rbf").fit(train).explained_variance_ratio_
    few = KernelPCA(2, kernel="rbf", eigen_solver=solver, random_state=0, iterated_power=40)
    assert_allclose(few.fit(train).explained_variance_ratio_, every[:2], rtol=1e-6)


def test_components_of_the_training_points_are_uncorrelated_with_the_stated_variance():
    train, _ = DATA["iris"]
    pca = KernelPCA(4, kernel="rbf", gamma=0.2).fit(train)
    Z = pca.transform(train)
    assert_allclose(Z.mean(axis=0), 0, atol=1e-12)
    assert_allclose(np.cov(Z.T), np.diag(pca.explained_variance_), atol=1e-12)


def test_precomputed_equals_the_kernel():
    train, test = DATA["wine"]
    direct = KernelPCA(3, kernel="rbf", gamma=0.1).fit(train)
    for name in ("precomputed", K.Precomputed()):
        given = KernelPCA(3, kernel=name).fit(pairwise_kernels(train, metric="rbf", gamma=0.1))
        cross = pairwise_kernels(test, train, metric="rbf", gamma=0.1)
        assert_allclose(given.transform(cross), direct.transform(test), atol=1e-9)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_sparse_equals_dense(kernel):
    train, test = DATA["digits"]
    train, test = np.where(train > 0.5, train, 0), np.where(test > 0.5, test, 0)
    dense = KernelPCA(3, kernel=kernel, gamma=0.02).fit(train)
    sparse = KernelPCA(3, kernel=kernel, gamma=0.02).fit(sp.csr_array(train))
    scale = np.abs(dense.transform(test)).max()
    assert_allclose(sparse.transform(sp.csr_array(test)), dense.transform(test), atol=1e-8 * scale)


def test_callable_of_two_rows_as_in_scikit_learn():
    train, test = DATA["iris"]

    def similarity(x, z, power=2):
        return (1 + x @ z) ** power

    params = {"kernel": similarity, "kernel_params": {"power": 3}, "n_components": 2}
    ours, theirs = KernelPCA(**params).fit(train), sk.KernelPCA(**params).fit(train)
    scale = np.abs(theirs.transform(test)).max()
    assert_allclose(ours.transform(test), theirs.transform(test), atol=1e-8 * scale)


def test_strings():
    words = ["banana", "bandana", "cabana", "nanana", "xyzzy", "xyxyx", "zyxzy", "banban"]
    kernel = K.Spectrum(2).normalize()
    values, projected, _ = oracle(kernel(words), kernel(["bana", "zyzy"], words), 2)
    pca = KernelPCA(2, kernel=kernel).fit(words)
    assert_same_up_to_sign(pca.transform(["bana", "zyzy"]), projected, atol=1e-9)
    assert_allclose(pca.eigenvalues_, values)
    assert pca.get_feature_names_out().tolist() == ["kernelpca0", "kernelpca1"]


def test_pre_images_equal_scikit_learn():
    train, test = DATA["iris"]
    params = {
        "n_components": 4,
        "kernel": "rbf",
        "gamma": 0.2,
        "alpha": 0.01,
        "fit_inverse_transform": True,
    }
    ours, theirs = KernelPCA(**params).fit(train), sk.KernelPCA(**params).fit(train)
    assert_allclose(ours.dual_coef_, theirs.dual_coef_, rtol=1e-6, atol=1e-8)
    assert_allclose(ours.X_transformed_fit_, theirs.X_transformed_fit_, atol=1e-9)
    Z = ours.transform(test)
    assert_allclose(ours.inverse_transform(Z), theirs.inverse_transform(Z), atol=1e-7)
    error = np.mean((ours.inverse_transform(Z) - test) ** 2)
    assert error < 0.1 * np.mean((test - train.mean(axis=0)) ** 2)


def test_pre_images_need_a_kernel_that_takes_components():
    X = np.random.RandomState(0).normal(size=(20, 3))
    kernel = K.RBF(0.3, scales=[1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="does not take 2 of them"):
        KernelPCA(2, kernel=kernel, fit_inverse_transform=True).fit(X)


def test_pre_images_are_refused_where_there_are_none():
    train, _ = DATA["iris"]
    with pytest.raises(ValueError, match="precomputed"):
        KernelPCA(kernel="precomputed", fit_inverse_transform=True).fit(train @ train.T)
    with pytest.raises(NotImplementedError, match="sparse"):
        KernelPCA(fit_inverse_transform=True).fit(sp.csr_array(train))
    with pytest.raises(ValueError, match="fit_inverse_transform"):
        KernelPCA(kernel=K.Spectrum(2), fit_inverse_transform=True).fit(["abc", "bcd", "cde"])
    with pytest.raises(NotFittedError, match="fit_inverse_transform"):
        KernelPCA(2).fit(train).inverse_transform(np.zeros((1, 2)))
    with pytest.raises(ValueError, match="alpha=0"):
        KernelPCA(2, alpha=0.0, fit_inverse_transform=True).fit(train)


def test_one_point_and_two_points():
    one = KernelPCA(1, kernel="rbf").fit([[3.0, 1.0]])
    assert_allclose(one.transform([[0.0, 0.0], [3.0, 1.0]]), 0.0)
    assert_allclose(one.explained_variance_ratio_, [0.0])
    two = KernelPCA(1).fit([[0.0], [4.0]])
    assert_allclose(np.abs(two.transform([[0.0], [4.0], [3.0]])), [[2.0], [2.0], [1.0]])
    assert_allclose(two.explained_variance_ratio_, [1.0])
    assert_allclose(two.explained_variance_, [8.0])


def test_constant_features_have_no_components():
    X = np.full((12, 3), 7.0)
    every = KernelPCA(kernel="rbf").fit(X)
    assert every.transform(X).shape == (12, 0)
    for solver in ("dense", "arpack", "randomized"):
        pca = KernelPCA(2, kernel="rbf", eigen_solver=solver, random_state=0).fit(X)
        assert_allclose(pca.eigenvalues_, 0.0)
        assert_allclose(pca.transform(X + 1), 0.0)
        assert_allclose(pca.explained_variance_ratio_, 0.0)


def test_more_components_than_the_rank():
    train, test = DATA["iris"]
    pca = KernelPCA(10).fit(train)
    assert pca.transform(test).shape == (len(test), 10)
    assert_allclose(pca.eigenvalues_[4:], 0.0, atol=0)
    assert_allclose(pca.transform(test)[:, 4:], 0.0, atol=0)
    assert KernelPCA(10, remove_zero_eig=True).fit(train).transform(test).shape[1] == 4
    assert KernelPCA(10_000).fit(train).eigenvalues_.shape == (len(train),)


def test_duplicates_add_no_components():
    train, test = DATA["iris"]
    few = train[:5]
    pca = KernelPCA(kernel="rbf").fit(np.vstack([few] * 4))
    assert len(pca.eigenvalues_) == 4
    once = KernelPCA(kernel="rbf").fit(few)
    assert_allclose(pca.eigenvalues_, 4 * once.eigenvalues_, rtol=1e-9)
    assert_same_up_to_sign(pca.transform(test), once.transform(test), atol=1e-9)


def test_a_large_offset_leaves_no_components_of_rounding():
    train, _ = DATA["iris"]
    pca = KernelPCA().fit(train + 1e6)
    assert len(pca.eigenvalues_) == 4
    assert_allclose(pca.eigenvalues_, KernelPCA().fit(train).eigenvalues_, rtol=0.1)


def test_a_gram_too_large_to_store_gives_the_same_components():
    train, test = DATA["digits"]
    stored = KernelPCA(3, kernel="rbf", random_state=0).fit(train)
    with sklearn.config_context(working_memory=0.1):
        tiled = KernelPCA(3, kernel="rbf", random_state=0).fit(train)
        assert_allclose(tiled.transform(test), stored.transform(test), atol=1e-9)
    assert_allclose(tiled.eigenvalues_, stored.eigenvalues_, rtol=1e-10)
    assert "Lanczos" in tiled.result_.method


def test_float32_stays_float32():
    train, test = (part.astype(np.float32) for part in DATA["iris"])
    single = KernelPCA(2, kernel="rbf").fit(train)
    double = KernelPCA(2, kernel="rbf").fit(train.astype(float))
    assert single.transform(test).dtype == np.float32
    assert single.fit_transform(train).dtype == np.float32
    assert_allclose(single.transform(test), double.transform(test), atol=1e-5)


def test_an_indefinite_kernel_is_an_error_unless_corrected():
    train, test = DATA["iris"]
    kernel = K.Sigmoid(gamma=1.0, coef0=-1.0)
    with pytest.raises(ValueError, match="indefinite"):
        KernelPCA(2, kernel=kernel).fit(train)
    values, vectors = np.linalg.eigh(kernel(train))
    for rule, corrected in {"clip": np.maximum(values, 0), "flip": np.abs(values)}.items():
        gram = (vectors * corrected) @ vectors.T
        pca = KernelPCA(2, kernel=kernel, indefinite=rule).fit(train)
        expected, training, _ = oracle(gram, gram, 2)
        assert_allclose(pca.eigenvalues_, expected, rtol=1e-7)
        # The correction applies to new points as to old ones.
        scale = np.sqrt(expected[0])
        assert_same_up_to_sign(pca.transform(train), training, atol=1e-7 * scale)
        assert np.all(np.isfinite(pca.transform(test)))


def test_a_solver_stopped_early_warns():
    train, _ = DATA["digits"]
    pca = KernelPCA(
        5, kernel="rbf", gamma=1.0, eigen_solver="randomized", iterated_power=0, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="gap"):
        pca.fit(train)
    assert not pca.result_.status.ok


def test_gamma_is_reported():
    train, _ = DATA["iris"]
    for name in ("rbf", "linear", "cosine"):
        assert KernelPCA(kernel=name).fit(train).gamma_ == pytest.approx(1 / 4)
    assert KernelPCA(kernel="rbf", gamma=0.7).fit(train).gamma_ == 0.7
    assert not hasattr(KernelPCA(kernel=K.Linear()).fit(train), "gamma_")


def test_wrong_parameters():
    train, _ = DATA["iris"]
    for wrong in (
        {"n_components": 0},
        {"eigen_solver": "magic"},
        {"tol": -1.0},
        {"alpha": -1.0},
        {"indefinite": "hope"},
        {"kernel": "no such kernel"},
        {"kernel": K.RBF(1.0), "gamma": 0.5},
    ):
        with pytest.raises((ValueError, TypeError)):
            KernelPCA(**wrong).fit(train)


def test_data_frames_and_set_output():
    train, test = DATA["iris"]
    frame = pd.DataFrame(train, columns=list("abcd"))
    pca = KernelPCA(2, kernel="rbf").set_output(transform="pandas").fit(frame)
    out = pca.transform(pd.DataFrame(test, columns=list("abcd")))
    assert list(out.columns) == ["kernelpca0", "kernelpca1"]
    assert list(pca.feature_names_in_) == list("abcd")


def test_the_seed_and_copies():
    train, _ = DATA["digits"]
    first, second = (
        KernelPCA(3, kernel="rbf", eigen_solver="arpack", random_state=1).fit_transform(train)
        for _ in range(2)
    )
    assert np.array_equal(first, second)
    copy = train.copy()
    pca = KernelPCA(2, kernel="rbf").fit(copy)
    before = pca.transform(train)
    copy[:] = 0
    assert np.array_equal(pca.transform(train), before)


def test_in_a_search_over_nested_kernel_parameters():
    X, y = datasets.load_iris(return_X_y=True)
    pipeline = make_pipeline(KernelPCA(3, kernel=K.RBF(1.0)), LinearSVC())
    search = GridSearchCV(pipeline, {"kernelpca__kernel__gamma": [1e-3, 0.3]}, cv=3).fit(X, y)
    chosen = search.best_estimator_[0].kernel_.gamma
    assert chosen == search.best_params_["kernelpca__kernel__gamma"]
    assert clone(pipeline).get_params()["kernelpca__kernel__gamma"] == 1.0
