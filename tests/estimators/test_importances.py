"""What models of sequences go by: weights of substrings, place by place."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    SVC,
    SVR,
    AutoKernelClassifier,
    KernelDensity,
    KernelRidge,
    feature_importances,
)
from mercer import kernels as K
from mercer.estimators.position_weights import PositionWeights, is_within


def sequences(seed=0, n=40, letters="ACGT"):
    rng = np.random.default_rng(seed)
    X = ["".join(rng.choice(list(letters), size=rng.integers(5, 25))) for _ in range(n)]
    y = np.arange(n) % 2
    return [x[:2] + "GATTACA" + x[2:] if c else x for x, c in zip(X, y, strict=True)], y


KERNELS = [
    K.Spectrum(3),
    K.Spectrum(3).normalize(),
    2.5 * K.Gappy(3, 1).normalize(),
    K.Mismatch(3, 1),
    K.Substring(max_length=4),
    K.Substring(count="occurrences", weighting="exponential").normalize(),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("model", [SVC(), KernelRidge(), SVR()], ids=str)
def test_places_add_up_to_the_value(any_level, kernel, model):
    X, y = sequences()
    model.set_params(kernel=kernel).fit(X, y)
    new = [*X[:2], "GATTACA" * 2, "A", "ACGT"]
    found = feature_importances(model, new)
    value = model.decision_function(new) if isinstance(model, SVC) else model.predict(new)
    b = getattr(model, "intercept_", 0.0)
    sums = [float(p.sum()) for p in found.positions]
    np.testing.assert_allclose(np.array(sums) + b, value, rtol=1e-8, atol=1e-8)
    assert [p.shape for p in found.positions] == [(len(x), 1) for x in new]


def test_weights_are_those_of_the_feature_map(any_level):
    X, y = sequences()
    model = SVC(kernel=K.Spectrum(4)).fit(X, y)
    phi = K.Spectrum(4).feature_map().fit(model.support_vectors_)
    w = phi.transform(model.support_vectors_).T @ model.dual_coef_.ravel()
    expected = dict(zip(phi.get_feature_names_out(), w, strict=True))
    found = dict(feature_importances(model, n_largest=10_000).substrings[0])
    assert found == pytest.approx({word: w for word, w in expected.items() if w}, abs=1e-12)


@pytest.mark.parametrize("kernel", [K.Substring(min_length=4, max_length=9).normalize()], ids=repr)
def test_a_planted_signature_is_found(any_level, kernel):
    X, y = sequences(n=30)
    model = SVC(kernel=kernel).fit(X, y)
    (word, weight), *_ = feature_importances(model).substrings[0]
    assert word == "GATTACA"
    assert weight > 0
    (places,) = feature_importances(model, ["CCC" + "GATTACA" + "GGGT"]).positions
    assert places[3:10].sum() > 0.9 * places.sum() > 0


def positioned(seed=0, n=60):
    """DNA of 20 letters; half of it has GATT at position 8."""
    rng = np.random.default_rng(seed)
    X = ["".join(rng.choice(list("ACGT"), size=20)) for _ in range(n)]
    y = np.arange(n) % 2
    return [x[:8] + "GATT" + x[12:] if c else x for x, c in zip(X, y, strict=True)], y


@pytest.mark.parametrize(
    "kernel",
    [
        K.WeightedDegree(3),
        2 * K.WeightedDegree(5).normalize(),
        K.WeightedDegree(4, shift=2),
        K.WeightedDegree(30, shift=40).normalize(),
    ],
    ids=repr,
)
def test_places_of_words_at_positions_add_up(kernel):
    X, y = positioned()
    model = SVC(kernel=kernel).fit(X, y)
    new = [*X[:3], "N" * 20, "GATT" * 5]
    found = feature_importances(model, new)
    sums = np.array([p.sum() for p in found.positions]) + model.intercept_
    np.testing.assert_allclose(sums, model.decision_function(new), rtol=1e-9, atol=1e-9)
    with pytest.raises(ValueError, match="sequences of 20"):
        feature_importances(model, ["ACGT"])


@pytest.mark.parametrize("shift", [0, 2])
def test_weights_of_words_at_positions(shift):
    X, y = positioned()
    X = [x[4:13] for x in X]
    model = SVC(kernel=K.WeightedDegree(3, shift)).fit(X, y)
    beta, delta = [3 / 6, 2 / 6, 1 / 6], [1, 1 / 4, 1 / 6]
    expected = Counter()
    for x, v in zip(model.support_vectors_, np.ravel(model.dual_coef_), strict=True):
        for d in (1, 2, 3):
            for start in range(9 - d + 1):
                for at in range(max(0, start - shift), min(9 - d, start + shift) + 1):
                    word = x[start : start + d]
                    expected[at, word] += v * beta[d - 1] * delta[abs(at - start)]
    weights = PositionWeights(
        K.WeightedDegree(3, shift),
        list(model.support_vectors_),
        np.ravel(model.dual_coef_)[:, None],
    )
    found = dict(weights.heaviest(0, 10**6))
    assert found == pytest.approx({key: w for key, w in expected.items() if key in found})
    assert all(abs(w) < 1e-9 for key, w in expected.items() if key not in found)


def test_a_planted_word_is_found_at_its_position():
    X, y = positioned()
    model = SVC(kernel=K.WeightedDegree(4)).fit(X, y)
    found = feature_importances(model, [X[1]], n_largest=5)
    assert all(at >= 8 and at + len(word) <= 12 for (at, word), _ in found.substrings[0][:2])
    assert found.positions[0][8:12].sum() > 0.5 * np.abs(found.positions[0]).sum()
    apart = [entry for entry, _ in found.substrings[0]]
    assert not any(is_within(a, b) and a != b for a in apart[1:] for b in apart[:1])


def test_several_functions_have_several_lists():
    X, y = sequences()
    y = np.where(y, 2, np.arange(len(X)) % 4 // 2)
    model = SVC(kernel=K.Spectrum(3)).fit(X, y)
    found = feature_importances(model, X[:1])
    assert len(found.substrings) == found.positions[0].shape[1] == 3  # pairs of classes


def test_what_has_no_substrings_is_refused():
    with pytest.raises(TypeError, match="no weights for substrings"):
        feature_importances(SVC(kernel=K.Subsequence(2)).fit(["ab", "cd"], [0, 1]))
    with pytest.raises(TypeError, match="neither decision_function nor predict"):
        feature_importances(KernelDensity().fit([[0.0], [1.0]]))


def test_features_of_a_linear_function_change_it_by_their_spread():
    X = np.random.default_rng(0).normal(size=(500, 3)) * [1.0, 5.0, 1.0]
    model = KernelRidge(kernel="linear", alpha=1e-6).fit(X, X @ [2.0, 1.0, 0.0])
    found = feature_importances(model).features
    assert [name for name, _ in found] == [1, 0, 2]
    # x - x' of a permuted feature has twice its variance.
    expected = np.sqrt(2) * np.array([2.0, 1.0, 0.0]) * X.std(axis=0)
    assert [change for _, change in found] == pytest.approx(expected[[1, 0, 2]], rel=0.1, abs=1e-6)


def test_features_of_tables_and_pipelines_have_names():
    table = pd.DataFrame({"a": np.arange(40.0), "b": ["u", "v"] * 20, "c": [1.0] * 40})
    model = AutoKernelClassifier().fit(table, table.b == "u")
    found = feature_importances(model, table, n_largest=2).features
    assert found[0][0] == "b"
    assert len(found) == 2
    with pytest.raises(ValueError, match="pass some, such as the training points"):
        feature_importances(model)
    piped = make_pipeline(StandardScaler(), SVC()).fit(table[["a", "c"]], table.a > 19)
    assert feature_importances(piped, table[["a", "c"]]).features[0][0] == "a"


def test_a_model_without_support_vectors_is_refused():
    X, y = sequences()
    flat = SVR(kernel=K.Spectrum(3), epsilon=10.0).fit(X, y)
    with pytest.raises(ValueError, match="SVR has no support vectors"):
        feature_importances(flat, X[:1])
