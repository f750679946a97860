"""Working sets of support vector machines as Triton kernels, many machines at once.

One program of the first kernel is one machine: it takes steps within a working set whose part of
the Gram matrix is at hand. The second lets the gradients of all variables follow.
"""
# pyright: reportMissingImports=false, reportIndexIssue=false, reportOperatorIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportGeneralTypeIssues=false

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def _lower(f, i, room, own, g, f2, i2, room2, own2, g2):
    """The smaller f, the earlier of equals, with what belongs to it; and the larger g."""
    other = (f2 < f) | ((f2 == f) & (i2 < i))
    f = tl.where(other, f2, f)
    i = tl.where(other, i2, i)
    room = tl.where(other, room2, room)
    own = tl.where(other, own2, own)
    return f, i, room, own, tl.maximum(g, g2)


@triton.jit
def _higher(gain, j, f, room, curvature, gain2, j2, f2, room2, curvature2):
    """The larger gain, the earlier of equals, with what belongs to it."""
    other = (gain2 > gain) | ((gain2 == gain) & (j2 < j))
    gain = tl.where(other, gain2, gain)
    j = tl.where(other, j2, j)
    f = tl.where(other, f2, f)
    room = tl.where(other, room2, room)
    curvature = tl.where(other, curvature2, curvature)
    return gain, j, f, room, curvature


@triton.jit
def _extremes(F, a, lo, hi, own, at, member):
    """The lowest gradient that can rise, with its place, room and diagonal; the highest to fall."""
    rising = tl.where(member & (a < hi), F, float("inf"))
    falling = tl.where(member & (a > lo), F, float("-inf"))
    return tl.reduce((rising, at, hi - a, own, falling), 0, _lower)


@triton.jit
def _machine(A, F, LO, HI, Q, TARGET, LIMIT, most, size: tl.constexpr):
    """This program's machine: its variables, rows of Q and their diagonal, target and limit."""
    b = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, size)
    place, rows = b * size + at, Q + b * size * size
    f, a, lo, hi = tl.load(F + place), tl.load(A + place), tl.load(LO + place), tl.load(HI + place)
    own = tl.load(rows + at * (size + 1)).to(tl.float64)
    target, limit = tl.load(TARGET + b), tl.minimum(tl.load(LIMIT + b), most)
    return at, place, f, a, lo, hi, rows, own, target, limit


@triton.jit(do_not_specialize=["most"])
def _pairs_kernel(A, F, LO, HI, GROUP, Q, TARGET, LIMIT, STEPS, flat, most, size: tl.constexpr,
                  groups: tl.constexpr):  # fmt: skip
    """Steps of pairs until the violation within the set is small enough."""
    at, place, f, a, lo, hi, rows, own, target, limit = _machine(
        A, F, LO, HI, Q, TARGET, LIMIT, most, size
    )
    group = tl.load(GROUP + place)
    taken = limit * 0
    going = taken < limit
    while going:
        low, i, room, diagonal, high = _extremes(f, a, lo, hi, own, at, group == 0)
        chosen = 0
        if groups == 2:
            low2, i2, room2, diagonal2, high2 = _extremes(f, a, lo, hi, own, at, group == 1)
            second = high2 - low2 > high - low
            low, high = tl.where(second, low2, low), tl.where(second, high2, high)
            i, room = tl.where(second, i2, i), tl.where(second, room2, room)
            diagonal = tl.where(second, diagonal2, diagonal)
            chosen = tl.where(second, 1, 0)
        going = high - low > target
        if going:
            row = tl.load(rows + i * size + at).to(tl.float64)
            curvature = tl.maximum(own + diagonal - 2 * row, flat)
            fall = f - low
            able = (group == chosen) & (a > lo) & (fall > 0)
            gain = tl.where(able, fall * fall / curvature, -1.0)
            gain, j, height, fallen, curved = tl.reduce(
                (gain, at, fall, a - lo, curvature), 0, _higher
            )
            step = tl.minimum(tl.minimum(height / curved, room), fallen)
            other = tl.load(rows + j * size + at).to(tl.float64)
            f += step * (row - other)
            a = tl.where(at == i, tl.where(step >= room, hi, a + step), a)
            a = tl.where(at == j, tl.where(step >= fallen, lo, a - step), a)
            taken += 1
            going = (taken < limit) & (step > 0)
    tl.store(A + place, a)
    tl.store(STEPS + tl.program_id(0), taken)


@triton.jit(do_not_specialize=["most"])
def _singles_kernel(A, F, LO, HI, GROUP, Q, TARGET, LIMIT, STEPS, flat, most, size: tl.constexpr,
                    groups: tl.constexpr):  # fmt: skip
    """The same without sums to keep: one variable at a time."""
    at, place, f, a, lo, hi, rows, own, target, limit = _machine(
        A, F, LO, HI, Q, TARGET, LIMIT, most, size
    )
    own = tl.maximum(own, flat)
    taken = limit * 0
    going = taken < limit
    while going:
        slope = tl.where(((f < 0) & (a < hi)) | ((f > 0) & (a > lo)), tl.abs(f), 0.0)
        # What a step gains; then the slope, and where it would lead.
        bound = tl.where(f < 0, hi, lo)
        end = tl.where(tl.abs(f) >= own * tl.abs(bound - a), bound, a - f / own)
        move = end - a
        gain = tl.where(slope > 0, tl.abs(move) * (2 * tl.abs(f) - own * tl.abs(move)), -1.0)
        gain, i, change, reached, _ = tl.reduce((gain, at, move, end, slope), 0, _higher)
        going = tl.max(slope, 0) > target
        if going:
            f += change * tl.load(rows + i * size + at).to(tl.float64)
            a = tl.where(at == i, reached, a)
            taken += 1
            going = (taken < limit) & (change != 0)
    tl.store(A + place, a)
    tl.store(STEPS + tl.program_id(0), taken)


@triton.jit(do_not_specialize=["length", "n"])
def _follow_kernel(K, COLUMN, F, POINT, AMOUNT, COUNT, length, n, size: tl.constexpr,
                   BLOCK: tl.constexpr, CHUNK: tl.constexpr):  # fmt: skip
    """F[b, v] += Σ_w amount[b, w] K[point[b, w], column[b, v]], for all w of a machine."""
    b = tl.program_id(1).to(tl.int64)
    v = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = v < n
    column = tl.load(COLUMN + b * n + v, mask=inside, other=0)
    count = tl.load(COUNT + b)
    total = tl.zeros((BLOCK,), tl.float64)
    for start in range(0, count, CHUNK):
        at = start + tl.arange(0, CHUNK)
        point = tl.load(POINT + b * size + at, mask=at < count, other=0).to(tl.int64)
        amount = tl.load(AMOUNT + b * size + at, mask=at < count, other=0.0)
        tile = tl.load(K + point[:, None] * length + column[None, :])
        total += tl.sum(amount[:, None] * tile, axis=0).to(tl.float64)
    before = tl.load(F + b * n + v, mask=inside, other=0.0)
    tl.store(F + b * n + v, before + total, mask=inside)


def work(a: Any, F: Any, lo: Any, hi: Any, group: Any, Q: Any, target: Any, limit: Any, steps: Any,
         flat: float, most: int, groups: int) -> None:  # fmt: skip
    """Optimise the variables of working sets with all others held fixed.

    Parameters
    ----------
    a : (B, q) float64 tensor
        Variables of B machines, q a power of two; changed in place.
    F, lo, hi : (B, q) float64 tensors
        Gradients and bounds.
    group : (B, q) int32 tensor
        Which sum each belongs to.
    Q : (B, q, q) float32 tensor
    target : (B,) float64 tensor
        The violation to reach.
    limit, steps : (B,) int32 tensors
        Steps at most, and those taken.
    flat : float
        Curvature below which a direction is flat to rounding.
    most : int
        Steps at most of each.
    groups : 0, 1 or 2
        How many sums there are.
    """
    size = a.shape[1]
    kernel = _pairs_kernel if groups else _singles_kernel
    with torch.cuda.device_of(a):  # which may not be the current one
        kernel[(len(a),)](a, F, lo, hi, group, Q, target, limit, steps, flat, most, size=size,
                          groups=groups, num_warps=max(1, min(8, size // 128)),
                          enable_fp_fusion=True)  # fmt: skip


def follow(K: Any, column: Any, F: Any, point: Any, amount: Any, count: Any) -> None:
    """Add to gradients what a change of few coefficients makes of them, in place.

    Parameters
    ----------
    K : (n, n) float32 tensor
    column : (B, N) int32 tensor
        The point of every variable.
    F : (B, N) float64 tensor
    point : (B, q) int32 tensor
        Points whose coefficients have changed, the first ``count[b]`` of each row.
    amount : (B, q) float32 tensor
        By how much.
    count : (B,) int32 tensor
    """
    block = 128
    grid = (-(-F.shape[1] // block), len(F))
    with torch.cuda.device_of(F):
        _follow_kernel[grid](K, column, F, point, amount, count, K.shape[1], F.shape[1],
                             size=point.shape[1], BLOCK=block, CHUNK=16, num_warps=4,
                             enable_fp_fusion=True)  # fmt: skip
