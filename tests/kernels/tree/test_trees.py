"""Tree kernels against brute-force enumeration of the fragments they count."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from mercer.kernels.tree.trees import PartialTree, SubsetTree, Subtree, Tree

SENTENCES = [
    "(S (NP (D the) (N cat)) (VP (V sleeps)))",
    "(S (NP (D the) (N dog)) (VP (V chases) (NP (D the) (N cat))))",
    "(S (NP (N cats)) (VP (V sleep)))",
    "(NP (D the) (N cat))",
    "cat",
]


# Slow, obvious oracles on the nested form (label, child, child, ...).


def nested(tree):
    """The nested tuples of a Tree, leaves as 1-tuples."""
    nodes = []
    for label, children in zip(tree.labels, tree.children, strict=True):
        nodes.append((label, *(nodes[c] for c in children)))
    return nodes[-1]


def all_nodes(t):
    yield t
    for child in t[1:]:
        yield from all_nodes(child)


def subset_fragments(t):
    """Every fragment rooted at t that keeps or drops children as a whole, with its productions."""
    if len(t) == 1:
        return
    options = [[((child[0],), 0), *subset_fragments(child)] for child in t[1:]]
    for choice in product(*options):
        yield (t[0], *(f for f, _ in choice)), 1 + sum(size for _, size in choice)


def partial_fragments(t, decay, mu):
    """Every fragment rooted at t that drops any children, with the weight of this occurrence."""
    yield (t[0],), np.sqrt(mu) * decay
    children = range(1, len(t))
    for p in children:
        for kept in combinations(children, p):
            gaps = kept[-1] - kept[0] + 1 - p
            options = [list(partial_fragments(t[i], decay, mu)) for i in kept]
            for choice in product(*options):
                weight = np.sqrt(mu) * decay**gaps * np.prod([w for _, w in choice])
                yield (t[0], *(f for f, _ in choice)), weight


def subset_features(tree, decay):
    phi = defaultdict(float)
    for node in all_nodes(nested(tree)):
        for fragment, size in subset_fragments(node):
            phi[fragment] += np.sqrt(decay) ** size
    return phi


def partial_features(tree, decay, mu):
    phi = defaultdict(float)
    for node in all_nodes(nested(tree)):
        for fragment, weight in partial_fragments(node, decay, mu):
            phi[fragment] += weight
    return phi


def inner_products(features):
    return np.array(
        [[sum(v * b.get(f, 0.0) for f, v in a.items()) for b in features] for a in features]
    )


trees = st.recursive(
    st.sampled_from("ab"),
    lambda inner: (
        st.tuples(st.sampled_from("abc"), inner)
        | st.tuples(st.sampled_from("abc"), inner, inner)
        | st.tuples(st.sampled_from("abc"), inner, inner, inner)
    ),
    max_leaves=4,
)
collections = st.lists(
    trees.map(lambda t: t if isinstance(t, tuple) else (t,)), min_size=1, max_size=4
)
fractions = st.sampled_from([0.1, 0.4, 1.0])


@settings(max_examples=60, deadline=None)
@given(X=collections)
def test_subtree_counts_equal_complete_subtrees(X):
    counts = [Counter(all_nodes(nested(Tree.parse(x)))) for x in X]
    np.testing.assert_array_equal(Subtree()(X), inner_products(counts))


@settings(max_examples=60, deadline=None)
@given(X=collections, decay=fractions)
def test_subset_tree_is_an_inner_product_of_fragments(X, decay):
    oracle = inner_products([subset_features(Tree.parse(x), decay) for x in X])
    k = SubsetTree(decay=decay)
    np.testing.assert_allclose(k(X), oracle, rtol=1e-12)
    np.testing.assert_allclose(k.diag(X), np.diag(oracle), rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(X=collections, decay=fractions, mu=fractions)
def test_partial_tree_is_an_inner_product_of_fragments(X, decay, mu):
    oracle = inner_products([partial_features(Tree.parse(x), decay, mu) for x in X])
    k = PartialTree(decay=decay, mu=mu)
    np.testing.assert_allclose(k(X), oracle, rtol=1e-12)
    np.testing.assert_allclose(k.diag(X), np.diag(oracle), rtol=1e-12)


def naive_subset_tree(s, t, decay):
    """The recursion of Collins and Duffy, literally, pre-terminals as a case of their own."""

    def C(a, b):
        if len(a) == 1 or len(b) == 1:
            return 0.0
        if (a[0], *(c[0] for c in a[1:])) != (b[0], *(c[0] for c in b[1:])):
            return 0.0
        if all(len(c) == 1 for c in a[1:]):
            return decay
        return decay * np.prod([1 + C(c, d) for c, d in zip(a[1:], b[1:], strict=True)])

    return sum(C(a, b) for a in all_nodes(s) for b in all_nodes(t))


def test_subset_tree_follows_the_recursion():
    parsed = [nested(Tree.parse(text)) for text in SENTENCES]
    expected = [[naive_subset_tree(s, t, 0.4) for t in parsed] for s in parsed]
    np.testing.assert_allclose(SubsetTree(decay=0.4)(SENTENCES), expected, rtol=1e-13)


def test_small_values_by_hand():
    X = ["(N cat)", "(N dog)"]
    np.testing.assert_allclose(Subtree()(X), [[2, 0], [0, 2]])
    np.testing.assert_allclose(SubsetTree(0.5)(X), [[0.5, 0], [0, 0.5]])
    leaf = 0.25 * 0.5**2
    parent = 0.25 * 0.5**2
    np.testing.assert_allclose(
        PartialTree(decay=0.5, mu=0.25)(X),
        [[leaf + parent + 0.25 * leaf, parent], [parent, leaf + parent + 0.25 * leaf]],
    )


@pytest.mark.parametrize("kernel", [Subtree(), SubsetTree(), PartialTree(), SubsetTree(1.0)])
def test_gram_is_symmetric_positive_semidefinite_and_consistent(kernel):
    K = kernel(SENTENCES)
    assert K.shape == (5, 5)
    assert K.dtype == np.float64
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * np.trace(K)
    np.testing.assert_allclose(kernel.diag(SENTENCES), np.diag(K), rtol=1e-13)
    np.testing.assert_allclose(kernel(SENTENCES[:2], SENTENCES[1:]), K[:2, 1:], rtol=1e-13)
    assert kernel.validity.status == "valid"
    np.testing.assert_array_equal(clone(kernel)(SENTENCES), K)


def test_explicit_map_of_subtrees_reproduces_the_gram():
    phi = Subtree().feature_map().fit(SENTENCES)
    Z = phi.transform(SENTENCES)
    np.testing.assert_allclose((Z @ Z.T).toarray(), Subtree()(SENTENCES))


def test_all_forms_of_one_tree_agree():
    class Labelled(list):
        def __init__(self, label, children):
            super().__init__(children)
            self._label = label

        def label(self):
            return self._label

    forms = [
        "(S (NP the cat) (VP sleeps))",
        "  (S\n  (NP the cat)\n  (VP (sleeps)))\n",
        ("S", ("NP", "the", "cat"), ("VP", "sleeps")),
        ["S", ["NP", ("the",), "cat"], ("VP", ["sleeps"])],
        Labelled("S", [Labelled("NP", ["the", "cat"]), Labelled("VP", ["sleeps"])]),
    ]
    parsed = [Tree.parse(form) for form in forms]
    assert all(tree == parsed[0] for tree in parsed)
    assert Tree.parse(parsed[0]) is parsed[0]
    assert Tree.parse("cat") == Tree.parse("(cat)") == Tree.parse(("cat",))
    assert np.ptp(SubsetTree()(forms)) == 0


def test_order_of_children_matters():
    K = Subtree()(["(a b c)", "(a c b)"])
    np.testing.assert_array_equal(K, [[3, 2], [2, 3]])
    assert SubsetTree()(["(a b c)"], ["(a c b)"])[0, 0] == 0


def test_labels_of_other_types():
    X = [(1, 2, (3, 4)), (np.int64(1), 2.0, (3, 4)), ("1", "2", ("3", "4"))]
    K = Subtree()(X)
    assert K[0, 1] == K[0, 0] == 4
    assert K[0, 2] == 0
    np.testing.assert_allclose(PartialTree()(X)[0], [*PartialTree()(X)[1, :2], 0])


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("(S (NP the cat)", "column 1:"),
        ("(S (NP the cat", "column 4:"),
        ("(S (NP the)))", "column 13:"),
        ("(S a) b", "column 7:"),
        ("(S a) (T b)", "column 7:"),
        ("(S ())", "column 4:"),
        ("( (S a))", "column 1:"),
        (")", "column 1:"),
        ("(S a (", "column 6:"),
        ("(S\n (NP the", "line 2, column 2:"),
    ],
)
def test_malformed_text_is_refused_with_its_column(text, place):
    with pytest.raises(ValueError, match=f"malformed at {place}"):
        Subtree()(["(S a)", text])


def test_an_error_names_the_object():
    with pytest.raises(ValueError, match=r"object 1: .*'\(' is never closed"):
        SubsetTree()(["(S a)", "(S a"])


@pytest.mark.parametrize(
    ("tree", "error", "words"),
    [
        ("", ValueError, "empty text"),
        ("   ", ValueError, "empty text"),
        ((), ValueError, "empty tuple"),
        (("a", []), ValueError, "empty list"),
        ((("a", "b"), "c"), TypeError, "label is the tuple"),
        (3.5, TypeError, "type float"),
        (None, ValueError, "missing value"),
        (("a", object()), TypeError, "label of type object"),
        (("a", float("nan")), ValueError, "label nan"),
    ],
)
def test_what_is_not_a_tree_is_refused(tree, error, words):
    with pytest.raises(error, match=words):
        Subtree()([tree])


@pytest.mark.parametrize("kernel", [SubsetTree, PartialTree])
@pytest.mark.parametrize("decay", [0, -1.0, 1.5, np.nan, "a", None])
def test_decay_out_of_range_is_refused(kernel, decay):
    with pytest.raises((ValueError, TypeError), match="decay"):
        kernel(decay=decay)(SENTENCES)


@pytest.mark.parametrize("mu", [0, 2.0])
def test_mu_out_of_range_is_refused(mu):
    with pytest.raises(ValueError, match="mu"):
        PartialTree(mu=mu)(SENTENCES)


def test_deep_trees_need_no_recursion():
    depth = 20_000
    chain = "a"
    for _ in range(depth):
        chain = ("a", chain)
    assert Subtree().diag([chain])[0] == depth + 1
    deep = "(a " * 1000 + "b" + ")" * 1000
    K = PartialTree()([deep, "(a b)"])
    assert np.isfinite(K).all()
    # Every C(s, t) of two chains is a geometric sum; near the top it is decay / (1 - decay).
    short = "(a " * 300 + "b" + ")" * 300
    C = np.zeros(301)
    for height in range(1, 301):
        C[height] = 0.5 * (1 + C[height - 1])
    h = np.minimum.outer(np.arange(2, 301), np.arange(2, 301))
    # Heights differ: the lower node ends in "b" where the other goes on with "a".
    expected = np.where(np.equal.outer(np.arange(2, 301), np.arange(2, 301)), C[h], C[h - 1])
    assert SubsetTree(0.5).diag([short])[0] == pytest.approx(expected.sum() + C[1])


def test_wide_nodes():
    wide = ("a", *["b"] * 2000)
    assert Subtree()([wide])[0, 0] == 2000**2 + 1
    assert SubsetTree(0.5)([wide])[0, 0] == 0.5
    assert np.isfinite(PartialTree(0.2, 0.2)([wide])[0, 0])


def test_too_many_fragments_to_count_is_an_error():
    bushy = "a"
    for _ in range(12):
        bushy = ("a", bushy, bushy)
    with pytest.raises(OverflowError, match="smaller decay"):
        SubsetTree(decay=1.0)([bushy])


@settings(max_examples=60, deadline=None)
@given(X=collections, Y=collections)
def test_subtrees_of_trees_not_seen_in_fitting(X, Y):
    phi = Subtree().feature_map().fit(X)
    counts = [[Counter(all_nodes(nested(Tree.parse(t)))) for t in part] for part in (X, Y)]
    expected = [[sum(n * b[t] for t, n in a.items()) for b in counts[1]] for a in counts[0]]
    np.testing.assert_array_equal((phi.transform(X) @ phi.transform(Y).T).toarray(), expected)
    np.testing.assert_array_equal(Subtree()(X, Y), expected)
    assert sum(Subtree().features(Tree.parse(X[0])).values()) == sum(counts[0][0].values())


def test_subtrees_have_names():
    phi = Subtree().feature_map().fit(["(NP (D the) (N cat))"])
    names = ["the", "(D the)", "cat", "(N cat)", "(NP (D the) (N cat))"]
    assert phi.get_feature_names_out().tolist() == names


@settings(max_examples=30, deadline=None)
@given(
    depth=st.integers(0, 4000),
    label=st.sampled_from("ab"),
    kernel=st.sampled_from([Subtree(), SubsetTree(0.5), PartialTree(0.5, 0.5)]),
)
def test_chains_of_any_depth(depth, label, kernel):
    """Against the sums over pairs of heights, for a chain and one that ends otherwise."""
    chain, other = ("(a " * depth + end + ")" * depth for end in ("a", label))
    found = kernel([chain], [other])[0, 0]
    if isinstance(kernel, Subtree):
        expected = depth + 1 if label == "a" else 0
    else:
        row, expected = np.zeros(depth + 1), 0.0
        for height in range(depth + 1):
            row = _chain_row(kernel, row, height, label)
            expected += row.sum()
    assert found == pytest.approx(expected, rel=1e-10)


def _chain_row(kernel, below, height, label):
    """delta of the node at a height of the chain with the nodes at all heights of the other."""
    one_lower = np.concatenate(([0.0], below[:-1]))
    if isinstance(kernel, PartialTree):
        delta = 0.5 * (0.25 + (one_lower if height else 0))
        delta = np.broadcast_to(delta, below.shape).copy()
        delta[0] = 0.125 if label == "a" else 0
        return delta
    delta = 0.5 * (1 + one_lower)
    delta[0] = 0
    if height == 0:
        delta[:] = 0
    elif label == "b" and len(delta) > 1:
        delta[1] = 0  # a over b
    return delta
