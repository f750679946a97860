"""Files: written whole or not at all, and read with a suspicious eye.

A file is in the safetensors format. Its metadata are one header in JSON, with the version of this
format, the versions of the classes in it and a checksum of the whole file; its tensors are the
arrays of the model and, under the name ``records``, the JSON text of the other parts.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import warnings
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from inspect import isroutine
from typing import Any

import numpy as np
import sklearn
from safetensors import SafetensorError
from safetensors import numpy as safetensors
from sklearn.base import BaseEstimator
from sklearn.exceptions import InconsistentVersionWarning

import mercer
from mercer.kernels import Kernel
from mercer.persistence import format_1, limits, registry
from mercer.persistence.forms import refuse_empty, require
from mercer.persistence.libsvm import is_libsvm
from mercer.persistence.objects import is_users
from mercer.persistence.records import FORMS, Packed, named_in, refuse_large, unpacked
from mercer.persistence.registry import class_name
from mercer.whole_files import read_regular, write_whole

VERSION = 2
# Stands in the file while its checksum is taken.
NO_CHECKSUM = "0" * 64


def save(
    estimator: Any, path: str | os.PathLike, *, notes: Mapping[str, Any] | None = None
) -> None:
    """Write an estimator or a kernel, fitted or not, to a file that holds no code.

    The file appears whole or not at all: until it is complete, one that was there before stays.
    Functions, losses and kernels that users wrote are not data; the file names them, a warning
    says so, and `load` has to be given them again.

    Parameters
    ----------
    estimator : estimator of mercer, kernel, feature map, or a pipeline that holds one
        Of scikit-learn, pipelines and the usual preprocessing can be saved; the user guide lists
        them.
    path : str or path
    notes : dict, optional
        Anything JSON can hold, to be read with `read_notes`.

    Raises
    ------
    TypeError
        If the estimator holds something that a file cannot; the message says where.

    Examples
    --------
    >>> import mercer, os, tempfile
    >>> model = mercer.KernelRidge(kernel="rbf").fit([[0.0], [1.0]], [1.0, 3.0])
    >>> path = os.path.join(tempfile.mkdtemp(), "model.mercer")
    >>> mercer.save(model, path)
    >>> bool((mercer.load(path).predict([[0.5]]) == model.predict([[0.5]])).all())
    True
    """
    if not _is_root(estimator):
        raise TypeError(
            "a file holds an estimator or a kernel of mercer's, or a pipeline with one; got "
            f"{estimator!r:.80} of the class {type(estimator).__qualname__}"
        )
    packed = Packed(estimator, type(estimator).__name__)
    _refuse_unreadable(packed)
    if packed.functions:
        _warn_of_functions(packed)
    header = {
        "sha256": NO_CHECKSUM,
        "version": VERSION,
        "class": class_name(type(estimator)),
        "functions": packed.places,
        "written": {n: _written(v) for n, v in packed.functions.items() if _is_object(v)},
        "mercer": mercer.__version__,
        "notes": dict(notes or {}),
        "scikit-learn": sklearn.__version__,
        "versions": packed.versions(),
    }
    _refuse_depth(header["notes"])
    tensors = {**packed.tensors, "records": _as_bytes(packed.records)}
    data = safetensors.save(tensors, metadata={"mercer": _text(header)})
    if _split(data) > limits.LARGEST_HEADER:
        raise ValueError(
            f"the header would have {_split(data):,} bytes, and files may have "
            f"{limits.LARGEST_HEADER:,}: shorten the notes"
        )
    write_whole(path, *_signed(data))


def load(path: str | os.PathLike, *, functions: Mapping[str, Any] | None = None) -> Any:
    """Read what `save` wrote; nothing in the file is run, and nothing is imported for it.

    Parameters
    ----------
    path : str or path
    functions : dict of str to function, Loss or kernel, optional
        What the file names without holding it: functions, and objects as they were saved, with
        the same parameters.

    Returns
    -------
    object
        Of the class that was saved; its predictions have the same bits.

    Raises
    ------
    ValueError
        If the file is damaged, of another kind, of a later version, or lacks a function.
    OSError
        If it cannot be read.
    """
    functions = functions or {}
    for name, value in functions.items():
        if not is_users(value):
            raise TypeError(f"functions[{name!r}] is a {type(value).__name__}, not a function")
    with _naming(path):
        header, records, tensors = _opened(path)
        _refuse_missing(header["functions"], functions)
        _compare(header["written"], functions)
        made = unpacked(records, tensors, functions, header["versions"])
        require(_is_root(made), f"it holds a {type(made).__name__}")
        held = class_name(type(made))
        require(
            held == header["class"], f"its header says {header['class'][:80]!r}, it holds {held}"
        )
    _warn_of_version(header["versions"], header["scikit-learn"])
    return made


def read_notes(path: str | os.PathLike) -> dict[str, Any]:
    """The notes that were saved with a model.

    Raises
    ------
    ValueError, OSError
        As `load`.
    """
    with _naming(path):
        return _read(path)[0]["notes"]


def inspect(path: str | os.PathLike) -> dict[str, Any]:
    """What a model file holds, as plain data; nothing in it is made.

    Returns
    -------
    dict
        ``class``, the versions that wrote it, ``functions`` that `load` has to be given, ``notes``,
        ``classes`` and ``forms`` of its records with how often each is there (``unknown`` are those
        that `load` refuses), ``arrays`` with the type, shape and bytes of each.

    Raises
    ------
    ValueError, OSError
        As `load`.

    Examples
    --------
    >>> import mercer, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "kernel.mercer")
    >>> mercer.save(mercer.kernels.RBF(), path)
    >>> inspect(path)["classes"]
    {'kernel.RBF': 1}
    """
    with _naming(path):
        header, records, tensors = _opened(path)
        refuse_large(records)
    kinds = Counter(_listed(record[0], FORMS) for record in records)
    named = Counter(_listed(name, registry.ids()) for r in records for name in named_in(r))
    return {
        "class": header["class"],
        "format": header["version"],
        "mercer": header["mercer"],
        "scikit-learn": header["scikit-learn"],
        "functions": header["functions"],
        "notes": header["notes"],
        "classes": dict(sorted(named.items())),
        "forms": dict(sorted(kinds.items())),
        "arrays": {
            name: {"type": str(a.dtype), "shape": list(a.shape), "bytes": a.nbytes}
            for name, a in tensors.items()
        },
    }


def _listed(name: Any, known: Container[str]) -> str:
    return name if isinstance(name, str) and name in known else "unknown"


@contextlib.contextmanager
def _naming(path: str | os.PathLike) -> Iterator[None]:
    try:
        yield
    except (MemoryError, ValueError) as error:
        text = shown(str(error) or type(error).__name__)
        raise ValueError(f"{os.fspath(path)} cannot be loaded: {text}") from error


def shown(text: str, longest: int = limits.LONGEST_MESSAGE) -> str:
    """Text of a file in a line that a terminal shows and does not obey, shortened."""
    line = " ".join(text[: longest + 1].split())
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    return line if len(line) <= longest else f"{line[:longest]}…"


def _refuse_unreadable(packed: Packed) -> None:
    """Raise where `load` would refuse the file for its size."""
    try:
        refuse_large(packed.records)
        _refuse_many(packed.tensors, packed.places)
    except ValueError as error:
        raise TypeError(f"it cannot be saved, for `load` would refuse it: {error}") from error


def _refuse_many(tensors: Any, functions: Any) -> None:
    require(len(tensors) <= limits.MOST_ARRAYS, f"it has {len(tensors):,} arrays")
    require(len(functions) <= limits.MOST_FUNCTIONS, f"it names {len(functions):,} functions")


def _refuse_depth(notes: Any) -> None:
    """Raise where notes have more levels than programs that print them can bear."""
    level = [notes]
    for _ in range(limits.DEEPEST_NOTES):
        level = [
            item
            for held in level
            if isinstance(held, dict | list | tuple)
            for item in (held.values() if isinstance(held, dict) else held)
        ]
    require(not level, f"its notes are more than {limits.DEEPEST_NOTES} levels deep")


def _is_root(value: Any) -> bool:
    """Whether a file may hold this without help from the caller."""
    return isinstance(value, BaseEstimator | Kernel) and class_name(type(value)) is not None


# Functions, which stay outside.


def _warn_of_functions(packed: Packed) -> None:
    named = ", ".join(f"{name!r} ({place})" for name, place in packed.places.items())
    warnings.warn(
        f"code cannot be saved; the file names but does not hold {named}: give it again with "
        "load(path, functions={name: function})",
        stacklevel=3,
    )


def _refuse_missing(wanted: dict[str, Any], functions: Mapping[str, Any]) -> None:
    missing = {name: place for name, place in wanted.items() if name not in functions}
    if missing:
        named = ", ".join(f"{name!r} (as {place})" for name, place in missing.items())
        raise ValueError(
            f"it was saved with code of yours, which files do not hold: {named}. Give it again: "
            f"load(path, functions={{{next(iter(missing))!r}: ...}})"
        )


def _is_object(value: Any) -> bool:
    """Whether it is an object of a class of the user's, which may have parameters."""
    return not isinstance(value, type) and not isroutine(value)


def _written(value: Any) -> str:
    """An object as its class writes it, with its parameters; nothing if that is not known."""
    return "" if type(value).__repr__ is object.__repr__ else repr(value)


def _compare(written: dict[str, str], functions: Mapping[str, Any]) -> None:
    """Refuse what cannot stand for an object that was saved; warn of other parameters."""
    for name, text in written.items():
        given = functions.get(name)
        if not _is_object(given):
            what = f"the class {given.__name__}" if isinstance(given, type) else "a function"
            raise TypeError(
                f"functions[{name!r:.80}] is {what}; give an object as was saved"
                + (f": {shown(text)}" if text else f", {shown(name)}(...)")
            )
        if text and _written(given) != text:
            warnings.warn(
                f"the file was saved with {shown(text)}, and functions[{name!r}] is "
                f"{shown(_written(given))}: "
                "the model is another one",
                stacklevel=3,
            )


def _warn_of_version(versions: Mapping[str, int], then: str) -> None:
    """What scikit-learn keeps to itself may change from one version to the next."""
    now = sklearn.__version__
    theirs = [name for name in versions if registry.is_theirs(name)]
    if theirs and then != now:
        warnings.warn(
            InconsistentVersionWarning(
                estimator_name=theirs[-1],
                current_sklearn_version=now,
                original_sklearn_version=shown(then, 40),
            ),
            stacklevel=3,
        )


# Bytes.


def _text(value: Any) -> str:
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _as_bytes(records: list) -> np.ndarray:
    return np.frombuffer(_text(records).encode("ascii"), dtype=np.uint8)


def _from_bytes(raw: Any) -> Any:
    if raw is None or raw.dtype != np.uint8:
        raise ValueError("it holds no records")
    return _parsed(raw.tobytes())


def _parsed(text: bytes | str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_number)
    except (RecursionError, ValueError) as error:
        raise ValueError(f"its text is damaged ({type(error).__name__})") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, in which no name occurs twice."""
    found = dict(pairs)
    require(len(found) == len(pairs), "a name is there twice")
    return found


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON's")


def _split(data: bytes) -> int:
    """Where the tensors begin."""
    return 8 + int.from_bytes(data[:8], "little")


def _field(checksum: str) -> bytes:
    """How a checksum stands in a file: at the beginning of a JSON text within another."""
    return json.dumps(f'{{"sha256":"{checksum}"')[1:-1].encode()


def _digest(data: bytes, checksum: str) -> str:
    """The checksum of a file, itself left out."""
    at = _split(data)
    found = hashlib.sha256(data[:at].replace(_field(checksum), _field(NO_CHECKSUM), 1))
    found.update(memoryview(data)[at:])
    return found.hexdigest()


def _signed(data: bytes) -> tuple[bytes, bytes, memoryview]:
    """A file with its checksum, in parts that are not copied."""
    at = data.index(_field(NO_CHECKSUM))
    field = _field(_digest(data, NO_CHECKSUM))
    return data[:at], field, memoryview(data)[at + len(field) :]


def _opened(path: str | os.PathLike) -> tuple[dict[str, Any], Any, dict[str, np.ndarray]]:
    """The header, the records and the arrays of a file, as version 2 of the format has them."""
    header, tensors = _read(path)
    records = _from_bytes(tensors.pop("records", None))
    require(isinstance(records, list) and records, "it holds no records")
    if header["version"] == 1:
        format_1.translated(header, records)
    return header, records, tensors


def _read(path: str | os.PathLike) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The header and the tensors of a file that is whole and of a version we know."""
    data = read_regular(path)
    require(not is_libsvm(data), "it is a model of LIBSVM's, which mercer.read_libsvm reads")
    at = _split(data)
    require(len(data) >= at > 8, "it is damaged, or of another format")
    require(at <= limits.LARGEST_HEADER, f"its header has {at:,} bytes")
    described = _parsed(data[8:at])
    require(isinstance(described, dict), "it is damaged, or of another format")
    metadata = described.get("__metadata__", {})
    _refuse_many(described, ())
    try:
        tensors = safetensors.load(data)
    except (SafetensorError, KeyError, TypeError, OverflowError, MemoryError) as error:
        raise ValueError(f"it is damaged, or of another format ({error})") from error
    require("mercer" in metadata, "it is a safetensors file that mercer did not write")
    header = _checked_header(_parsed(metadata["mercer"]))
    if _digest(data, header["sha256"]) != header["sha256"]:
        raise ValueError("it is damaged: its checksum is wrong")
    for name, array in tensors.items():
        truths = array.dtype != bool or np.all(array.view(np.uint8) <= 1)
        require(truths, f"the array {name[:80]!r} has truth values that are none")
        refuse_empty(array.shape)
    return header, tensors


def _checked_header(header: Any) -> dict[str, Any]:
    require(isinstance(header, dict), "it has no header")
    version = header.get("version")
    if type(version) is not int or not 1 <= version <= VERSION:
        raise ValueError(
            f"it has the format {version!r:.20}, and this mercer ({mercer.__version__}) reads "
            f"1 to {VERSION}; use the mercer that wrote it, or a later one"
        )
    kinds = {
        "sha256": str,
        "class": str,
        "functions": dict,
        "mercer": str,
        "notes": dict,
        "scikit-learn": str,
    }
    if version > 1:
        kinds["versions"] = dict
    for key, kind in kinds.items():
        require(isinstance(header.get(key), kind), f"its header has no {key!r}")
    written = header.setdefault("written", {})
    require(isinstance(written, dict) and set(written) <= set(header["functions"]), "'written'")
    require(all(isinstance(text, str) for text in written.values()), "'written'")
    _refuse_many((), header["functions"])
    _refuse_depth(header["notes"])
    names = [header[key] for key in ("class", "mercer", "scikit-learn")]
    names += [*header["functions"], *header["functions"].values(), *header.get("versions", ())]
    for name in names:
        require(isinstance(name, str), "its header has a name that is no text")
        require(len(name) <= limits.LONGEST_NAME, f"its header has a name of {len(name):,} letters")
    versions = header.get("versions", {}).values()
    require(all(type(n) is int and n >= 1 for n in versions), "its header has no versions")
    return header
