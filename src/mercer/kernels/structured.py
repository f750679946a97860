"""Base classes of kernels on structured objects: strings, trees, graphs, sets."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.expressions import Check, Expression, Map, PairStatistic, Statistic, View
from mercer.expressions.sparse_rows import sparse_products
from mercer.kernels.domains import STRINGS
from mercer.kernels.feature_maps import FeatureMap
from mercer.kernels.kernel import Kernel
from mercer.kernels.sequences import one_kind
from mercer.kernels.validity import Validity, valid
from mercer.kernels.vocabulary import VocabularyMap, vectorize


class ObjectKernel(Kernel, abstract=True):
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
        if self.domain is STRINGS:
            one_kind(parsed)
        return parsed

    def build(self, view: View, path: str) -> Expression:
        self.check_parameters()
        kind = replace(self.statistic(), is_kernel=True)  # as all of them are
        return Statistic(kind, view.then(Check(self.domain), Map(self.parse_objects)))

    def statistic(self) -> PairStatistic:
        raise NotImplementedError

    def features(self, x: Any) -> dict[Hashable, float]:
        """The non-zero features of one parsed object, of kernels that can list them."""
        raise NotImplementedError

    def vocabulary(self) -> Any:
        """An empty vocabulary: what `rows` gives columns to."""
        return {}

    def rows(self, objects: list, vocabulary: Any, grow: bool) -> sp.csr_array:
        """The features of parsed objects; new ones get a column if the vocabulary may grow."""
        return vectorize(map(self.features, objects), vocabulary, grow)

    def feature_map(self) -> FeatureMap:
        lists_features = any(
            getattr(type(self), name) is not getattr(ObjectKernel, name)
            for name in ("features", "rows")
        )
        return VocabularyMap(self) if lists_features else super().feature_map()


class ExplicitKernel(ObjectKernel, abstract=True):
    """A kernel computed from its `features`: k(x, z) = Σ_u phi_u(x) phi_u(z)."""

    def statistic(self) -> PairStatistic:
        return PairStatistic(
            type(self).__name__,
            sparse_products,
            self._squared_norms,
            prepare=self._shared_vocabulary,
            whole=True,
            summed=self.summed,
        )

    def summed(self, G: list, V: np.ndarray) -> Callable[[list], np.ndarray]:
        """Σ_j v_j k(·, g_j) over parsed objects, for each column v of V: weights of features."""
        vocabulary = self.vocabulary()
        w = self.rows(G, vocabulary, grow=True).T @ V
        return lambda F: np.asarray(self.rows(F, vocabulary, grow=False) @ w)

    def _shared_vocabulary(self, A: list, B: list) -> tuple[sp.csr_array, sp.csr_array]:
        vocabulary = self.vocabulary()
        left = self.rows(A, vocabulary, grow=True)
        return left, left if same_objects(A, B) else self.rows(B, vocabulary, grow=False)

    def _squared_norms(self, A: list) -> np.ndarray:
        return self.rows(A, self.vocabulary(), grow=True).power(2).sum(axis=1)

    def judge(self) -> Validity:
        self.check_parameters()
        return valid(f"{self!r} is a kernel on {self.domain}", "inner product of explicit features")


class PairwiseKernel(ObjectKernel, abstract=True):
    """A kernel computed pair by pair, by a routine over two lists of parsed objects."""

    def pairs(self, A: list, B: list) -> np.ndarray:
        """The Gram of two lists of parsed objects, shape (n, m)."""
        raise NotImplementedError

    def self_pairs(self, A: list) -> np.ndarray:
        """k(a, a) for each parsed object, shape (n,)."""
        return np.array([self.pairs([a], [a])[0, 0] for a in A], dtype=np.float64)

    def proof_reason(self) -> str:
        """Why the kernel is positive semidefinite, in one sentence."""
        raise NotImplementedError

    def statistic(self) -> PairStatistic:
        return PairStatistic(type(self).__name__, self.pairs, self.self_pairs, whole=True)

    def judge(self) -> Validity:
        self.check_parameters()
        return valid(f"{self!r} is a kernel on {self.domain}", self.proof_reason())


def same_objects(A: list, B: list) -> bool:
    """Whether two lists hold the very same objects, so that their Gram matrix is symmetric."""
    return len(A) == len(B) and all(a is b for a, b in zip(A, B, strict=True))
