"""Base classes of kernels on structured objects: strings, trees, graphs, sets."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.expressions import Check, Expression, Map, PairStatistic, Statistic, View
from mercer.kernels.kernel import Kernel
from mercer.kernels.validity import Validity, valid


class _ObjectKernel(Kernel):
    """A kernel whose points are objects; subclasses turn one into its internal form."""

    def parse_object(self, x: Any) -> Any:
        """One object in internal form, or a TypeError or ValueError that says what is wrong."""
        raise NotImplementedError

    def check_parameters(self) -> None:
        """Raise an error that names the parameter, where one is out of range."""
        self._validate_params()

    def parse_objects(self, X: list) -> list:
        parsed = []
        for i, x in enumerate(X):
            try:
                parsed.append(self.parse_object(x))
            except (TypeError, ValueError) as error:
                raise type(error)(f"object {i}: {error}") from None
        return parsed

    def build(self, view: View, path: str) -> Expression:
        self.check_parameters()
        return Statistic(self.statistic(), view.then(Check(self.domain), Map(self.parse_objects)))

    def statistic(self) -> PairStatistic:
        raise NotImplementedError


class ExplicitKernel(_ObjectKernel, abstract=True):
    """A kernel with an explicit sparse feature map: k(x, z) = Σ_u phi_u(x) phi_u(z)."""

    def features(self, x: Any) -> dict[Hashable, float]:
        """The non-zero features of one parsed object."""
        raise NotImplementedError

    def statistic(self) -> PairStatistic:
        return PairStatistic(
            type(self).__name__, _sparse_dot, self._squared_norms, prepare=self._shared_vocabulary
        )

    def _shared_vocabulary(self, A: list, B: list) -> tuple[sp.csr_array, sp.csr_array]:
        vocabulary: dict[Hashable, int] = {}
        left = vectorize([self.features(a) for a in A], vocabulary, grow=True)
        if A is B:
            return left, left
        return left, vectorize([self.features(b) for b in B], vocabulary, grow=False)

    def _squared_norms(self, A: list) -> np.ndarray:
        return np.array(
            [sum(v * v for v in self.features(a).values()) for a in A], dtype=np.float64
        )

    def judge(self) -> Validity:
        self.check_parameters()
        return valid(f"{self!r} is a kernel on {self.domain}", "inner product of explicit features")

    def feature_map(self) -> Any:
        from mercer.kernels.feature_maps import VocabularyMap

        return VocabularyMap(self)


class PairwiseKernel(_ObjectKernel, abstract=True):
    """A kernel computed pair by pair, by a routine over two lists of parsed objects."""

    def pairs(self, A: list, B: list) -> np.ndarray:
        """The Gram of two lists of parsed objects, shape (n, m)."""
        raise NotImplementedError

    def self_pairs(self, A: list) -> np.ndarray:
        """k(a, a) for each parsed object, shape (n,)."""
        raise NotImplementedError

    def proof_reason(self) -> str:
        """Why the kernel is positive semidefinite, in one sentence."""
        raise NotImplementedError

    def statistic(self) -> PairStatistic:
        return PairStatistic(type(self).__name__, self.pairs, self.self_pairs)

    def judge(self) -> Validity:
        self.check_parameters()
        return valid(f"{self!r} is a kernel on {self.domain}", self.proof_reason())


def vectorize(
    features: Sequence[dict[Hashable, float]], vocabulary: dict[Hashable, int], grow: bool
) -> sp.csr_array:
    """Sparse rows of named features; new names join the vocabulary if it may grow, else drop out.

    Dropping a name the other side never has leaves inner products unchanged.
    """
    indices: list[int] = []
    values: list[float] = []
    starts = [0]
    for row in features:
        for name, value in row.items():
            column = vocabulary.setdefault(name, len(vocabulary)) if grow else vocabulary.get(name)
            if column is not None:
                indices.append(column)
                values.append(value)
        starts.append(len(indices))
    shape = (len(features), max(1, len(vocabulary)))
    # 32-bit indices where they do, which is all that some solvers of scikit-learn's take.
    kind = np.int32 if max(len(indices), shape[1]) < 2**31 else np.int64
    matrix = sp.csr_array(
        (np.array(values, dtype=float), np.array(indices, dtype=kind), np.array(starts, kind)),
        shape=shape,
    )
    matrix.sort_indices()
    return matrix


def _sparse_dot(A: sp.csr_array, B: sp.csr_array) -> np.ndarray:
    return (A @ B.T).toarray()
