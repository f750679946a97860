"""The text of a Triton kernel, from its statistics, its epilogue and what is made of tiles.

A kernel walks over tiles of pairs. In each it forms the statistics, runs the program on them and
consumes the values: summed against the columns of a product, stored, or taken to a log-sum-exp.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from mercer.core.programs import Kind
from mercer.core.triton.epilogue import Epilogue, instruction
from mercer.core.triton.forms import Slot, TileForm
from mercer.core.triton.statistics import Statistics, times

STAGES = 3  # tiles whose features are on their way at once
# No number is below these, and none has an infinite difference from itself.
LOWEST = {"float32": -(2 - 2.0**-23) * 2.0**127, "float64": -sys.float_info.max}


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


class _Tile:
    """A tile of values: arguments, what is loaded before the loop over tiles, and its body."""

    def __init__(self, form: TileForm):
        statistics, self.epilogue = Statistics(form), Epilogue(form)
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
        # Features of the next tiles are fetched meanwhile, as operands of the matrix unit are
        # anyway; the quotients of chi-squared take so long that nothing waits for them.
        self.tiles = "range(first, last)"
        if all(not leaf.width and leaf.kind != Kind.CHI2 for leaf in form.leaves):
            self.tiles = f"tl.range(first, last, num_stages={STAGES})"
        self.body = [
            "columns = j * BN + tl.arange(0, BN)",
            *statistics.inside,
            *after,
            *(f"column{t} = tl.load(C{t} + columns)" for t in columns),
            *self.epilogue.lines,
            f"value = {self.epilogue.result}",
        ]


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
        *(line for name in sorted(tile.instructions) for line in instruction(name)),
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
            f"    for j in {tile.tiles}:",
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
            f"v = tl.load(V + {times(c, 'm')} + columns)",
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
    """The largest value of each row and the sum of exponentials: ``out[split, 2, row]``.

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
