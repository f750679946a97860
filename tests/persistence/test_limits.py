"""Each limit on what a file holds, with a file that goes beyond it by little."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mercer
from command_line import run, runner
from forged_files import HEADER, constant, forge
from mercer import kernels as K
from mercer.cli.app import app
from mercer.persistence import files, limits

DOCS = Path(__file__).parents[2] / "docs" / "files.md"


def refused(path, match):
    """Loading raises a ValueError in one line of a bounded length; inspecting, that or nothing."""
    with pytest.raises(ValueError, match=match) as caught:
        mercer.load(path)
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < limits.LONGEST_MESSAGE + len(str(path)) + 50
    told = runner.invoke(app, ["inspect", str(path)])
    assert all(line.isprintable() for line in (told.stdout + told.stderr).splitlines())
    assert told.exit_code in (0, 2)
    return told.exit_code


def test_the_table_in_the_docs_has_the_constants():
    text = DOCS.read_text()
    rows = re.findall(r"^\| .*?\| ([\d,]+)[^|]*\| `limits\.(\w+)` \|$", text, re.MULTILINE)
    stated = {name: int(number.replace(",", "")) for number, name in rows}
    named = {name: value for name, value in vars(limits).items() if name.isupper()}
    assert stated == named


# Limits that small files reach.


def test_the_largest_header(tmp_path):
    path = tmp_path / "it"
    with open(path, "wb") as file:
        file.write(limits.LARGEST_HEADER.to_bytes(8, "little"))
        file.truncate(limits.LARGEST_HEADER + 8)
    assert refused(path, "its header has 100,000,008 bytes") == 2


def test_the_deepest_value(tmp_path):
    deep = [["tuple"], *(["tuple", [i]] for i in range(limits.DEEPEST))]
    refused(forge(tmp_path / "it", constant(*deep)), "100,000 levels deep")
    just = forge(tmp_path / "it", constant(*deep[:-2]))
    assert mercer.load(just).value is not None
    value = ()
    for _ in range(limits.DEEPEST):
        value = (value,)
    with pytest.raises(TypeError, match=r"`load` would refuse it: .* levels deep"):
        mercer.save(K.Constant(value), tmp_path / "that")


def nested(depth):
    notes = {}
    for _ in range(depth):
        notes = {"a": notes}
    return notes


def test_the_deepest_notes(tmp_path):
    header = {**HEADER, "notes": nested(limits.DEEPEST_NOTES)}
    path = forge(tmp_path / "it", constant(["list"]), header=header)
    assert refused(path, "notes are more than 100 levels deep") == 2
    with pytest.raises(ValueError, match="levels deep"):
        mercer.save(K.RBF(), tmp_path / "that", notes=nested(limits.DEEPEST_NOTES))
    mercer.save(K.RBF(), tmp_path / "that", notes=nested(limits.DEEPEST_NOTES - 1))
    assert run("inspect", str(tmp_path / "that"), "--json").exit_code == 0


def test_the_most_functions(tmp_path):
    header = {**HEADER, "functions": {str(i): "K" for i in range(limits.MOST_FUNCTIONS + 1)}}
    path = forge(tmp_path / "it", constant(["list"]), header=header)
    assert refused(path, "it names 1,001 functions") == 2


@pytest.mark.parametrize("key", ["class", "mercer", "scikit-learn", "functions", "versions"])
def test_the_longest_name(key, tmp_path):
    name = "x" * (limits.LONGEST_NAME + 1)
    value = {"functions": {name: "K"}, "versions": {name: 1}}.get(key, name)
    path = forge(tmp_path / "it", constant(["list"]), header={**HEADER, key: value})
    assert refused(path, "a name of 1,001 letters") == 2


def test_the_most_digits(tmp_path):
    path = forge(tmp_path / "it", constant(["list", 10**limits.MOST_DIGITS]))
    refused(path, "more than 1,000 digits")
    kept = -(10**limits.MOST_DIGITS - 1)
    assert mercer.load(forge(path, constant(["list", kept]))).value == [kept]
    with pytest.raises(TypeError, match="1,000 digits"):
        mercer.save(K.Constant(10**limits.MOST_DIGITS), tmp_path / "that")


def test_the_largest_key(tmp_path):
    for n, fits in ((limits.LARGEST_KEY - 1, True), (limits.LARGEST_KEY, False)):
        path = forge(tmp_path / "it", constant(["tuple", *range(n)], ["set", [0]]))
        if fits:
            assert len(mercer.load(path).value) == 1
        else:
            refused(path, "a key is too large")


def test_the_most_keys_of_one_hash(tmp_path):
    keys = [k * (2**61 - 1) for k in range(1, limits.MOST_ALIKE + 2)]
    refused(forge(tmp_path / "it", constant(["set", *keys])), "17 keys have the same hash")
    assert len(mercer.load(forge(tmp_path / "it", constant(["set", *keys[1:]]))).value) == 16


def test_the_most_copies(tmp_path):
    """Lists of one list of 10,000 numbers, n times: a small file that stands for many parts."""
    for n in (190, 210):
        records = constant(["list", *range(10_000)], ["list", *([0] for _ in range(n))])
        path = forge(tmp_path / "it", records)
        allowed = limits.MOST_COPIES * sum(map(len, records)) + limits.COPIES_OF_FEW
        if n * 10_001 < allowed:
            assert len(mercer.load(path).value) == n
        else:
            refused(path, "again and again")
    assert 190 * 10_001 < allowed < 210 * 10_001
    shared = [list(range(10_000))] * 210
    with pytest.raises(TypeError, match="again and again"):
        mercer.save(K.Constant(shared), tmp_path / "that")


def test_the_longest_range(tmp_path):
    for n, fits in ((limits.LONGEST_RANGE, True), (limits.LONGEST_RANGE + 1, False)):
        path = forge(tmp_path / "it", constant(["range", 0, n, 1]))
        if fits:
            assert len(mercer.load(path).value) == n
        else:
            refused(path, "a range is too long")
    path = forge(tmp_path / "it", constant(["range", -(10**30), 10**30, 1]))
    refused(path, "a range is too long")
    index = ["index", None, "range", 0, 10**9, 1]
    names = ["index", None, "range", 0, 0, 1]
    refused(forge(path, constant(index, names, ["table", [0], [1]])), "without columns")
    refused(forge(path, constant(["index", None, "range", 0, 2**31, 1])), "an index is too long")


def test_the_largest_array_without_entries(tmp_path):
    empty = {"0": np.zeros(0, dtype=np.uint8)}
    shape = ["list", 0, limits.LARGEST_EMPTY + 1]
    for record in (
        ["array", None, "object", [0], ""],
        ["array", {"tensor": "0"}, "<U1", [0], ""],
    ):
        tensors = empty if record[1] else {}
        path = forge(tmp_path / "it", constant(shape, record), tensors)
        refused(path, "axes that are too long")
    wide = {"0": np.zeros((0, 2**40), dtype=np.uint8)}
    refused(forge(path, constant(["array", {"tensor": "0"}, "", None, ""]), wide), "too long")


def test_the_largest_sparse_matrix(tmp_path):
    tensors = {"d": np.zeros(0), "i": np.zeros(0, dtype=np.int64), "p": np.zeros(2, dtype=np.int64)}
    arrays = [["array", {"tensor": name}, "", None, ""] for name in "dip"]
    for n, fits in ((limits.LARGEST_EMPTY, True), (limits.LARGEST_EMPTY + 1, False)):
        records = [["list", 1, n], *arrays, ["sparse", "csr", True, [0], [1], [2], [3]]]
        path = forge(tmp_path / "it", constant(*records), tensors)
        if fits:
            assert mercer.load(path).value.shape == (1, n)
        else:
            refused(path, "axes that are too long")


# Limits that only large files reach, lowered.


def test_the_most_records(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MOST_RECORDS", 100)
    lists = [["list"]] * 100
    refused(forge(tmp_path / "it", constant(*lists)), "it has 101 records")
    assert mercer.load(forge(tmp_path / "it", constant(*lists[1:]))).value == []
    with pytest.raises(TypeError, match="it has 102 records"):
        mercer.save(K.Constant([[] for _ in range(100)]), tmp_path / "that")


def test_the_most_arrays(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "MOST_ARRAYS", 10)
    tensors = {str(i): np.zeros(1) for i in range(10)}
    assert refused(forge(tmp_path / "it", constant(["list"]), tensors), "12 arrays") == 2
    with pytest.raises(TypeError, match="11 arrays"):
        mercer.save(K.Constant([np.zeros(1) for _ in range(11)]), tmp_path / "that")


def test_the_longest_text(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "LONGEST_TEXT", 1000)
    refused(forge(tmp_path / "it", constant(["list", "x" * 1001])), "a text has 1,001 characters")
    assert len(mercer.load(forge(tmp_path / "it", constant(["list", "x" * 1000]))).value[0]) == 1000
    with pytest.raises(TypeError, match="a text has 1,001 characters"):
        mercer.save(K.Constant("x" * 1001), tmp_path / "that")


def test_large_headers_are_not_written(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "LARGEST_HEADER", 1000)
    with pytest.raises(ValueError, match="shorten the notes"):
        mercer.save(K.RBF(), tmp_path / "it", notes={"a": "x" * 1000})
    assert not (tmp_path / "it").exists()


# Texts.


NASTY = "a\x1b[31m\ud800\u202e\n"


def test_messages_are_printable(tmp_path):
    for records in ([["object", NASTY]], [[NASTY]], constant(["type", NASTY]), [["member", NASTY]]):
        refused(forge(tmp_path / "it", records), "cannot be loaded")
    header = {**HEADER, "functions": {NASTY: NASTY}}
    refused(forge(tmp_path / "it", constant(["function", NASTY]), header=header), "code of yours")
    header = {**HEADER, "class": NASTY}
    refused(forge(tmp_path / "it", constant(["list"]), header=header), "its header says")


def test_warnings_are_printable(tmp_path):
    header = {**HEADER, "functions": {"f": "x"}, "written": {"f": NASTY}, "scikit-learn": NASTY}
    versions = {"kernel.Constant": 1, "sklearn.preprocessing.StandardScaler": 1}
    path = forge(
        tmp_path / "it", constant(["function", "f"]), header={**header, "versions": versions}
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        mercer.load(path, functions={"f": Shown()})
    assert len(caught) == 2
    lines = [line for warning in caught for line in str(warning.message).split("\n")]
    assert all(line.isprintable() for line in lines)


class Shown:
    """Something that is called and has parameters."""

    def __call__(self, X):
        return X

    def __repr__(self):
        return "Shown()"


def test_inspect_is_bounded_and_printable(tmp_path):
    header = {
        **HEADER,
        "functions": {f"{NASTY}{i}": "K" for i in range(1000)},
        "notes": {NASTY * 10_000: 1, **dict.fromkeys(map(str, range(10_000)))},
    }
    records = constant(*(["object", f"mercer.Nothing{i}"] for i in range(10_000)))
    path = forge(tmp_path / "it", records, header=header)
    assert files.inspect(path)["classes"] == {"kernel.Constant": 1, "unknown": 10_000}
    told = run("inspect", str(path))
    assert told.exit_code == 0
    assert len(told.stdout) < 30_000
    assert all(line.isprintable() for line in told.stdout.splitlines())
    told = run("inspect", str(path), "--json")
    assert told.stdout.strip().isprintable()
    assert NASTY * 10_000 in json.loads(told.stdout)["notes"]


@pytest.mark.parametrize("old", ['"notes":{}', '"functions":{}'])
def test_names_that_are_there_twice(old, tmp_path):
    path = forge(tmp_path / "it", constant(["list"]))
    data = path.read_bytes()
    escaped = old.replace('"', '\\"').encode()
    assert escaped in data
    start = 8 + int.from_bytes(data[:8], "little")
    head = data[8:start].replace(escaped, escaped + b"," + escaped).rstrip()
    head += b" " * (-len(head) % 8)
    parts = files._signed(
        len(head).to_bytes(8, "little")
        + re.sub(rb"[0-9a-f]{64}", b"0" * 64, head, count=1)
        + data[start:]
    )
    path.write_bytes(b"".join(parts))
    refused(path, "its text is damaged")
    records = b'[["object","kernel.Constant","value",{"tensor":"0","tensor":"0"}]]'
    refused(forge(path, records, {"0": np.zeros(1)}), "its text is damaged")


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_of_json(number, tmp_path):
    records = f'[["object","kernel.Constant","value",{number}]]'.encode()
    refused(forge(tmp_path / "it", records), "its text is damaged")


def test_tables_with_long_indices_are_saved(tmp_path):
    table = pd.DataFrame({"a": np.zeros(3)}, index=pd.RangeIndex(10**9, 10**9 + 3))
    mercer.save(K.Constant(table), tmp_path / "it")
    assert mercer.load(tmp_path / "it").value.equals(table)
