"""Refuse what would not fit in memory, before it is built."""

from __future__ import annotations

import math

from mercer.arrays import memory_budget

# A dictionary entry with its key, as CPython stores them.
BYTES_PER_NAME = 160
# A word in a table of the core, and the entries that count it on the way to a sparse matrix.
BYTES_PER_WORD = 64
# An entry of a sparse matrix, with its share of the arrays on the way there.
BYTES_PER_ENTRY = 64


def refuse_oversized(n_bytes: int, what: str, advice: str) -> None:
    """Raise a MemoryError where this many bytes are more than the memory budget."""
    budget = memory_budget()
    if n_bytes > budget:
        raise MemoryError(
            f"{what}, {_mebibytes(n_bytes)}, over the budget of {_mebibytes(budget)}; {advice}, "
            "or raise the budget with sklearn.set_config(working_memory=...)"
        )


def refuse_features(objects: int, entries: int, names: int, bytes_per_name: int) -> None:
    """The same for sparse features of the first objects, with so many entries and names."""
    refuse_oversized(
        bytes_per_name * names + 16 * entries,
        f"the first {objects} objects have {quantity(entries)} features, "
        f"{quantity(names)} of them different",
        "use fewer objects or a kernel with fewer features",
    )


def quantity(n: int) -> str:
    """An integer of any size as short text.

    Examples
    --------
    >>> quantity(525825), quantity(2**20000)
    ('525,825', 'about 10^6020')
    """
    return f"{n:,}" if n < 10**15 else f"about 10^{int(math.log10(n))}"


def _mebibytes(n_bytes: int) -> str:
    small = n_bytes < 100 * 2**20
    return f"{n_bytes / 2**20:.3g} MiB" if small else f"{quantity(n_bytes // 2**20)} MiB"
