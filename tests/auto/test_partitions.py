"""Boosted partitions: the native routine, its twin, and slow sums over leaves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit
from sklearn.utils.estimator_checks import parametrize_with_checks

from mercer import core, load, save
from mercer.auto import BoostedPartitions
from mercer.core.reference import boosting


def problem(n: int, loss: int, rng: np.random.Generator) -> tuple:
    codes = rng.integers(0, 6, (1, 4, n)).astype(np.uint8)
    codes[0, 3] = rng.uniform(size=n) < 0.1  # rare, so that its sums are differences
    signal = codes[0, 0] + 2.0 * (codes[0, 1] > 2) - 3.0 * codes[0, 3]
    targets = signal[:, None] / 3 if loss == 0 else (signal[:, None] > 3).astype(float)
    if loss == 2:
        targets = np.eye(3)[np.digitize(signal, [2, 4])]
    inside = rng.uniform(size=(1, n)) < 0.7
    weight = rng.uniform(0.5, 2, (1, n))
    return (
        codes,
        np.array([6, 6, 6, 2], dtype=np.int32),
        targets.astype(np.float32),
        (inside * weight).astype(np.float32),
        (~inside * weight).astype(np.float32),
        np.zeros((1, n, targets.shape[1]), dtype=np.float32),
        loss,
    )


@pytest.mark.parametrize("loss", [0, 1, 2])
def test_native_and_twin_find_the_same_trees(loss):
    given = problem(400, loss, np.random.default_rng(loss))
    settings = (8, 3, 4, 0.3, 1.0, 0.8, 0.5, 7, 2)
    found, scores = core.boosting_routines().boost(*given, *settings)
    expected, expected_scores = boosting.boost(*given, *settings)
    for one, other in zip(found[0], expected[0], strict=True):
        np.testing.assert_allclose(one, other, atol=2e-4)
    np.testing.assert_allclose(scores, expected_scores, atol=2e-4)


def test_one_tree_by_the_definition():
    """The best question of all, and Newton's step in its leaves."""
    codes, n_codes, targets, weights, judges, scores, _ = problem(300, 1, np.random.default_rng(3))
    settings = (1, 1, 1, 0.5, 2.0, 1.0, 1.0, 0, 1)
    found, _ = core.boosting_routines().boost(
        codes, n_codes, targets, weights, judges, scores + 0.3, 1, *settings
    )
    g = weights[0] * (targets[:, 0] - expit(0.3))
    h = weights[0] * expit(0.3) * (1 - expit(0.3))
    gains = {}
    for k in range(4):
        for cut in range(n_codes[k] - 1):
            sides = [codes[0, k] <= cut, codes[0, k] > cut]
            gains[k, cut] = sum(g[s].sum() ** 2 / (h[s].sum() + 2.0) for s in sides)
    k, cut = max(gains, key=lambda question: gains[question])
    sides = [codes[0, k] <= cut, codes[0, k] > cut]
    values = [0.5 * g[s].sum() / (h[s].sum() + 2.0) for s in sides]
    features, cuts, leaf_values, _ = found[0]
    assert (int(features[0, 0]), int(cuts[0, 0])) == (k, cut)
    np.testing.assert_allclose(leaf_values[0, :, 0], values, rtol=1e-4)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 5))
    X[:, 4] = X[:, 4] > 1
    return X, (X[:, 0] > 0) * 2.0 + np.abs(X[:, 1]) * X[:, 4] + 0.1 * rng.normal(size=500)


def test_scores_and_kernel_are_those_of_the_leaves(table):
    X, y = table
    model = BoostedPartitions(n_trees=20).fit(X, y)
    Z, T = X[:7], len(model.features_)
    leaves = np.zeros((7, T), dtype=int)
    for i, z in enumerate(Z.astype(np.float32)):
        for t in range(T):
            bits = z[model.features_[t]] > model.thresholds_[t]
            leaves[i, t] = sum(2**level for level, bit in enumerate(bits) if bit)
    sums = [sum(model.values_[t, leaf, 0] for t, leaf in enumerate(row)) for row in leaves]
    np.testing.assert_allclose(model.scores(Z)[:, 0], model.first_[0] + np.array(sums), rtol=1e-5)
    phi = model.transform(Z)
    expected = (leaves[:, None] == leaves[None]).mean(axis=2)
    np.testing.assert_allclose((phi @ phi.T).toarray(), expected, atol=1e-12)
    assert phi.shape[1] == len(model.get_feature_names_out())


def test_left_out_rows_are_predicted_by_trees_that_never_saw_them(table):
    X, y = table
    model = BoostedPartitions(n_trees=30).fit(X, y)
    moved = y.copy()
    moved[3] += 100.0
    other = BoostedPartitions(n_trees=30, patience=30).fit(X, moved)
    assert abs(other.left_out_[3, 0] - y[3]) < 60
    assert np.mean((model.left_out_[:, 0] - y) ** 2) < 0.5 * y.var()
    assert np.isfinite(model.left_out_).all()


def test_classes_weights_and_groups(table):
    X, y = table
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [0.5, 2.0])]
    groups = np.arange(500) // 10
    model = BoostedPartitions("classes").fit(X, labels, np.linspace(0.5, 1.5, 500), groups)
    chosen = model.classes_[model.scores(X).argmax(axis=1)]
    assert np.mean(chosen == labels) > 0.85
    two = BoostedPartitions("classes").fit(X, labels == "low")
    assert np.mean((two.scores(X)[:, 0] > 0) == (labels == "low")) > 0.9


def test_saved_and_loaded(table, tmp_path):
    X, y = table
    model = BoostedPartitions(n_trees=10).fit(X, y)
    save(model, tmp_path / "partitions.mercer")
    again = load(tmp_path / "partitions.mercer")
    np.testing.assert_array_equal(again.scores(X), model.scores(X))


def test_constant_columns_and_constant_targets():
    X = np.ones((50, 2))
    model = BoostedPartitions().fit(X, np.arange(50.0))
    np.testing.assert_allclose(model.scores(X[:2]), 24.5)
    assert model.transform(X).shape == (50, 0)
    with pytest.raises(ValueError, match="one class"):
        BoostedPartitions("classes").fit(X, np.ones(50))


REPEATED = {
    f"check_sample_weight_equivalence_on_{kind}_data": "rows and folds are drawn at random"
    for kind in ("dense", "sparse")
}


@parametrize_with_checks([BoostedPartitions()], expected_failed_checks=lambda model: REPEATED)
def test_scikit_learns_checks(estimator, check):
    check(estimator)
