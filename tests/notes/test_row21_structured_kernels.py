"""Row 21. Kernels over strings, trees and graphs, as the regression lecture says there are.

The lecture only names them. Here each kind is checked against a count made by hand on small
objects, and then used by a support vector machine on a task that its structure decides.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer import kernels as K

STRING_KERNELS = [
    K.Spectrum(k=3),
    K.Mismatch(k=3, m=1, alphabet="ACGT"),
    K.Gappy(k=3, gaps=1),
    K.Subsequence(length=3, decay=0.5),
    K.Substring(),
    K.WeightedDegree(degree=4),
]
TREE_KERNELS = [K.Subtree(), K.SubsetTree(decay=0.4), K.PartialTree(decay=0.4, mu=0.4)]
GRAPH_KERNELS = [
    K.WeisfeilerLehman(iterations=3),
    K.WLOptimalAssignment(iterations=3),
    K.ShortestPath(),
    K.RandomWalk(decay=0.01),
    K.Graphlet(size=3),
    K.Propagation(iterations=3, random_state=0),
]


def strings(n, seed):
    """Random strings of 12 letters; the positive ones hold GATTA somewhere."""
    rng = np.random.default_rng(seed)
    found, labels = [], []
    while len(found) < n:
        letters = "".join(rng.choice(list("ACGT"), size=12))
        positive = len(found) % 2 == 0
        if positive:
            place = int(rng.integers(0, 8))
            letters = letters[:place] + "GATTA" + letters[place + 5 :]
        if ("GATTA" in letters) == positive:
            found.append(letters)
            labels.append("holds" if positive else "lacks")
    return found, np.array(labels)


def trees(n, seed):
    """Sentences about who does what: active or passive, which words alone do not tell."""
    rng = np.random.default_rng(seed)
    found, labels = [], []
    for i in range(n):
        subject, other = rng.choice(["cat", "dog", "owl", "fox"], size=2, replace=False)
        verb = rng.choice(["sees", "bites", "hears"])
        if i % 2:
            found.append(f"(S (NP (D the) (N {subject})) (VP (V {verb}) (NP (D the) (N {other}))))")
            labels.append(1)
        else:
            found.append(f"(S (NP (NP (D the) (N {subject})) (D the) (N {other})) (VP (V {verb})))")
            labels.append(0)
    return found, np.array(labels)


def graphs(n, seed):
    """Rings with a tail (positive), and trees on as many nodes; nodes bear one of two labels."""
    rng = np.random.default_rng(seed)
    found, labels = [], []
    for i in range(n):
        size = int(rng.integers(6, 11))
        names = rng.choice(["C", "N"], size=size).tolist()
        if i % 2:
            ring = int(rng.integers(3, 6))
            edges = [(j, (j + 1) % ring) for j in range(ring)]
            edges += [(j - 1, j) for j in range(ring, size)]
        else:
            edges = [(int(rng.integers(0, j)), j) for j in range(1, size)]
        found.append((edges, names))
        labels.append(i % 2)
    return found, np.array(labels)


CASES = (
    [(kernel, strings) for kernel in STRING_KERNELS]
    + [(kernel, trees) for kernel in TREE_KERNELS]
    + [(kernel, graphs) for kernel in GRAPH_KERNELS]
)


@pytest.mark.parametrize(("kernel", "task"), CASES, ids=[repr(kernel) for kernel, _ in CASES])
def test_each_is_proved_valid_and_its_gram_is_psd(kernel, task):
    objects, _ = task(30, seed=0)
    assert kernel.validity.status == "valid"
    G = kernel(objects)
    np.testing.assert_allclose(G, G.T, rtol=1e-12)
    assert np.linalg.eigvalsh(G)[0] >= -1e-9 * np.abs(G).max()
    np.testing.assert_allclose(kernel.diag(objects), np.diag(G), rtol=1e-10)
    np.testing.assert_allclose(kernel(objects[:4], objects[4:]), G[:4, 4:], rtol=1e-10)


def test_spectrum_counts_common_words():
    words, _ = strings(8, seed=1)

    def counts(s):
        return Counter(s[i : i + 3] for i in range(len(s) - 2))

    by_hand = [[sum(counts(s)[w] * counts(t)[w] for w in counts(s)) for t in words] for s in words]
    np.testing.assert_array_equal(K.Spectrum(k=3)(words), by_hand)


def test_subsequence_weighs_the_stretch_of_every_match():
    words, decay = ["GATTA", "GTA", "ATTAG"], 0.5

    def features(s):
        found = Counter()
        for places in combinations(range(len(s)), 2):
            found[s[places[0]] + s[places[1]]] += decay ** (places[1] - places[0] + 1)
        return found

    by_hand = [
        [sum(features(s)[u] * features(t)[u] for u in features(s)) for t in words] for s in words
    ]
    np.testing.assert_allclose(K.Subsequence(length=2, decay=decay)(words), by_hand, rtol=1e-12)


def test_subtree_counts_pairs_of_equal_complete_subtrees():
    nested = [
        ("S", ("NP", "cat"), ("VP", "sees", ("NP", "cat"))),
        ("S", ("NP", "cat"), ("VP", "sees")),
    ]

    def complete(tree):
        if isinstance(tree, str):
            return [tree]
        return [tree] + [part for child in tree[1:] for part in complete(child)]

    by_hand = [
        [sum(a == b for a in complete(s) for b in complete(t)) for t in nested] for s in nested
    ]
    np.testing.assert_array_equal(K.Subtree()(nested), by_hand)


def test_weisfeiler_lehman_counts_common_labels_of_every_round():
    objects, _ = graphs(6, seed=2)

    def rounds(edges, names, iterations):
        labels = list(names)
        found = Counter((0, label) for label in labels)
        for r in range(1, iterations + 1):
            neighbours = [[] for _ in names]
            for u, v in edges:
                neighbours[u].append(labels[v])
                neighbours[v].append(labels[u])
            labels = [
                (own, tuple(sorted(near, key=repr)))
                for own, near in zip(labels, neighbours, strict=True)
            ]
            found.update((r, label) for label in labels)
        return found

    features = [rounds(edges, names, 2) for edges, names in objects]
    by_hand = [[sum(a[key] * b[key] for key in a) for b in features] for a in features]
    np.testing.assert_array_equal(K.WeisfeilerLehman(iterations=2)(objects), by_hand)


def test_shortest_path_counts_common_paths_by_ends_and_length():
    objects, _ = graphs(6, seed=3)

    def paths(edges, names):
        n = len(names)
        D = np.where(np.eye(n) > 0, 0.0, np.inf)
        for u, v in edges:
            D[u, v] = D[v, u] = 1
        for k in range(n):
            D = np.minimum(D, D[:, [k]] + D[[k], :])
        return Counter(
            (names[u], names[v], D[u, v])
            for u, v in permutations(range(n), 2)
            if np.isfinite(D[u, v])
        )

    features = [paths(edges, names) for edges, names in objects]
    by_hand = [[sum(a[key] * b[key] for key in a) for b in features] for a in features]
    np.testing.assert_array_equal(K.ShortestPath()(objects), by_hand)


@pytest.mark.parametrize(
    ("kernel", "least"),
    [(K.Spectrum(k=3), 0.85), (K.Gappy(k=4, gaps=1), 0.8), (K.Substring(), 0.85)],
    ids=repr,
)
def test_svm_on_strings(kernel, least):
    train, y = strings(120, seed=4)
    test, truth = strings(100, seed=5)
    model = mercer.SVC(kernel=kernel.normalize(), C=10.0).fit(train, y)
    assert model.score(test, truth) > least
    assert set(model.classes_) == {"holds", "lacks"}


@pytest.mark.parametrize("kernel", TREE_KERNELS, ids=repr)
def test_svm_on_trees(kernel):
    train, y = trees(40, seed=6)
    test, truth = trees(40, seed=7)
    model = mercer.SVC(kernel=kernel.normalize(), C=10.0).fit(train, y)
    assert model.score(test, truth) == 1.0


@pytest.mark.parametrize(
    "kernel", [K.WeisfeilerLehman(iterations=3), K.ShortestPath(), K.Graphlet(size=3)], ids=repr
)
def test_svm_on_graphs(kernel):
    train, y = graphs(80, seed=8)
    test, truth = graphs(80, seed=9)
    model = mercer.SVC(kernel=kernel.normalize(), C=10.0).fit(train, y)
    assert model.score(test, truth) > 0.75


def test_objects_come_as_lists_arrays_or_one_column_of_a_table():
    train, y = strings(40, seed=10)
    test, _ = strings(20, seed=11)
    forms = [
        lambda s: s,
        lambda s: np.array(s, dtype=object),
        lambda s: pd.Series(s),
    ]
    scores = [
        mercer.SVC(kernel=K.Spectrum(k=3), tol=1e-8)
        .fit(form(train), y)
        .decision_function(form(test))
        for form in forms
    ]
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-8)
    np.testing.assert_allclose(scores[2], scores[0], atol=1e-8)


def test_structured_and_vector_kernels_mix_over_columns():
    words, y = strings(60, seed=12)
    numbers = np.random.default_rng(13).normal(size=60)
    table = np.array(list(zip(words, numbers, strict=True)), dtype=object)
    kernel = K.Spectrum(k=3).normalize().on(0) + 0.1 * K.RBF(1.0).on([1])
    by_hand = K.Spectrum(k=3).normalize()(words) + 0.1 * K.RBF(1.0)(numbers[:, None])
    np.testing.assert_allclose(kernel(table), by_hand, rtol=1e-10)
    assert mercer.SVC(kernel=kernel, C=10.0).fit(table, y).score(table, y) > 0.95
