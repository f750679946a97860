"""Parquet and Feather files: their size when they are unpacked, and their checked content."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np

# Bytes of a value of fixed width, in memory.
_VALUE = 8
_MAGIC = b"ARROW1"


def parquet_size(content: bytes, largest: int) -> int:
    """Bytes of the table of a Parquet file; a lower bound of them where that exceeds `largest`.

    Text that is stored once and repeated counts each time.
    """
    from pyarrow import parquet

    file = parquet.ParquetFile(io.BytesIO(content))
    shape = file.metadata.num_rows, file.metadata.num_columns
    size = _VALUE * shape[0] * shape[1]
    texts = [field.name for field in file.schema_arrow if _is_text(field.type)]
    for name in texts if size <= largest else ():
        # Words stay numbered, and are not repeated in memory.
        column = parquet.read_table(io.BytesIO(content), columns=[name], read_dictionary=[name])
        size += _repeated(column)
    return size


def feather_size(content: bytes, largest: int) -> int:
    """As `parquet_size`, of a Feather file."""
    size = _stored_size(content)
    if size > largest:
        return size
    table = feather_table(content)
    return max(size, _VALUE * table.num_rows * table.num_columns) + _repeated(table)


def feather_table(content: bytes) -> Any:
    """The table of a Feather file, all of whose indices and lengths are checked."""
    from pyarrow import ipc

    if not content.startswith(_MAGIC):
        raise ValueError("it is not a Feather file of version 2; write it with a newer pyarrow")
    table = ipc.open_file(io.BytesIO(content)).read_all()
    table.validate(full=True)
    return table


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    found = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    return any(test(kind) for test in found)


def _repeated(table: Any) -> int:
    """Bytes of the text in numbered columns, when each word is written out."""
    from pyarrow import compute, types

    size = 0
    for column in table.columns:
        if not types.is_dictionary(column.type) or not _is_text(column.type):
            continue
        for chunk in column.chunks:
            lengths = compute.binary_length(chunk.dictionary).fill_null(0).to_numpy()
            codes = chunk.indices.drop_null().to_numpy()
            counts = np.bincount(codes.astype(np.int64), minlength=len(lengths))
            size += int(counts @ lengths.astype(np.int64))
    return size


# Sizes of an Arrow file before it is unpacked. Its footer and messages are FlatBuffers: a table has
# the offset of its list of fields, and that has offsets of the fields.


def _stored_size(content: bytes) -> int:
    """Bytes of all buffers of a Feather file, unpacked."""
    try:
        return sum(_block_size(content, *block) for block in _blocks(content))
    except (struct.error, IndexError, ValueError) as error:
        raise ValueError("it is damaged, or not a Feather file of version 2") from error


def _blocks(content: bytes) -> list[tuple[int, int]]:
    """Where each message begins that the footer names, and the bytes before its buffers."""
    end = len(content) - len(_MAGIC) - 4
    (length,) = struct.unpack_from("<i", content, end)
    footer = _table(content, end - length)
    found = []
    for place in (2, 3):  # dictionaries, and batches of rows
        at, count = _vector(content, footer, place)
        blocks = np.frombuffer(content, dtype="<i8", count=3 * count, offset=at).reshape(-1, 3)
        found += [(int(start), int(head) & 0xFFFFFFFF) for start, head, _ in blocks]
    return found


def _block_size(content: bytes, start: int, head: int) -> int:
    if start < 0:
        raise ValueError
    (first,) = struct.unpack_from("<I", content, start)
    message = _table(content, start + (8 if first == 0xFFFFFFFF else 4))
    (kind,) = content[message[1] : message[1] + 1]
    batch = _follow(content, message[2])
    if kind == 2:  # a dictionary, which holds its values as a batch
        batch = _follow(content, _fields(content, batch)[1])
    fields = _fields(content, batch)
    at, count = _vector(content, fields, 2)
    buffers = np.frombuffer(content, dtype="<i8", count=2 * count, offset=at).reshape(-1, 2)
    if not fields[3]:
        return sum(length for _, length in buffers.tolist() if length > 0)
    size = 0
    for offset, length in buffers.tolist():
        if length > 0:  # a packed buffer begins with its size, or with -1 if it is not packed
            (unpacked,) = struct.unpack_from("<q", content, start + head + offset)
            size += length if unpacked < 0 else unpacked
    return size


def _follow(content: bytes, at: int) -> int:
    if not 0 < at < len(content):
        raise ValueError
    return at + struct.unpack_from("<I", content, at)[0]


def _table(content: bytes, at: int) -> list[int]:
    """The places of the fields of the table that is named at a place."""
    return _fields(content, _follow(content, at))


def _fields(content: bytes, at: int) -> list[int]:
    """The places of the first five fields of a table, 0 for those it does not have."""
    start = at - struct.unpack_from("<i", content, at)[0]
    if start < 0:
        raise ValueError
    length = struct.unpack_from("<H", content, start)[0] // 2 - 2
    offsets = [*struct.unpack_from(f"<{min(length, 5)}H", content, start + 4), *[0] * 5]
    return [at + offset if offset else 0 for offset in offsets[:5]]


def _vector(content: bytes, fields: list[int], place: int) -> tuple[int, int]:
    """Where the entries of a list begin, and how many there are."""
    if not fields[place]:
        return 0, 0
    at = _follow(content, fields[place])
    return at + 4, struct.unpack_from("<I", content, at)[0]
