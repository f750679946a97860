"""How a value is taken apart for a file, and made again from its parts.

Parts are None, truth values, numbers and text, which stand in a file as they are; arrays of numbers
(`Raw`); and values that have a form themselves. Whatever a file says is checked when a value is
made, whoever wrote it, and the only code that runs is below and in the classes of `registry`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from mercer.persistence import limits

# Kinds of numbers that files have; others are stored as bytes.
PLAIN = ("?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")
# Text, bytes, dates, durations, complex numbers.
AS_BYTES = "USMmc"
BUILTIN = {"bool": bool, "float": float, "int": int, "object": object, "str": str}


class Unsavable(TypeError):
    """A value that a file cannot hold; the message begins with the verb."""


class Raw(NamedTuple):
    """Numbers of a kind that files have, contiguous."""

    array: np.ndarray


class Form(NamedTuple):
    """How values of a kind are taken apart, and made of their parts again."""

    parts: Callable[[Any], Any]
    make: Callable[..., Any]


def require(is_so: Any, otherwise: str) -> None:
    """Refuse what a file says."""
    if not is_so:
        raise ValueError(otherwise)


# Arrays.


def _array_parts(a: np.ndarray) -> list[Any]:
    """Numbers in the order in which they lie in memory, by which BLAS rounds; then that order."""
    if a.dtype == object:
        return [None, "object", list(a.shape), "", *a.ravel().tolist()]
    a = np.asarray(a, dtype=a.dtype.newbyteorder("<"))
    if (a.dtype.kind not in AS_BYTES and a.dtype not in PLAIN) or a.dtype.char == "G":
        raise Unsavable(f"is an array of the kind {a.dtype}, which a file cannot hold")
    axes = sorted(range(a.ndim), key=lambda k: -abs(a.strides[k]))
    back = [a.strides[k] < 0 for k in range(a.ndim)]
    order = " ".join(f"{'-' if back[k] else '+'}{k}" for k in axes)
    order = "" if axes == sorted(axes) and not any(back) else order
    a = np.ascontiguousarray(_turned(a, back).transpose(axes)).reshape([a.shape[k] for k in axes])
    if a.dtype in PLAIN:
        return [Raw(a), "", None, order]
    numbers = np.frombuffer(bytearray(a.tobytes()), dtype=np.uint8)
    return [Raw(numbers), a.dtype.str, list(a.shape), order]


def _array(raw: Any, kind: Any, shape: Any, order: Any, *items: Any) -> np.ndarray:
    if kind == "object":
        require(raw is None and _is_shape(shape), "an array of objects has no shape")
        a = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            a[i] = item
        return a.reshape(shape)
    require(isinstance(raw, np.ndarray) and not items, "an array has no numbers")
    a = raw
    if kind:
        dtype = np.dtype(str(kind))
        require(dtype.kind in AS_BYTES and dtype.itemsize, f"an array has the kind {dtype}")
        require(a.dtype == np.uint8 and a.ndim == 1 and _is_shape(shape), "an array has no shape")
        if dtype.kind == "U":
            letters = a.view("<u4")
            require(np.all(letters < 0x110000), "a text has a letter that is none")
        a = a.view(dtype).reshape(shape)
    if not order:
        return a
    steps = str(order).split()
    axes = [int(step[1:]) for step in steps]
    require(sorted(axes) == list(range(a.ndim)), "the axes of an array are numbered wrongly")
    a = a.transpose(np.argsort(axes))
    return _turned(a, [f"-{k}" in steps for k in range(a.ndim)])


def _turned(a: np.ndarray, back: list[bool]) -> np.ndarray:
    return a[tuple(slice(None, None, -1 if turned else 1) for turned in back)]


def _is_shape(shape: Any) -> bool:
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        return False
    refuse_empty(shape)
    return True


def refuse_empty(shape: Sequence[int]) -> None:
    """Raise where an array without entries has axes that nothing in the file stands for."""
    size = math.prod(n for n in shape if n) if 0 in shape else 0
    require(size <= limits.LARGEST_EMPTY, "an array without entries has axes that are too long")


def is_vector(a: Any, kinds: str) -> bool:
    """Whether this is an array of shape (n,) of some kind of numbers."""
    return isinstance(a, np.ndarray) and a.ndim == 1 and a.dtype.kind in kinds


SPARSE = {
    (form, cls.__name__.endswith("array")): cls
    for form, classes in {
        "csr": (sp.csr_array, sp.csr_matrix),
        "csc": (sp.csc_array, sp.csc_matrix),
    }.items()
    for cls in classes
}


def _sparse_parts(A: Any) -> list[Any]:
    is_array = isinstance(A, sp.sparray)
    return [A.format, is_array, list(A.shape), A.data, A.indices, A.indptr]


def _sparse(form: Any, is_array: Any, shape: Any, data: Any, indices: Any, indptr: Any) -> Any:
    require(_is_shape(shape) and len(shape) == 2, "a sparse matrix has no shape")
    require(max(shape) <= limits.LARGEST_EMPTY, "a sparse matrix has axes that are too long")
    require(is_vector(data, "biuf"), "a sparse matrix does not hold numbers")
    require(is_vector(indices, "i") and is_vector(indptr, "i"), "its places are not integers")
    A = SPARSE[form, is_array]((data, indices, indptr), shape=tuple(shape))
    A.check_format(full_check=True)
    return A


# Single numbers, their types, and where random ones come from.


def _number(a: Any) -> Any:
    require(isinstance(a, np.ndarray) and a.ndim == 0 and a.dtype != object, "a number is none")
    return a[()]


def _type_parts(cls: type) -> list[Any]:
    if cls.__name__ in BUILTIN and BUILTIN[cls.__name__] is cls:
        return [cls.__name__]
    if issubclass(cls, np.generic):
        return [f"numpy {np.dtype(cls).str}"]
    raise Unsavable(f"is the class {cls.__qualname__}; a file holds objects, not classes")


def _type(name: Any) -> type:
    library, _, kind = str(name).partition(" ")
    return _dtype(kind).type if library == "numpy" else BUILTIN[name]


def _dtype(name: Any) -> np.dtype:
    dtype = np.dtype(str(name))
    require(dtype in PLAIN or dtype.kind in "O" + AS_BYTES, f"{dtype} is no kind of number")
    return dtype


def _random_state(name: Any, key: Any, pos: Any, has_gauss: Any, gauss: Any) -> Any:
    require(name == "MT19937", "a random state is not one of NumPy's")
    require(_is_mersenne_key(key) and _is_within(pos, 624), "a random state is damaged")
    require(_is_within(has_gauss, 1) and type(gauss) is float, "a random state is damaged")
    made = np.random.RandomState(0)
    made.set_state((name, key, pos, has_gauss, gauss))
    return made


def _generator(state: Any) -> np.random.Generator:
    known = isinstance(state, dict) and state.get("bit_generator") in GENERATORS
    require(known, "a generator is not one of NumPy's")
    fields = GENERATORS[state["bit_generator"]]
    require(_has_fields(state, {"bit_generator": _is_name, **fields}), "a generator is damaged")
    made = np.random.Generator(getattr(np.random, state["bit_generator"])(0))
    made.bit_generator.state = state
    return made


# NumPy takes the states of its generators as they are and reads memory by them: every field of one
# that comes from a file is checked. States that repeat zero forever are refused, too: a draw that
# waits for another number would never end.


def _is_within(value: Any, largest: int) -> bool:
    return type(value) is int and 0 <= value <= largest


def _is_name(value: Any) -> bool:
    return isinstance(value, str)


def _is_words(value: Any, dtype: Any, size: int) -> bool:
    return isinstance(value, np.ndarray) and value.dtype == dtype and value.shape == (size,)


def _is_mersenne_key(value: Any) -> bool:
    """Whether this is a state of MT19937, of whose first word only the highest bit counts."""
    return _is_words(value, np.uint32, 624) and bool(value[0] >> 31 or np.any(value[1:]))


def _is_odd(value: Any) -> bool:
    return _is_within(value, 2**128 - 1) and value % 2 == 1


def _has_fields(state: Any, fields: dict[str, Any]) -> bool:
    """Whether a dict has these fields and no others, each as its test or its own fields say."""
    if not isinstance(state, dict) or set(state) != set(fields):
        return False
    return all(
        _has_fields(state[name], test) if isinstance(test, dict) else test(state[name])
        for name, test in fields.items()
    )


def _words(dtype: Any, size: int) -> Callable[[Any], bool]:
    return lambda value: _is_words(value, dtype, size)


def _within(largest: int) -> Callable[[Any], bool]:
    return lambda value: _is_within(value, largest)


_HALF: dict[str, Any] = {"has_uint32": _within(1), "uinteger": _within(2**32 - 1)}
_PCG: dict[str, Any] = {"state": {"state": _within(2**128 - 1), "inc": _is_odd}}
GENERATORS: dict[str, dict[str, Any]] = {
    "MT19937": {"state": {"key": _is_mersenne_key, "pos": _within(624)}},
    "PCG64": {**_PCG, **_HALF},
    "PCG64DXSM": {**_PCG, **_HALF},
    "Philox": {
        "state": {"counter": _words(np.uint64, 4), "key": _words(np.uint64, 2)},
        "buffer": _words(np.uint64, 4),
        "buffer_pos": _within(4),
        **_HALF,
    },
    "SFC64": {"state": {"state": _words(np.uint64, 4)}, **_HALF},
}


def _generator_parts(generator: np.random.Generator) -> list[Any]:
    return [generator.bit_generator.state]


# Containers.


def _dict_parts(value: dict) -> list[Any]:
    return [part for pair in value.items() for part in pair]


def _dict(*parts: Any) -> dict:
    return dict(zip(parts[::2], parts[1::2], strict=True))


def _bytes_parts(value: bytes) -> list[Any]:
    return [np.frombuffer(bytearray(value), dtype=np.uint8)]


def _bytes(a: Any) -> bytes:
    require(is_vector(a, "u") and a.dtype == np.uint8, "bytes are none")
    return a.tobytes()


def _ends(value: Any) -> list[Any]:
    return [value.start, value.stop, value.step]


def _range(*ends: Any) -> range:
    """A range, which takes no memory until it is a list."""
    made = range(*ends)
    require(not made[limits.LONGEST_RANGE :], "a range is too long")
    return made


FORMS = {
    "array": Form(_array_parts, _array),
    "bytes": Form(_bytes_parts, _bytes),
    "complex": Form(lambda z: [z.real, z.imag], complex),
    "dict": Form(_dict_parts, _dict),
    "dtype": Form(lambda dtype: [_dtype(dtype).str], _dtype),
    "frozenset": Form(list, lambda *items: frozenset(items)),
    "generator": Form(_generator_parts, _generator),
    "list": Form(list, lambda *items: list(items)),
    "number": Form(lambda value: [np.asarray(value)], _number),
    "random state": Form(lambda state: list(state.get_state()), _random_state),
    "range": Form(_ends, _range),
    "set": Form(list, lambda *items: set(items)),
    "slice": Form(_ends, slice),
    "sparse": Form(_sparse_parts, _sparse),
    "tuple": Form(list, lambda *items: items),
    "type": Form(_type_parts, _type),
}

KINDS: dict[type, str] = {
    bytes: "bytes",
    complex: "complex",
    dict: "dict",
    frozenset: "frozenset",
    list: "list",
    np.memmap: "array",
    np.ndarray: "array",
    np.random.Generator: "generator",
    np.random.RandomState: "random state",
    range: "range",
    set: "set",
    slice: "slice",
    tuple: "tuple",
    **dict.fromkeys(SPARSE.values(), "sparse"),
}


def plain_kind(value: Any) -> str | None:
    """The name of the form of a value of Python's, NumPy's or SciPy's; None of others."""
    if isinstance(value, np.generic):
        return "number"
    if isinstance(value, np.dtype):
        return "dtype"
    if isinstance(value, type):
        return "type"
    return KINDS.get(type(value))
