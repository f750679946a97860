"""Files of every format the command takes: unpacking, encoding, recognising the format."""

from __future__ import annotations

import codecs
import contextlib
import gzip
import io
import os
import re
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

from mercer.memory_errors import explained
from mercer.tables.columnar import feather_size, parquet_size
from mercer.tables.data import Data, refuse_repeated, suggested
from mercer.tables.formats import LIBSVM_LINE, READERS, SUFFIXES, graphs_of_folder
from mercer.tables.limits import MAX_GIB
from mercer.whole_files import read_regular

JSON = re.compile(rb"\s*(\{|\[\s*[\[{])")
# How text begins that is not UTF-8 and says so; the longer marks begin as the shorter ones do.
WIDE_TEXT = {
    (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE): "utf-32",
    (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE): "utf-16",
}

# Formats whose text may be in an encoding other than UTF-8.
TEXT_FORMATS = ("csv", "tsv", "libsvm", "fasta", "jsonl")
FEWER_ROWS = "give a file with fewer rows or columns, or use a machine with more memory"


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
        return _chosen(graphs_of_folder(path), path, target)
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
