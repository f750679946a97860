"""One reader for each kind of file, from bytes to Data."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mercer.tables.data import Data
from mercer.tables.frames import read_feather, read_json, read_parquet, read_spreadsheet
from mercer.tables.identifiers import NAMES_SEQUENCES
from mercer.tables.limits import refuse_gaps
from mercer.tables.text import Table, names_are_values, read_table

LIBSVM_LINE = re.compile(rb"\s*[-+.\deE]+(\s+\d+:[-+.\deE]+)*\s*(#.*)?")


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
    from mercer.kernels.string.files import fasta_records  # slow to import

    """Sequences; ``key=value`` in a record's first line gives columns, other text a description."""
    pandas = _pandas()
    records: list[dict[str, str]] = []
    ids: list[str] = []
    for title, sequence in fasta_records(content.decode("utf-8-sig").splitlines()):
        name, _, rest = title.partition(" ")
        pairs = dict(word.split("=", 1) for word in rest.split() if "=" in word)
        words = " ".join(word for word in rest.split() if "=" not in word)
        described = {"description": words} if words else {}
        records.append({**pairs, **described, "sequence": sequence})
        ids.append(name)
    refuse_gaps(
        len(records), len({k for record in records for k in record}), sum(map(len, records))
    )
    frame = pandas.DataFrame(records)
    for column in frame.columns.difference(["sequence", "description"]):
        numbers = pandas.to_numeric(frame[column], errors="coerce")
        frame[column] = numbers if numbers.notna().all() else frame[column]
    left_out = {"id": NAMES_SEQUENCES}
    return Data(frame, left_out=left_out, is_text=True, names={"id": np.array(ids)})


def _graphs_from(content: bytes, header: bool) -> Data:
    with tempfile.NamedTemporaryFile(suffix=".zip") as file:
        file.write(content)
        file.flush()
        return graphs_of_folder(file.name)


def graphs_of_folder(path: str) -> Data:
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
