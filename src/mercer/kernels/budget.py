"""Refuse an explicit feature map that would not fit in memory, before it is built."""

from __future__ import annotations

from mercer.arrays import memory_budget

# A dictionary entry with its key, as CPython stores them.
BYTES_PER_FEATURE = 160


def refuse_features(n_features: int, what: str, advice: str) -> None:
    """Raise a MemoryError where one object would have more features than the budget holds."""
    needed, budget = n_features * BYTES_PER_FEATURE, memory_budget()
    if needed > budget:
        raise MemoryError(
            f"{what} has up to {n_features:.3g} features, about {needed / 2**20:.3g} MiB, more "
            f"than the memory budget of {budget / 2**20:.3g} MiB; {advice}, or raise the budget "
            "with sklearn.set_config(working_memory=...)"
        )
