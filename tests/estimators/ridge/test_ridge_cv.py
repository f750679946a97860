"""The regulariser chosen by leaving points out, against refits."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_diabetes, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import KFold

from mercer.estimators.ridge.cross_validation import KernelRidgeCV
from mercer.estimators.ridge.regression import KernelRidge
from ridge_examples import data


def leave_out_by_refitting(X, y, alpha, weight, folds, gamma=0.5, **options):
    predictions = np.empty_like(y)
    for fold in folds:
        kept = np.setdiff1d(np.arange(len(y)), fold)
        model = KernelRidge(alpha, kernel="rbf", gamma=gamma, **{"solver": "eigh", **options})
        model.fit(X[kept], y[kept], sample_weight=weight[kept])
        predictions[fold] = model.predict(X[fold])
    return predictions


@pytest.mark.parametrize("targets", [1, 2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leave_one_out_equals_refitting(targets, weighted, fit_intercept):
    X, y = data(n=20, targets=targets)
    y = y + 2.0
    rng = np.random.default_rng(3)
    weight = rng.uniform(0.1, 2.0, size=20) if weighted else np.ones(20)
    if weighted:
        weight[4] = 0.0
    alphas = [1e-4, 0.01, 0.3, 5.0]
    model = KernelRidgeCV(alphas, kernel="rbf", gamma=0.5, fit_intercept=fit_intercept)
    model.fit(X, y, sample_weight=weight if weighted else None)
    scores, ones = [], [[i] for i in range(20)]
    for alpha in alphas:
        slow = leave_out_by_refitting(X, y, alpha, weight, ones, fit_intercept=fit_intercept)
        errors = ((y - slow) ** 2).reshape(20, -1).mean(axis=1)
        scores.append(-np.sum(weight * errors) / weight.sum())
        if alpha == model.alpha_:
            assert_allclose(model.loo_predictions_, slow, atol=1e-8)
    assert_allclose(model.loo_scores_, scores, rtol=1e-7)
    assert model.alpha_ == alphas[int(np.argmax(scores))]
    assert model.best_score_ == model.loo_scores_.max()


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_leaving_folds_out_equals_refitting(fit_intercept):
    X, y = data(n=24)
    y = y + 2.0
    option = {"fit_intercept": fit_intercept}
    weight = np.random.default_rng(3).uniform(0.1, 2.0, size=24)
    weight[7] = 0.0
    splits = KFold(5, shuffle=True, random_state=0)
    model = KernelRidgeCV([0.2], kernel="rbf", gamma=0.5, cv=splits, **option)
    model.fit(X, y, sample_weight=weight)
    folds = [test for _, test in splits.split(X)]
    slow = leave_out_by_refitting(X, y, 0.2, weight, folds, **option)
    assert_allclose(model.loo_predictions_, slow, atol=1e-9)
    free = KernelRidgeCV([0.0], kernel="rbf", gamma=0.5, cv=splits, **option).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        slow = leave_out_by_refitting(X, y, 0.0, np.ones(24), folds, **option)
    assert_allclose(free.loo_predictions_, slow, atol=1e-5)


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("cv", [None, "gcv", 4])
def test_centres_choose_as_the_refits_they_stand_for(fit_intercept, cv):
    X, y = data(n=60)
    y = y + 2.0
    weight = np.random.default_rng(3).uniform(0.1, 2.0, size=60)
    alphas = np.logspace(-4, 1, 6)
    option = {"solver": "nystrom", "n_centers": 15, "fit_intercept": fit_intercept}
    model = KernelRidgeCV(alphas, kernel="rbf", gamma=0.5, cv=cv, **option)
    model.fit(X, y, sample_weight=weight)
    plain = KernelRidge(model.alpha_, kernel="rbf", gamma=0.5, **option)
    plain.fit(X, y, sample_weight=weight)
    assert_allclose(model.predict(X), plain.predict(X), atol=1e-9)
    if cv != "gcv":
        option["centers"] = model.X_fit_
        folds = np.split(np.arange(60), cv or 60)
        slow = leave_out_by_refitting(X, y, model.alpha_, weight, folds, **option)
        assert_allclose(model.loo_predictions_, slow, atol=1e-8)
        assert model.best_score_ == pytest.approx(-np.average((y - slow) ** 2, weights=weight))


@pytest.mark.parametrize("fit_intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_generalised_cross_validation_by_hand(fit_intercept, weighted):
    X, y = data(n=30)
    weight = np.random.default_rng(3).uniform(0.1, 2.0, size=30) if weighted else np.ones(30)
    weight[2] = 0.0 if weighted else 1.0
    alphas = [0.01, 0.3]
    model = KernelRidgeCV(alphas, kernel="rbf", cv="gcv", fit_intercept=fit_intercept)
    model.fit(X, y, sample_weight=weight)
    used = weight > 0
    for alpha, score in zip(alphas, model.loo_scores_, strict=True):
        # The hat matrix, column by column, from fits to unit vectors.
        units = KernelRidge(alpha, kernel="rbf", fit_intercept=fit_intercept, solver="eigh")
        units.fit(X[used], np.eye(used.sum()), sample_weight=weight[used])
        hat = units.predict(X[used])
        n, residual = used.sum(), y[used] - hat @ y[used]
        expected = n * np.sum(weight[used] * residual**2) / (n - np.trace(hat)) ** 2
        assert score == pytest.approx(-expected)
        if alpha == model.alpha_:
            left_out = y[used] - residual * n / (n - np.trace(hat))
            assert_allclose(model.loo_predictions_[used], left_out, atol=1e-9)
    centred = KernelRidgeCV(
        alphas, kernel="rbf", cv="gcv", fit_intercept=fit_intercept, solver="nystrom", n_centers=30
    ).fit(X, y, sample_weight=weight)
    assert_allclose(centred.loo_scores_, model.loo_scores_, rtol=1e-6)
    assert_allclose(centred.loo_predictions_, model.loo_predictions_, atol=1e-6)
    with pytest.raises(ValueError, match="no effect with cv='gcv'"):
        model.set_params(scoring="r2").fit(X, y)


def test_folds_must_leave_out_every_point_once():
    X, y = data(n=10)
    everyone = np.arange(10)
    with pytest.raises(ValueError, match="all points outside its test set"):
        KernelRidgeCV(cv=[(everyone, everyone[:2])]).fit(X, y)
    with pytest.raises(ValueError, match="every point exactly once"):
        KernelRidgeCV(cv=[(everyone[2:], everyone[:2])]).fit(X, y)


def test_the_chosen_model_is_kernel_ridge():
    X, y = data(n=30)
    chosen = KernelRidgeCV([0.01, 0.1, 1.0], kernel="rbf").fit(X, y)
    plain = KernelRidge(chosen.alpha_, kernel="rbf").fit(X, y)
    assert_allclose(chosen.predict(X), plain.predict(X), atol=1e-9)


def test_other_scores_and_scikit_learn_agree():
    X, y = make_regression(30, 4, noise=5.0, random_state=0)
    alphas = [0.1, 1.0, 10.0, 100.0]
    ours = KernelRidgeCV(alphas).fit(X, y)
    theirs = RidgeCV(alphas, fit_intercept=False).fit(X, y)
    assert ours.alpha_ == theirs.alpha_
    assert_allclose(ours.predict(X), theirs.predict(X))
    judged = KernelRidgeCV(alphas, scoring="r2").fit(X, y)
    assert_allclose(judged.best_score_, r2_score(y, judged.loo_predictions_))
    weight = np.arange(1.0, 31.0)
    judged = KernelRidgeCV(alphas, scoring="r2").fit(X, y, sample_weight=weight)
    expected = r2_score(y, judged.loo_predictions_, sample_weight=weight)
    assert_allclose(judged.best_score_, expected)
    with pytest.raises(ValueError, match="alphas"):
        KernelRidgeCV([]).fit(X, y)
    with pytest.raises(ValueError, match="none negative"):
        KernelRidgeCV([-1.0]).fit(X, y)


def test_cross_validation_warns_like_the_fit_it_chooses():
    X = np.ones((6, 2))
    with pytest.warns(ConvergenceWarning, match="undetermined: .* rank 1 of 6"):
        KernelRidgeCV(alphas=[0.0]).fit(X, np.arange(6.0))
    X, y = load_diabetes(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="undetermined|stalled"):
        KernelRidgeCV(alphas=[1e-14], kernel="rbf", gamma=1e-3).fit(X, y)


def test_a_scorer_without_weights_is_named():
    X, y = load_diabetes(return_X_y=True)
    with pytest.raises(ValueError, match="scoring='neg_max_error' takes no sample_weight"):
        KernelRidgeCV(scoring="neg_max_error").fit(X, y, sample_weight=np.ones(len(y)))
    KernelRidgeCV(scoring="neg_max_error").fit(X, y)
