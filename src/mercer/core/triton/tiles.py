"""Programs over pairs of points as Triton kernels: operands made ready, texts compiled and run.

In float32 the matrix unit takes each number as two in half precision, x = h + l, and three
products, h·h + h·l + l·h, side by side in operands three times as wide: the error is that of
float32 at several times the speed. Sums over the columns of a product are in double across tiles.
"""

from __future__ import annotations

import linecache
import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cache
from typing import Any

from mercer.arrays import LazyModule
from mercer.core.programs import Kind, Leaf
from mercer.core.torch.tiles import PairTiles
from mercer.core.triton.exact_distances import CHAINED, needs_exact_distances
from mercer.core.triton.forms import LeafForm, Operation, Slot, TileForm
from mercer.core.triton.launches import FEWEST, Launch, launch_for
from mercer.core.triton.source import (
    KernelText,
    gram_source,
    log_sum_exp_source,
    product_source,
    wide_product_source,
)

torch: Any = LazyModule("torch")
errors: Any = LazyModule("triton.runtime.errors")

PRECISIONS = ("fp16x3", "tf32x3", "tf32")
PADDED = 256  # points are made up to a multiple of this, so that no tile is in part
# Below this many features squared distances that must be exact are summed from differences.
FEW_FEATURES = 8
# Operands of more bytes per point are read in steps of so many.
RESIDENT, STEP = 512, 128
# In half precision numbers are scaled to below this. Where small points count as much as large
# ones, none but zero may be smaller by more than the second number; elsewhere, not all the rows.
LARGEST_HALF, SPREAD = 2.0**11, 2.0**12
# A squared norm is three numbers in half precision, each times one of these: 33 bits of it.
NORM_UNITS = (2.0**13, 2.0**2, 2.0**-9)
# No rounding of a squared distance is more than this share of the squared norms it is made from.
ROUNDED = 2.0**-7
# Columns that are summed one by one; more go to the matrix unit, so many at a time.
FEW_COLUMNS, COLUMNS = 4, 32
# Columns are split for so many programs per multiprocessor, lest some be idle at the end, unless a
# part would have fewer tiles than the second number.
PROGRAMS, FEWEST_TILES = 96, 4
# A grid has 65,535 programs at most across; there is no such limit down.
MOST_COLUMNS = 65_535 * FEWEST

# What gives the grid of a layout, the array that is put out, and further arguments.
LayOut = Callable[[Launch], tuple[tuple[int, int], Any, dict[str, Any]]]
# Smaller layouts that a device has room for, by the kernel's text and its usual one.
ROOM: dict[tuple[str, Launch, Any], Launch] = {}


@dataclass(eq=False, repr=False)
class TritonTiles(PairTiles):
    """The same by kernels of Triton, with the methods of `tensor_tiles.Tiles`."""

    launch: Launch | None = None  # in place of the usual one

    def __post_init__(self) -> None:
        self._arrays: dict[str, Any] = {}
        self._scales: dict[int, float] = {}
        self._numbers: dict[tuple[Slot, ...], Any] = {}
        self.form = self._made_ready()
        for side, terms in (("R", self.row_terms), ("C", self.column_terms)):
            for t, term in enumerate(terms):
                self._arrays[f"{side}{t}"] = _padded(term.to(self.dtype))

    # Operands.

    def _made_ready(self) -> TileForm:
        forms: dict[int, LeafForm] = {}
        # Distances last, so that they find the dot products they are made from.
        for i in sorted(range(len(self.leaves)), key=lambda i: self.leaves[i].kind == Kind.SQDIST):
            forms[i] = self._operands(i, self.leaves[i], forms)
        program = self.program
        operations = tuple(
            self._operation(forms, *operation, *constants)
            for operation, constants in zip(
                program.operations.tolist(), program.constants.tolist(), strict=True
            )
        )
        name = str(self.dtype).removeprefix("torch.")
        in_order = tuple(forms[i] for i in range(len(forms)))
        return TileForm(name, in_order, operations, program.result)

    def _operation(self, forms: dict[int, LeafForm], *fields: Any) -> Operation:
        """One of the program's; it lifts no distance that rounding may put as far below zero."""
        found = Operation.of(*fields)
        *_, c, d = fields
        form = forms.get(found.a)
        rounded = form and form.kind == Kind.SQDIST and form.width and not form.features
        if not (found.lifts and rounded):
            return found
        farthest = float(self.leaves[found.a].X_norms.max())
        return found._replace(lifts=c * ROUNDED * farthest < d)

    def _operands(self, i: int, leaf: Leaf, before: dict[int, LeafForm]) -> LeafForm:
        if leaf.kind not in (Kind.DOT, Kind.SQDIST):
            return self._by_features(i, leaf, before)
        careful = leaf.kind == Kind.SQDIST and needs_exact_distances(self, i)
        d = leaf.X.shape[1]
        if careful and (d <= FEW_FEATURES or not self._norms_fit(leaf)):
            return self._by_features(i, leaf, before)
        shared = None
        for k, form in before.items():
            other = self.leaves[k]
            if form.kind == Kind.DOT and other.X is leaf.X and other.Y is leaf.Y:
                shared = k
        precision, scale = self._precision(leaf, careful or leaf.kind == Kind.DOT)
        if shared is not None:
            precision, scale = before[shared].precision, self._scales[shared] ** -0.5
        width = d * (3 if precision == "fp16" else 1)
        size = 2 if precision == "fp16" else 8 if precision == "ieee" else 4
        split = 2 if precision == "tf32x3" else 1  # in shared memory, each number has two parts
        step = 0 if width * size * split <= RESIDENT else STEP // size
        folded = (
            leaf.kind == Kind.SQDIST
            and precision == "fp16"
            and not (careful or step or shared is not None)
        )
        chained = precision == "fp16" and d <= CHAINED
        width = _multiple(width + 2 * len(NORM_UNITS) * folded, step or 16)
        form = LeafForm(leaf.kind, width, 0, precision, step, shared, folded, chained)
        self._put_operands(i, leaf, form, scale)
        if careful:
            self._put_features(i, leaf)
            form = form._replace(features=d)
        return form

    def _put_operands(self, i: int, leaf: Leaf, form: LeafForm, scale: float) -> None:
        distance = leaf.kind == Kind.SQDIST
        self._scales[i] = (-2 if distance else 1) * scale**-2
        sides = ((leaf.X, leaf.X_norms), (leaf.Y, leaf.Y_norms))
        for side, (points, norms) in enumerate(sides):
            half = norms * (-0.5 * scale**2) if distance else None
            if half is not None and not form.folded:
                self._arrays[f"{'UW'[side]}{i}"] = _padded(half)
            if form.shared is not None:
                continue
            A = _operand(points, form, scale, side)
            A = _with_norms(A, half, side) if form.folded else A
            A = torch.nn.functional.pad(A, (0, form.width - A.shape[1]))
            self._arrays[f"{'XY'[side]}{i}"] = _padded(A)

    def _by_features(self, i: int, leaf: Leaf, before: dict[int, LeafForm]) -> LeafForm:
        self._scales[i] = 1.0
        for k, form in before.items():
            other = self.leaves[k]
            same = other.X_given is leaf.X_given and other.Y_given is leaf.Y_given
            if same and not form.width and form.shared is None:
                return LeafForm(leaf.kind, features=leaf.X.shape[1], shared=k)
        self._put_features(i, leaf)
        return LeafForm(leaf.kind, features=leaf.X.shape[1])

    def _put_features(self, i: int, leaf: Leaf) -> None:
        for name, points in (("A", leaf.X_given), ("B", leaf.Y_given)):
            self._arrays[f"{name}{i}"] = _padded(points).T.contiguous()

    def _precision(self, leaf: Leaf, small_count: bool) -> tuple[str, float]:
        """That of the matrix unit, and the power of two its operands are multiplied by."""
        if self.dtype == torch.float64:
            return "ieee", 1.0
        if self.precision != "fp16x3":
            return self.precision, 1.0
        sizes = [torch.linalg.vector_norm(A, math.inf, 1) for A in (leaf.X, leaf.Y)]
        # Else no digits count but those of the rows' largest.
        small = torch.cat(sizes) if small_count else sizes[0].max()[None]
        ends = [torch.cat(sizes).max(), torch.where(small > 0, small, math.inf).min()]
        largest, least = torch.stack(ends).tolist()
        if not largest or largest > SPREAD * least:
            return "tf32x3", 1.0
        scale = 2.0 ** (math.frexp(LARGEST_HALF / largest)[1] - 1)
        return ("fp16", scale) if self._constants_fit(scale) else ("tf32x3", 1.0)

    def _constants_fit(self, scale: float) -> bool:
        """Whether constants times a statistic's scale are well within the range of the dtype."""
        info, constants = torch.finfo(self.dtype), abs(self.program.constants)
        sizes = 2 * scale**-2 * constants[(constants > 0) & (constants < math.inf)]
        ends = (scale**-2, scale**2, *sizes.ravel().tolist())
        return all(info.tiny <= size <= info.max / 2 for size in ends)

    @staticmethod
    def _norms_fit(leaf: Leaf) -> bool:
        return all(bool(norms.isfinite().all()) for norms in (leaf.X_norms, leaf.Y_norms))

    # Running.

    def part(self, rows: Any, columns: Any) -> TritonTiles:
        """The same for some rows and columns, by position; None for all of them."""
        other = copy(self)
        other._arrays = {
            name: _some(name, array, rows if name[0] in "XUAR" else columns)
            for name, array in self._arrays.items()
        }
        other.n = self.n if rows is None else len(rows)
        other.m = self.m if columns is None else len(columns)
        return other

    def transposed(self) -> TritonTiles:
        """The same with rows and columns in each other's place."""
        other = copy(self)
        other.n, other.m = self.m, self.n
        other.form = self.form.transposed
        swap = str.maketrans("XYUWABRC", "YXWUBACR")
        other._arrays = {name.translate(swap): array for name, array in self._arrays.items()}
        return other

    def _constants(self, slots: tuple[Slot, ...]) -> Any:
        if slots not in self._numbers:  # to which the device comes when it has done all before
            found = [self._number(slot) for slot in slots]
            self._numbers[slots] = torch.tensor(
                found or [0.0], dtype=self.dtype, device=self.device
            )
        return self._numbers[slots]

    def _number(self, slot: Slot) -> float:
        value = slot.factor
        if slot.operation is not None:
            value *= float(self.program.constants[slot.operation, slot.which])
        if slot.leaf is None:
            return value
        scale = self._scales[slot.leaf]
        return value / scale if slot.divided else value * scale

    def _run(self, text: KernelText, usual: Launch, lay_out: LayOut) -> Any:
        """What the kernel puts out with the usual layout, or a smaller one the device has room for.

        ``lay_out`` gives the grid of a layout, where to put what, and other arguments.
        """
        kernel, place = compiled(text.text), (text.text, usual, self.device)
        launch = self.launch or ROOM.get(place, usual)
        n, m = _multiple(self.n, PADDED), _multiple(self.m, PADDED)
        while True:
            grid, out, more = lay_out(launch)
            arrays = {"constants": self._constants(text.slots), "out": out, **self._arrays, **more}
            try:
                with torch.cuda.device_of(out):  # which may not be the current one
                    kernel[grid](
                        *(arrays[name] for name in text.arguments),
                        n,
                        m,
                        BM=launch.rows,
                        BN=launch.columns,
                        num_warps=launch.warps,
                        num_stages=launch.stages,
                        enable_fp_fusion=True,
                    )
            except errors.OutOfResources:
                smaller = None if self.launch else launch.smaller()
                if smaller is None:
                    raise
                launch = ROOM[place] = smaller
            else:
                return out

    def _split(self, before: tuple = (), after: tuple = (), **more: Any) -> LayOut:
        """Sums in double over parts of the columns, of shape (parts, *before, n, *after)."""
        n = _multiple(self.n, PADDED)

        def lay_out(launch: Launch) -> tuple[tuple[int, int], Any, dict[str, Any]]:
            parts, tiles = self._splits(launch)
            shape = (parts, *before, n, *after)
            out = torch.empty(shape, dtype=torch.float64, device=self.device)
            return (n // launch.rows, parts), out, {"tiles": tiles, **more}

        return lay_out

    def _splits(self, launch: Launch) -> tuple[int, int]:
        """Into how many parts the columns are split, and the tiles of each."""
        tiles = _multiple(self.m, PADDED) // launch.columns
        programs = max(1, _multiple(self.n, PADDED) // launch.rows)
        wanted = max(1, -(-PROGRAMS * _multiprocessors(self.device) // programs))
        each = max(1, min(tiles, max(FEWEST_TILES, -(-tiles // wanted))))
        return -(-tiles // each), each

    def product(self, V: Any) -> Any:
        """K V of shape (n, c), in float64."""
        c = V.shape[1]
        if c > FEW_COLUMNS:
            return self._wide_product(V)
        columns = torch.zeros((c, _multiple(self.m, PADDED)), dtype=self.dtype, device=self.device)
        columns[:, : self.m] = V.T
        text = product_source(self.form, c)
        out = self._run(text, launch_for(self.form), self._split((c,), V=columns))
        return out.sum(dim=0)[:, : self.n].T

    def _wide_product(self, V: Any) -> Any:
        m, double = _multiple(self.m, PADDED), self.dtype == torch.float64
        usual = Launch(64 if double else 128, 64, 4, 2)
        parts = []
        for start in range(0, V.shape[1], COLUMNS):
            part = V[:, start : start + COLUMNS]
            c = max(16, 1 << (part.shape[1] - 1).bit_length())
            columns = torch.zeros((m, c), dtype=self.dtype, device=self.device)
            columns[: self.m, : part.shape[1]] = part
            text = wide_product_source(self.form, c, "ieee" if double else "tf32x3")
            out = self._run(text, usual, self._split((), (c,), V=columns))
            parts.append(out.sum(dim=0)[: self.n, : part.shape[1]])
        return torch.cat(parts, dim=1)

    def transposed_product(self, U: Any) -> Any:
        """Kᵀ U of shape (m, c), in float64."""
        return self.transposed().product(U)

    def gram(self, symmetric: bool, diagonal: Any) -> Any:
        """All values, (n, m); a symmetric matrix has equal halves and its own diagonal."""
        if self.m > max(MOST_COLUMNS, self.n):
            return self.transposed().gram(False, None).T
        out = torch.empty((self.n, self.m), dtype=self.dtype, device=self.device)
        more = {"rows_out": self.n, "columns_out": self.m}
        if symmetric:
            more["diagonal"] = _padded(diagonal.to(self.dtype))

        def lay_out(launch: Launch) -> tuple[tuple[int, int], Any, dict[str, Any]]:
            return (-(-self.n // launch.rows), -(-self.m // launch.columns)), out, more

        usual = Launch(64, 32 if symmetric else 64, 4)
        return self._run(gram_source(self.form, symmetric), usual, lay_out)

    def log_sum_exp(self, log_weight: Any) -> Any:
        """log Σ_j w_j exp(k_ij) of shape (n,), in float64; ``log_weight`` has shape (m,)."""
        m = _multiple(self.m, PADDED)
        L = torch.full((m,), -math.inf, dtype=self.dtype, device=self.device)
        L[: self.m] = log_weight
        text = log_sum_exp_source(self.form)
        out = self._run(text, launch_for(self.form), self._split((2,), L=L))
        top, total = out[:, 0, : self.n], out[:, 1, : self.n]
        return torch.logsumexp(top + torch.log(total), dim=0)


@cache
def compiled(text: str) -> Any:
    """The kernel of a text; what Triton makes of it is kept on disk too."""
    name = f"<mercer kernel {hash(text):x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "mercer.generated"}
    exec(compile(text, name, "exec"), space)
    # After functions it calls.
    return [v for v in space.values() if hasattr(v, "run") and hasattr(v, "fn")][-1]


@cache
def _multiprocessors(device: Any) -> int:
    if device.type != "cuda":
        return 1
    return torch.cuda.get_device_properties(device).multi_processor_count


def _some(name: str, array: Any, chosen: Any) -> Any:
    """An operand at some points, which are the columns of features and the rows of all else."""
    if chosen is None:
        return array
    return _padded(array[:, chosen].T).T.contiguous() if name[0] in "AB" else _padded(array[chosen])


def _multiple(n: int, of: int) -> int:
    return -(-n // of) * of


def _padded(A: Any) -> Any:
    """Rows made up to a multiple of PADDED with copies of the first, which is as good as any."""
    missing = _multiple(len(A), PADDED) - len(A)
    return torch.cat([A, A[:1].expand(missing, *A.shape[1:])]) if missing else A.contiguous()


def _operand(A: Any, form: LeafForm, scale: float, side: int) -> Any:
    """Points as the matrix unit takes them."""
    if form.precision == "fp16":
        A = A * scale
        high = A.to(torch.float16)
        low = (A - high.to(A.dtype)).to(torch.float16)
        rows = [low, high, high] if form.chained else [high, high, low]
        return torch.cat([high, low, high] if side else rows, dim=1)
    if form.precision == "tf32":  # which would be cut off, not rounded
        return ((A.contiguous().view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
    return A


def _with_norms(A: Any, norms: Any, side: int) -> Any:
    """An operand in half precision to whose products the norms of both sides are added."""
    units = torch.tensor(NORM_UNITS, dtype=A.dtype, device=A.device).expand(len(A), -1)
    parts, left = [], norms.to(torch.float64)
    for unit in NORM_UNITS:
        parts.append((left / unit).to(A.dtype))
        left = left - parts[-1].to(left.dtype) * unit
    own = torch.stack(parts, dim=1)
    return torch.cat([A, units, own] if side else [A, own, units], dim=1)
