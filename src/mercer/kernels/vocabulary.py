"""Features with names: sparse rows over a vocabulary, learnt from the objects seen."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from mercer import core
from mercer.core.reference.tables import Rows
from mercer.kernels.budget import BYTES_PER_NAME, BYTES_PER_WORD, refuse_features
from mercer.kernels.domains import STRINGS
from mercer.kernels.feature_maps import FeatureMap
from mercer.kernels.ragged import weighted_blocks
from mercer.kernels.sequences import Alphabet, Symbols, join, one_kind

# Words looked at before memory is checked again.
WORDS_AT_ONCE = 2**22

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

    def _rows(self, X: Any, grow: bool) -> sp.csr_array:
        self.kernel.check_parameters()
        objects = self.kernel.parse_objects(self.kernel.domain.check(X, "X"))
        if self.kernel.domain is STRINGS:
            self.kind_ = one_kind(objects, self.kind_)
        return self.kernel.rows(objects, self.vocabulary_, grow)

    def learn(self, X: Any) -> None:
        self.vocabulary_, self.kind_ = self.kernel.vocabulary(), ""
        self._rows(X, grow=True)

    def width(self, X: Any) -> int | None:
        return max(1, len(self.vocabulary_)) if hasattr(self, "vocabulary_") else None

    def is_sparse(self, X: Any) -> bool:
        return True

    def embed(self, X: Any) -> sp.csr_array:
        return self._rows(X, grow=False)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        check_is_fitted(self)
        return np.array([str(name) for name in self.vocabulary_], dtype=object)


class WordVocabulary:
    """Words of k symbols, each with a column, in a table of the core.

    Parameters
    ----------
    k : int
    """

    def __init__(self, k: int) -> None:
        self.alphabet = Alphabet()
        self.table = core.table(k)

    def __len__(self) -> int:
        return self.table.size

    def __iter__(self) -> Iterator[Symbols]:
        symbols = list(self.alphabet.code)
        return (join(tuple(symbols[c] for c in word)) for word in self.table.keys().tolist())

    def __getstate__(self) -> dict[str, Any]:
        return {"alphabet": self.alphabet, "words": self.table.keys()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.alphabet, words = state["alphabet"], state["words"]
        self.table = core.table(words.shape[1])
        self.table.count_keys(words, np.array([0, len(words)]), True)

    def count(
        self,
        sequences: Sequence[Symbols],
        patterns: np.ndarray,
        grow: bool,
        mismatches: int = 0,
        alphabet: Sequence[Hashable] = (),
    ) -> sp.csr_array:
        """How often each word comes in each sequence.

        Parameters
        ----------
        sequences : n sequences
        patterns : (p, k) int64, increasing from 0
            A word is what stands at these places from some position on.
        grow : bool
            Whether new words get a column; else they are left out.
        mismatches : int
            A word counts for all words over ``alphabet`` that differ in at most so many places.
        """
        for symbol in alphabet:
            self.alphabet.code.setdefault(symbol, len(self.alphabet.code))
        symbols, starts = self.alphabet.encode(sequences, grow)
        k = patterns.shape[1]
        near = sum(comb(k, i) * max(len(alphabet) - 1, 0) ** i for i in range(mismatches + 1))
        blocks, n_entries = [], 0
        for block in weighted_blocks(np.diff(starts) * len(patterns) * near, WORDS_AT_ONCE):
            first, last = starts[block.start], starts[block.stop]
            here = symbols[first:last], starts[block.start : block.stop + 1] - first
            blocks.append(self.table.count_words(*here, patterns, mismatches, len(alphabet), grow))
            n_entries += len(blocks[-1][1])
            refuse_features(block.stop, n_entries, len(self), BYTES_PER_WORD)
        return sparse_rows(*_stacked(blocks), width=len(self))


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
        refuse_features(len(starts) - 1, len(columns), len(vocabulary), BYTES_PER_NAME)
    return sparse_rows(np.array(starts), np.array(columns), np.array(values), width=len(vocabulary))


def _stacked(blocks: list[Rows]) -> Rows:
    """Sparse rows, one block below the other."""
    if len(blocks) == 1:
        return blocks[0]
    lengths = [np.diff(starts) for starts, _, _ in blocks]
    starts = np.concatenate([[0], np.cumsum(np.concatenate([*lengths, []]), dtype=np.int64)])
    columns = np.concatenate([np.zeros(0, dtype=np.int64), *(block[1] for block in blocks)])
    return starts, columns, np.concatenate([np.zeros(0), *(block[2] for block in blocks)])


def sparse_rows(
    starts: np.ndarray, columns: np.ndarray, values: np.ndarray, width: int
) -> sp.csr_array:
    """A CSR array with at least one column.

    Columns are checked, as a vocabulary may come from a file, and SciPy writes wherever they say.
    """
    shape = (len(starts) - 1, max(1, width))
    if len(columns) and not 0 <= columns.min() <= columns.max() < shape[1]:
        raise ValueError(
            f"the vocabulary numbers a feature beyond its {width} columns; it is damaged, and must "
            "be learnt again"
        )
    # 32-bit indices where they do, which is all that some solvers of scikit-learn's take.
    kind = np.int32 if max(len(columns), shape[1]) < 2**31 else np.int64
    matrix = sp.csr_array((values, columns.astype(kind), starts.astype(kind)), shape=shape)
    matrix.sort_indices()
    return matrix
