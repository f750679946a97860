"""Features with names: sparse rows over a vocabulary, learnt from the objects seen."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from mercer.kernels.budget import BYTES_PER_NAME, quantity, refuse_oversized
from mercer.kernels.feature_maps import FeatureMap

if TYPE_CHECKING:
    from mercer.kernels.structured import ObjectKernel


class VocabularyMap(FeatureMap):
    """Sparse features of structured objects; the vocabulary is learnt from the objects seen.

    Parameters
    ----------
    kernel : ObjectKernel
        One that lists the `features` of an object.
    """

    def __init__(self, kernel: ObjectKernel):
        self.kernel = kernel

    def _named(self, X: Any) -> Iterator[dict[Hashable, float]]:
        self.kernel.check_parameters()
        return map(
            self.kernel.features, self.kernel.parse_objects(self.kernel.domain.check(X, "X"))
        )

    def learn(self, X: Any) -> None:
        self.vocabulary_: dict[Hashable, int] = {}
        vectorize(self._named(X), self.vocabulary_, grow=True)

    def width(self, X: Any) -> int | None:
        return max(1, len(self.vocabulary_)) if hasattr(self, "vocabulary_") else None

    def is_sparse(self, X: Any) -> bool:
        return True

    def embed(self, X: Any) -> sp.csr_array:
        return vectorize(self._named(X), self.vocabulary_, grow=False)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        check_is_fitted(self)
        return np.array([str(name) for name in self.vocabulary_], dtype=object)


def vectorize(
    features: Iterable[dict[Hashable, float]], vocabulary: dict[Hashable, int], grow: bool
) -> sp.csr_array:
    """Sparse rows of named features; new names join the vocabulary if it may grow, else drop out.

    Dropping a name the other side never has leaves inner products unchanged. The features of one
    object are asked for, stored and forgotten before those of the next.
    """
    columns, values, starts = array("q"), array("d"), array("q", [0])
    for row in features:
        for name, value in row.items():
            column = vocabulary.setdefault(name, len(vocabulary)) if grow else vocabulary.get(name)
            if column is not None:
                columns.append(column)
                values.append(value)
        starts.append(len(columns))
        refuse_oversized(
            BYTES_PER_NAME * len(vocabulary) + 16 * len(columns),
            f"the first {len(starts) - 1} objects have {quantity(len(columns))} features, "
            f"{quantity(len(vocabulary))} of them different",
            "use fewer objects or a kernel with fewer features",
        )
    shape = (len(starts) - 1, max(1, len(vocabulary)))
    # 32-bit indices where they do, which is all that some solvers of scikit-learn's take.
    kind = np.int32 if max(len(columns), shape[1]) < 2**31 else np.int64

    matrix = sp.csr_array(
        (
            np.array(values, dtype=float),
            np.array(columns, dtype=kind),
            np.array(starts, dtype=kind),
        ),
        shape=shape,
    )
    matrix.sort_indices()
    return matrix
