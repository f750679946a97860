"""Row 14. The nearest class mean in feature space, by both notes' formulas.

Chapter 16 (Shalev-Shwartz and Ben-David), exercise 6: predict the class whose mean of psi(x_i) is
closest, the positive one where both are; this is sign(<w, psi(x)> + b) with w = c₊ - c₋ and
b = ½(‖c₋‖² - ‖c₊‖²). The regression lecture writes the same rule as the sign of mean kernel values
with the positives, less those with the negatives, minus b, where b = ½(‖c₊‖² - ‖c₋‖²).
"""

from __future__ import annotations

import numpy as np
import pytest

import mercer
from mercer import kernels as K


def exercise_6(G, y, k):
    """G of the training points, k of new points with them; b is added."""
    plus, minus = y == 1, y == -1
    b = 0.5 * (G[np.ix_(minus, minus)].mean() - G[np.ix_(plus, plus)].mean())
    return k[:, plus].mean(axis=1) - k[:, minus].mean(axis=1) + b


def regression_lecture(G, y, k):
    """The same with sums over pairs written out; b is subtracted."""
    plus, minus = np.flatnonzero(y == 1), np.flatnonzero(y == -1)
    b = sum(G[i, j] for i in plus for j in plus) / (2 * len(plus) ** 2)
    b -= sum(G[i, j] for i in minus for j in minus) / (2 * len(minus) ** 2)
    positive = np.array([sum(row[i] for i in plus) / len(plus) for row in k])
    negative = np.array([sum(row[i] for i in minus) / len(minus) for row in k])
    return positive - negative - b


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = np.where((X**2).sum(axis=1) > 1.5, 1, -1)
    return X, y, rng.normal(size=(40, 2))


@pytest.mark.parametrize(
    "kernel", [K.Linear(), K.Polynomial(2), K.RBF(0.8), K.Laplacian(0.5)], ids=repr
)
def test_scores_and_predictions_equal_both_formulas(kernel, data):
    X, y, fresh = data
    G, k = kernel(X), kernel(fresh, X)
    scores = exercise_6(G, y, k)
    np.testing.assert_allclose(regression_lecture(G, y, k), scores, rtol=1e-10, atol=1e-12)
    model = mercer.KernelCentroidClassifier(kernel).fit(X, y)
    np.testing.assert_allclose(model.decision_function(fresh), scores, rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(model.predict(fresh), np.where(scores >= 0, 1, -1))


def test_it_measures_distances_to_the_means_in_feature_space(data):
    X, y, fresh = data
    phi = K.Polynomial(2).feature_map().fit(X)
    Phi, Psi = phi.transform(X), phi.transform(fresh)
    means = {label: Phi[y == label].mean(axis=0) for label in (-1, 1)}
    far = {label: np.linalg.norm(Psi - means[label], axis=1) for label in means}
    nearest = np.where(far[1] <= far[-1], 1, -1)
    model = mercer.KernelCentroidClassifier(K.Polynomial(2)).fit(X, y)
    np.testing.assert_array_equal(model.predict(fresh), nearest)
    # w = c₊ - c₋ and b, as exercise 6.1 asks.
    w = means[1] - means[-1]
    b = 0.5 * (means[-1] @ means[-1] - means[1] @ means[1])
    np.testing.assert_allclose(model.decision_function(fresh), Psi @ w + b, rtol=1e-9, atol=1e-11)
    assert model.intercept_ == pytest.approx(b)
    # The lecture's score is the difference of squared distances, twice ours.
    np.testing.assert_allclose(
        far[-1] ** 2 - far[1] ** 2, 2 * model.decision_function(fresh), rtol=1e-8, atol=1e-10
    )


@pytest.mark.parametrize("kernel", [K.Linear(), K.RBF(0.5), K.Polynomial(2)], ids=repr)
def test_ties_go_to_the_positive_class(kernel):
    X, y = np.array([[-1.0], [1.0]]), np.array([-1, 1])
    for labels in (y, -y):
        model = mercer.KernelCentroidClassifier(kernel).fit(X, labels)
        assert model.decision_function([[0.0]])[0] == 0
        assert model.predict([[0.0]])[0] == 1


def test_the_later_class_is_the_positive_one():
    X = np.array([[-1.0], [1.0]])
    model = mercer.KernelCentroidClassifier(K.Linear()).fit(X, ["no", "yes"])
    assert list(model.predict([[-0.1], [0.0], [0.1]])) == ["no", "yes", "yes"]


def test_unequal_classes_are_weighed_by_their_sizes():
    X = np.array([[0.0], [1.0], [2.0], [10.0]])
    y = np.array([-1, -1, -1, 1])
    model = mercer.KernelCentroidClassifier(K.Linear()).fit(X, y)
    # Means 1 and 10: the border is at 5.5.
    np.testing.assert_array_equal(model.predict([[5.4], [5.5], [5.6]]), [-1, 1, 1])
