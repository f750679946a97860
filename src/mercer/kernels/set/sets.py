"""Kernels on finite sets, all of them functions of how many items two sets share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Hashable, Mapping
from itertools import chain, combinations
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.expressions import PairStatistic
from mercer.expressions.sparse_rows import sparse_products
from mercer.kernels.budget import BYTES_PER_NAME, quantity, refuse_oversized
from mercer.kernels.domains import SETS, Domain
from mercer.kernels.labels import joined, label_bytes
from mercer.kernels.sequences import describe
from mercer.kernels.structured import ExplicitKernel, PairwiseKernel, same_objects
from mercer.kernels.vocabulary import sparse_rows

# 2^n is a float64 up to this n.
LARGEST_EXPONENT = 1023


def parse_set(x: Any) -> frozenset[Hashable]:
    """A set from any iterable of hashable items; an item given twice counts once.

    All collections of sets may also be given as a sparse matrix, whose rows are the sets of the
    columns in which they are not zero.

    Examples
    --------
    >>> sorted(parse_set(["milk", "bread", "milk"]))
    ['bread', 'milk']
    """
    if isinstance(x, frozenset):
        return x
    if isinstance(x, str | bytes | bytearray):
        raise TypeError(
            f"found {describe(x)} where a set was expected; wrap it: {{x}} is the set with this "
            "one item, set(x) the set of its characters"
        )
    try:
        return frozenset(x)
    except TypeError as error:
        raise TypeError(
            f"found {describe(x)} where a set was expected, or another iterable of hashable items "
            f"({error}); for objects of your own use kernels.FromFunction"
        ) from None


class SetIntersection(ExplicitKernel):
    r"""The number of common items.

    .. math:: K(A, B) = |A \cap B|

    The inner product of the sets' indicator vectors, which are stored sparsely: cost depends on the
    sizes of the sets, not on how many items there are in the world. Sets come as Python's, as lists
    of items, or all together as a sparse matrix, each row the set of its columns that are not zero.

    Examples
    --------
    >>> SetIntersection()([{"milk", "bread"}, {"milk"}, set()])
    array([[2., 1., 0.],
           [1., 1., 0.],
           [0., 0., 0.]])

    References
    ----------
    Shalev-Shwartz and Ben-David, "Understanding Machine Learning" (2014), section 16, exercise 5.
    """

    @property
    def domain(self) -> Domain:
        return SETS

    def parse_object(self, x: Any) -> frozenset[Hashable]:
        return parse_set(x)

    def features(self, x: frozenset[Hashable]) -> dict[Hashable, float]:
        return dict.fromkeys(_sorted(x), 1.0)

    def rows(
        self, objects: list[frozenset], vocabulary: dict[Hashable, int], grow: bool
    ) -> sp.csr_array:
        if grow:
            for item in _sorted(set().union(*objects).difference(vocabulary)):
                vocabulary[item] = len(vocabulary)
        else:
            # Not x.intersection(vocabulary), which goes through all of the vocabulary.
            objects = [frozenset(filter(vocabulary.__contains__, x)) for x in objects]
        return _indicator_rows(objects, vocabulary)

    def statistic(self) -> PairStatistic:
        return PairStatistic(
            type(self).__name__,
            sparse_products,
            _sizes,
            prepare=_indicators,
            whole=True,
            summed=self.summed,
        )


class _OverlapKernel(PairwiseKernel):
    """A function of the sizes of two sets and of their intersection."""

    @property
    def domain(self) -> Domain:
        return SETS

    def parse_object(self, x: Any) -> frozenset[Hashable]:
        return parse_set(x)

    def statistic(self) -> PairStatistic:
        return PairStatistic(
            type(self).__name__,
            self._indicator_block,
            self.self_pairs,
            prepare=_indicators,
            whole=True,
        )

    def pairs(self, A: list, B: list) -> np.ndarray:
        return self._indicator_block(*_indicators(A, B))

    def self_pairs(self, A: list) -> np.ndarray:
        sizes = _sizes(A)
        return self.overlap(sizes, sizes, sizes)

    def _indicator_block(self, F: sp.csr_array, G: sp.csr_array) -> np.ndarray:
        sizes = [np.diff(M.indptr).astype(np.float64) for M in (F, G)]
        return self.overlap(sparse_products(F, G), sizes[0][:, None], sizes[1])

    def overlap(self, common: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The kernel, from the sizes of the intersection and of both sets."""
        raise NotImplementedError


class SetConjunction(_OverlapKernel):
    r"""The number of common subsets.

    .. math:: K(A, B) = 2^{|A \cap B|}

    The inner product of the indicators of all subsets: every conjunction of items that holds in
    both sets, the empty one included.

    Notes
    -----
    The diagonal is 2^\|A\|: normalise when the sets are large. More than 1023 common items are an
    error, since the value is no float64. `feature_map` lists subsets, for small sets only.

    Examples
    --------
    >>> SetConjunction()([{1, 2, 3}, {2, 3, 4}, set()])
    array([[8., 4., 1.],
           [4., 8., 1.],
           [1., 1., 1.]])

    References
    ----------
    Shawe-Taylor and Cristianini, "Kernel Methods for Pattern Analysis" (2004), section 9.1.
    """

    def overlap(self, common: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        most = int(common.max(initial=0))
        if most > LARGEST_EXPONENT:
            raise ValueError(
                f"two sets have {most} items in common and 2^{most} overflows; SetConjunction "
                f"takes at most {LARGEST_EXPONENT}: use SetIntersection or SetJaccard"
            )
        return np.exp2(common)

    def proof_reason(self) -> str:
        return "inner product of explicit features: the indicator of each subset"

    @property
    def is_infinitely_divisible(self) -> bool:
        return True  # exp(t log 2 |A ∩ B|) is the exponential of a kernel for every t > 0

    def features(self, x: frozenset[Hashable]) -> dict[Hashable, float]:
        refuse_oversized(
            2 ** len(x) * BYTES_PER_NAME,
            f"a set of {len(x)} items has {quantity(2 ** len(x))} subsets",
            "use the kernel without its feature map",
        )
        items = _sorted(x)
        subsets = chain.from_iterable(combinations(items, size) for size in range(len(x) + 1))
        return {frozenset(subset): 1.0 for subset in subsets}


class SetJaccard(_OverlapKernel):
    r"""The share of common items among all items of two sets.

    .. math:: K(A, B) = \frac{|A \cap B|}{|A \cup B|}, \qquad K(\emptyset, \emptyset) = 1

    Examples
    --------
    >>> SetJaccard()([{1, 2, 3}, {2, 3, 4}, set()])
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])

    References
    ----------
    Gower, "A general coefficient of similarity and some of its properties", Biometrics 27 (1971);
    Broder, "On the resemblance and containment of documents", SEQUENCES (1997), for the proof.
    """

    def overlap(self, common: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        union = a + b - common
        return np.divide(common, union, out=np.ones_like(common), where=union > 0)

    def proof_reason(self) -> str:
        return (
            "the probability that A and B have the same first item in a random order of all items: "
            "a mean of inner products of indicator features, empty sets sharing one of their own"
        )


def _sizes(A: list[frozenset]) -> np.ndarray:
    return np.array([len(a) for a in A], dtype=np.float64)


def _indicators(A: list[frozenset], B: list[frozenset]) -> tuple[sp.csr_array, sp.csr_array]:
    """Both collections as sparse rows of ones, over the items of both so that sizes are kept."""
    number: defaultdict[Hashable, int] = defaultdict()
    number.default_factory = number.__len__  # a new item gets the next column
    F = _indicator_rows(A, number)
    if same_objects(A, B):
        return F, F
    G = _indicator_rows(B, number)
    F.resize((len(A), max(1, len(number))))
    return F, G


def _indicator_rows(A: list[frozenset], column: Mapping[Hashable, int]) -> sp.csr_array:
    starts = np.concatenate(([0], np.cumsum([len(a) for a in A])))
    items = map(column.__getitem__, chain.from_iterable(A))
    columns = np.fromiter(items, np.int64, int(starts[-1]))
    return sparse_rows(starts, columns, np.ones(len(columns)), width=len(column))


def _sorted(items: Collection[Hashable]) -> list[Any]:
    """The items in an order that is the same in every process, which a set's own is not."""
    if set(map(type, items)) in ({int}, {str}):
        return sorted(items)  # pyright: ignore[reportArgumentType]
    return sorted(items, key=_item_bytes)


def _item_bytes(item: Hashable) -> bytes:
    """Bytes to sort items of any kind by."""
    if isinstance(item, frozenset):
        return b"u" + joined(sorted(map(_item_bytes, item)))
    try:
        return label_bytes(item)
    except (TypeError, ValueError, OverflowError):  # neither text nor a finite number
        return b"r" + repr(item).encode("utf-8", "surrogatepass")
