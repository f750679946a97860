"""Data from files of all the kinds that the command takes, each with its own reader."""

from __future__ import annotations

import codecs
import contextlib
import difflib
import gzip
import io
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mercer.memory_errors import explained
from mercer.tables.columnar import feather_size, parquet_size
from mercer.tables.frames import read_feather, read_json, read_parquet, read_spreadsheet
from mercer.tables.identifiers import NAMES_SEQUENCES, why_identifier
from mercer.tables.limits import MAX_GIB, refuse_gaps
from mercer.tables.text import Table, names_are_values, read_table
from mercer.whole_files import read_regular

LIBSVM_LINE = re.compile(rb"\s*[-+.\deE]+(\s+\d+:[-+.\deE]+)*\s*(#.*)?")
JSON = re.compile(rb"\s*(\{|\[\s*[\[{])")
# How text begins that is not UTF-8 and says so; the longer marks begin as the shorter ones do.
WIDE_TEXT = {
    (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE): "utf-32",
    (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE): "utf-16",
}

# Formats whose text may be in an encoding other than UTF-8.
TEXT_FORMATS = ("csv", "tsv", "libsvm", "fasta", "jsonl")
GROUPS_ROWS = "it groups the rows (--group)"
FEWER_ROWS = "give a file with fewer rows or columns, or use a machine with more memory"


@dataclass(frozen=True)
class Data:
    """Points, and targets if they are there.

    Attributes
    ----------
    X : DataFrame, array, CSR matrix or list of graphs
    y : array or None
    source : str
        The name of the file.
    target : str or None
        What the targets are called.
    held_out : tuple (X, y) or None
        Points to test on, where the file says which.
    left_out : dict of str to str
        Columns that are not used, and why.
    is_text : bool
        Whether numbers were read from text, which does not tell 1 from 1.0.
    names : dict of str to array
        What the points are called, where the file says it.
    repeated : dict of str to list of str
        Names that several columns have in the file, and what these are called here.
    read_as : dict of str to str
        Columns of numbers with marks, each with an example: "$12.30 as 12.30".
    groups : array or None
        The group of each row; rows of one group are not split.
    times : array or None
        The time of each row, as numbers; later rows are tested on.
    notes : tuple of str
        Remarks on how the file was read.
    """

    X: Any
    y: Any = None
    source: str = ""
    target: str | None = None
    held_out: tuple[Any, Any] | None = None
    left_out: dict[str, str] | None = None
    is_text: bool = False
    names: dict[str, np.ndarray] = field(default_factory=dict)
    repeated: dict[str, list[str]] = field(default_factory=dict)
    read_as: dict[str, str] = field(default_factory=dict)
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str] | None:
        return [str(name) for name in self.X.columns] if hasattr(self.X, "columns") else None

    @property
    def width(self) -> int:
        """The number of features, 0 of graphs."""
        return self.X.shape[1] if hasattr(self.X, "shape") else 0


def read(
    path: str,
    form: str | None = None,
    header: bool = True,
    target: str | None = None,
    max_gib: float = MAX_GIB,
    encoding: str | None = None,
) -> Data:
    """The data of a file, of a folder of graphs, or of standard input where the path is "-".

    Parameters
    ----------
    path : str
    form : name of a reader, or None to go by the file's name, or by what it begins with
    header : bool
        Whether the first line of a table names its columns.
    target : str or None
        The column to be learnt; its name, or its position.
    max_gib : float
        GiB that a compressed file may have when it is unpacked.
    encoding : str or None
        Of text; None for UTF-8, or Windows-1252 for text that is not UTF-8.
    """
    if path != "-" and Path(path).is_dir():
        return _chosen(_graphs(path), path, target)
    content = standard_input() if path == "-" else _file(path)
    if form not in (None, *READERS):
        raise ValueError(f"--format {form}; expected one of {', '.join(READERS)}")
    try:
        content = _unpacked(content, max_gib)
        content = content if encoding is None else _decoded(content, encoding)
        for marks, encoding in WIDE_TEXT.items():
            if content.startswith(marks):
                content = content.decode(encoding).encode()
        if is_model(content):
            raise ValueError("it is a model")
        if not any(
            part.removeprefix(codecs.BOM_UTF8).strip() for part in (content[:1024], content)
        ):
            raise ValueError("it is empty")
        form = form or _by_name(path) or _by_content(content)
        content, note = _as_utf8(content, form)
        data = READERS[form](content, header)
        data = replace(data, notes=(f"{_shown(path)} {note}",)) if note else data
    except UnicodeDecodeError as error:
        found = f"{_shown(path)} is not {error.encoding} text (byte {error.start})"
        raise ValueError(f"{found}; --encoding names another encoding") from error
    except ImportError:
        raise
    except MemoryError as error:
        doing = f"reading {_shown(path)} ({len(content):,} bytes)"
        raise explained(error, doing, FEWER_ROWS) from error
    except Exception as error:  # of the libraries that read each format
        read_as = f" as {form}" if form else ""
        why = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"{_shown(path)} cannot be read{read_as}: {why}") from error
    return _chosen(data, path, target)


def _decoded(content: bytes, encoding: str) -> bytes:
    """Text of a named encoding as UTF-8."""
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise ValueError(f"--encoding {encoding}: there is no such encoding") from None
    return content.decode(encoding).encode()


def _as_utf8(content: bytes, form: str) -> tuple[bytes, str]:
    """The content in UTF-8, and a note if it was in another encoding."""
    if form not in TEXT_FORMATS or b"\0" in content:
        return content, ""
    try:
        content.decode()
    except UnicodeDecodeError:
        for name in ("cp1252", "latin-1"):  # the latter has a letter for every byte
            try:
                text = content.decode(name)
            except UnicodeDecodeError:
                continue
            shown = "Windows-1252" if name == "cp1252" else "Latin-1"
            return text.encode(), f"is not UTF-8 and was read as {shown}; --encoding overrides"
    return content, ""


def _unpacked(content: bytes, max_gib: float) -> bytes:
    """The content without gzip; a ValueError where that, or what else is packed, is too large."""
    largest, size = int(max_gib * 2**30), 0
    if content[:2] == b"\x1f\x8b":
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            content = file.read(largest + 1)
        size = len(content)
    with contextlib.suppress(ValueError, OSError, zipfile.BadZipFile):  # which its reader refuses
        size = max(size, _packed_size(content, largest))
    if size > largest:
        raise ValueError(
            f"it has more than {max_gib:g} GiB when it is unpacked; --max-gib allows more"
        )
    return content


def _packed_size(content: bytes, largest: int) -> int:
    """Bytes of an unpacked zip archive, Parquet or Feather file; 0 of other files."""
    if zipfile.is_zipfile(io.BytesIO(content)):  # some begin with other bytes
        return sum(entry.file_size for entry in zipfile.ZipFile(io.BytesIO(content)).infolist())
    try:
        if content[:4] == b"PAR1":
            return parquet_size(content, largest)
        if content[:6] == b"ARROW1":
            return feather_size(content, largest)
    except ImportError:
        pass  # what reads it says that pyarrow is missing
    return 0


def _file(path: str) -> bytes:
    try:
        return read_regular(path)
    except OSError as error:
        if Path(path).exists() and not Path(path).is_file():
            raise OSError(f"{path} is not a regular file; pass - to read from a pipe") from error
        raise
    except MemoryError as error:
        doing = f"reading {path} ({os.path.getsize(path):,} bytes)"
        raise explained(error, doing, FEWER_ROWS) from error


def standard_input() -> bytes:
    if sys.stdin is None:
        raise ValueError("standard input is closed")
    return sys.stdin.buffer.read()


def _shown(path: str) -> str:
    return "standard input" if path == "-" else path


def is_model(content: bytes) -> bool:
    """Whether a file that begins so is a model, of mercer's or of LIBSVM's."""
    ours = content[8:40].startswith(b'{"__metadata__":{"mercer"')
    return ours or content.startswith(b"svm_type")


def is_model_file(path: str) -> bool:
    if Path(path).exists() and not Path(path).is_file():  # a pipe would be read for ever
        return False
    with open(path, "rb") as file:
        return is_model(file.read(40))


def _by_name(path: str) -> str | None:
    name = Path(path).name.lower().removesuffix(".gz")
    return SUFFIXES.get(Path(name).suffix)


def _by_content(content: bytes) -> str:
    """What a file is, by how it begins."""
    if content[:4] == b"PAR1":
        return "parquet"
    if content[:6] == b"ARROW1":
        return "feather"
    if content[:2] == b"PK":
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
        if "xl/workbook.xml" in names:
            return "xlsx"
        return "npz" if any(name.endswith(".npy") for name in names) else "tu"
    if JSON.match(content):
        return "jsonl"
    first = next((line for line in io.BytesIO(content) if line.strip()), b"").strip()
    if first[:1] == b">":
        return "fasta"
    if b":" in first and LIBSVM_LINE.fullmatch(first):
        return "libsvm"
    return "tsv" if first.count(b"\t") > first.count(b",") else "csv"


def _chosen(data: Data, path: str, target: str | None) -> Data:
    """The data with the target taken out of the table."""
    source = "standard input" if path == "-" else Path(path).name
    data = replace(data, source=source)
    if data.columns is None:
        if target not in (None, data.target):
            raise ValueError(f"--target {target}: {_shown(path)} has no columns with names")
        return data
    names = data.columns
    if target is None:
        return data
    if target not in names and target.isdecimal() and int(target) < len(names):
        target = names[int(target)]
    if target not in names:
        raise ValueError(f"--target {target}: there is no such column; {suggested(target, names)}")
    refuse_repeated(data, [target])
    at = names.index(target)
    y = data.X.iloc[:, at]
    return replace(data, X=data.X.drop(columns=data.X.columns[at]), y=y, target=target)


def grouped(data: Data, column: str) -> Data:
    """The data with a column as the groups of the rows, which is no feature."""
    name = _named(data, "--group", column)
    groups = data.X[name].astype(str).to_numpy()
    left_out = {**(data.left_out or {}), name: GROUPS_ROWS}
    return replace(data, X=data.X.drop(columns=name), groups=groups, left_out=left_out)


def timed(data: Data, column: str) -> Data:
    """The data with the times of a column, which stays a feature."""
    name = _named(data, "--time", column)
    values = data.X[name]
    kind = getattr(values.dtype, "kind", "O")
    if kind not in "iufM":
        word = next(iter(values.dropna()), "")
        raise ValueError(f"--time {name}: found {word!r}; expected dates or numbers")
    if values.isna().any():
        row = int(np.flatnonzero(values.isna())[0])
        raise ValueError(f"--time {name}: row {row} has no value; fill or remove it first")
    times = values.to_numpy(dtype="datetime64[us]") if kind == "M" else values.to_numpy()
    return replace(data, times=times.astype(np.float64))


def _named(data: Data, option: str, column: str) -> str:
    require_columns(data, option, [column])
    refuse_repeated(data, [column])
    return column


def require_columns(data: Data, option: str, names: Collection[str]) -> None:
    """Raise an error if an option names a column that the data do not have."""
    if names and data.columns is None:
        raise ValueError(f"{option}: {data.source} has no named columns")
    for name in names:
        if name not in (data.columns or ()):
            meant = suggested(name, data.columns or ())
            raise ValueError(f"{option} {name}: there is no such column; {meant}")


def refuse_repeated(data: Data, names: Collection[str], otherwise: str = "") -> None:
    """Raise where one of these columns shares its name with another."""
    names = set(names)
    for name, columns in data.repeated.items():
        if any(column in names for column in columns):
            raise ValueError(
                f"{data.source} has {len(columns)} columns called {name!r}; give each a name of "
                f"its own{otherwise.format(name)}"
            )


def counted(number: int, name: str) -> str:
    """A number of things, with the plural of their name."""
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def listed(names: list[str]) -> str:
    """The names, or the first dozen of them."""
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def suggested(name: str, known: Collection[str]) -> str:
    """The known name that was perhaps meant, or all of them."""
    small = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), small, n=1)
    return f"did you mean {small[close[0]]}?" if close else f"there are {listed(list(known))}"


# One reader for each kind of file, from bytes.


def _table(content: bytes, header: bool, separator: str | None = None) -> Data:
    _pandas()
    if b"\0" in content:
        content.decode()  # other files than text are named as such
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise ValueError(f"line {line} has a NUL byte, which text does not have")
    table = read_table(content, header, separator)
    left_out = {}
    if table.row_names is not None:
        left_out["the first column"] = "the first line has no name for it"
    if header and names_are_values(table.frame):
        left_out["the first line"] = "it has the names; --no-header if it is a row"
    return replace(_of_table(table), left_out=left_out, is_text=True)


def _of_table(table: Table) -> Data:
    names = {} if table.row_names is None else {"name": table.row_names}
    return Data(table.frame, names=names, repeated=table.repeated, read_as=table.read_as)


def without_names(data: Data, keep: Collection[str] = ()) -> Data:
    """The data without columns that identify the rows, for training.

    Columns named in ``keep`` stay, and so do all if there were no other left.
    """
    if data.columns is None:
        return data
    left_out = {}
    for name, column in data.X.items():
        if name not in keep and (why := why_identifier(str(name), column)):
            left_out[str(name)] = why
    if len(left_out) == data.X.shape[1]:
        return data
    known = {**(data.left_out or {}), **left_out}
    return replace(data, X=data.X.drop(columns=list(left_out)), left_out=known)


def _framed(read_frame: Callable[[bytes], Table]) -> Callable[[bytes, bool], Data]:
    """A reader of tables that name their columns."""

    def reader(content: bytes, header: bool) -> Data:
        _pandas()
        return _of_table(read_frame(content))

    return reader


def _spreadsheet(content: bytes, header: bool) -> Data:
    _pandas()
    return replace(_of_table(read_spreadsheet(content, header)), is_text=True)


def _npz(content: bytes, header: bool) -> Data:
    """X and y, or X_train, y_train, X_test and y_test."""
    arrays = np.load(io.BytesIO(content), allow_pickle=False)
    names = list(arrays)
    if "X_train" in names:
        held_out = (arrays["X_test"], arrays["y_test"]) if "X_test" in names else None
        data = Data(arrays["X_train"], arrays["y_train"], target="y", held_out=held_out)
    elif "X" in names:
        data = Data(arrays["X"], arrays["y"] if "y" in names else None, target="y")
    else:
        raise ValueError(f"it has the arrays {', '.join(names)}; expected X, and y to learn from")
    if data.X.ndim != 2 or not len(data.X):
        raise ValueError(f"X has shape {data.X.shape}; expected rows of numbers")
    if data.y is not None and data.y.shape != data.X.shape[:1]:
        raise ValueError(f"y has shape {data.y.shape} and X {data.X.shape}")
    return data


def _libsvm(content: bytes, header: bool) -> Data:
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(io.BytesIO(content))
    except OverflowError as error:
        raise ValueError("a column is beyond 2,147,483,647, which is as far as is read") from error
    except ValueError as error:
        lines = enumerate(io.BytesIO(content), 1)
        wrong = [k for k, line in lines if line.strip() and not LIBSVM_LINE.fullmatch(line.strip())]
        where = f"line {wrong[0]} is not label index:value ...; " if wrong else ""
        raise ValueError(f"{where}{str(error)[:200]}") from error
    import scipy.sparse as sp  # slow to import

    from mercer.tables.sparse import stays_sparse

    if not stays_sparse(X):
        return Data(X.toarray(), y, target="y", is_text=True)
    # Numbers of columns are below 2^31 here, and half as long so.
    parts = (X.data, X.indices.astype(np.int32), X.indptr)
    return Data(sp.csr_array(parts, shape=X.shape), y, target="y", is_text=True)


def _fasta(content: bytes, header: bool) -> Data:
    """Sequences; ``key=value`` in a record's first line gives columns, other text a description."""
    pandas = _pandas()
    records: list[dict[str, str]] = []
    ids: list[str] = []
    parts: list[str] = []
    for line in [*content.decode("utf-8-sig").splitlines(), ">"]:
        line = line.strip()
        if not line.startswith(">"):
            if line and not line.startswith(";"):
                if not records:
                    raise ValueError("its first line does not begin with >")
                parts.append(line)
            continue
        if records:
            records[-1]["sequence"] = "".join(parts).upper()
        parts = []
        name, _, rest = line[1:].partition(" ")
        pairs = dict(word.split("=", 1) for word in rest.split() if "=" in word)
        words = " ".join(word for word in rest.split() if "=" not in word)
        records.append({**pairs, **({"description": words} if words else {})})
        ids.append(name)
    records = records[:-1]
    refuse_gaps(
        len(records), len({k for record in records for k in record}), sum(map(len, records))
    )
    frame = pandas.DataFrame(records)
    for column in frame.columns.difference(["sequence", "description"]):
        numbers = pandas.to_numeric(frame[column], errors="coerce")
        frame[column] = numbers if numbers.notna().all() else frame[column]
    left_out = {"id": NAMES_SEQUENCES}
    return Data(frame, left_out=left_out, is_text=True, names={"id": np.array(ids[:-1])})


def _graphs_from(content: bytes, header: bool) -> Data:
    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        file.write(content)
        file.flush()
        return _graphs(file.name)


def _graphs(path: str) -> Data:
    from mercer.kernels import read_tu

    graphs, y = read_tu(path)
    return Data(graphs, y, target="label", is_text=True)


def _pandas() -> Any:
    try:
        import pandas
    except ImportError as error:
        raise ImportError("tables need pandas: pip install 'mercer[cli]'") from error
    return pandas


READERS: dict[str, Callable[[bytes, bool], Data]] = {
    "csv": _table,
    "tsv": lambda content, header: _table(content, header, "\t"),
    "parquet": _framed(read_parquet),
    "feather": _framed(read_feather),
    "xlsx": _spreadsheet,
    "jsonl": _framed(read_json),
    "npz": _npz,
    "libsvm": _libsvm,
    "fasta": _fasta,
    "tu": _graphs_from,
}
SUFFIXES = {
    ".csv": "csv",
    ".data": "csv",
    ".fa": "fasta",
    ".fasta": "fasta",
    ".fna": "fasta",
    ".faa": "fasta",
    ".feather": "feather",
    ".json": "jsonl",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".xlsx": "xlsx",
    ".libsvm": "libsvm",
    ".npz": "npz",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svm": "libsvm",
    ".svmlight": "libsvm",
    ".tab": "tsv",
    ".tsv": "tsv",
    ".zip": "tu",
}
