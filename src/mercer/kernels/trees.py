"""Kernels on ordered, labelled trees, and the forms in which a tree may be given."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils._param_validation import Interval

from mercer.arrays import row_blocks
from mercer.kernels.domains import TREES, Domain
from mercer.kernels.labels import as_label, digest, label_bytes
from mercer.kernels.structured import ExplicitKernel, PairwiseKernel
from mercer.kernels.tree_matching import MatchingPairs, convolve

UNIT = Interval(Real, 0, 1, closed="right")


@dataclass(frozen=True, slots=True)
class Tree:
    """An ordered tree with a label at every node, children before parents.

    Attributes
    ----------
    labels : tuple
        The nodes' labels in post-order: the root comes last.
    children : tuple of tuples of int
        The positions of each node's children, left to right.

    Examples
    --------
    >>> tree = Tree.parse("(S (NP the cat) (VP sleeps))")
    >>> tree.labels
    ('the', 'cat', 'NP', 'sleeps', 'VP', 'S')
    >>> tree == Tree.parse(("S", ("NP", "the", "cat"), ("VP", "sleeps")))
    True
    """

    labels: tuple[Any, ...]
    children: tuple[tuple[int, ...], ...]

    @classmethod
    def parse(cls, x: Any) -> Tree:
        """A tree from any of its forms.

        Parameters
        ----------
        x : Tree, str, tuple or list
            Bracketed text ``"(S (NP the cat) (VP sleeps))"``, where a label is any run of
            characters other than blanks and brackets; or the nested form
            ``(label, child, child, ...)`` in tuples or lists, where a leaf is a bare label or a
            tuple of the label alone; or any sequence of children with a method ``label()``, such
            as ``nltk.Tree``.
        """
        if isinstance(x, Tree):
            return x
        if isinstance(x, str):
            return _from_visits(_visit_text(x))
        if isinstance(x, list | tuple):
            return _from_visits(_visit_nested(x))
        raise TypeError(
            f"a tree is of type {type(x).__name__}; expected bracketed text such as "
            "'(S (NP the cat) (VP sleeps))' or nested tuples (label, child, child, ...)"
        )


def _visit_nested(root: Any) -> list[tuple[Any, int]]:
    """(label, visit number of the parent) of every node, in reading order."""
    visits: list[tuple[Any, int]] = []
    waiting = [(root, -1)]
    while waiting:
        node, parent = waiting.pop()
        if not isinstance(node, list | tuple):
            label, children = node, ()
        elif callable(name := getattr(node, "label", None)):
            label, children = name(), list(node)
        elif len(node) == 0:
            raise ValueError(
                f"a tree has an empty {type(node).__name__} where a node was expected; a node is "
                "(label, child, child, ...) and a leaf a bare label"
            )
        else:
            label, children = node[0], node[1:]
        if isinstance(label, list | tuple):
            raise TypeError(
                f"a tree has a node whose label is the {type(label).__name__} {label!r}; a node is "
                "(label, child, child, ...), where the label is a string or a number"
            )
        waiting.extend((child, len(visits)) for child in reversed(children))
        visits.append((as_label(label, "a tree node"), parent))
    return visits


def _visit_text(text: str) -> list[tuple[Any, int]]:
    """(label, visit number of the parent) of every node, in reading order."""
    visits: list[tuple[Any, int]] = []
    path: list[tuple[int, int]] = []  # the open nodes: where the bracket is, visit number
    opened = None
    for match in re.finditer(r"[()]|[^\s()]+", text):
        token, where = match.group(), match.start()
        if opened is not None and token in "()":
            raise _text_error(text, opened, "'(' is not followed by a label")
        if token == ")" and not path:
            raise _text_error(text, where, "')' closes nothing")
        if visits and not path:
            raise _text_error(text, where, f"{token!r} comes after the end of the tree")
        if token == "(":
            opened = where
        elif token == ")":
            path.pop()
        else:
            visits.append((token, path[-1][1] if path else -1))
            if opened is not None:
                path.append((opened, len(visits) - 1))
                opened = None
    if opened is not None:
        raise _text_error(text, opened, "'(' is not followed by a label")
    if path:
        raise _text_error(text, path[-1][0], "'(' is never closed")
    if not visits:
        raise ValueError("a tree is an empty text; expected for example '(S (NP the cat))'")
    return visits


def _text_error(text: str, where: int, what: str) -> ValueError:
    """An error that points at a character of the text."""
    line = text.count("\n", 0, where) + 1
    column = where - text.rfind("\n", 0, where)
    place = f"column {column}" if "\n" not in text else f"line {line}, column {column}"
    excerpt = text[max(0, where - 20) : where + 20]
    return ValueError(f"a tree's text is malformed at {place}: {what}, near {excerpt!r}")


def _from_visits(visits: list[tuple[Any, int]]) -> Tree:
    """The tree whose nodes are listed in reading order."""
    n = len(visits)
    children: list[list[int]] = [[] for _ in visits]
    for visit, (_, parent) in enumerate(visits):
        if parent >= 0:
            children[parent].append(visit)
    order, waiting = [], [0]
    while waiting:
        visit = waiting.pop()
        order.append(visit)
        waiting.extend(children[visit])
    position = {visit: n - 1 - i for i, visit in enumerate(order)}
    labels = tuple(visits[visit][0] for visit in reversed(order))
    return Tree(
        labels,
        tuple(tuple(position[child] for child in children[visit]) for visit in reversed(order)),
    )


def _convolve(kernel: SubsetTree | PartialTree, key: Any, A: list, B: list) -> np.ndarray:
    """The kernel's sums over matching node pairs, unless they are too large for float64."""
    with np.errstate(over="ignore", invalid="ignore"):
        K = convolve(A, B, key, kernel.fill)
    if not np.isfinite(K).all():
        raise OverflowError(
            f"{kernel!r} exceeds the range of float64: the trees share too many fragments; choose "
            "a smaller decay"
        )
    return K


class Subtree(ExplicitKernel):
    r"""The number of pairs of equal complete subtrees of two ordered trees.

    .. math:: k(S, T) = \sum_t c_t(S)\, c_t(T)

    where :math:`c_t(S)` counts the nodes of S below which, with all their descendants and in this
    order, hangs the tree t. A leaf is a complete subtree too, so shared words count.

    Examples
    --------
    >>> Subtree()(["(NP (D the) (N cat))", "(NP (D the) (N dog))"])
    array([[5., 2.],
           [2., 5.]])

    References
    ----------
    S. V. N. Vishwanathan and A. J. Smola, "Fast kernels for string and tree matching", NIPS 2002.
    """

    @property
    def domain(self) -> Domain:
        return TREES

    def parse_object(self, x: Any) -> Tree:
        return Tree.parse(x)

    def features(self, x: Tree) -> dict[Hashable, float]:
        names: list[bytes] = []
        for label, children in zip(x.labels, x.children, strict=True):
            names.append(digest(label_bytes(label), *(names[child] for child in children)))
        return dict(Counter(names))


class SubsetTree(PairwiseKernel):
    r"""Common fragments of two ordered trees that keep or drop a node's children as a whole.

    .. math::
        k(S, T) = \sum_{s \in S} \sum_{t \in T} C(s, t), \qquad
        C(s, t) = \lambda \prod_i \bigl(1 + C(s_i, t_i)\bigr)

    for nodes with the same production (their label and the labels of their children in order), and
    C(s, t) = 0 otherwise; :math:`s_i` is the i-th child. A leaf has no production, so C is zero
    there, and :math:`C = \lambda` for matching nodes above leaves only.

    Equivalently :math:`k(S, T) = \sum_f \lambda^{|f|} c_f(S) c_f(T)`, where the fragment f has at
    least one production, each of its nodes has all its children or none, \|f\| is the number of its
    productions and :math:`c_f` counts its occurrences. A tree of one node has no fragment.

    Parameters
    ----------
    decay : float in (0, 1], default=0.4
        The weight :math:`\lambda` of each production of a fragment.

    Examples
    --------
    >>> SubsetTree(decay=1.0)(["(NP (D the) (N cat))", "(NP (D the) (N dog))"])
    array([[6., 3.],
           [3., 6.]])

    References
    ----------
    M. Collins and N. Duffy, "Convolution kernels for natural language", NIPS 2001.
    """

    _parameter_constraints = {"decay": [UNIT]}

    def __init__(self, decay: float = 0.4):
        self.decay = decay

    @property
    def domain(self) -> Domain:
        return TREES

    def parse_object(self, x: Any) -> Tree:
        return Tree.parse(x)

    def proof_reason(self) -> str:
        return (
            "an inner product of weighted counts of tree fragments, decay to the number of "
            "productions being the weight"
        )

    def pairs(self, A: list[Tree], B: list[Tree]) -> np.ndarray:
        return _convolve(self, _production, A, B)

    def fill(self, pairs: MatchingPairs, height: int) -> None:
        """Set C for the node pairs whose first node has this height."""
        first, second, position = pairs.at_height(height)
        arity = pairs.forest.arity[first]
        C = np.full(len(first), float(self.decay))
        for i in range(arity.max(initial=0)):
            active = np.flatnonzero(arity > i)
            s, t = pairs.child(first[active], i), pairs.child(second[active], i)
            C[active] *= 1 + pairs.look_up(s, t)
        pairs.values[position] = C


class PartialTree(PairwiseKernel):
    r"""Common fragments of two ordered trees that may drop any children of any node.

    .. math::
        k(S, T) = \sum_{s \in S} \sum_{t \in T} \Delta(s, t), \qquad
        \Delta(s, t) = \mu \Bigl(\lambda^2 + \sum_{p \ge 1} \Delta_p(s, t)\Bigr)

    for nodes with the same label, and 0 otherwise. :math:`\Delta_p` sums over all choices of p
    children of s and p children of t, each in order,

    .. math:: \lambda^{g(I) + g(J)} \prod_{r=1}^{p} \Delta(s_{I_r}, t_{J_r}),

    where g is the number of children skipped between the first and the last one chosen. A leaf is
    a node like any other: two leaves with one label have :math:`\Delta = \mu \lambda^2`, and so
    have a leaf and an inner node with its label.

    Equivalently the kernel is an inner product over fragments: an occurrence of a fragment counts
    :math:`\sqrt\mu` for each of its nodes, times :math:`\lambda` for each node without children
    in the fragment, times :math:`\lambda` for each child skipped between two that are kept.

    Parameters
    ----------
    decay : float in (0, 1], default=0.4
        The weight :math:`\lambda` of a skipped child.
    mu : float in (0, 1], default=0.4
        The weight :math:`\mu` of each node.

    Notes
    -----
    These are the weights of the paper's recursion and of the author's program. The paper's closed
    form has the distance from the first to the last chosen child in place of g, which multiplies
    :math:`\Delta_p` by a further :math:`\lambda^{2(p-1)}`.

    Examples
    --------
    >>> PartialTree(decay=1.0, mu=1.0)(["(NP (D the) (N cat))", "(NP (D the) (N dog))"])
    array([[15., 10.],
           [10., 15.]])

    References
    ----------
    A. Moschitti, "Efficient convolution kernels for dependency and constituent syntactic trees",
    ECML 2006.
    """

    _parameter_constraints = {"decay": [UNIT], "mu": [UNIT]}

    def __init__(self, decay: float = 0.4, mu: float = 0.4):
        self.decay = decay
        self.mu = mu

    @property
    def domain(self) -> Domain:
        return TREES

    def parse_object(self, x: Any) -> Tree:
        return Tree.parse(x)

    def proof_reason(self) -> str:
        return "an inner product of weighted counts of partial tree fragments"

    def pairs(self, A: list[Tree], B: list[Tree]) -> np.ndarray:
        return _convolve(self, _label, A, B)

    def fill(self, pairs: MatchingPairs, height: int) -> None:
        """Set Delta for the node pairs whose first node has this height."""
        first, second, position = pairs.at_height(height)
        total = np.full(len(first), float(self.decay) ** 2)
        arity = np.stack((pairs.forest.arity[first], pairs.forest.arity[second]), axis=1)
        shapes, member = np.unique(arity, axis=0, return_inverse=True)
        for number, (a, b) in enumerate(shapes):
            chosen = np.flatnonzero(member == number)
            if min(a, b) == 0:
                continue
            for block in row_blocks(len(chosen), 64 * a * b):
                at = chosen[block]
                s = pairs.child(first[at][:, None], np.arange(a))
                t = pairs.child(second[at][:, None], np.arange(b))
                total[at] += common_subsequences(
                    pairs.look_up(s[:, :, None], t[:, None, :]), self.decay
                )
        pairs.values[position] = self.mu * total


def _production(label: Any, labels: Any, children: tuple[int, ...]) -> Hashable:
    return (label, tuple(labels[child] for child in children)) if children else None


def _label(label: Any, labels: Any, children: tuple[int, ...]) -> Hashable:
    return (label,)


def common_subsequences(delta: np.ndarray, decay: float) -> np.ndarray:
    r"""Sum over all common subsequences of products of matches, gaps weighted by decay.

    .. math::
        \sum_{p \ge 1} \sum_{i_1 < \dots < i_p} \sum_{j_1 < \dots < j_p}
        \lambda^{i_p - i_1 + j_p - j_1 - 2(p - 1)} \prod_r \delta_{i_r j_r}

    Parameters
    ----------
    delta : (n, a, b) array
        n problems at once: the matches of a items with b items.
    decay : float

    Returns
    -------
    (n,) array

    Examples
    --------
    >>> common_subsequences(np.ones((1, 2, 2)), 0.5)
    array([5.])
    """
    from scipy.signal import lfilter  # a tenth of a second to import, needed only here

    n, a, b = delta.shape
    total = np.zeros(n)
    ending = np.zeros((n, b))  # sums over subsequences that end at item i of a and item j of b
    before = np.zeros((n, b))  # the same over all items before i, decayed with the distance
    for i in range(a):
        before = decay * before + ending
        earlier = np.asarray(lfilter([0.0, 1.0], [1.0, -decay], before, axis=1))
        ending = delta[:, i] * (1 + earlier)
        total += ending.sum(axis=1)
    return total
