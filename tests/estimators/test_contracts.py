"""What every kernel estimator must do, whatever it learns."""

from __future__ import annotations

import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import every_estimator
import mercer
from mercer import kernels as K
from model_zoo import IRIS, KERNEL_ESTIMATORS, SPECIES, X_REG, Y_REG

UNSUPERVISED = ("KernelPCA", "OneClassSVM")
SUPERVISED = [name for name in KERNEL_ESTIMATORS if name not in UNSUPERVISED]


def signature(name, method):
    """The parameters of a method, none where it is not there."""
    found = getattr(getattr(mercer, name), method, None)
    return inspect.signature(found).parameters if found else {}


def make(name, kernel):
    return getattr(mercer, name)(**KERNEL_ESTIMATORS[name]).set_params(kernel=kernel)


def data(model):
    return (X_REG, Y_REG) if is_regressor(model) else (IRIS, SPECIES)


def output(model, X):
    """What the model says of new points, as numbers."""
    for method in ("decision_function", "transform", "predict"):
        if hasattr(model, method):
            return getattr(model, method)(X)
    raise AssertionError(model)


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_a_precomputed_gram_gives_the_same_model(name):
    kernel = K.RBF(0.4)
    model = make(name, kernel)
    X, y = data(model)
    train, new = np.arange(0, len(X), 2), np.arange(1, len(X), 2)
    direct = model.fit(X[train], y[train])
    Gram = kernel(X[train])
    for given in ("precomputed", K.Precomputed()):
        stored = make(name, given).fit(Gram, y[train])
        expected = output(direct, X[new])
        found = output(stored, kernel(X[new], X[train]))
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_an_object_and_a_name_give_the_same_model(name):
    X, y = data(make(name, "rbf"))
    by_name = make(name, "rbf").set_params(gamma=0.3).fit(X, y)
    by_object = make(name, K.RBF(0.3)).fit(X, y)
    np.testing.assert_allclose(output(by_name, X), output(by_object, X), rtol=1e-9, atol=1e-9)
    assert isinstance(by_name.kernel_, K.RBF)


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_sparse_and_frames_give_the_same_model(name):
    X, y = data(make(name, "rbf"))
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = make(name, K.RBF(0.3)).fit(X, y)
    sparse = make(name, K.RBF(0.3)).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(
        output(sparse, sp.csr_array(X)), output(dense, X), rtol=1e-5, atol=1e-5
    )
    frame = pd.DataFrame(X, columns=list("abcd"))
    framed = make(name, K.RBF(0.3)).fit(frame, y)
    np.testing.assert_allclose(output(framed, frame), output(dense, X), rtol=1e-9, atol=1e-9)
    assert list(framed.feature_names_in_) == list("abcd")


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_strings_and_tables_are_learned_from(name):
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list(letters), size=8)) for letters in ("abc", "bcd") * 15]
    labels = np.array([0, 1] * 15)
    y = labels.astype(float) if is_regressor(make(name, "rbf")) else labels
    kernel = K.Spectrum(2).normalize() + 1.0
    model = make(name, kernel).fit(words, y)
    found = output(model, words)
    Gram = make(name, "precomputed").fit(kernel(words), y)
    np.testing.assert_allclose(found, output(Gram, kernel(words)), rtol=1e-6, atol=1e-6)
    table = pd.DataFrame({"word": words, "size": np.linspace(0, 1, 30)})
    mixed = K.Spectrum(2).normalize().on("word") + K.RBF(1.0).on(["size"])
    assert len(output(make(name, mixed).fit(table, y), table)) == 30
    assert len(output(make(name, kernel).fit(np.array(words, dtype=object), y), words[:3])) == 3


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_an_indefinite_kernel_is_refused_or_corrected(name):
    model = make(name, K.Sigmoid(0.5, 1.0))
    X, y = data(model)
    X, y = X[::3], y[::3]
    with pytest.raises(ValueError, match="not positive semidefinite"):
        model.fit(X, y)
    for method in ("clip", "flip", "shift"):
        corrected = clone(model).set_params(indefinite=method).fit(X, y)
        assert np.all(np.isfinite(output(corrected, X)))


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_grid_search_reaches_inside_the_kernel(name):
    model = make(name, 0.5 * K.RBF(1.0) + K.Linear())
    X, y = data(model)
    values = {}
    for gamma in (0.01, 3.0):
        trial = clone(model).set_params(kernel__left__right__gamma=gamma)
        values[gamma] = output(trial.fit(X, y), X)
        assert trial.kernel_.left.right.gamma == gamma
    assert model.kernel.left.right.gamma == 1.0
    assert not np.allclose(values[0.01], values[3.0])


@pytest.mark.parametrize("name", SUPERVISED)
def test_grid_search_over_nested_parameters(name):
    model = make(name, K.RBF(1.0) + 0.1 * K.Linear())
    X, y = data(model)
    search = GridSearchCV(model, {"kernel__left__gamma": [1e-6, 0.1, 50.0]}, cv=3).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert len(set(np.round(scores, 6))) > 1
    assert search.best_estimator_.kernel_.left.gamma == search.best_params_["kernel__left__gamma"]


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_clone_and_pickle(name):
    model = make(name, K.RBF(0.4) + K.Polynomial(2, 0.1))
    X, y = data(model)
    fitted = model.fit(X, y)
    stored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_allclose(output(stored, X), output(fitted, X), rtol=1e-9, atol=1e-12)
    with pytest.raises(NotFittedError):
        output(clone(fitted), X)


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_an_interrupted_fit_leaves_no_trace(name, monkeypatch):
    model = make(name, K.RBF(0.4))
    X, y = data(model)

    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(K.RBF, "formula", interrupt)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert vars(model) == before
    monkeypatch.undo()
    fitted = model.fit(X, y)
    expected = output(fitted, X)
    monkeypatch.setattr(K.RBF, "formula", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fitted.fit(X[::2], y[::2])
    monkeypatch.undo()
    np.testing.assert_array_equal(output(fitted, X), expected)


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_the_same_seed_gives_the_same_model(name):
    model = make(name, K.RBF(0.4))
    X, y = data(model)
    first, second = clone(model).fit(X, y), clone(model).fit(X, y)
    np.testing.assert_array_equal(output(first, X), output(second, X))


@pytest.mark.parametrize("name", every_estimator.names())
def test_two_fits_with_default_parameters_have_the_same_bits(name):
    data = every_estimator.lesson(name, 60)
    found, again = (
        every_estimator.said(getattr(mercer, name)().fit(*data), data[0]) for _ in range(2)
    )
    assert found
    for one, other in zip(found, again, strict=True):
        np.testing.assert_array_equal(one, other)


ON_CENTRES = {
    "KernelMachineClassifier": [{"n_centers": 8}, {"n_centers": 8, "centers": "uniform"}],
    "KernelMachineRegressor": [{"n_centers": 8}, {"n_centers": 8, "centers": "uniform"}],
    "KernelPCA": [
        {"eigen_solver": "nystrom", "n_centers": 8, "n_components": 2},
        {"eigen_solver": "randomized", "n_components": 2},
        {"eigen_solver": "arpack", "n_components": 2},
        {"eigen_solver": "krylov", "n_components": 2},
    ],
    "KernelRidge": [{"solver": "nystrom", "n_centers": 8}, {"solver": "pcg"}],
    "KernelRidgeCV": [{"solver": "nystrom", "n_centers": 8}],
    "KernelRidgeClassifier": [{"solver": "nystrom", "n_centers": 8}, {"solver": "pcg"}],
    "KernelCCA": [{"solver": "low_rank", "max_rank": 8}],
}


@pytest.mark.parametrize("name", ON_CENTRES)
def test_two_fits_on_random_centres_have_the_same_bits(name):
    data = every_estimator.lesson(name, 60)
    for settings in ON_CENTRES[name]:
        models = [every_estimator.made(name).set_params(**settings).fit(*data) for _ in range(2)]
        found, again = (every_estimator.said(model, data[0]) for model in models)
        for one, other in zip(found, again, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
@pytest.mark.parametrize(
    ("wrong", "error", "match"),
    [
        ("nan", ValueError, "NaN"),
        ("strings", ValueError, "convert|numeric|string"),
        ("empty", ValueError, "sample"),
        ("one-dimensional", ValueError, "[12]D"),
        ("wrong length", ValueError, "inconsistent|samples"),
    ],
)
def test_wrong_input_is_named(name, wrong, error, match):
    model = make(name, K.RBF())
    X, y = data(model)
    if wrong == "wrong length" and name in UNSUPERVISED:
        return
    X, y = {
        "nan": lambda: (np.where(np.arange(4) == 2, np.nan, X), y),
        "strings": lambda: (np.full(X.shape, "a"), y),
        "empty": lambda: (X[:0], y[:0]),
        "one-dimensional": lambda: (X[:, 0], y),
        "wrong length": lambda: (X, y[:-1]),
    }[wrong]()
    with pytest.raises(error, match=match):
        model.fit(X, y)


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_wrong_width_at_prediction_is_named(name):
    model = make(name, K.RBF())
    X, y = data(model)
    model.fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features"):
        output(model, X[:, :3])


@pytest.mark.parametrize("name", [n for n in SUPERVISED if is_classifier(make(n, "rbf"))])
def test_a_single_class_is_named(name):
    with pytest.raises(ValueError, match="class"):
        make(name, K.RBF()).fit(IRIS, np.zeros(len(IRIS)))


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_wrong_kernels_are_named(name):
    model = make(name, "gauss")
    X, y = data(model)
    with pytest.raises(ValueError, match="kernel"):
        model.fit(X, y)
    with pytest.raises(ValueError, match="gamma"):
        make(name, K.RBF(-1.0)).fit(X, y)
    with pytest.raises(ValueError, match="gamma"):
        make(name, "rbf").set_params(gamma=0.0).fit(X, y)


@pytest.mark.parametrize("name", KERNEL_ESTIMATORS)
def test_one_feature_and_few_points(name):
    model = make(name, K.RBF())
    X = np.array([[0.0], [0.1], [3.0], [3.1], [0.05], [2.9]])
    y = np.array([0, 0, 1, 1, 0, 1])
    fitted = model.fit(X, y)
    assert len(output(fitted, X)) == 6
    if not is_outlier_detector(model) and is_classifier(model):
        assert fitted.predict(X).tolist() == y.tolist()


SCORED = [name for name in every_estimator.names() if "sample_weight" in signature(name, "score")]
UNWEIGHTED = (
    "GaussianProcessClassifier",
    "GaussianProcessRegressor",
    "StructureSearch",
    "KernelCCA",
    "KernelPCA",
    "KernelPerceptron",
    "KernelSpectralClustering",
)


@pytest.mark.parametrize("name", SCORED)
def test_a_score_counts_a_weight_as_so_many_points(name):
    model = every_estimator.made(name).fit(*every_estimator.lesson(name, 40))
    X, *y = every_estimator.lesson(name, 30)
    weight = np.random.default_rng(0).integers(0, 4, 30)
    times = np.repeat(np.arange(30), weight)
    found = model.score(X, *y, sample_weight=weight)
    assert found == pytest.approx(model.score(X[times], *(A[times] for A in y)), rel=1e-9)
    assert found != pytest.approx(model.score(X, *y), rel=1e-6)


@pytest.mark.parametrize("name", every_estimator.names())
def test_weights_are_taken_or_refused(name):
    model, given = every_estimator.made(name), every_estimator.lesson(name, 40)
    weight = np.ones(40)
    if name in UNWEIGHTED:
        with pytest.raises(TypeError, match="unexpected keyword argument 'sample_weight'"):
            model.fit(*given, sample_weight=weight)
    else:
        model.fit(*given, sample_weight=weight)
        with pytest.raises(ValueError, match="sample_weight"):
            model.fit(*given, sample_weight=weight[1:])
