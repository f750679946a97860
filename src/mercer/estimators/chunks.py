"""Training data that come in chunks: from an iterator, or from a reader of tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


def split_chunks(
    chunks: Iterable[Any], target: Any = None, weight: Any = None
) -> Iterator[tuple[Any, Any, Any]]:
    """Points, targets and weights or None of every chunk.

    Parameters
    ----------
    chunks : iterable
        Of tuples ``(X, y)`` or ``(X, y, sample_weight)``; or of tables, such as
        ``pandas.read_csv(..., chunksize=...)`` and ``pyarrow.parquet.ParquetFile.iter_batches()``
        give.
    target : str or list of str, optional
        The columns of a table that are predicted; all others are features.
    weight : str, optional
        The column of a table that has weights.

    Examples
    --------
    >>> [y for X, y, weight in split_chunks([([[1.0]], [2.0]), ([[3.0]], [4.0], [1.0])])]
    [[2.0], [4.0]]
    """
    for i, chunk in enumerate(chunks):
        if isinstance(chunk, tuple):
            if target is not None or weight is not None:
                raise ValueError("target and weight name columns of tables; chunks are tuples")
            if len(chunk) not in (2, 3):
                raise ValueError(
                    f"chunk {i} has {len(chunk)} parts; expected (X, y) or (X, y, sample_weight)"
                )
            yield chunk if len(chunk) == 3 else (*chunk, None)
            continue
        table = chunk.to_pandas() if hasattr(chunk, "to_pandas") else chunk
        if not hasattr(table, "drop"):
            raise TypeError(
                f"chunk {i} is of type {type(chunk).__name__}; expected a tuple (X, y) or a table"
            )
        if target is None:
            raise ValueError("chunks are tables; name the target's column with target=...")
        targets = [target] if isinstance(target, str) else list(target)
        named = [*targets, *([] if weight is None else [weight])]
        missing = [name for name in named if name not in table.columns]
        if missing:
            raise ValueError(
                f"chunk {i} has no column {missing[0]!r}; it has {', '.join(map(str, table))}"
            )
        y = table[target if isinstance(target, str) else targets]
        yield table.drop(columns=named), y, None if weight is None else table[weight]
