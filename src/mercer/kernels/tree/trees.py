"""Kernels on ordered, labelled trees, and the forms in which a tree may be given."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer import core
from mercer._sklearn import Interval
from mercer.kernels.domains import TREES, Domain
from mercer.kernels.labels import as_label, digest, label_bytes
from mercer.kernels.structured import ExplicitKernel, PairwiseKernel, same_objects
from mercer.kernels.vocabulary import sparse_rows

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


class _TreeKernel(PairwiseKernel):
    """A sum over the pairs of nodes of two trees that have equal keys."""

    mu: float | None = None
    decay: float

    @property
    def domain(self) -> Domain:
        return TREES

    def parse_object(self, x: Any) -> Tree:
        return Tree.parse(x)

    def keys(self, tree: Tree) -> Iterator[Hashable]:
        """What matching nodes share, node by node; None for one that never matches."""
        raise NotImplementedError

    def pairs(self, A: list[Tree], B: list[Tree]) -> np.ndarray:
        number: dict[Hashable, int] = {None: -1}
        symmetric = same_objects(A, B)
        first = self._arrays(A, number)
        second = first if symmetric else self._arrays(B, number)
        size = max((len(tree.labels) for tree in (*A, *B)), default=0)
        mu = None if self.mu is None else float(self.mu)
        K = core.tree_routines().tree_sums(
            *first,
            *second,
            float(self.decay),
            mu,
            symmetric,
            core.threads(len(A) * len(B), size**2),
        )
        if not np.isfinite(K).all():
            raise OverflowError(
                f"{self!r} exceeds the range of float64: the trees share too many fragments; "
                "choose a smaller decay"
            )
        return K

    def _arrays(
        self, trees: list[Tree], number: dict[Hashable, int]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The trees one after the other, as `mercer.core.reference.trees` has them."""
        sizes = np.array([len(tree.labels) for tree in trees], dtype=np.int64)
        offsets = np.concatenate(([0], np.cumsum(sizes)))
        keys = [
            number.setdefault(key, len(number) - 1) for tree in trees for key in self.keys(tree)
        ]
        below = [children for tree in trees for children in tree.children]
        arity = np.fromiter(map(len, below), np.int64, len(below))
        child = np.fromiter(chain.from_iterable(below), np.int64, int(arity.sum()))
        return (
            offsets,
            np.array(keys, dtype=np.int32),
            np.concatenate(([0], np.cumsum(arity))),
            child + np.repeat(np.repeat(offsets[:-1], sizes), arity),
        )


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

    def vocabulary(self) -> SubtreeVocabulary:
        return SubtreeVocabulary()

    def rows(self, objects: list[Tree], vocabulary: SubtreeVocabulary, grow: bool) -> sp.csr_array:
        found = [vocabulary.columns(tree, grow) for tree in objects]
        columns = np.fromiter(chain.from_iterable(found), np.int64)
        starts = np.concatenate(([0], np.cumsum([len(part) for part in found])))
        known = np.concatenate(([0], np.cumsum(columns >= 0)))
        columns = columns[columns >= 0]
        rows = sparse_rows(known[starts], columns, np.ones(len(columns)), width=len(vocabulary))
        rows.sum_duplicates()
        return rows


class SubtreeVocabulary:
    """Complete subtrees, each with a column: a label, and the columns of the children."""

    def __init__(self) -> None:
        self._column: dict[tuple[Any, tuple[int, ...]], int] = {}

    def __len__(self) -> int:
        return len(self._column)

    def __iter__(self) -> Iterator[str]:
        texts: list[str] = []
        for label, below in self._column:
            parts = " ".join((str(label), *(texts[child] for child in below)))
            texts.append(f"({parts})" if below else parts)
        return iter(texts)

    def columns(self, tree: Tree, grow: bool) -> list[int]:
        """The column of the subtree below each node; -1 for one that is not known."""
        known, columns = self._column, []
        for label, children in zip(tree.labels, tree.children, strict=True):
            name = (label, tuple([columns[child] for child in children]))
            columns.append(known.setdefault(name, len(known)) if grow else known.get(name, -1))
        return columns


class SubsetTree(_TreeKernel):
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

    def proof_reason(self) -> str:
        return (
            "an inner product of weighted counts of tree fragments, decay to the number of "
            "productions being the weight"
        )

    def keys(self, tree: Tree) -> Iterator[Hashable]:
        labels = tree.labels
        for label, children in zip(labels, tree.children, strict=True):
            yield (label, *[labels[child] for child in children]) if children else None


class PartialTree(_TreeKernel):
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

    def proof_reason(self) -> str:
        return "an inner product of weighted counts of partial tree fragments"

    def keys(self, tree: Tree) -> Iterator[Hashable]:
        return ((label,) for label in tree.labels)
