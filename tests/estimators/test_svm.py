"""Support vector machines against scikit-learn's, their definitions and their limits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn import datasets, svm
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import kernels as K
from mercer.estimators.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

EXACT = 1e-8  # a tolerance at which LIBSVM and we must agree


def load(name):
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name == "digits":
        X, y = X[:500], y[:500]
    if name == "iris":  # one flower is there twice, and its coefficients could be shared at will
        X, y = np.delete(X, 142, axis=0), np.delete(y, 142)
    return scale(X), y


def blobs(n=40, gap=1.5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return rng.normal(size=(n, 2)) + gap * (2 * y[:, None] - 1), y


def same_machine(ours, theirs, X, atol=1e-5):
    """Equal decision values, support and coefficients."""
    assert_allclose(ours.intercept_, theirs.intercept_, atol=atol)
    assert_array_equal(ours.support_, theirs.support_)
    assert_array_equal(ours.n_support_, theirs.n_support_)
    dual = theirs.dual_coef_.toarray() if sp.issparse(theirs.dual_coef_) else theirs.dual_coef_
    assert ours.dual_coef_.shape == dual.shape
    assert_allclose(ours.dual_coef_, dual, atol=atol * max(1.0, np.abs(dual).max()))
    for method in ("decision_function", "predict"):
        if hasattr(theirs, method) and np.asarray(getattr(theirs, method)(X)).dtype.kind == "f":
            found, expected = getattr(ours, method)(X), getattr(theirs, method)(X)
            assert_allclose(found, expected, atol=atol * max(1.0, np.abs(expected).max()))


# ---------------------------------------------------------------- scikit-learn's own data sets


@pytest.mark.parametrize("solver", ["auto", "smo", "interior_point"])
@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
def test_svc_equals_scikit_learns(name, solver):
    X, y = load(name)
    ours = SVC(tol=EXACT, solver=solver).fit(X, y)
    theirs = svm.SVC(tol=EXACT).fit(X, y)
    same_machine(ours, theirs, X)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    assert ours.dual_gap_ < 1e-6
    assert ours.fit_status_ == 0


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer", "digits"])
@pytest.mark.parametrize("nu", [0.1, 0.4])
def test_nusvc_equals_scikit_learns(name, nu):
    X, y = load(name)
    ours = NuSVC(nu=nu, tol=EXACT).fit(X, y)
    theirs = svm.NuSVC(nu=nu, tol=EXACT).fit(X, y)
    same_machine(ours, theirs, X, atol=1e-4)
    assert_array_equal(ours.predict(X), theirs.predict(X))


@pytest.mark.parametrize("C", [1.0, 50.0])
def test_svr_equals_scikit_learns(C):
    X, y = load("diabetes")
    ours = SVR(C=C, epsilon=5.0, tol=1e-7).fit(X, y)
    same_machine(ours, svm.SVR(C=C, epsilon=5.0, tol=1e-7).fit(X, y), X)


@pytest.mark.parametrize("nu", [0.2, 0.7])
def test_nusvr_equals_scikit_learns(nu):
    X, y = load("diabetes")
    y = y / y.std()
    ours = NuSVR(nu=nu, tol=EXACT).fit(X, y)
    theirs = svm.NuSVR(nu=nu, tol=EXACT).fit(X, y)
    assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-5)
    assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-5)
    outside = np.abs(ours.predict(X) - y) > ours.epsilon_ + 1e-6
    assert outside.mean() <= nu
    assert len(ours.support_) >= nu * len(y)


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_one_class_equals_scikit_learns(name, nu):
    X, _ = load(name)
    ours, theirs = OneClassSVM(nu=nu, tol=EXACT).fit(X), svm.OneClassSVM(nu=nu, tol=EXACT).fit(X)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    assert_allclose(ours.offset_, theirs.offset_, atol=1e-5)
    assert_allclose(ours.score_samples(X), theirs.score_samples(X), atol=1e-5)
    clear = np.abs(theirs.decision_function(X)) > 1e-4
    assert_array_equal(ours.predict(X)[clear], theirs.predict(X)[clear])
    assert_allclose(ours.dual_coef_.sum(), nu * len(X))


@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "linear"},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"kernel": "poly", "gamma": "auto"},
        {"kernel": "rbf", "gamma": 0.3, "C": 10.0},
    ],
)
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
def test_kernels_and_shapes_of_scikit_learn(options, shape):
    X, y = load("iris")
    ours = SVC(tol=EXACT, decision_function_shape=shape, **options).fit(X, y)
    theirs = svm.SVC(tol=EXACT, decision_function_shape=shape, **options).fit(X, y)
    found, expected = ours.decision_function(X), theirs.decision_function(X)
    assert_allclose(found, expected, atol=1e-4)
    assert_array_equal(ours.predict(X), theirs.predict(X))
    if options["kernel"] == "linear":
        assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
        assert not ours.coef_.flags.writeable
    else:
        with pytest.raises(AttributeError, match="linear kernel"):
            _ = ours.coef_


def test_ties_are_broken_as_in_scikit_learn():
    X, y = load("digits")
    ours = SVC(tol=1e-6, gamma=0.5, break_ties=True).fit(X, y)
    theirs = svm.SVC(tol=1e-6, gamma=0.5, break_ties=True).fit(X, y)
    new = np.random.default_rng(0).normal(size=(200, X.shape[1]))
    assert_array_equal(ours.predict(new), theirs.predict(new))
    ours.set_params(decision_function_shape="ovo")
    with pytest.raises(ValueError, match="break_ties must be False"):
        ours.predict(new)


@pytest.mark.parametrize("model", [SVC, SVR, NuSVC, NuSVR, OneClassSVM])
def test_takes_every_parameter_of_scikit_learns_class(model):
    theirs = getattr(svm, model.__name__)().get_params()
    ours = model().get_params()
    assert {name: ours[name] for name in theirs} == theirs
    assert set(ours) - set(theirs) >= {"solver", "max_time", "warm_start", "indefinite"}
    assert clone(model(tol=0.5)).get_params()["tol"] == 0.5


# ------------------------------------------------------------------------------------ weights


@pytest.mark.parametrize("name", ["iris", "breast_cancer"])
def test_sample_weights_scale_the_price(name):
    X, y = load(name)
    weight = np.random.default_rng(0).uniform(0.1, 3, size=len(y))
    weight[::7] = 0.0
    ours = SVC(tol=EXACT).fit(X, y, sample_weight=weight)
    theirs = svm.SVC(tol=EXACT).fit(X, y, sample_weight=weight)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    assert not np.any(weight[ours.support_] == 0)


@pytest.mark.parametrize("model", [NuSVC, SVR, NuSVR, OneClassSVM])
def test_sample_weights_elsewhere(model):
    X, y = load("iris")
    weight = np.random.default_rng(1).uniform(0.5, 2, size=len(y))
    options = {"nu": 0.2} if model is not SVR else {}
    ours = model(tol=EXACT, **options).fit(X, y, sample_weight=weight)
    theirs = getattr(svm, model.__name__)(tol=EXACT, **options).fit(X, y, sample_weight=weight)
    method = "predict" if model in (SVR, NuSVR) else "decision_function"
    assert_allclose(getattr(ours, method)(X), getattr(theirs, method)(X), atol=1e-5)


@pytest.mark.parametrize("model", [SVC(), NuSVC(nu=0.3), SVR(), NuSVR(), OneClassSVM()])
def test_whole_weights_are_repeated_points(model):
    X, y = load("iris")
    weight = np.random.default_rng(2).integers(0, 4, size=len(y))
    model = model.set_params(gamma=0.5, solver="interior_point", tol=1e-7)
    weighed = clone(model).fit(X, y, sample_weight=weight)
    repeated = clone(model).fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    method = "predict" if isinstance(model, SVR | NuSVR) else "decision_function"
    assert_allclose(getattr(weighed, method)(X), getattr(repeated, method)(X), atol=1e-6)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 5.0, 1: 0.5}])
def test_class_weights(class_weight):
    X, y = load("breast_cancer")
    ours = SVC(tol=EXACT, class_weight=class_weight).fit(X, y)
    theirs = svm.SVC(tol=EXACT, class_weight=class_weight).fit(X, y)
    same_machine(ours, theirs, X)
    assert_allclose(ours.class_weight_, theirs.class_weight_)


def test_class_weights_make_any_nu_feasible():
    X, y = load("breast_cancer")
    with pytest.raises(ValueError, match=r"nu is infeasible: nu=0\.9 .* at most 0\.74"):
        NuSVC(nu=0.9).fit(X, y)
    with pytest.raises(ValueError, match="nu is infeasible"):
        svm.NuSVC(nu=0.9).fit(X, y)
    weight = len(y) / (2 * np.bincount(y))
    balanced = NuSVC(nu=0.9, class_weight="balanced", tol=EXACT).fit(X, y)
    theirs = svm.NuSVC(nu=0.9, tol=EXACT).fit(X, y, sample_weight=weight[y])
    assert_allclose(balanced.decision_function(X), theirs.decision_function(X), atol=1e-5)


@pytest.mark.parametrize("C", [1.0, np.inf])
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf])
def test_class_weights_must_be_positive(C, value):
    X, y = blobs()
    with pytest.raises(ValueError, match=f"class_weight gives class 1 the weight {value}"):
        SVC(C=C, class_weight={0: 1.0, 1: value}).fit(X, y)


def test_weights_that_leave_nothing_to_learn():
    X, y = blobs()
    with pytest.raises(ValueError, match="all samples have zero or negative weights"):
        SVC().fit(X, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(ValueError, match="belong to the same class"):
        SVC().fit(X, y, sample_weight=(y == 1).astype(float))
    iris, species = load("iris")
    with pytest.raises(ValueError, match=r"no sample of class .*2.* has a positive weight"):
        SVC().fit(iris, species, sample_weight=(species < 2).astype(float))
    for empty in (SVR(), NuSVR(), OneClassSVM()):
        with pytest.raises(ValueError, match="zero or negative weights"):
            empty.fit(X, y, sample_weight=-np.ones(len(y)))


# ------------------------------------------------------------------- definitions, and no bias


def primal_optimum(X, y, C, loss, bias):
    """The primal problem over (w, b) in the linear kernel, smoothed by slack variables."""
    n, d = X.shape

    def split(v):
        return v[:d], v[d] if bias else 0.0, v[d + 1 :]

    def price(v):
        w, _, slack = split(v)
        return 0.5 * w @ w + C * slack.sum()

    constraints = [
        {"type": "ineq", "fun": lambda v, s=s: split(v)[2] - s(X @ split(v)[0] + split(v)[1], y)}
        for s in loss
    ]
    bounds = [(None, None)] * (d + 1) + [(0, None)] * n
    start = np.concatenate([np.zeros(d + 1), np.full(n, 10.0)])
    found = minimize(
        price,
        start,
        bounds=bounds,
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return split(found.x)[:2]


@pytest.mark.parametrize("bias", [True, False])
def test_svc_minimises_its_primal(bias):
    X, y = blobs(14, gap=0.5)
    sign = 2.0 * y - 1
    w, _ = primal_optimum(X, sign, 0.7, [lambda f, y: 1 - y * f], bias)
    ours = SVC(kernel="linear", C=0.7, tol=EXACT, fit_intercept=bias).fit(X, y)
    assert_allclose(ours.coef_[0], w, atol=1e-4)
    if not bias:
        assert ours.intercept_[0] == 0
    assert_allclose(ours.margin_, 1 / np.linalg.norm(w), rtol=1e-4)
    assert_allclose(ours.decision_function(X), X @ w + ours.intercept_[0], atol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
def test_svr_minimises_its_primal(bias):
    X, y = blobs(14, gap=0.5)
    t = X[:, 0] - 0.5 * X[:, 1] + 2.0 + 0.3 * y
    tube = [lambda f, t: t - f - 0.1, lambda f, t: f - t - 0.1]
    w, _ = primal_optimum(X, t, 0.7, tube, bias)
    ours = SVR(kernel="linear", C=0.7, tol=EXACT, fit_intercept=bias).fit(X, t)
    assert_allclose(ours.coef_[0], w, atol=1e-4)


@pytest.mark.parametrize("solver", ["smo", "interior_point"])
def test_without_a_bias_a_constant_feature_stands_for_none(solver):
    # With a large constant feature, the bias is as good as free: both machines then agree.
    X, y = blobs(30, gap=0.7)
    wide = np.hstack([X, np.full((len(X), 1), 1e3)])
    without = SVC(kernel="linear", fit_intercept=False, tol=1e-7, solver=solver).fit(wide, y)
    within = SVC(kernel="linear", tol=1e-7, solver=solver).fit(X, y)
    assert_allclose(without.decision_function(wide), within.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("model", [SVC, NuSVC, SVR, NuSVR])
def test_both_solvers_agree_without_a_bias(model):
    X, y = load("iris")
    options = {"fit_intercept": False, "tol": 1e-9}
    if model in (NuSVC, NuSVR):
        options["nu"] = 0.3
    target = y if model in (SVC, NuSVC) else y + 1.5
    pairs = model(solver="smo", **options).fit(X, target)
    interior = model(solver="interior_point", **options).fit(X, target)
    method = "predict" if model in (SVR, NuSVR) else "decision_function"
    assert_allclose(getattr(pairs, method)(X), getattr(interior, method)(X), atol=1e-5)
    assert np.all(pairs.intercept_ == 0)


def test_nu_is_the_price_in_other_words():
    # SVC with C = 1 / (rho n) is NuSVC: its coefficients at the bound are the price.
    X, y = load("breast_cancer")
    by_share = NuSVC(nu=0.2, tol=1e-10).fit(X, y)
    price = np.abs(by_share.dual_coef_).max()
    by_price = SVC(C=price, tol=1e-10).fit(X, y)
    assert_allclose(by_price.decision_function(X), by_share.decision_function(X), atol=1e-5)


def test_nu_without_a_margin_is_an_error():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    with pytest.raises(ValueError, match="leaves no margin"):
        NuSVC(nu=0.9, kernel="linear").fit(X, [0, 1, 1, 0])


# ---------------------------------------------------------------------------- the hard margin


@pytest.mark.parametrize("solver", ["auto", "smo", "interior_point"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_hard_margin_is_the_limit_of_large_prices(kernel, solver):
    X, y = blobs(40, gap=3.0)
    hard = SVC(C=np.inf, kernel=kernel, tol=1e-7, solver=solver).fit(X, y)
    soft = svm.SVC(C=1e8, kernel=kernel, tol=1e-7).fit(X, y)
    assert_allclose(hard.decision_function(X), soft.decision_function(X), atol=1e-5)
    assert_array_equal(hard.support_, soft.support_)
    margins = (2 * y - 1) * hard.decision_function(X)
    assert_allclose(margins.min(), 1.0, atol=1e-5)
    assert_allclose(margins[hard.support_], 1.0, atol=1e-5)
    assert hard.dual_gap_ < 1e-5


@pytest.mark.parametrize("solver", ["auto", "interior_point"])
def test_hard_margin_of_classes_that_overlap_is_an_error(solver):
    X, y = blobs(40, gap=0.2)
    with pytest.raises(ValueError, match=r"C=inf asks for a hard margin.*use a finite C"):
        SVC(C=np.inf, kernel="linear", solver=solver).fit(X, y)


def test_hard_tube():
    X = np.linspace(0, 1, 12)[:, None]
    t = 3 * X[:, 0] + 0.05 * (-1) ** np.arange(12)
    model = SVR(C=np.inf, kernel="linear", epsilon=0.1, tol=1e-8).fit(X, t)
    assert np.abs(model.predict(X) - t).max() <= 0.1 + 1e-6
    flattest = svm.SVR(C=1e7, kernel="linear", epsilon=0.1, tol=1e-8).fit(X, t)
    assert_allclose(model.coef_, flattest.coef_, atol=1e-5)
    with pytest.raises(ValueError, match=r"within epsilon=0\.01 .*use a finite C"):
        SVR(C=np.inf, kernel="linear", epsilon=0.01).fit(X, t)


# -------------------------------------------------------------- certificates and early stopping


def test_the_gap_is_that_of_the_model_itself():
    X, y = blobs(60, gap=0.3)
    model = SVC(C=2.0, tol=0.5, gamma=0.5).fit(X, y)
    gram = K.RBF(0.5)(X)
    beta = np.zeros(60)
    beta[model.support_] = model.dual_coef_[0]
    sign = 2 * y - 1
    hinge = np.maximum(0, 1 - sign * (gram @ beta + model.intercept_)).sum()
    primal = 0.5 * beta @ gram @ beta + 2.0 * hinge
    dual = np.abs(beta).sum() - 0.5 * beta @ gram @ beta
    assert_allclose(model.dual_gap_, (primal - dual) / max(1, abs(dual)), rtol=1e-8)
    assert model.dual_gap_ == model.result_.gap
    assert model.result_.value.violation <= 0.5


@pytest.mark.parametrize("C", [1e3, 1e6])
@pytest.mark.parametrize("budget", [0.01, 200])
def test_a_high_price_is_solved_to_a_small_gap(C, budget):
    X, y = datasets.load_iris(return_X_y=True)
    with sklearn.config_context(working_memory=0.05):
        model = SVC(kernel="linear", C=C, cache_size=budget).fit(X[:100], y[:100])
    assert model.fit_status_ == 0
    assert model.dual_gap_ <= 1e-2
    hard = SVC(kernel="linear", C=np.inf, tol=1e-8).fit(X[:100], y[:100])
    assert_allclose(model.margin_, hard.margin_, rtol=1e-2)


def test_a_gap_that_stays_large_is_said_aloud():
    X, y = datasets.load_iris(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match=r"stopped early.* gap .*e.*standardise"):
        model = SVC(kernel="linear", C=1e3, tol=1.0, solver="smo", max_iter=20).fit(X, y)
    assert model.dual_gap_ > 1e-2


@pytest.mark.parametrize("model", [SVC, NuSVC, SVR, NuSVR, OneClassSVM])
def test_stopping_short_is_said_aloud(model):
    X, y = load("iris")
    options = {"nu": 0.2} if model in (NuSVC, NuSVR, OneClassSVM) else {}
    with pytest.warns(ConvergenceWarning, match=r"stopped early.*max_iter .*gap") as caught:
        short = model(max_iter=1, **options).fit(X, y)
    assert caught[0].filename == __file__
    assert short.fit_status_ == 1
    assert np.all(short.n_iter_ == 1)
    assert np.all(np.isfinite(short.predict(X)))
    assert short.dual_gap_ > 1e-3
    with pytest.warns(ConvergenceWarning, match="max_time"):
        model(max_time=1e-9, tol=1e-12, **options).fit(X, y)


@pytest.mark.parametrize("model", [SVC, NuSVC, SVR, NuSVR, OneClassSVM])
def test_a_warm_start_resumes(model):
    X, y = load("iris")
    options = {"nu": 0.2} if model in (NuSVC, NuSVR, OneClassSVM) else {"C": 3.0}
    cold = model(tol=1e-6, solver="smo", **options).fit(X, y)
    half = int(np.max(cold.n_iter_)) // 2
    warm = model(tol=1e-6, solver="smo", warm_start=True, max_iter=half, **options)
    with pytest.warns(ConvergenceWarning):
        warm.fit(X, y)
    warm.set_params(max_iter=-1).fit(X, y)
    assert np.sum(warm.n_iter_) < np.sum(cold.n_iter_)
    method = "predict" if model in (SVR, NuSVR) else "decision_function"
    assert_allclose(getattr(warm, method)(X), getattr(cold, method)(X), atol=1e-4)
    again = warm.fit(X, y)
    assert np.sum(again.n_iter_) <= 3
    # Another price, other data: the start no longer fits, and must not harm.
    name, value = ("nu", 0.3) if "nu" in options else ("C", 0.5)
    moved = warm.set_params(**{name: value}).fit(X, y)
    fresh = clone(moved).set_params(warm_start=False).fit(X, y)
    assert_allclose(getattr(moved, method)(X), getattr(fresh, method)(X), atol=1e-4)
    warm.fit(X[::2], y[::2])


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
@pytest.mark.parametrize("model", [SVC, SVR])
def test_a_warm_start_resumes_on_a_corrected_kernel(model, method):
    X, y = load("iris")
    options = {"kernel": "sigmoid", "coef0": 1.0, "gamma": 0.5, "indefinite": method}
    warm = model(tol=1e-6, solver="smo", warm_start=True, **options).fit(X, y)
    assert np.sum(warm.fit(X, y).n_iter_) <= 3


def test_auto_says_which_solver_did_it():
    X, y = datasets.load_breast_cancer(return_X_y=True)
    raw = SVC(kernel="linear").fit(X, y)
    assert "then interior point" in raw.result_.method
    assert raw.fit_status_ == 0
    assert raw.dual_gap_ < 1e-8
    assert SVC().fit(scale(X), y).result_.method == "smo"


def test_an_interrupted_fit_leaves_the_model_alone(monkeypatch):
    X, y = blobs()
    model = SVC().fit(X, y)
    before = dict(vars(model))

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("mercer.estimators.svm_model.solve_programs", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(np.hstack([X, X]), 1 - y)
    assert vars(model) == before
    fresh = SVC()
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, y)
    with pytest.raises(NotFittedError):
        fresh.predict(X)


def test_verbose_tells_how_it_went(capsys):
    SVC(verbose=True).fit(*blobs())
    assert "[SVC] smo: converged" in capsys.readouterr().out


# ---------------------------------------------------------------------- inputs of other kinds


@pytest.mark.parametrize("model", [SVC, NuSVC, SVR, NuSVR, OneClassSVM])
def test_sparse_input_equals_dense(model):
    X, y = load("iris")
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = model(gamma=0.5, tol=1e-7).fit(X, y)
    sparse = model(gamma=0.5, tol=1e-7).fit(sp.csr_array(X), y)
    method = "predict" if model in (SVR, NuSVR) else "decision_function"
    assert sp.issparse(sparse.support_vectors_)
    assert_allclose(getattr(sparse, method)(sp.csr_array(X)), getattr(dense, method)(X), atol=1e-7)
    assert_allclose(getattr(sparse, method)(X), getattr(dense, method)(X), atol=1e-7)


def test_sparse_linear_weights():
    X, y = load("iris")
    sparse = SVC(kernel="linear", tol=1e-7).fit(sp.csr_array(X), y)
    assert_allclose(sparse.coef_, SVC(kernel="linear", tol=1e-7).fit(X, y).coef_, atol=1e-7)


def test_precomputed_keeps_indices_only():
    X, y = load("iris")
    gram = X @ X.T
    ours = SVC(kernel="precomputed", tol=EXACT).fit(gram[::2, ::2], y[::2])
    theirs = svm.SVC(kernel="precomputed", tol=EXACT).fit(gram[::2, ::2], y[::2])
    assert ours.support_vectors_.shape == theirs.support_vectors_.shape == (0, 0)
    assert_array_equal(ours.support_, theirs.support_)
    new = gram[1::2, ::2]
    assert_allclose(ours.decision_function(new), theirs.decision_function(new), atol=1e-5)
    with pytest.raises(ValueError, match="75"):
        ours.predict(gram[:3])
    with pytest.raises(ValueError, match="square"):
        SVC(kernel="precomputed").fit(gram[:, :5], y)


def test_a_function_of_two_arrays_as_kernel():
    X, y = load("iris")
    ours = SVC(kernel=lambda A, B: A @ B.T, tol=EXACT).fit(X, y)
    named = SVC(kernel="linear", tol=EXACT).fit(X, y)
    assert_allclose(ours.decision_function(X), named.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("container", [list, lambda words: np.array(words, dtype=object)])
def test_strings(container):
    words = ["abab", "baba", "abba", "cdcd", "dcdc", "cddc"]
    labels = ["left"] * 3 + ["right"] * 3
    model = SVC(kernel=K.Spectrum(k=2), C=10).fit(container(words), labels)
    assert list(model.predict(container(["ababab", "cdcdcd"]))) == ["left", "right"]
    assert len(model.support_vectors_) == len(model.support_)
    assert model.support_vectors_[0] in words
    assert OneClassSVM(kernel=K.Spectrum(k=2), nu=0.3).fit(container(words)).shape_fit_[0] == 6


@pytest.mark.parametrize("method", ["clip", "flip", "shift"])
def test_indefinite_kernels_are_refused_or_corrected(method):
    X, y = load("iris")
    with pytest.raises(ValueError, match="not positive semidefinite"):
        SVC(kernel="sigmoid", coef0=1.0).fit(X, y)
    model = SVC(kernel="sigmoid", coef0=1.0, gamma=0.5, indefinite=method, tol=1e-6).fit(X, y)
    from mercer.operators import corrected

    gram = K.Sigmoid(gamma=0.5, coef0=1.0)(X)
    fixed, carry = corrected(gram, method)
    by_hand = SVC(kernel="precomputed", tol=1e-6, decision_function_shape="ovo").fit(fixed, y)
    model.set_params(decision_function_shape="ovo")
    expected = by_hand.decision_function(fixed if carry is not None else gram)
    assert_allclose(model.decision_function(X), expected, atol=1e-5)
    regression = SVR(kernel="sigmoid", coef0=1.0, gamma=0.5, indefinite=method).fit(X, y)
    assert np.all(np.isfinite(regression.predict(X)))


def test_rows_of_the_gram_are_enough():
    X, y = load("iris")
    stored = SVC(tol=1e-6).fit(X, y)
    with sklearn.config_context(working_memory=0.05):
        fetched = SVC(tol=1e-6, cache_size=0.01).fit(X, y)
        with pytest.raises(ValueError, match="use solver='smo'"):
            SVC(cache_size=0.01, solver="interior_point").fit(X, y)
        regression = SVR(tol=1e-6, cache_size=0.01).fit(X, y)
        assert_allclose(regression.predict(X), SVR(tol=1e-6).fit(X, y).predict(X), atol=1e-5)
    assert_allclose(fetched.decision_function(X), stored.decision_function(X), atol=1e-5)


def test_single_precision_is_solved_in_double():
    X, y = load("iris")
    single = SVC(tol=1e-7, gamma=0.5).fit(X.astype(np.float32), y)
    double = SVC(tol=1e-7, gamma=0.5).fit(X.astype(np.float32).astype(np.float64), y)
    assert_allclose(single.dual_coef_, double.dual_coef_, atol=1e-9)


def test_probabilities():
    X, y = load("iris")
    model = SVC(probability=True, random_state=0).fit(X, y)
    shares = model.predict_proba(X)
    assert_allclose(shares.sum(axis=1), 1)
    assert (model.classes_[shares.argmax(axis=1)] == y).mean() > 0.95
    assert_allclose(np.exp(model.predict_log_proba(X)), shares)
    again = SVC(probability=True, random_state=0).fit(X, y)
    assert_array_equal(again.predict_proba(X), shares)
    assert not hasattr(SVC().fit(X, y), "predict_proba")


def test_probabilities_need_two_of_every_class():
    X, y = load("iris")
    names = np.array(["a", "b", "lonely"])[np.where(np.arange(len(y)) == 120, 2, y % 2)]
    with pytest.raises(ValueError, match=r"probability=True needs two .* class 'lonely' has one"):
        SVC(probability=True).fit(X, names)


def test_nested_parameters_change_under_grid_search():
    X, y = load("iris")
    grid = {"kernel__left__gamma": [1e-3, 0.5], "C": [1.0]}
    search = GridSearchCV(SVC(kernel=K.RBF(1.0) + K.Linear()), grid, cv=3).fit(X, y)
    assert search.best_estimator_.kernel_.left.gamma == search.best_params_["kernel__left__gamma"]


# ------------------------------------------------------------------------------------ extremes


def test_two_points_one_column():
    for model in (SVC(), NuSVC(nu=1.0), SVC(solver="interior_point")):
        assert_array_equal(
            model.fit([[0.0], [1.0]], ["a", "b"]).predict([[0.1], [2.0]]), ["a", "b"]
        )


def test_repeated_points_and_constant_columns():
    X, y = blobs(30, gap=0.5)
    X = np.hstack([np.repeat(X[:10], 3, axis=0), np.ones((30, 1))])
    ours = SVC(tol=EXACT).fit(X, y)
    theirs = svm.SVC(tol=EXACT).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)
    flat = SVC(kernel="linear").fit(np.zeros((4, 2)), [0, 0, 1, 1])
    assert np.all(np.isfinite(flat.decision_function(np.zeros((1, 2)))))


@pytest.mark.parametrize("C", [1e-10, 1e10])
@pytest.mark.parametrize("gamma", [1e-6, 1e6])
def test_extreme_parameters(C, gamma):
    X, y = load("iris")
    model = SVC(C=C, gamma=gamma).fit(X, y)
    assert model.fit_status_ == 0
    assert np.all(np.isfinite(model.decision_function(X)))


def test_a_target_within_the_tube_needs_no_support():
    X, y = blobs()
    model = SVR(epsilon=5.0).fit(X, y)
    assert len(model.support_) == 0
    assert_allclose(model.predict(X), model.intercept_[0])
    assert model.margin_ == np.inf


def test_one_class_and_nu_one():
    X, _ = blobs()
    model = OneClassSVM(nu=1.0).fit(X)
    assert np.all(np.isfinite(model.decision_function(X)))
    assert len(model.support_) == len(X)
    with pytest.raises(ValueError, match="fit_intercept=False"):
        OneClassSVM(fit_intercept=False).fit(X)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (SVC(C=0), "'C' parameter"),
        (SVC(C=-1.0), "'C' parameter"),
        (NuSVC(nu=0), "'nu' parameter"),
        (NuSVR(nu=1.5), "'nu' parameter"),
        (NuSVR(C=np.inf), "'C' parameter"),
        (SVR(epsilon=-1), "'epsilon' parameter"),
        (SVC(tol=0), "'tol' parameter"),
        (SVC(solver="newton"), "'solver' parameter"),
        (SVC(gamma=0.0), "'gamma' parameter of SVC"),
        (SVC(kernel="gauss"), "kernel='gauss'"),
        (SVC(kernel=K.RBF(1.0), gamma=0.5), "has no effect beside kernel"),
    ],
)
def test_bad_parameters_are_named(model, match):
    with pytest.raises(ValueError, match=match):
        model.fit(*blobs())


def test_one_class_of_labels_is_an_error():
    X, _ = blobs()
    for model in (SVC(), NuSVC()):
        with pytest.raises(ValueError, match="one class only"):
            model.fit(X, np.ones(len(X)))


# -------------------------------------------------------------------- scikit-learn's own checks

REPEATS = {
    f"check_sample_weight_equivalence_on_{kind}_data": "scikit-learn's own class fails this check "
    "too: gamma='scale' does not look at weights, and tol is looser than the check"
    for kind in ("dense", "sparse")
}
INFEASIBLE = {
    "check_class_weight_classifiers": "scikit-learn's own NuSVC fails this check too: with weights "
    "of 1000 to 0.0001 no solution exists for nu=0.5"
}


def shared_with_scikit_learn(model):
    """What scikit-learn's own class fails too, with its default parameters."""
    if model.get_params()["solver"] == "interior_point":
        return {}
    return {**REPEATS, **INFEASIBLE} if isinstance(model, NuSVC) else REPEATS


@parametrize_with_checks(
    [
        *(model() for model in (SVC, NuSVC, SVR, NuSVR, OneClassSVM)),
        # With a fixed kernel and an exact solver, weights are the same as repeated points.
        SVC(gamma=0.1, solver="interior_point"),
        SVR(gamma=0.1, solver="interior_point"),
        OneClassSVM(gamma=0.1, solver="interior_point"),
    ],
    expected_failed_checks=shared_with_scikit_learn,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
