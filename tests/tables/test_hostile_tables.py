"""Hostile tables: far cells, entities, forged sizes and packed text are refused at once."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mercer.tables import limits
from mercer.tables.readers import read
from mercer.tables.text import _separator

SHEET = "xl/worksheets/sheet1.xml"


def sheet(old: str, new: str, part: str = SHEET) -> bytes:
    """An xlsx file with a text replaced in one of its parts."""
    pytest.importorskip("openpyxl")
    written, changed = io.BytesIO(), io.BytesIO()
    pd.DataFrame({"a": [1, 2, 3], "b": ["x", "y", "z"]}).to_excel(written, index=False)
    with zipfile.ZipFile(written) as archive, zipfile.ZipFile(changed, "w") as other:
        for name in archive.namelist():
            text = archive.read(name).decode()
            if name == part:
                assert old in text
                text = text.replace(old, new, 1)
            other.writestr(name, text)
    return changed.getvalue()


def with_rows(rows: str) -> bytes:
    return sheet("</sheetData>", f"{rows}</sheetData>")


def feather(table: dict, compression: str = "zstd") -> bytes:
    pytest.importorskip("pyarrow")
    content = io.BytesIO()
    pd.DataFrame(table).to_feather(content, compression=compression)
    return content.getvalue()


def repeated_text(n: int, length: int) -> bytes:
    """A Parquet file that stores one long text once, for n rows."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    codes = pa.DictionaryArray.from_arrays(
        pa.array(np.zeros(n, np.int32)), pa.array(["x" * length])
    )
    content = io.BytesIO()
    parquet.write_table(pa.table({"a": codes}), content, store_schema=False)
    return content.getvalue()


def far_cell() -> bytes:
    return with_rows('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')


ATTACKS = {
    "a far cell": ("t.xlsx", far_cell, "spread over 1,048,576 rows and 16,384 columns"),
    "a far row": (
        "t.xlsx",
        lambda: with_rows('<row r="99999999999"><c r="A99999999999"><v>1</v></c></row>'),
        "names row 99,999,999,999; the last is 1,048,576",
    ),
    "a far row as a float": (
        "t.xlsx",
        lambda: with_rows('<row r="1e11"><c r="A1"><v>1</v></c></row>'),
        "names row 100,000,000,000",
    ),
    "a far column": (
        "t.xlsx",
        lambda: with_rows('<row r="9"><c r="ZZZ9"><v>1</v></c></row>'),
        "names column 18,278",
    ),
    "cells of another name": (
        "t.xlsx",
        lambda: with_rows("".join(f'<row r="{k}"><z r="XFD{k}"/></row>' for k in range(9, 1300))),
        "spread over 1,299 rows and 16,384 columns",
    ),
    "a far cell before damage": (
        "t.xlsx",
        lambda: with_rows('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row><'),
        "spread over",
    ),
    "entities": (
        "t.xlsx",
        lambda: sheet("<worksheet", '<!DOCTYPE w [<!ENTITY a "aaaa">]><worksheet'),
        "declares XML entities",
    ),
    "a long format of numbers": (
        "t.xlsx",
        lambda: sheet("<fonts", f'<numFmt formatCode="{"[" * 2000}"/><fonts', "xl/styles.xml"),
        "format of numbers has more than 1,000 characters",
    ),
    "names of their own": (
        "t.json",
        lambda: b"\n".join(b'{"k%d": 1}' % k for k in range(5000)),
        "5,000 values are spread over 5,000 rows and 5,000 columns",
    ),
    "nested lists": ("t.json", lambda: b"[" * 100_000, "recursion"),
    "a vast number": ("t.json", lambda: b'{"a": %s}' % (b"9" * 400), "more than 308 digits"),
    "sequences with names of their own": (
        "t.fasta",
        lambda: b"".join(b">s k%d=1\nACGT\n" % k for k in range(5000)),
        "spread over 5,000 rows and 5,001 columns",
    ),
    "packed zeros": (
        "t.feather",
        lambda: feather({"a": np.zeros(1_000_000)}),
        "more than 0.005 GiB when it is unpacked",
    ),
    "packed zeros, packed again": (
        "t.feather.gz",
        lambda: gzip.compress(feather({"a": np.zeros(1_000_000)})),
        "more than 0.005 GiB when it is unpacked",
    ),
    "repeated text": (
        "t.parquet",
        lambda: repeated_text(10_000, 1000),
        "more than 0.005 GiB when it is unpacked",
    ),
    "an archive after other bytes": (
        "t.zip",
        lambda: b"other" + archive(b" " * 10_000_000),
        "more than 0.005 GiB when it is unpacked",
    ),
}


def archive(text: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("T/T_A.txt", text)
    return content.getvalue()


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_are_refused_in_a_line_and_little_memory(name, tmp_path):
    file, content, match = ATTACKS[name]
    (tmp_path / file).write_bytes(content())
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=match) as told:
            read(str(tmp_path / file), max_gib=0.005)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "\n" not in str(told.value)
    assert most < 30e6


def test_delimiters_are_looked_for_in_the_beginning_only(monkeypatch):
    seen = []

    def sniff(self, sample, delimiters):
        seen.append(len(sample))
        raise csv.Error

    monkeypatch.setattr(csv.Sniffer, "sniff", sniff)
    assert _separator(';,"' * 100_000) == ","
    assert seen == [10_000]


def test_sheets_with_some_gaps_are_read(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(with_rows('<row r="2000"><c r="Z2000"><v>1</v></c></row>'))
    assert read(str(tmp_path / "t.xlsx")).X.shape == (4, 3)
    (tmp_path / "t.xlsx").write_bytes(with_rows("<row><c><v>7</v></c></row>"))
    assert read(str(tmp_path / "t.xlsx")).X["a"].tolist() == [1, 2, 3, 7]


def test_records_with_gaps_are_read(tmp_path):
    records = [{"a": k, f"b{k % 50}": 1.5} for k in range(200)]
    (tmp_path / "t.json").write_text(json.dumps(records))
    assert read(str(tmp_path / "t.json")).X.shape == (200, 51)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_sizes_of_feather_files_are_those_of_their_tables(compression):
    from mercer.tables.columnar import feather_size, feather_table, parquet_size

    table = {"a": np.arange(1000.0), "b": ["x", "yy"] * 500, "c": pd.Categorical(["u", "v"] * 500)}
    content = feather(table, compression)
    size = feather_table(content).nbytes
    assert size <= feather_size(content, 10**9) < 2 * size
    assert feather_size(content, 10) > 10
    file = io.BytesIO()
    pd.DataFrame(table).to_parquet(file)
    assert parquet_size(file.getvalue(), 10**9) >= 1000 * 3 * 8


def test_forged_lengths_in_feather_files_are_refused(tmp_path):
    """Every aligned word of a small file replaced: pyarrow alone reads beyond the buffers."""
    content = feather({"a": ["x", "yy", "z"], "n": [1.0, 2.0, 3.0]}, "uncompressed")
    refused = 0
    for at in range(8, len(content) - 8, 8):
        changed = content[:at] + (2**40).to_bytes(8, "little") + content[at + 8 :]
        (tmp_path / "t.feather").write_bytes(changed)
        try:
            assert read(str(tmp_path / "t.feather")).X.shape[0] <= 3
        except ValueError as error:
            refused += "cannot be read" in str(error)
    assert refused > 10


def test_periods_and_intervals_are_words(tmp_path):
    pytest.importorskip("pyarrow")
    table = pd.DataFrame({"p": pd.period_range("2024-01", periods=3, freq="M"), "y": [1, 2, 3]})
    table["i"] = pd.interval_range(0, 3)
    table.to_parquet(tmp_path / "t.parquet")
    X = read(str(tmp_path / "t.parquet")).X
    assert X["i"].tolist() == ["(0, 1]", "(1, 2]", "(2, 3]"]
    assert X["p"].astype(str).str[:7].tolist() == ["2024-01", "2024-02", "2024-03"]


def test_the_limits_are_in_the_docs():
    text = (Path(__file__).parents[2] / "docs/files.md").read_text()
    for name, value in vars(limits).items():
        if name.isupper():
            assert f"`{name}`" in text, name
            assert f"{value:,.0f}" in text or f"{value:g}" in text, name
