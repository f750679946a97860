"""The epilogue of a Triton kernel: a program on the statistics of a tile, in registers."""

from __future__ import annotations

import math
import os
from typing import Any

from mercer.core.programs import Op, Source
from mercer.core.triton.forms import EXPONENTIALS, Operation, Slot, TileForm

LOG2E = 1 / math.log(2)
# tanh x = x - x³/3 + ..., where the exponential would cancel: so many terms, up to where.
TANH_SERIES = (1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075)
TANH_TERMS = {"float32": (5, 0.3), "float64": (7, 0.05)}
LOWEST_TANH = -20.0  # far below zero it is -1, and the exponential would overflow
TINY = 2.0**-126  # the least normal number of float32
# What the special-function unit has of its own in float32, to an error of 2⁻²², and what stands
# for it under Triton's interpreter.
INSTRUCTIONS = {
    "log2": ("lg2.approx.f32", "tl.log2(x)"),
    "log2_normal": ("lg2.approx.ftz.f32", "tl.log2(x)"),
    "inverse_sqrt": ("rsqrt.approx.f32", "1 / tl.sqrt(x)"),
    "inverse_sqrt_normal": ("rsqrt.approx.ftz.f32", "1 / tl.sqrt(x)"),
    "reciprocal": ("rcp.approx.ftz.f32", f"1 / tl.where(tl.abs(x) < {TINY!r}, 0, x)"),
}


class Epilogue:
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
            self._run(k, operation)
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

    def _run(self, k: int, o: Operation) -> None:
        name = self._name()
        text, full = self._text(k, o)
        self.lines.append(f"{name} = {text}")
        self.registers[o.out] = (name, full, None)

    def _number(self, k: int, which: int, leaf: int | None = None, factor: float = 1.0) -> str:
        """A constant of the k-th operation, times a leaf's scale and a factor."""
        written = self.form.operations[k].written[which]
        if written is not None and leaf is None and factor == 1.0:
            return repr(written)
        return self.slot(k, which, leaf, factor)

    def _text(self, k: int, o: Operation) -> tuple[str, bool]:
        op = o.op
        match op:
            case Op.ROW | Op.COLUMN:
                return self._second(o.a, Source.COLUMN if op == Op.COLUMN else Source.ROW)
            case Op.CONSTANT:
                return self.slot(k, 0, None), False
        if op in (Op.AFFINE, Op.ADD, Op.MULTIPLY, Op.TANH, *EXPONENTIALS):
            # The statistic's scale and the constant are one number.
            x, full, leaf = self.registers[o.a]
            c = self._number(k, 0, leaf, LOG2E if op in EXPONENTIALS and self.single else 1.0)
        else:
            (x, full), c = self._value(o.a), ""
        d = "" if op in EXPONENTIALS else self._number(k, 1)
        match op:
            case Op.AFFINE:
                return f"{x} * {c} + {d}", full
            case Op.ADD:
                y, _ = self._second(o.b, o.source)
                return _sum(_times(x, c), _times(y, d)), True
            case Op.MULTIPLY:
                y, _ = self._second(o.b, o.source)
                return _sum(f"{_times(x, c)} * {y}", d), True
            case Op.ACCUMULATE:
                total, _ = self._value(o.out)
                y, _ = self._second(o.b, o.source)
                return _sum(total, f"{_times(x, self._number(k, 0))} * {y}"), True
            case Op.DIVIDE:
                y, _ = self._second(o.b, o.source)
                at_zero = self.slot(k, 0, None)
                if self.single:
                    # Both by one factor, since the largest divisors have no inverse among the
                    # normal numbers, nor have those below the normal numbers.
                    factor = self._name()
                    scales = f"tl.where(tl.abs({y}) < {2.0**-60!r}, {2.0**64!r}, 0.25)"
                    self.lines.append(f"{factor} = {scales}")
                    inverse = self._instruction("reciprocal", f"{factor} * {y}")
                    return f"tl.where({y} == 0, {at_zero}, {factor} * {x} * {inverse})", True
                return f"tl.where({y} == 0, {at_zero}, {x} / tl.where({y} == 0, 1, {y}))", True
            case Op.INTEGER_POWER:
                return self._integer_power(x, o.exponent), full
            case Op.REAL_POWER if self.single:
                normal = "_normal" if self.form.above_zero(k) else ""
                if o.exponent:
                    root = self._name()
                    inverse = self._instruction(f"inverse_sqrt{normal}", x)
                    self.lines.append(f"{root} = {inverse}")
                    return self._integer_power(root, o.exponent), full
                log2 = self._instruction(f"log2{normal}", x)
                return f"tl.exp2({self.slot(k, 0, None)} * {log2})", full
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
            f"{e} = tl.maximum({x}, {LOWEST_TANH!r}, propagate_nan=tl.PropagateNan.ALL)",
            f"{e} = {exp}({rate!r} * {e})",
            f"{e} = (1 - {e}) {quotient}",
        ]
        return f"tl.where(tl.abs({x}) < {to!r}, {x} * ({series}), {e})"


def _times(x: str, c: str) -> str:
    """c x, where c is a name or one of the numbers that need no multiplication."""
    return {"1.0": x, "-1.0": f"(-{x})"}.get(c, f"{x} * {c}")


def _sum(x: str, y: str) -> str:
    return x if y in ("0.0", "-0.0") else f"{x} + {y}"


def instruction(name: str) -> list[str]:
    """The text of a function for an instruction."""
    instruction, meaning = INSTRUCTIONS[name]
    if os.environ.get("TRITON_INTERPRET", "").lower() not in ("1", "true", "on", "yes", "y"):
        meaning = (
            f'tl.inline_asm_elementwise("{instruction} $0, $1;", "=f,f", [x], '
            "dtype=tl.float32, is_pure=True, pack=1)"
        )
    return ["@triton.jit", f"def {name}(x):", f"    return {meaning}", "", ""]
