"""From a program to the text of a Triton kernel: statistics, epilogue and what is made of tiles.

A kernel walks over tiles of pairs. In each it forms the statistics (dot products and squared
distances in the matrix unit, the others feature by feature), runs the program on them in registers
and consumes the values: summed against the columns of a product, stored, or taken to a log-sum-exp.
Numbers that change from fit to fit, hyperparameters among them, are read from an array, so that
the text, and what is compiled from it, depends only on the shape of the formula and on the number
of features.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass
from typing import Any, NamedTuple

from mercer.core.programs import Kind, Op, Source

LOG2E = 1 / math.log(2)
# Up to so many features the rows' are kept in registers.
KEPT = 32
# Squared distances below this fraction of the squared norms are summed from differences.
NEAR = {"float32": 1e-2, "float64": 1e-4}
# No number is below these, and none has an infinite difference from itself.
LOWEST = {"float32": -(2 - 2.0**-23) * 2.0**127, "float64": -sys.float_info.max}
FEATUREWISE = {
    Kind.SQDIST: "{s} += ({x} - {y}) * ({x} - {y})",
    Kind.L1: "{s} += tl.abs({x} - {y})",
    Kind.MINSUM: "{s} += tl.minimum({x}, {y})",
    Kind.CONJUNCTION: "{s} *= 1 + {x} * {y}",
    # The quotient before the second product, so that tiny and huge entries survive.
    Kind.CHI2: "{s} += ({x} - {y}) / tl.where({x} + {y} == 0, 1, {x} + {y}) * ({x} - {y})",
}
# The same by the instruction for an inverse: about the least normal number stands for zero.
CHI2_SINGLE = "{s} += ({x} - {y}) * reciprocal(tl.maximum({x} + {y}, 1.2e-38)) * ({x} - {y})"
TANGENTS = {
    Kind.DIFFERENCE_PRODUCT: "{s} += ({x} - {y}) * ({dx} - {dy})",
    Kind.SIGN_PRODUCT: (
        "{s} += tl.where({x} > {y}, {dx} - {dy}, tl.where({x} < {y}, {dy} - {dx}, 0))"
    ),
}
UPDATES = FEATUREWISE | TANGENTS
# tanh x = x - x³/3 + ..., where the exponential would cancel: so many terms, up to where.
TANH_SERIES = (1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075)
TANH_TERMS = {"float32": (5, 0.3), "float64": (7, 0.05)}
TINY = 2.0**-126  # the least normal number of float32
# What the special-function unit has of its own in float32, to an error of 2⁻²², and what stands
# for it under Triton's interpreter.
INSTRUCTIONS = {
    "log2": ("lg2.approx.f32", "tl.log2(x)"),
    "reciprocal": ("rcp.approx.ftz.f32", f"1 / tl.where(tl.abs(x) < {TINY!r}, 0, x)"),
}


BINARY = (Op.ADD, Op.MULTIPLY, Op.ACCUMULATE, Op.DIVIDE)


class LeafForm(NamedTuple):
    """How a kernel comes by one statistic.

    Attributes
    ----------
    kind : Kind
    width : int
        Numbers per point of the matrix operand; 0 where the statistic is formed by features.
    features : int
        Features of the points as they are, where those are read.
    precision : str
        Of the matrix unit: "fp16", "tf32", "tf32x3" or "ieee".
    step : int
        Numbers of the operands that each step of a loop takes; 0 where the rows' are kept.
    shared : int or None
        The leaf before this one whose dot products, or features, serve this one too.
    folded : bool
        Whether the norms of a squared distance are numbers of its operands.
    """

    kind: Kind
    width: int = 0
    features: int = 0
    precision: str = "ieee"
    step: int = 0
    shared: int | None = None
    folded: bool = False


@dataclass(frozen=True)
class TileForm:
    """All that the text of a kernel depends on.

    Attributes
    ----------
    dtype : "float32" or "float64"
    leaves : tuple of LeafForm
    operations : tuple of (op, out, a, b, source, exponent)
        Those of a `Program`, with the exponent of integer powers.
    result : int
    """

    dtype: str
    leaves: tuple[LeafForm, ...]
    operations: tuple[tuple[int, int, int, int, int, int], ...]
    result: int

    @property
    def transposed(self) -> TileForm:
        """The same with rows and columns in each other's place."""
        other = {Source.ROW: Source.COLUMN, Source.COLUMN: Source.ROW, Source.TILE: Source.TILE}
        ops = {Op.ROW: Op.COLUMN, Op.COLUMN: Op.ROW}
        swapped = tuple(
            (ops.get(Op(op), op), out, a, b, other[Source(source)], exponent)
            for op, out, a, b, source, exponent in self.operations
        )
        return TileForm(self.dtype, self.leaves, swapped, self.result)

    def only_in_exponents(self, leaf: int) -> bool:
        """Whether a statistic goes to exponentials and nowhere else."""
        for op, out, a, b, source, _ in self.operations:
            if leaf == a and op not in (Op.ROW, Op.COLUMN, Op.CONSTANT):
                if op not in (Op.EXP, Op.EXP_NEGATIVE):
                    return False
            elif leaf == b and source == Source.TILE and op in BINARY:
                return False
            if out == leaf:
                return op != Op.ACCUMULATE
        return self.result != leaf


class Slot(NamedTuple):
    """One number of the array that a kernel reads: a constant of the program, times others.

    ``leaf`` is the one whose scale is among them, or with ``divided`` that it is divided by.
    """

    operation: int | None
    which: int
    leaf: int | None = None
    factor: float = 1.0
    divided: bool = False


def chunks(width: int) -> list[tuple[int, int]]:
    """Where powers of two that add up to a multiple of 16 begin, and how large they are."""
    found, start = [], 0
    while start < width:
        size = min(128, 1 << ((width - start).bit_length() - 1))
        found.append((start, size))
        start += size
    return found


def _times(k: int, count: str) -> str:
    """Where the k-th of rows of so many numbers begins, which may be beyond 32 bits."""
    return f"tl.cast({count}, tl.int64) * {k}"


class KernelText(NamedTuple):
    """The text of a kernel and what it wants to be given.

    Attributes
    ----------
    text : str
    arguments : names of the arrays, in order
    slots : what the array ``constants`` holds
    """

    text: str
    arguments: tuple[str, ...]
    slots: tuple[Slot, ...]


class _Epilogue:
    """The program as lines of Triton, its numbers as slots."""

    def __init__(self, form: TileForm):
        self.form = form
        self.lines: list[str] = []
        self.slots: list[Slot] = []
        self.rows: set[int] = set()
        self.columns: set[int] = set()
        # What each register holds: a name, whether it has the tile's shape, and the leaf whose
        # scale it still lacks.
        self.registers: dict[int, tuple[str, bool, int | None]] = {}
        self.instructions: set[str] = set()
        self.single = form.dtype == "float32"
        self._names = 0
        for i, leaf in enumerate(form.leaves):
            self.registers[i] = (f"s{i}", True, i if leaf.width else None)
        for k, operation in enumerate(form.operations):
            self._run(k, *operation)
        name, full = self._value(form.result)
        self.result = name if full else f"tl.broadcast_to({name}, (BM, BN))"

    def slot(self, *wanted: Any) -> str:
        """The name of a number, whose `Slot` has these fields."""
        wanted = Slot(*wanted)
        if wanted not in self.slots:
            self.slots.append(wanted)
        return f"q{self.slots.index(wanted)}"

    def _value(self, register: int) -> tuple[str, bool]:
        """A register's value with its scale."""
        name, full, leaf = self.registers[register]
        if leaf is not None:
            scaled = self._name()
            self.lines.append(f"{scaled} = {name} * {self.slot(None, 0, leaf)}")
            self.registers[register] = (scaled, full, None)
            name = scaled
        return name, full

    def _name(self) -> str:
        self._names += 1
        return f"t{self._names}"

    def _second(self, b: int, source: int) -> tuple[str, bool]:
        if source == Source.ROW:
            self.rows.add(b)
            return f"row{b}[:, None]", False
        if source == Source.COLUMN:
            self.columns.add(b)
            return f"column{b}[None, :]", False
        return self._value(b)

    def _run(self, k: int, op: int, out: int, a: int, b: int, source: int, exponent: int) -> None:
        name = self._name()
        text, full = self._text(k, Op(op), out, a, b, source, exponent)
        self.lines.append(f"{name} = {text}")
        self.registers[out] = (name, full, None)

    def _text(
        self, k: int, op: Op, out: int, a: int, b: int, source: int, exponent: int
    ) -> tuple[str, bool]:
        match op:
            case Op.ROW | Op.COLUMN:
                return self._second(a, Source.COLUMN if op == Op.COLUMN else Source.ROW)
            case Op.CONSTANT:
                return self.slot(k, 0, None), False
        if op in (Op.AFFINE, Op.ADD, Op.MULTIPLY, Op.EXP, Op.EXP_NEGATIVE, Op.TANH):
            # The statistic's scale and the constant are one number.
            x, full, leaf = self.registers[a]
            exponential = op in (Op.EXP, Op.EXP_NEGATIVE)
            c = self.slot(k, 0, leaf, LOG2E if exponential and self.single else 1.0)
        else:
            (x, full), c = self._value(a), ""
        d = "" if op in (Op.EXP, Op.EXP_NEGATIVE) else self.slot(k, 1, None)
        match op:
            case Op.AFFINE:
                return f"{x} * {c} + {d}", full
            case Op.ADD:
                y, _ = self._second(b, source)
                return f"{x} * {c} + {d} * {y}", True
            case Op.MULTIPLY:
                y, _ = self._second(b, source)
                return f"{x} * {c} * {y} + {d}", True
            case Op.ACCUMULATE:
                total, _ = self._value(out)
                y, _ = self._second(b, source)
                return f"{total} + {self.slot(k, 0, None)} * {x} * {y}", True
            case Op.DIVIDE:
                y, _ = self._second(b, source)
                at_zero = self.slot(k, 0, None)
                if self.single:
                    # A quarter of each, since the inverse of the largest numbers would be 0; those
                    # of which a quarter is below the normal numbers have none, and are zero.
                    quotient = f"0.25 * {x} * {self._instruction('reciprocal', f'0.25 * {y}')}"
                    return f"tl.where(tl.abs({y}) < {4 * TINY!r}, {at_zero}, {quotient})", True
                return f"tl.where({y} == 0, {at_zero}, {x} / tl.where({y} == 0, 1, {y}))", True
            case Op.INTEGER_POWER:
                return self._integer_power(x, exponent), full
            case Op.REAL_POWER if self.single:
                return f"tl.exp2({self.slot(k, 0, None)} * {self._instruction('log2', x)})", full
            case Op.REAL_POWER:
                return f"tl.exp({self.slot(k, 0, None)} * tl.log({x}))", full
            case Op.EXP | Op.EXP_NEGATIVE:
                return f"tl.exp{'2' * self.single}({x} * {c})", full
            case Op.TANH:
                return self._tanh(f"{x} * {c} + {d}"), full
            case Op.SQRT:
                return f"tl.sqrt({x})", full
            case Op.LOG:
                return f"tl.log({x})", full
            case Op.INVERSE_SQRT:
                return f"tl.where({x} == 0, 0, 1 / tl.sqrt(tl.where({x} == 0, 1, {x})))", full
            case Op.POSITIVE:
                return f"tl.maximum({x}, 0)", full
            case Op.STEP:
                return f"tl.where({x} > 0, 1.0, 0.0).to({x}.dtype)", full
        raise ValueError(f"an operation that exists; got {op!r}")

    def _integer_power(self, x: str, exponent: int) -> str:
        """By repeated squaring."""
        left, power, result = abs(exponent), x, ""
        while left:
            if left & 1:
                result = power if not result else f"{result} * {power}"
            left >>= 1
            if left:
                square = self._name()
                self.lines.append(f"{square} = {power} * {power}")
                power = square
        if exponent > 0:
            return result
        return self._instruction("reciprocal", result) if self.single else f"1 / ({result})"

    def _instruction(self, name: str, argument: str) -> str:
        self.instructions.add(name)
        return f"{name}({argument})"

    def _tanh(self, argument: str) -> str:
        x, square, e = self._name(), self._name(), self._name()
        terms, to = TANH_TERMS[self.form.dtype]
        series = ""
        for coefficient in reversed(TANH_SERIES[:terms]):
            series = f"{coefficient!r}" + (f" + {square} * ({series})" if series else "")
        exp, rate = ("tl.exp2", -2 * LOG2E) if self.single else ("tl.exp", -2)
        quotient = (
            f"* {self._instruction('reciprocal', f'1 + {e}')}" if self.single else f"/ (1 + {e})"
        )
        self.lines += [
            f"{x} = {argument}",
            f"{square} = {x} * {x}",
            f"{e} = {exp}({rate!r} * tl.abs({x}))",
            f"{e} = tl.where({x} < 0, {e} - 1, 1 - {e}) {quotient}",
        ]
        return f"tl.where(tl.abs({x}) < {to!r}, {x} * ({series}), {e})"


class _Statistics:
    """Loads and sums that form the statistics of a tile."""

    def __init__(self, form: TileForm):
        self.form = form
        self.arguments: list[str] = []
        self.before: list[str] = []  # once for the rows
        self.inside: list[str] = []  # for every tile
        self.after: list[str] = []  # once the dot products are there
        self.instructions: set[str] = set()
        alike: dict[int, list[int]] = {}
        for i, leaf in enumerate(form.leaves):
            if not leaf.width:
                alike.setdefault(i if leaf.shared is None else leaf.shared, []).append(i)
        for source, leaves in alike.items():
            self._by_features(source, leaves)
        for i, leaf in enumerate(form.leaves):
            if leaf.width:
                self._matrix(i, leaf)

    def _matrix(self, i: int, leaf: LeafForm) -> None:
        distance = leaf.kind == Kind.SQDIST
        norms = distance and not leaf.folded
        if norms:
            self.arguments += [f"U{i}", f"W{i}"]
            self.before.append(f"u{i} = tl.load(U{i} + rows)[:, None]")
            self.inside.append(f"w{i} = tl.load(W{i} + columns)[None, :]")
        if leaf.shared is not None:
            self.after.append(f"s{i} = s{leaf.shared} + (u{i} + w{i})")
        else:
            self.arguments += [f"X{i}", f"Y{i}"]
            if leaf.step:
                self._looped(i, leaf, distance)
            else:
                self._resident(i, leaf, norms)
        if distance:
            if leaf.features:
                self._differences_where_near(i, leaf)
            # An exponential of what rounding put on the wrong side of 0 is 1 all but rounding.
            elif not self.form.only_in_exponents(i):
                self.after.append(f"s{i} = tl.minimum(s{i}, 0)")

    def _dot(self, i: int, x: str, y: str, start: str, leaf: LeafForm) -> str:
        precision = "" if leaf.precision == "fp16" else f', input_precision="{leaf.precision}"'
        kind = "tl.float64" if self.form.dtype == "float64" else "tl.float32"
        start = f", {start}" if start else ""
        return f"s{i} = tl.dot({x}, tl.trans({y}){start}{precision}, out_dtype={kind})"

    def _resident(self, i: int, leaf: LeafForm, norms: bool) -> None:
        # Norms are what the sums begin with, unless another leaf wants the dot products.
        wanted = any(other.shared == i for other in self.form.leaves)
        start = f"u{i} + w{i}" if norms and not wanted else ""
        for begin, size in chunks(leaf.width):
            place = f"tl.arange(0, {size})[None, :]"
            self.before += [
                f"x{i}_{begin} = tl.load(X{i} + (rows.to(tl.int64) * {leaf.width})[:, None]"
                f" + ({begin} + {place}))",
                f"y{i}_{begin} = Y{i} + tl.arange(0, BN)[:, None] * {leaf.width}"
                f" + ({begin} + {place})",
            ]
            self.inside += [
                f"b{i}_{begin} = tl.load(y{i}_{begin}"
                f" + tl.cast(j, tl.int64) * (BN * {leaf.width}))",
                self._dot(i, f"x{i}_{begin}", f"b{i}_{begin}", start, leaf),
            ]
            start = f"s{i}"

    def _looped(self, i: int, leaf: LeafForm, distance: bool) -> None:
        place = f"tl.arange(0, {leaf.step})[None, :]"
        self.before += [
            f"x{i} = X{i} + (rows.to(tl.int64) * {leaf.width})[:, None] + {place}",
            f"y{i} = Y{i} + tl.arange(0, BN)[:, None] * {leaf.width} + {place}",
        ]
        self.inside += [
            f"s{i} = tl.zeros((BM, BN), {self._type})",
            f"z{i} = y{i} + tl.cast(j, tl.int64) * (BN * {leaf.width})",
            f"for f in range(0, {leaf.width}, {leaf.step}):",
            "    " + self._dot(i, f"tl.load(x{i} + f)", f"tl.load(z{i} + f)", f"s{i}", leaf),
        ]
        # After the sum: beside the norms, each of its many terms would be rounded.
        if distance:
            self.inside.append(f"s{i} = s{i} + (u{i} + w{i})")

    @property
    def _type(self) -> str:
        return f"tl.{self.form.dtype}"

    def _differences_where_near(self, i: int, leaf: LeafForm) -> None:
        """Tiles in which points nearly coincide are summed from differences, there."""
        self.arguments += [f"A{i}", f"B{i}"]
        near = NEAR[self.form.dtype]
        self.after += [
            f"if tl.max(s{i} - {near} * u{i} - {near} * w{i}) >= 0:",
            f"    e{i} = tl.zeros((BM, BN), {self._type})",
            f"    for f in range({leaf.features}):",
            f"        p{i} = tl.load(A{i} + tl.cast(f, tl.int64) * n + rows)[:, None]",
            f"        o{i} = tl.load(B{i} + tl.cast(f, tl.int64) * m + columns)[None, :]",
            f"        e{i} += (p{i} - o{i}) * (p{i} - o{i})",
            f"    s{i} = e{i} * {{unscaled{i}}}",
        ]

    def _update(self, kind: Kind) -> str:
        """How one feature is added to a statistic."""
        if kind == Kind.CHI2 and self.form.dtype == "float32":
            self.instructions.add("reciprocal")
            return CHI2_SINGLE
        return UPDATES[kind]

    def _by_features(self, source: int, leaves: list[int]) -> None:
        """Statistics of the same features, in one pass over them."""
        self.arguments += [f"A{source}", f"B{source}"]
        # A product of zeros, whose threads have few rows each: sums over columns are then fast.
        zeros = ["left = tl.zeros((BM, 16), tl.float16)", "right = tl.zeros((16, BN), tl.float16)"]
        self.before += [line for line in zeros if line not in self.before]
        forms = [self.form.leaves[i] for i in leaves]
        for i, leaf in zip(leaves, forms, strict=True):
            start = " + 1" if leaf.kind == Kind.CONJUNCTION else ""
            self.inside.append(f"s{i} = tl.dot(left, right).to({self._type}){start}")
        features, stride = forms[0].features, 2 if forms[0].kind in TANGENTS else 1

        def updated(k: int) -> list[str]:
            x, y = f"a{source}", f"b{source}"
            names = {"x": f"{x}_{k}", "y": f"{y}_{k}", "dx": f"{x}_{k + 1}", "dy": f"{y}_{k + 1}"}
            return [
                self._update(leaf.kind).format(s=f"s{i}", **names)
                for i, leaf in zip(leaves, forms, strict=True)
            ]

        if features <= KEPT:
            for k in range(features):
                place = f"A{source} + {_times(k, 'n')} + rows"
                self.before.append(f"a{source}_{k} = tl.load({place})[:, None]")
            for k in range(0, features, stride):
                for f in range(k, k + stride):
                    place = f"B{source} + {_times(f, 'm')} + columns"
                    self.inside.append(f"b{source}_{f} = tl.load({place})[None, :]")
                self.inside += updated(k)
            return
        self.inside.append(f"for f in range(0, {features}, {stride}):")
        for f in range(stride):
            at = f"(tl.cast(f, tl.int64) + {f})"
            self.inside += [
                f"    a{source}_{f} = tl.load(A{source} + {at} * n + rows)[:, None]",
                f"    b{source}_{f} = tl.load(B{source} + {at} * m + columns)[None, :]",
            ]
        self.inside += [f"    {line}" for line in updated(0)]


class _Tile:
    """A tile of values: arguments, what is loaded before the loop over tiles, and its body."""

    def __init__(self, form: TileForm):
        statistics, self.epilogue = _Statistics(form), _Epilogue(form)
        scales = {
            f"unscaled{i}": self.epilogue.slot(None, 0, i, 1.0, True)
            for i, leaf in enumerate(form.leaves)
            if leaf.width and leaf.features
        }
        after = [line.format(**scales) for line in statistics.after]
        self.instructions = statistics.instructions | self.epilogue.instructions
        rows, columns = sorted(self.epilogue.rows), sorted(self.epilogue.columns)
        self.arguments = [
            "constants",
            *statistics.arguments,
            *(f"R{t}" for t in rows),
            *(f"C{t}" for t in columns),
        ]
        self.before = [
            *(f"q{i} = tl.load(constants + {i})" for i in range(len(self.epilogue.slots))),
            *statistics.before,
            *(f"row{t} = tl.load(R{t} + rows)" for t in rows),
        ]
        self.body = [
            "columns = j * BN + tl.arange(0, BN)",
            *statistics.inside,
            *after,
            *(f"column{t} = tl.load(C{t} + columns)" for t in columns),
            *self.epilogue.lines,
            f"value = {self.epilogue.result}",
        ]


def _instruction(name: str) -> list[str]:
    """The text of a function for an instruction."""
    instruction, meaning = INSTRUCTIONS[name]
    if os.environ.get("TRITON_INTERPRET", "").lower() not in ("1", "true", "on", "yes", "y"):
        meaning = (
            f'tl.inline_asm_elementwise("{instruction} $0, $1;", "=f,f", [x], '
            "dtype=tl.float32, is_pure=True, pack=1)"
        )
    return ["@triton.jit", f"def {name}(x):", f"    return {meaning}", "", ""]


def _assembled(
    name: str,
    tile: _Tile,
    more: list[str],
    opening: list[str],
    closing: list[str],
    loop: list[str] | None,
) -> KernelText:
    """A kernel from its parts; ``loop`` is what a loop over tiles does with each, if there is one.

    n and m are the padded numbers of rows and columns.
    """
    arguments = ", ".join([*tile.arguments, *more, "n", "m"])
    lines = [
        "import triton",
        "import triton.language as tl",
        "",
        "",
        *(line for name in sorted(tile.instructions) for line in _instruction(name)),
        # Numbers of points say nothing about the code to make.
        '@triton.jit(do_not_specialize=["tiles", "rows_out", "columns_out"])',
        f"def {name}({arguments}, BM: tl.constexpr, BN: tl.constexpr):",
        "    rows = tl.program_id(0) * BM + tl.arange(0, BM)",
    ]
    lines += [f"    {line}" for line in [*tile.before, *opening]]
    if loop is None:
        lines += ["    j = tl.program_id(1)"]
        lines += [f"    {line}" for line in tile.body]
    else:
        lines += [
            "    first = tl.program_id(1) * tiles",
            "    last = tl.minimum(first + tiles, m // BN)",
            "    for j in range(first, last):",
        ]
        lines += [f"        {line}" for line in [*tile.body, *loop]]
    lines += [f"    {line}" for line in closing]
    text = "\n".join(lines) + "\n"
    slots = tuple(tile.epilogue.slots)
    return KernelText(text, (*tile.arguments, *more), slots)


def product_source(form: TileForm, count: int) -> KernelText:
    """K V for few columns: ``out[split, c, row]``, summed over tiles in double.

    V is (count, m), with zeros where there is no column.
    """
    opening = [f"a{c} = tl.zeros((BM,), tl.float64)" for c in range(count)]
    loop = []
    for c in range(count):
        loop += [
            f"v = tl.load(V + {_times(c, 'm')} + columns)",
            f"a{c} += tl.sum(value * v[None, :], axis=1).to(tl.float64)",
        ]
    place = "out + (tl.program_id(1).to(tl.int64) * {count} + {c}) * n + rows"
    closing = [f"tl.store({place.format(count=count, c=c)}, a{c})" for c in range(count)]
    return _assembled("product", _Tile(form), ["V", "out", "tiles"], opening, closing, loop)


def wide_product_source(form: TileForm, count: int, precision: str) -> KernelText:
    """K V for many columns by the matrix unit: ``out[split, row, c]``.

    Each tile's product is added in double: the matrix unit's own sums are not carried along.
    V is (m, count), count a power of two of at least 16.
    """
    kind = f"tl.{form.dtype}"
    opening = [
        f"a = tl.zeros((BM, {count}), tl.float64)",
        f"place = tl.arange(0, {count})[None, :]",
    ]
    loop = [
        f"v = tl.load(V + columns.to(tl.int64)[:, None] * {count} + place)",
        f'a += tl.dot(value, v, input_precision="{precision}", out_dtype={kind}).to(tl.float64)',
    ]
    closing = [
        f"at = (tl.program_id(1).to(tl.int64) * n + rows) * {count}",
        "tl.store(out + at[:, None] + place, a)",
    ]
    return _assembled("product", _Tile(form), ["V", "out", "tiles"], opening, closing, loop)


def log_sum_exp_source(form: TileForm) -> KernelText:
    """The largest value of each row and the sum of exponentials beside it: ``out[split, 2, row]``.

    L has log weights, -inf where there is no column.
    """
    opening = [
        f"top = tl.full((BM,), {LOWEST[form.dtype]!r}, tl.{form.dtype})",
        "total = tl.zeros((BM,), tl.float64)",
    ]
    loop = [
        "value += tl.load(L + columns)[None, :]",
        "new = tl.maximum(top, tl.max(value, axis=1))",
        "total = total * tl.exp(top - new).to(tl.float64)",
        "total += tl.sum(tl.exp(value - new[:, None]), axis=1).to(tl.float64)",
        "top = new",
    ]
    place = "out + (tl.program_id(1).to(tl.int64) * 2 + {c}) * n + rows"
    closing = [
        f"tl.store({place.format(c=0)}, top.to(tl.float64))",
        f"tl.store({place.format(c=1)}, total)",
    ]
    return _assembled("log_sum_exp", _Tile(form), ["L", "out", "tiles"], opening, closing, loop)


def gram_source(form: TileForm, symmetric: bool) -> KernelText:
    """Values stored: ``out[row, column]`` for rows_out rows and columns_out columns.

    A symmetric matrix is written in both halves from the tiles on and above the diagonal, and its
    diagonal is taken from the array ``diagonal``.
    """
    more = ["out", "rows_out", "columns_out"]
    closing = [
        "inside = (rows < rows_out)[:, None] & (columns < columns_out)[None, :]",
        "at = rows.to(tl.int64)[:, None] * columns_out + columns[None, :]",
    ]
    opening: list[str] = []
    if symmetric:
        more.insert(0, "diagonal")
        opening = ["if (tl.program_id(1) + 1) * BN <= tl.program_id(0) * BM:", "    return"]
        closing += [
            "inside = inside & (rows[:, None] <= columns[None, :])",
            "own = tl.load(diagonal + rows)",
            "value = tl.where(rows[:, None] == columns[None, :], own[:, None], value)",
            "mirrored = columns.to(tl.int64)[None, :] * columns_out + rows[:, None]",
            "tl.store(out + mirrored, value, mask=inside)",
        ]
    closing.append("tl.store(out + at, value, mask=inside)")
    return _assembled("gram", _Tile(form), more, opening, closing, None)
