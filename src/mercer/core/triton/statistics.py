"""The statistics of a tile in a Triton kernel.

Dot products and squared distances are formed in the matrix unit, the others feature by feature.
"""

from __future__ import annotations

import numpy as np

from mercer.core.programs import Kind
from mercer.core.reference.interpreter import NEAR
from mercer.core.triton.forms import LeafForm, TileForm

# Up to so many features the rows' are kept in registers.
KEPT = 32
# A one that the compiler does not know, and so does not make a sum and a product one instruction of
# the matrix unit again.
UNKNOWN_ONE = "one = tl.where(n > 0, 1.0, 0.0)"
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


def _chunks(width: int) -> list[tuple[int, int]]:
    """Where powers of two that add up to a multiple of 16 begin, and how large they are."""
    found, start = [], 0
    while start < width:
        size = min(128, 1 << ((width - start).bit_length() - 1))
        found.append((start, size))
        start += size
    return found


def times(k: int, count: str) -> str:
    """Where the k-th of rows of so many numbers begins, which may be beyond 32 bits."""
    return f"tl.cast({count}, tl.int64) * {k}"


class Statistics:
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
            elif self.form.feels_its_sign(i):
                self.after.append(f"s{i} = tl.minimum(s{i}, 0)")

    def _dot(self, out: str, x: str, y: str, start: str, leaf: LeafForm) -> str:
        precision = "" if leaf.precision == "fp16" else f', input_precision="{leaf.precision}"'
        kind = "tl.float64" if self.form.dtype == "float64" else "tl.float32"
        start = f", {start}" if start else ""
        return f"{out} = tl.dot({x}, tl.trans({y}){start}{precision}, out_dtype={kind})"

    def _resident(self, i: int, leaf: LeafForm, norms: bool) -> None:
        start = f"u{i} + w{i}" if norms else ""  # what the sums begin with
        for begin, size in _chunks(leaf.width):
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
                self._dot(f"s{i}", f"x{i}_{begin}", f"b{i}_{begin}", start, leaf),
            ]
            start = f"s{i}"

    def _looped(self, i: int, leaf: LeafForm, distance: bool) -> None:
        place = f"tl.arange(0, {leaf.step})[None, :]"
        self.before += [
            f"x{i} = X{i} + (rows.to(tl.int64) * {leaf.width})[:, None] + {place}",
            f"y{i} = Y{i} + tl.arange(0, BN)[:, None] * {leaf.width} + {place}",
        ]
        self.inside.append(f"z{i} = y{i} + tl.cast(j, tl.int64) * (BN * {leaf.width})")
        x, y = f"tl.load(x{i} + f)", f"tl.load(z{i} + f)"
        begun = self._fresh(leaf)
        if begun:
            self.before += [] if UNKNOWN_ONE in self.before else [UNKNOWN_ONE]
            self.inside += [
                f"s{i} = tl.zeros((BM, BN), {self._type})",
                f"for f in range(0, {begun}, {leaf.step}):",
                f"    {self._dot(f't{i}', x, y, '', leaf)}",
                f"    s{i} += t{i} * one",
            ]
        if begun < leaf.width:
            total = f"t{i}" if begun else f"s{i}"
            self.inside += [
                f"{total} = tl.zeros((BM, BN), {self._type})",
                f"for f in range({begun}, {leaf.width}, {leaf.step}):",
                f"    {self._dot(total, x, y, total, leaf)}",
            ]
            self.inside += [f"s{i} += {total}"] if begun else []
        # After the sum: compared with the norms, each of its many terms would be rounded.
        if distance:
            self.inside.append(f"s{i} = s{i} + (u{i} + w{i})")

    @staticmethod
    def _fresh(leaf: LeafForm) -> int:
        """Numbers whose products are summed outside the matrix unit, step by step.

        In float32 its accumulator cuts digits off where addition would round them, so that errors
        of one sign add up. Of numbers in two parts, the products of the first parts count.
        """
        if leaf.precision == "ieee" or leaf.chained:
            return 0
        count = -(-leaf.width // 3) if leaf.precision == "fp16" else leaf.width
        return -(-count // leaf.step) * leaf.step

    @property
    def _type(self) -> str:
        return f"tl.{self.form.dtype}"

    def _differences_where_near(self, i: int, leaf: LeafForm) -> None:
        """Tiles in which points nearly coincide are summed from differences, there."""
        self.arguments += [f"A{i}", f"B{i}"]
        near = NEAR[np.dtype(self.form.dtype)]
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
                place = f"A{source} + {times(k, 'n')} + rows"
                self.before.append(f"a{source}_{k} = tl.load({place})[:, None]")
            for k in range(0, features, stride):
                for f in range(k, k + stride):
                    place = f"B{source} + {times(f, 'm')} + columns"
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
