"""Pairs of points in the native core, and their NumPy twin."""

from __future__ import annotations

import numpy as np

from instruction_levels import module_of
from mercer.core import Kind, Leaf, Op, Program, Source
from mercer.core.reference import interpreter as reference

EPS = {np.float32: 6e-8, np.float64: 1.2e-16}
DTYPES = [np.float32, np.float64]
KINDS = [k for k in Kind if k is not Kind.GIVEN]


def program(*operations, leaves=1, registers=None, result=0):
    """(op, out, a, b, c, d), and the source of b if it is not a register, per operation."""
    rows = [(*o[:4], o[6] if len(o) > 6 else Source.TILE) for o in operations]
    ops = np.array(rows, dtype=np.int32).reshape(-1, 5)
    constants = np.array([o[4:6] for o in operations], dtype=np.float64).reshape(-1, 2)
    return Program(ops, constants, registers or max(leaves, 1), result)


IDENTITY = program()
GAUSSIAN = program((Op.EXP_NEGATIVE, 0, 0, 0, -0.3, 0.0))


def points(rng, n, d, dtype, kind):
    X = rng.normal(size=(n, d))
    if kind in (Kind.MINSUM, Kind.CHI2):
        X = np.abs(X) * (rng.random((n, d)) < 0.7)
    return np.ascontiguousarray(X, dtype=dtype)


def leaf(kind, X, Y, block=None):
    def norms(A):
        return np.einsum("ij,ij->i", A, A).astype(A.dtype)

    return Leaf(kind, X, Y, X, Y, norms(X), norms(Y), block)


def build(level, program, leaves, rows=(), columns=(), n=1, m=1, dtype=np.float64):
    """The native pairs of one level, and their twin."""
    module = module_of(level)
    kind = module.Pairs32 if dtype == np.float32 else module.Pairs64
    native = kind(
        program.operations,
        program.constants,
        program.registers,
        program.result,
        [(int(entry.kind), *entry[1:]) for entry in leaves],
        list(rows),
        list(columns),
        n,
        m,
    )
    return native, reference.Pairs(program, leaves, rows, columns, n, m, dtype)


def gram(pairs, n, m, dtype, symmetric=False, threads=2):
    out = np.full((n, m), np.nan, dtype=dtype)
    pairs.gram(out, symmetric, threads)
    return out
