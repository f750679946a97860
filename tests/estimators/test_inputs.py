"""The door of the estimators: names, objects, functions, gamma, indefinite kernels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.metrics.pairwise import additive_chi2_kernel

from mercer import (
    SVC,
    SVR,
    AutoKernelClassifier,
    AutoKernelRegressor,
    KernelDensity,
    KernelMachineRegressor,
    KernelPerceptron,
    KernelRidge,
    KernelRidgeCV,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    NuSVR,
)
from mercer import kernels as K
from mercer.estimators.array_support import ArraySupport
from mercer.estimators.inputs import validate_query, validate_training
from mercer.estimators.kernel_parameter import resolve_kernel
from mercer.estimators.training_gram import training_gram

RNG = np.random.default_rng(0)
X = RNG.normal(size=(20, 3))
Y = np.arange(20.0)


class Probe(BaseEstimator):
    """As little of an estimator as the door needs."""

    def __init__(
        self, kernel="rbf", gamma=None, degree=3, coef0=1, kernel_params=None, indefinite="error"
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.indefinite = indefinite


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"kernel": "linear"}, K.Linear()),
        ({"kernel": "rbf"}, K.RBF(1 / 3)),
        ({"kernel": "rbf", "gamma": 2}, K.RBF(2.0)),
        ({"kernel": "rbf", "gamma": "auto"}, K.RBF(1 / 3)),
        ({"kernel": "rbf", "gamma": "scale"}, K.RBF(1 / (3 * X.var()))),
        ({"kernel": "poly", "degree": 2, "coef0": 0.5}, K.Polynomial(2, 1 / 3, 0.5)),
        ({"kernel": "polynomial"}, K.Polynomial(3, 1 / 3, 1)),
        ({"kernel": "sigmoid"}, K.Sigmoid(1 / 3, 1)),
        ({"kernel": "laplacian"}, K.Laplacian(1 / 3)),
        ({"kernel": "cosine"}, K.Cosine()),
        ({"kernel": "chi2"}, K.Chi2(1.0)),
        ({"kernel": "precomputed"}, K.Precomputed()),
        ({"kernel": K.RBF(0.7) + 1}, K.RBF(0.7) + 1),
    ],
)
def test_names_become_objects(parameters, expected):
    assert resolve_kernel(Probe(**parameters), X).key() == expected.key()


def test_gamma_scale_of_sparse_points():
    S = sp.random_array((30, 5), density=0.3, random_state=0, format="csr")
    dense, sparse = (resolve_kernel(Probe(gamma="scale"), A).gamma for A in (S.toarray(), S))
    assert sparse == pytest.approx(dense)


def test_a_kernel_object_is_cloned():
    kernel = K.RBF(0.5)
    assert resolve_kernel(Probe(kernel), X) is not kernel


@pytest.mark.parametrize("parameter", ["gamma", "degree", "coef0"])
def test_a_parameter_that_would_be_ignored_is_an_error(parameter):
    probe = Probe(K.RBF()).set_params(**{parameter: 0.25})
    with pytest.raises(ValueError, match=f"{parameter}=0.25 has no effect"):
        resolve_kernel(probe, X)


def test_functions_of_rows_and_of_arrays():
    rows = resolve_kernel(
        Probe(lambda x, z, power: float(x @ z) ** power, kernel_params={"power": 2}), X
    )
    np.testing.assert_allclose(rows(X), K.Polynomial(2, coef0=0.0)(X))
    probe = Probe(lambda A, B: A @ B.T)
    probe._arrays = ArraySupport(function_of="sets")
    np.testing.assert_allclose(resolve_kernel(probe, X)(X), K.Linear()(X))


@pytest.mark.parametrize(
    ("parameters", "error", "match"),
    [
        ({"kernel": "gauss"}, ValueError, "kernel='gauss'"),
        ({"kernel": K.RBF}, TypeError, r"RBF\(\)"),
        ({"gamma": 0}, ValueError, "gamma=0"),
        ({"gamma": -1.0}, ValueError, "gamma=-1.0"),
        ({"gamma": "big"}, ValueError, "gamma='big'"),
        ({"kernel": "poly", "degree": 2.5}, ValueError, "degree"),
    ],
)
def test_wrong_choices_are_named(parameters, error, match):
    with pytest.raises(error, match=match):
        resolve_kernel(Probe(**parameters), X).validity  # noqa: B018


def test_validation_by_kind_of_kernel():
    assert validate_training(Probe(), X.tolist()).shape == (20, 3)
    words = ["ab", "ba", "bb"]
    found, y = validate_training(Probe(K.Spectrum(2)), words, [0, 1, 0])
    assert found == words
    assert y.tolist() == [0, 1, 0]
    with pytest.raises(ValueError, match="square"):
        validate_training(Probe("precomputed"), X)
    with pytest.raises(ValueError, match="inconsistent"):
        validate_training(Probe(K.Spectrum(2)), words, [0, 1])
    with pytest.raises(TypeError, match="single str"):
        validate_training(Probe(K.Spectrum(2)), "abc")
    with pytest.raises(ValueError, match="empty"):
        validate_training(Probe(K.Spectrum(2)), [])
    fitted = Probe()
    validate_training(fitted, X)
    with pytest.raises(ValueError, match="2 features"):
        validate_query(fitted, X[:, :2])


@pytest.mark.parametrize("kernel", ["sigmoid", lambda x, z: -float(np.abs(x - z).sum())])
def test_an_indefinite_kernel_is_refused_or_corrected(kernel):
    probe = Probe(kernel)
    fitted = resolve_kernel(probe, X)
    with pytest.raises(ValueError, match="indefinite='clip', 'flip' or 'shift'"):
        training_gram(probe, X, fitted)
    for method in ("clip", "flip", "shift"):
        operator = training_gram(probe.set_params(indefinite=method), X, fitted)
        assert np.linalg.eigvalsh(operator.dense())[0] > -1e-9
        found = fitted(X) @ operator.extend_coefficients(np.eye(20))
        shift = operator.dense()[0, 0] - found[0, 0] if method == "shift" else 0.0
        np.testing.assert_allclose(found + shift * np.eye(20), operator.dense(), atol=1e-9)
    with pytest.raises(ValueError, match="indefinite='maybe'"):
        training_gram(probe.set_params(indefinite="maybe"), X, fitted)


def test_an_unknown_kernel_that_behaves_is_taken():
    probe = Probe(lambda x, z: float(x @ z))
    operator = training_gram(probe, X, resolve_kernel(probe, X))
    np.testing.assert_array_equal(operator.extend_coefficients(y := np.arange(20.0)), y)
    np.testing.assert_allclose(operator.dense(), X @ X.T)


@pytest.mark.parametrize("estimator", [SVC(), KernelDensity(), NadarayaWatsonRegressor()])
def test_a_gap_is_named_by_row_and_column(estimator):
    table, y = pd.DataFrame(X.copy(), columns=["a", "b", "c"]), np.arange(20) % 2
    estimator.fit(table, y)
    table.loc[7, "b"] = np.nan
    with pytest.raises(ValueError, match=r"X has a missing value \(NaN\) at row 7, column 'b'"):
        estimator.fit(table, y)
    ask = estimator.score_samples if hasattr(estimator, "score_samples") else estimator.predict
    with pytest.raises(ValueError, match="at row 7, column 'b'"):
        ask(table)
    with pytest.raises(ValueError, match="X has an infinite value at row 3, column 1"):
        estimator.fit(np.where(np.arange(60).reshape(20, 3) == 10, np.inf, X), y)


def test_gaps_of_the_target_are_those_of_y():
    with pytest.raises(ValueError, match="Input y contains NaN"):
        KernelRidge().fit(X, np.full(20, np.nan))


def test_an_asymmetric_gram_is_refused():
    A = np.tril(X @ X.T)
    with pytest.raises(ValueError, match=r"not symmetric: entries \(\d+, \d+\)"):
        validate_training(Probe("precomputed"), A)
    with pytest.raises(ValueError, match="not symmetric"):
        validate_training(Probe(K.Precomputed()), sp.csr_array(A))
    # Rounding is no asymmetry, in either precision.
    G = K.RBF(0.3)(X)
    for rounded in (G.astype(np.float32), G * (1 + 1e-14 * np.tri(20))):
        assert validate_training(Probe("precomputed"), rounded).shape == (20, 20)


def test_many_points_of_a_kernel_of_unknown_validity_are_looked_at_in_part(monkeypatch):
    monkeypatch.setattr("mercer.estimators.training_gram.MOST_JUDGED", 40)
    points = np.random.default_rng(0).normal(size=(120, 3))
    probe = Probe("precomputed")
    with pytest.raises(ValueError, match="not positive semidefinite"):
        training_gram(probe, np.tanh(0.5 * points @ points.T - 1), K.Precomputed())
    Gram = K.RBF()(points)
    assert training_gram(probe, Gram, K.Precomputed()).dense() is Gram


def test_the_additive_chi_square_is_a_name_that_needs_a_correction():
    points = np.abs(X)
    probe = Probe("additive_chi2")
    kernel = resolve_kernel(probe, points)
    np.testing.assert_allclose(kernel(points), additive_chi2_kernel(points))
    with pytest.raises(ValueError, match="not positive semidefinite"):
        training_gram(probe, points, kernel)
    assert training_gram(probe.set_params(indefinite="clip"), points, kernel).shape == (20, 20)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("rfb", "did you mean 'rbf'"),
        ("RBF", "did you mean 'rbf'"),
        ("RBF(gamma=0.1) + Linear()", r"kernels.parse\('RBF"),
        ("tanimoto", r"pass the object mercer.kernels.Tanimoto\(...\)"),
        ("nonsense", "one of .*'polynomial'"),
    ],
)
def test_a_name_that_is_none_is_answered_with_what_may_have_been_meant(name, advice):
    with pytest.raises(ValueError, match=advice):
        resolve_kernel(Probe(name), X)


@pytest.mark.parametrize(
    ("kernel", "points"),
    [(K.FromFunction(lambda x, z: -float(x @ z)), X), ("precomputed", -X @ X.T)],
)
def test_an_indefinite_gram_is_refused_with_the_points_that_show_it(kernel, points):
    probe = Probe(kernel)
    with pytest.raises(ValueError, match="For example, points") as refusal:
        training_gram(probe, points, resolve_kernel(probe, points))
    eigenvalue = float(str(refusal.value).rpartition("eigenvalue ")[2])
    assert eigenvalue < 0
    assert len(str(refusal.value).splitlines()) < 8


def test_the_degree_of_a_named_polynomial_is_a_whole_number():
    assert resolve_kernel(Probe("poly", degree=2.0), X).degree == 2
    with pytest.raises(ValueError, match=r"degree=2.5 of Probe: expected a whole number"):
        resolve_kernel(Probe("poly", degree=2.5), X)


def test_a_function_of_the_other_convention_is_pointed_to_the_right_kernel():
    y = np.arange(20) % 2
    with pytest.raises(ValueError, match=r"pass kernel=kernels.FromFunction\(f\)"):
        SVC(kernel=lambda x, z: np.exp(-np.sum((x - z) ** 2))).fit(X, y)
    with pytest.raises(ValueError, match="matmul") as error:
        SVC(kernel=lambda x, z: float(x @ z)).fit(X, y)
    assert "FromFunction(f)." in error.value.__notes__[0]
    with pytest.raises(TypeError, match=r"for two points; expected a number.*pairwise=False"):
        KernelRidge(kernel=lambda A, B: np.zeros((len(A), len(B)))).fit(X, y)


@pytest.mark.parametrize("estimator", [SVC(), KernelPerceptron()])
def test_a_single_class_is_refused_by_name(estimator):
    with pytest.raises(ValueError, match=r"y has one class only, 0\.0;"):
        estimator.fit(X, np.zeros(20))


@pytest.mark.parametrize("gamma", [0, -1])
def test_gamma_is_positive(gamma):
    with pytest.raises(ValueError, match=r"'gamma' parameter of SVC .*\(0.0, inf\)"):
        SVC(gamma=gamma).fit(X, np.arange(20) % 2)


def test_kernels_whose_values_are_no_numbers_are_refused():
    def bad(x, z):
        return np.nan if x[0] > 1 and z[0] < 0 else float(x @ z)

    with pytest.raises(ValueError, match=r"value nan between training points \d+ and \d+"):
        training_gram(Probe(kernel=bad), X, K.FromFunction(bad, pairwise=True))
    with np.errstate(over="ignore"):
        for solver in ("cholesky", "eigh", "pcg", "nystrom", "gd"):
            with pytest.raises(ValueError, match="value inf between training points"):
                KernelRidge(kernel="linear", solver=solver).fit(1e200 * X, Y)


DATES = pd.DataFrame({"x": np.arange(4.0), "when": pd.date_range("2020-01-01", periods=4)})


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_a_column_of_dates_is_named(zone):
    table = DATES.assign(when=DATES["when"].dt.tz_localize(zone))
    for use in (KernelRidge(), NadarayaWatsonRegressor(), KernelDensity(), SVC()):
        with pytest.raises(TypeError, match="X holds dates or durations in column 'when'"):
            use.fit(table, [0, 1, 0, 1])
    with pytest.raises(TypeError, match="X holds dates or durations in column 'when'"):
        K.RBF()(table)


@pytest.mark.parametrize(
    "model", [SVC, KernelPerceptron, NadarayaWatsonClassifier, AutoKernelClassifier]
)
def test_a_missing_label_is_named(model):
    labels = np.array(["a", "b"] * 10, dtype=object)
    for missing in (None, np.nan, pd.NA):
        labels[3] = missing
        for given in (labels, pd.Series(labels)):
            with pytest.raises(ValueError, match="y has no label at row 3 but"):
                model().fit(X, given)
        given = labels.tolist()
        for listed in (given, tuple(given)):
            with pytest.raises(ValueError, match="y has no label at row 3 but"):
                model().fit(X, listed)
    with pytest.raises(ValueError, match="y has no label at row 3 but <NA>"):
        model().fit(X, pd.Series(labels, dtype="string"))
    days = np.array(["2020-01-01", "2020-01-02"] * 10, dtype="datetime64[D]")
    days[3] = "NaT"
    with pytest.raises(ValueError, match=r"y has no label at row 3 but .*NaT"):
        model().fit(X, days)
    labels[3] = "nan"  # a text is a label, whatever it says
    assert "nan" in model().fit(X, labels.tolist()).classes_


@pytest.mark.parametrize("model", [SVC, KernelPerceptron, NadarayaWatsonClassifier])
def test_labels_of_several_types_are_named(model):
    with pytest.raises(ValueError, match="several types, 1 at row 0 and 'a' at row 1"):
        model().fit(X, np.array([1, "a"] * 10, dtype=object))
    model().fit(X, np.array(["b", "a"] * 10, dtype=object))


@pytest.mark.parametrize("model", [SVR, KernelMachineRegressor, KernelRidge])
def test_a_missing_target_is_told(model):
    targets = Y.astype(object)
    targets[3] = None
    with pytest.raises(ValueError, match=r"y has a missing value at row 3|contains NaN"):
        model().fit(X, targets)


@pytest.mark.parametrize(
    ("model", "meant"),
    [
        (AutoKernelRegressor(), "AutoKernelClassifier"),
        (KernelMachineRegressor(), "KernelMachineClassifier"),
        (KernelRidge(), "KernelRidgeClassifier"),
        (KernelRidgeCV(), "KernelRidgeClassifier"),
        (LocalLinearRegressor(), "NadarayaWatsonClassifier"),
        (NadarayaWatsonRegressor(), "NadarayaWatsonClassifier"),
        (NuSVR(), "NuSVC"),
        (SVR(), "SVC"),
    ],
    ids=lambda x: type(x).__name__,
)
def test_words_that_should_be_numbers_are_sent_to_the_classifier(model, meant):
    words = ["1.5", *["no", "yes"] * 9, "no"]
    told = f"y holds 'no' at row 1, which is not a number; .* and {meant} predicts classes"
    for given in (words, np.array(words), np.array(words, dtype=object), pd.Series(words)):
        with pytest.raises(ValueError, match=told):
            model.fit(X, given)


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
def test_a_variance_too_large_for_a_width_is_told(form):
    with pytest.raises(ValueError, match=r"gamma='scale' .* scale X"):
        KernelPerceptron().fit(form(1e200 * X), Y > 9)


@pytest.mark.parametrize("name", ["spectrum", "Spectrum"])
def test_the_name_of_a_class_is_said_to_be_none_of_a_kernel_before_points_are_read(name):
    words = ["abc", "abd", "bcd"]
    told = (
        rf"kernel='{name}' is not the name of a kernel; pass the object mercer\.kernels\.Spectrum"
    )
    for model in (SVC(kernel=name), KernelRidge(kernel=name), KernelPerceptron(kernel=name)):
        with pytest.raises(ValueError, match=told):
            model.fit(words, [0, 1, 1])
