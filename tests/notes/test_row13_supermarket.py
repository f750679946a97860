"""Row 13. The supermarket: chapter 16 (Shalev-Shwartz and Ben-David), exercise 5.

A cart is a set of at most s of d products; a customer has a baby exactly if one of k unknown
products is in the cart. Over indicator vectors this is the halfspace Σ_{j in the k} x_j >= ½, of
norm about √k and margin ½, on vectors of norm at most √s: an SVM needs a number of carts that does
not depend on d. Nor does its time: the kernel is the number of common items, found from the carts.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.svm import LinearSVC

import mercer
from mercer import kernels as K

PRODUCTS, S, BABY = 1_000_000, 12, (31, 4_159, 265_358, 500_000, 979_323)


def carts(n, seed, products=PRODUCTS, baby=BABY):
    """Carts of at most S items: some everyday ones, some of the million, in half a baby item."""
    rng = np.random.default_rng(seed)
    found, labels = [], []
    for i in range(n):
        everyday = rng.choice(50, size=int(rng.integers(1, 5)), replace=False) + 1_000
        rare = rng.integers(2_000, products, size=int(rng.integers(1, 6)))
        cart = (set(everyday.tolist()) | set(rare.tolist())) - set(baby)
        if i % 2:
            cart |= {baby[j] for j in rng.choice(len(baby), size=int(rng.integers(1, 3)))}
        assert len(cart) <= S
        found.append(cart)
        labels.append(1 if i % 2 else -1)
    return found, np.array(labels)


def test_kernel_is_the_inner_product_of_indicator_vectors():
    sets, _ = carts(30, seed=0, products=3_000, baby=(31, 415, 926, 535, 897))
    indicators = np.array([[1.0 if j in cart else 0.0 for j in range(3_000)] for cart in sets])
    np.testing.assert_array_equal(K.SetIntersection()(sets), indicators @ indicators.T)


def test_the_rule_is_a_halfspace_with_a_margin():
    sets, y = carts(200, seed=1)
    hits = np.array([len(cart & set(BABY)) for cart in sets])
    np.testing.assert_array_equal(np.sign(hits - 0.5), y)
    assert np.min(y * (2 * hits - 1)) == 1  # functional margin one, with norm 2√k


def test_svm_finds_the_parents_and_their_items_among_a_million_products():
    train, y = carts(400, seed=2)
    test, truth = carts(1000, seed=3)
    model = mercer.SVC(kernel=K.SetIntersection(), C=1.0).fit(train, y)
    assert model.score(test, truth) > 0.98
    weights: dict[int, float] = {}
    for i, coefficient in zip(model.support_, model.dual_coef_.ravel(), strict=True):
        for item in train[i]:
            weights[item] = weights.get(item, 0.0) + coefficient
    heaviest = sorted(weights, key=lambda item: weights[item], reverse=True)[: len(BABY)]
    assert set(heaviest) == set(BABY)


def test_nothing_depends_on_the_number_of_products():
    # The same carts with their items renamed to numbers up to 10¹⁵ give the same machine.
    train, y = carts(120, seed=4)
    test, _ = carts(100, seed=5)

    def rename(cart):
        return {item * 10**9 + 7 for item in cart}

    few = mercer.SVC(kernel=K.SetIntersection(), C=1.0, tol=1e-8).fit(train, y)
    many = mercer.SVC(kernel=K.SetIntersection(), C=1.0, tol=1e-8)
    many.fit([rename(cart) for cart in train], y)
    np.testing.assert_allclose(
        many.decision_function([rename(cart) for cart in test]),
        few.decision_function(test),
        atol=1e-6,
    )
    # The explicit map has a column for each item seen, not for each product.
    F = K.SetIntersection().feature_map().fit_transform(train)
    seen = len(set().union(*train))
    assert F.shape == (120, seen)
    assert F.nnz == sum(map(len, train)) <= 120 * S


@pytest.mark.parametrize("estimator", ["KernelSGDClassifier", "KernelPerceptron"])
def test_methods_that_visit_one_cart_at_a_time_learn_it_too(estimator):
    train, y = carts(400, seed=6)
    test, truth = carts(500, seed=7)
    model = getattr(mercer, estimator)(K.SetIntersection(), random_state=0).fit(train, y)
    assert model.score(test, truth) > 0.93


def test_samples_grow_with_k_and_s_and_not_with_d():
    def accuracy(products):
        train, y = carts(150, seed=8, products=products)
        test, truth = carts(500, seed=9, products=products)
        return mercer.SVC(kernel=K.SetIntersection(), C=1.0).fit(train, y).score(test, truth)

    assert min(accuracy(p) for p in (10_000, 1_000_000, 10**12)) > 0.95


def test_a_linear_time_svm_takes_the_sparse_map():
    """The map has one column per product seen, so many carts are trained on in the primal."""
    sets, labels = carts(6_000, seed=5)
    phi = K.SetIntersection().feature_map().fit(sets[:5_000])
    linear = LinearSVC(C=1.0).fit(phi.transform(sets[:5_000]), labels[:5_000])
    assert linear.score(phi.transform(sets[5_000:]), labels[5_000:]) > 0.99
