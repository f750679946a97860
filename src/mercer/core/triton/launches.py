"""How Triton kernels are laid out on a device: by their form, what was fastest on an H200."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mercer.core.programs import Kind, Op
from mercer.core.triton.forms import TileForm

FEWEST = 16  # rows or columns of a tile
LITTLE = 2  # operations on a tile, which leave registers for more of its rows


@dataclass(frozen=True)
class Launch:
    """How a kernel is laid out on the device."""

    rows: int
    columns: int
    warps: int
    stages: int = 3

    def smaller(self) -> Launch | None:
        """The next that takes less shared memory: fewer columns, then rows, then stages."""
        if self.columns > FEWEST:
            return replace(self, columns=self.columns // 2)
        if self.rows > FEWEST:
            return replace(self, rows=self.rows // 2, warps=4)
        return replace(self, stages=1) if self.stages > 1 else None


def launch_for(form: TileForm) -> Launch:
    """The layout of a product or a log-sum-exp."""
    if form.dtype == "float64":
        return Launch(64, 64, 4)
    looped = any(leaf.step for leaf in form.leaves)
    return _looped(form) if looped else _resident(form)


def _looped(form: TileForm) -> Launch:
    """Operands are read in steps: large tiles, so that each step has much to do."""
    if _by_features(form):
        return Launch(64, 128, 4, 2)
    if _precisions(form) == {"fp16"} and not _careful(form):
        if all(leaf.chained for leaf in form.leaves):
            return Launch(128, 256, 8)
        return Launch(64, 256, 8, 4) if _width(form) > 1024 else Launch(128, 128, 8)
    return Launch(128, 128, 4 if _precisions(form) == {"tf32"} and not _careful(form) else 8)


def _resident(form: TileForm) -> Launch:
    """The rows' operands are kept: tiles as large as the registers have room for."""
    quotients = any(leaf.kind == Kind.CHI2 for leaf in form.leaves) or any(
        o.op == Op.DIVIDE for o in form.operations
    )
    several, by_features = len(form.leaves) > 1, _by_features(form)
    little = len(form.leaves) == 2 and len(form.operations) <= LITTLE and not _careful(form)
    roomy = several and (little or not _needs_registers(form))
    if not quotients and (by_features > 1 or (by_features and roomy)):
        return Launch(128, 32, 4)
    if quotients or (several and (by_features or _careful(form))):
        return Launch(64, 32, 4)
    if several or _careful(form):
        return Launch(64, 64, 4)
    if _precisions(form) == {"fp16"} and _width(form) > 48:
        return Launch(128, 64, 4, 3 if _width(form) <= 128 else 2)
    return Launch(64, 128, 4) if _width(form) <= 64 else Launch(128, 128, 8)


def _needs_registers(form: TileForm) -> bool:
    """Whether absolute differences or tanh leave no registers for more rows."""
    return any(leaf.kind == Kind.L1 for leaf in form.leaves) or any(
        o.op == Op.TANH for o in form.operations
    )


def _width(form: TileForm) -> int:
    return max((leaf.width for leaf in form.leaves), default=0)


def _precisions(form: TileForm) -> set[str]:
    """Those of the matrix unit."""
    return {leaf.precision for leaf in form.leaves if leaf.width}


def _careful(form: TileForm) -> bool:
    """Whether distances of near pairs are summed from differences."""
    return any(leaf.width and leaf.features for leaf in form.leaves)


def _by_features(form: TileForm) -> int:
    """How many statistics are formed by features."""
    return sum(not leaf.width for leaf in form.leaves)
