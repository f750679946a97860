"""Sums over matching node pairs of two lists of trees, the engine of the tree kernels.

Both convolution kernels have the form K(S, T) = sum over nodes s of S, t of T of delta(s, t),
where delta depends only on the complete subtrees below s and t and is zero unless the nodes agree
in a key (their production, or their label). So equal subtrees are pooled over all trees first, and
delta is worked out once for each pair of *distinct* subtrees with equal keys, level by level from
the leaves, in arrays: no recursion, and no node pair that cannot contribute is ever touched.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.arrays import memory_budget
from mercer.kernels.ragged import ragged_arange

BYTES_PER_PAIR = 64  # a value, two indices, and the temporaries of one level


class Forest:
    """The distinct complete subtrees of a list of trees, children before parents.

    Attributes
    ----------
    label : (u,) list of labels
    children : (u,) list of tuples of subtree numbers
    height : (u,) int array, 0 for a leaf
    arity : (u,) int array, the number of children
    """

    def __init__(self) -> None:
        self.label: list[Any] = []
        self.children: list[tuple[int, ...]] = []
        self._number: dict[tuple[Any, tuple[int, ...]], int] = {}

    def add(self, tree: Any) -> list[int]:
        """Number the subtree below every node of the tree, in the tree's post-order."""
        numbers: list[int] = []
        for label, children in zip(tree.labels, tree.children, strict=True):
            below = tuple(numbers[child] for child in children)
            number = self._number.setdefault((label, below), len(self.label))
            if number == len(self.label):
                self.label.append(label)
                self.children.append(below)
            numbers.append(number)
        return numbers

    def freeze(self) -> None:
        """Work out heights and the flat child lists, once all trees are in."""
        self.arity = np.fromiter(map(len, self.children), dtype=np.intp, count=len(self.children))
        self.first = np.concatenate(([0], np.cumsum(self.arity)[:-1])).astype(np.intp)
        self.child = np.fromiter(
            (c for below in self.children for c in below), dtype=np.intp, count=self.arity.sum()
        )
        self.height = np.zeros(len(self.label), dtype=np.intp)
        for number, below in enumerate(self.children):
            if below:
                self.height[number] = 1 + max(self.height[c] for c in below)

    def counts(self, numbered: Sequence[list[int]]) -> sp.csr_array:
        """How often each subtree occurs in each tree: (n, u)."""
        rows = np.repeat(np.arange(len(numbered)), [len(numbers) for numbers in numbered])
        columns = np.fromiter((i for numbers in numbered for i in numbers), dtype=np.intp)
        shape = (len(numbered), len(self.label))
        return sp.csr_array((np.ones(len(columns)), (rows, columns)), shape=shape)


class MatchingPairs:
    """delta(s, t) for all distinct subtrees s of one list and t of another with equal keys.

    The values of one key form a block of (subtrees in the first list) x (subtrees in the second),
    and the blocks lie one after the other in `values`, so that any pair is found by arithmetic.

    Parameters
    ----------
    forest : Forest, frozen
    key : (u,) int array
        Two subtrees may match only if their keys are equal; -1 matches nothing.
    rows, columns : int arrays
        The subtrees of the first and of the second list.
    """

    def __init__(
        self, forest: Forest, key: np.ndarray, rows: np.ndarray, columns: np.ndarray
    ) -> None:
        self.forest, self.key = forest, key
        self.rows, self.n_rows, self.row_place = self._by_key(rows)
        self.columns, self.n_columns, self.column_place = self._by_key(columns)
        self.start = np.concatenate(([0], np.cumsum(self.n_rows * self.n_columns)))
        self.first_column = np.concatenate(([0], np.cumsum(self.n_columns)))
        self.values = np.zeros(self.start[-1])

    def _by_key(self, subtrees: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The subtrees sorted by key, how many each key has, and each one's place in its key."""
        key = self.key[subtrees]
        order = np.argsort(key[key >= 0], kind="stable")
        subtrees = subtrees[key >= 0][order]
        sizes = np.bincount(self.key[subtrees], minlength=max(0, self.key.max(initial=-1)) + 1)
        place = np.zeros(len(self.key), dtype=np.intp)
        place[subtrees] = ragged_arange(np.zeros_like(sizes), sizes)
        return subtrees, sizes, place

    def at_height(self, height: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """All pairs whose first subtree has this height: first, second, position in `values`."""
        chosen = self.rows[self.forest.height[self.rows] == height]
        key = self.key[chosen]
        width = self.n_columns[key]
        second = self.columns[ragged_arange(self.first_column[key], width)]
        position = ragged_arange(self.start[key] + self.row_place[chosen] * width, width)
        return np.repeat(chosen, width), second, position

    def look_up(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """delta of the pairs (broadcast together), 0 where the keys differ."""
        key = self.key[first]
        matched = (key == self.key[second]) & (key >= 0)
        key = np.where(matched, key, 0)
        position = self.start[key] + self.row_place[first] * self.n_columns[key]
        position += self.column_place[second]
        values = np.zeros(matched.shape)
        values[matched] = self.values[position[matched]]
        return values

    def child(self, subtrees: np.ndarray, which: int | np.ndarray) -> np.ndarray:
        """Each subtree's child number `which`."""
        return self.forest.child[self.forest.first[subtrees] + which]

    def matrix(self) -> sp.csr_array:
        """delta as a sparse (u, u) matrix."""
        width = self.n_columns[self.key[self.rows]]
        first = np.repeat(self.rows, width)
        second = self.columns[ragged_arange(self.first_column[self.key[self.rows]], width)]
        u = len(self.key)
        return sp.csr_array((self.values, (first, second)), shape=(u, u))


def convolve(
    first: Sequence[Any],
    second: Sequence[Any],
    key: Callable[[Any, Sequence[Any], tuple[int, ...]], Hashable],
    fill: Callable[[MatchingPairs, int], None],
) -> np.ndarray:
    """The (n, m) sums of delta over all node pairs of the trees of two lists.

    Parameters
    ----------
    first, second : lists of n and m trees
    key : callable
        ``key(label, labels of all subtrees, children)`` is what matching nodes share, None for a
        node that never matches.
    fill : callable
        ``fill(pairs, height)`` sets the values of the pairs whose first subtree has that height;
        all lower ones are set by then.
    """
    if not first or not second:
        return np.zeros((len(first), len(second)))
    forest = Forest()
    numbered = [forest.add(tree) for tree in (*first, *second)]
    forest.freeze()
    keys: dict[Hashable, int] = {None: -1}
    code = np.empty(len(forest.label), dtype=np.intp)
    for i, (label, children) in enumerate(zip(forest.label, forest.children, strict=True)):
        code[i] = keys.setdefault(key(label, forest.label, children), len(keys) - 1)
    left, right = numbered[: len(first)], numbered[len(first) :]
    rows, columns = (np.unique(np.concatenate(part)).astype(np.intp) for part in (left, right))
    if BYTES_PER_PAIR * n_matches(code[rows], code[columns]) > memory_budget():
        halves = halve(first, second)
        if halves is not None:
            (a, b), (c, d), axis = halves
            return np.concatenate((convolve(a, b, key, fill), convolve(c, d, key, fill)), axis)
    pairs = MatchingPairs(forest, code, rows, columns)
    for height in np.unique(forest.height[pairs.rows]):
        fill(pairs, int(height))
    return (forest.counts(left) @ pairs.matrix() @ forest.counts(right).T).toarray()


def n_matches(first: np.ndarray, second: np.ndarray) -> int:
    """How many pairs of equal non-negative codes there are."""
    size = 1 + max(first.max(initial=0), second.max(initial=0))
    sizes = (np.bincount(part[part >= 0], minlength=size).astype(float) for part in (first, second))
    return int(np.dot(*sizes))


def halve(first: Sequence[Any], second: Sequence[Any]) -> Any:
    """Two smaller problems and the axis to join them along; None for a single pair of trees."""
    if max(len(first), len(second)) == 1:
        return None
    if len(first) >= len(second):
        middle = len(first) // 2
        return (first[:middle], second), (first[middle:], second), 0
    middle = len(second) // 2
    return (first, second[:middle]), (first, second[middle:]), 1
