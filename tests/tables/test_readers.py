"""Each kind of file is read, by its name or by how it begins, and wrong ones are named."""

from __future__ import annotations

import datetime as dt
import gzip
import io
import itertools
import os
import sys
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file

from mercer import kernels as K
from mercer.tables import readers
from mercer.tables import text as text_tables
from mercer.tables.data import without_names
from mercer.tables.formats import READERS, SUFFIXES
from mercer.tables.readers import read

TRIES = 200 * int(os.environ.get("MERCER_TEST_LENGTH", "1"))
TABLE = pd.DataFrame(
    {"a": [1.5, 2.5, None, 4.0], "b": ["x", "y", "x", "z"], "n": [3, 1, 4, 1], "y": [0, 1, 0, 1]}
)


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def libsvm():
    content = io.BytesIO()
    X = sp.csr_array([[0.0, 2.0, 0.0], [1.0, 0.0, 0.5]])
    dump_svmlight_file(X, [1, -1], content, zero_based=False)
    return content.getvalue()


def npz(**arrays):
    content = io.BytesIO()
    np.savez(content, **arrays)
    return content.getvalue()


def spreadsheet():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        # Without the time of day, which would be in the names of tests, another in each process.
        archive.writestr(zipfile.ZipInfo("xl/workbook.xml"), "<workbook/>")
    return content.getvalue()


def feather(table):
    content = io.BytesIO()
    table.to_feather(content)
    return content.getvalue()


def sheet(table):
    content = io.BytesIO()
    table.to_excel(content, index=False)
    return content.getvalue()


def graphs():
    """Two triangles and a path, in the format of the TU collection."""
    files = {
        "T/T_A.txt": "1, 2\n2, 1\n2, 3\n3, 2\n1, 3\n3, 1\n4, 5\n5, 4\n",
        "T/T_graph_indicator.txt": "1\n1\n1\n2\n2\n",
        "T/T_graph_labels.txt": "1\n-1\n",
        "T/T_node_labels.txt": "0\n1\n0\n1\n1\n",
    }
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return files, content.getvalue()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", TABLE.to_csv(index=False)),
        ("t.csv.gz", gzip.compress(TABLE.to_csv(index=False).encode())),
        ("t.csv", "\ufeff" + TABLE.to_csv(index=False)),
        ("t.csv", TABLE.to_csv(index=False, sep=";")),
        ("t.csv", TABLE.to_csv(index=False).replace(",", ",  ")),
        ("t.tsv", TABLE.to_csv(index=False, sep="\t")),
        ("t.txt", TABLE.to_csv(index=False, sep="\t")),
        ("t", TABLE.to_csv(index=False)),
        ("t.csv", TABLE.to_csv(index=True, index_label="id")),
        ("t.csv", TABLE.to_csv(index=True)),
        ("t.csv", TABLE.to_csv(index=False, sep=";", decimal=",")),
        ("t.csv", TABLE.to_csv(index=False).encode("utf-16")),
        ("t.csv", TABLE.to_csv(index=False).encode("utf-32")),
        ("t.csv", TABLE.to_csv(index=False).replace("\n", "\r\n")),
        ("t.csv", TABLE.assign(long="x" * 200_000).to_csv(index=False)),
        ("t.csv", TABLE.to_csv(index=False).replace("\n", ",\n")),
        ("t.csv", TABLE.to_csv(index=False).replace("\n", ",\n").replace("y,", "y", 1)),
        ("t.txt", TABLE.to_csv(index=False, sep=" ", na_rep="nan")),
        ("t.csv", TABLE.to_csv(index=True).removeprefix(",")),
    ],
    ids=itertools.count(),  # not their contents, which hold the time where they are compressed
)
def test_tables(name, text, tmp_path):
    data = read(put(tmp_path, name, text), target="y")
    assert [c for c in data.columns if c not in ("id", "Unnamed: 0", "long")] == ["a", "b", "n"]
    assert data.X["a"].tolist()[:2] == [1.5, 2.5]
    assert np.isnan(data.X["a"][2])
    assert data.X["b"].tolist() == ["x", "y", "x", "z"]
    assert data.y.tolist() == [0, 1, 0, 1]
    assert data.target == "y"


def test_tables_without_names(tmp_path):
    path = put(tmp_path, "t.data", "+,S10,\t\ttacta\n-,AMPC,\t\ttgcta\n")
    data = read(path, header=False, target="0")
    assert data.y.tolist() == ["+", "-"]
    assert data.X["2"].tolist() == ["tacta", "tgcta"]


def test_columns_that_name_the_rows_are_left_out(tmp_path):
    text = "instance_name,id,length,y\n" + "".join(f"row {i},{i},{i},1\n" for i in range(1, 31))
    path = put(tmp_path, "t.csv", text)
    assert read(path, target="2").target == "length"
    assert read(path, target="id").columns == ["instance_name", "length", "y"]
    data = without_names(read(path, target="y"))
    assert data.columns == ["length"]
    assert data.left_out == {"instance_name": "it names the rows", "id": "it numbers the rows"}


def test_few_rows_are_read_with_all_their_columns(tmp_path):
    data = read(put(tmp_path, "t.csv", "city name,room no,x\nParis,1,2.0\n"))
    assert without_names(data).columns == ["city name", "room no", "x"]


def test_names_that_differ_in_spaces_are_kept_apart(tmp_path):
    data = read(put(tmp_path, "t.csv", "a, a,a ,a.1,y\n1,2,3,4,5\n6,7,8,9,0\n"), target="y")
    assert len(set(data.columns)) == 4
    assert data.columns[0] == "a"
    assert data.X.iloc[0].tolist() == [1, 2, 3, 4]
    assert "a.1" in data.columns
    assert data.repeated == {"a": [name for name in data.columns if name != "a.1"]}


def test_days_are_times_and_anything_else_is_not(tmp_path):
    text = "day,hour,code,y\n2024-12-31,2024-12-31 08:00,2024-12-31,1\n,2025-01-01 09:30,12,2\n"
    data = read(put(tmp_path, "t.csv", text), target="y")
    kinds = [data.X[name].dtype.kind for name in data.columns]
    assert kinds[:2] == ["M", "M"]
    assert kinds[2] != "M"
    assert data.X["hour"].dt.hour.tolist() == [8, 9]


def test_days_with_points_begin_with_the_day(tmp_path):
    data = read(put(tmp_path, "t.csv", "day,no\n31.12.2024,31.12.2024\n1.2.2025,32.12.2024\n"))
    assert data.X["day"].dt.strftime("%Y-%m-%d").tolist() == ["2024-12-31", "2025-02-01"]
    assert data.X["no"].tolist() == ["31.12.2024", "32.12.2024"]


def test_a_word_far_down_a_column_of_numbers_is_no_reason_to_warn(tmp_path, recwarn):
    names, others = ",".join(f"c{k}" for k in range(60)), ",1" * 59
    numbers = "".join(f"{k}.5{others}\n" for k in range(20_000))
    data = read(put(tmp_path, "t.csv", f"{names}\n{numbers}word{others}\n"))
    assert data.X["c0"].tolist()[:1] == ["0.5"]
    assert not recwarn


def test_question_marks_are_missing_values(tmp_path):
    data = read(put(tmp_path, "t.csv", "a,b\n?,x\n1.5, ?\n?,?!\n"))
    assert data.X["a"].tolist()[1] == 1.5
    assert data.X["a"].isna().tolist() == [True, False, True]
    assert data.X["b"].isna().tolist() == [False, True, False]


def test_row_names_without_a_name_are_left_out(tmp_path):
    data = read(put(tmp_path, "t.csv", "a,y\nfirst,1,2\nsecond,3,4\n"), target="y")
    assert data.X["a"].tolist() == [1, 3]
    assert "the first column" in data.left_out
    assert data.names["name"].tolist() == ["first", "second"]


def test_names_that_look_like_a_row_are_told(tmp_path):
    for text, told in {
        "0.5,1.5\n1,2\n": True,
        "+,S10\n+,AMPC\n-,XY\n": True,
        "2019,2020\n1,2\n": False,
        "a,b\nx,y\n": False,
    }.items():
        data = read(put(tmp_path, "t.csv", text))
        assert ("the first line" in data.left_out) == told
        assert not read(put(tmp_path, "t.csv", text), header=False).left_out


def test_truth_values_with_gaps(tmp_path):
    data = read(put(tmp_path, "t.csv", "b,x\nTrue,1\nFalse,2\n,3\n"))
    assert data.X["b"].tolist()[:2] == [True, False]


def test_parquet(tmp_path):
    TABLE.to_parquet(tmp_path / "t.parquet")
    data = read(str(tmp_path / "t.parquet"), target="y")
    pd.testing.assert_frame_equal(data.X, TABLE.drop(columns="y"))


def test_types_of_parquet(tmp_path):
    days = [dt.date(2024, 12, 31), None]
    table = {
        "day": pa.array(days),
        "price": pa.array([Decimal("1.50"), None]),
        "lasts": pa.array([dt.timedelta(hours=36), dt.timedelta(0)]),
        "share": ["5 %", "7.5 %"],
    }
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    data = read(str(tmp_path / "t.parquet"))
    assert data.X["day"][0] == pd.Timestamp("2024-12-31", tz="UTC")
    assert data.X["day"].isna().tolist() == [False, True]
    assert data.X["price"].dtype == float
    assert data.X["lasts"].tolist() == [1.5, 0]
    assert data.X["share"].tolist() == [5, 7.5]


def test_npz(tmp_path):
    X, y = np.arange(6.0).reshape(3, 2), np.array([1.0, 2.0, 3.0])
    data = read(put(tmp_path, "t.npz", npz(X=X, y=y)))
    assert np.array_equal(data.X, X)
    assert np.array_equal(data.y, y)
    split = read(put(tmp_path, "s.npz", npz(X_train=X, y_train=y, X_test=-X, y_test=-y)))
    assert np.array_equal(split.held_out[0], -X)
    assert read(put(tmp_path, "u.npz", npz(X=X))).y is None


def test_libsvm(tmp_path, monkeypatch):
    for name in ("t.svm", "t.svm.gz", "t"):
        content = gzip.compress(libsvm()) if name.endswith("gz") else libsvm()
        data = read(put(tmp_path, name, content))
        assert data.X.tolist() == [[0.0, 2.0, 0.0], [1.0, 0.0, 0.5]]
        assert data.y.tolist() == [1, -1]
    monkeypatch.setattr("mercer.tables.sparse.TABLE_COLUMNS", 2)
    (tmp_path / "t.svm").write_text("1 1:1 7:2\n-1 4:2\n")
    assert sp.issparse(read(str(tmp_path / "t.svm")).X)


def test_fasta(tmp_path):
    text = ">s1 kind=coding length=4 a gene\nACGT\nacg\n; remark\n>s2 kind=other length=3\nTTT\n"
    data = read(put(tmp_path, "t.fa", text), target="kind")
    assert data.X["sequence"].tolist() == ["ACGTACG", "TTT"]
    assert data.X["length"].tolist() == [4, 3]
    assert data.X["description"].tolist()[0] == "a gene"
    assert data.names["id"].tolist() == ["s1", "s2"]
    assert data.y.tolist() == ["coding", "other"]


def test_graphs(tmp_path):
    files, content = graphs()
    (tmp_path / "T").mkdir()
    for name, text in files.items():
        put(tmp_path, name, text)
    for path in (put(tmp_path, "t.zip", content), str(tmp_path / "T")):
        data = read(path)
        assert [graph.n_nodes for graph in data.X] == [3, 2]
        assert all(isinstance(graph, K.Graph) for graph in data.X)
        assert data.y.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (TABLE.to_csv(index=False).encode(), "csv"),
        (TABLE.to_csv(index=False, sep="\t").encode(), "tsv"),
        (b">s\nACGT\n>t\nAC\n", "fasta"),
        (libsvm(), "libsvm"),
        (npz(X=np.ones((2, 2))), "npz"),
        (graphs()[1], "tu"),
        (TABLE.to_parquet(), "parquet"),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_standard_input_is_known_by_its_beginning(content, form, monkeypatch):
    assert readers._by_content(content) == form
    for given_form in (None, form):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        data = read("-", given_form)
        assert data.source == "standard input"
        assert len(data.X if isinstance(data.X, list) else data.X[:]) >= 2


@pytest.mark.parametrize(
    ("name", "content", "match"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", " \n\n", "is empty"),
        ("t.csv", "\ufeff\n", "is empty"),
        ("t.csv", "a,b\n", "no rows"),
        ("t.csv", "a,b\n1,2\n1,2,3\n", "line 3 has 3 fields, and the lines before it 2"),
        ("t.csv", "a,b\n1.5,2,3\n1.5,2,3\n", "more fields than the first"),
        ("t.csv", "a,b\n1,2,\n1,2,3\n", "more fields than the first"),
        ("t.csv", 'a,b\n1,2\n1,"2\n3,4\n', "line 3 is never closed"),
        ("t.png", b"\x89PNG\r\n\x1a\n\0\0", r"is not utf-8 text \(byte 0\)"),
        ("t.xlsx", spreadsheet(), "cannot be read as xlsx"),
        ("t.csv", b'\x99\0\0\0\0\0\0\0{"__metadata__":{"mercer":"', "it is a model"),
        ("t.csv", "svm_type c_svc\nkernel_type linear\n", "it is a model"),
        ("t.parquet", b"PAR1 and no more", "cannot be read as parquet"),
        ("t.json", '[{"a": 1}, 3]', "record 1 is '3'; expected an object"),
        ("t.jsonl", '{"a": 1}\n{"a": \n', "line 2 is not JSON"),
        ("t", '{"a": [1, 2]}\n', "record 0 has a list in 'a'"),
        (
            "t.csv",
            "a,b\n1,2\n3," + "9" * 400,
            "column 'b' has a number of more than 308 digits in row 1",
        ),
        ("t.feather", b"ARROW1 and no more", "cannot be read as feather"),
        ("t.parquet", pd.DataFrame({"a": [[1, 2], [3]]}).to_parquet(), "column 'a' holds lists"),
        ("t.npz", b"PK\x03\x04 and no more", "cannot be read as npz"),
        ("t.npz", npz(A=np.ones(3)), "expected X"),
        ("t.npz", npz(X=np.ones(3)), "shape"),
        ("t.npz", npz(X=np.ones((3, 2)), y=np.ones(2)), "y has shape"),
        ("t.npz", npz(X=np.array([[None]], dtype=object)), "pickle"),
        ("t.svm", "1 2:3\n1 a:b\n", "cannot be read as libsvm: line 2"),
        ("t.svm", "one 1:2\n", "cannot be read as libsvm"),
        ("t.fa", "ACGT\n>s\nA\n", "does not begin with >"),
        ("t.zip", b"PK\x03\x04 and no more", "cannot be read as tu"),
    ],
)
def test_wrong_files_are_named(name, content, match, tmp_path):
    with pytest.raises(ValueError, match=match):
        read(put(tmp_path, name, content))


def test_wrong_targets_are_named(tmp_path):
    path = put(tmp_path, "t.csv", TABLE.to_csv(index=False))
    with pytest.raises(ValueError, match="--target z: there is no such column; there are a, b"):
        read(path, target="z")
    with pytest.raises(ValueError, match=r"did you mean n\?"):
        read(path, target="N")
    path = put(tmp_path, "t.npz", npz(X=np.ones((3, 2)), y=np.ones(3)))
    with pytest.raises(ValueError, match="no columns with names"):
        read(path, target="z")
    with pytest.raises(ValueError, match="--format xml"):
        read(path, "xml")
    with pytest.raises(FileNotFoundError):
        read(str(tmp_path / "missing.csv"))


def test_standard_input_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ValueError, match="standard input is closed"):
        read("-")


def test_every_suffix_has_a_reader():
    assert set(SUFFIXES.values()) == set(READERS)


@settings(max_examples=TRIES, deadline=None, suppress_health_check=list(HealthCheck))
@given(form=st.sampled_from(sorted(READERS)), data=st.data())
def test_damaged_files_give_data_or_an_error(tmp_path, form, data):
    """No reader ends in anything but data, or one of the errors that become a line."""
    whole = {
        "csv": TABLE.to_csv(index=False).encode(),
        "tsv": TABLE.to_csv(index=False, sep="\t").encode(),
        "parquet": TABLE.to_parquet(),
        "npz": npz(X=np.ones((3, 2)), y=np.ones(3)),
        "libsvm": libsvm(),
        "fasta": b">s kind=a\nACGT\n>t kind=b\nAC\n",
        "tu": graphs()[1],
        "feather": feather(TABLE),
        "xlsx": sheet(TABLE),
        "jsonl": TABLE.to_json(orient="records", lines=True).encode(),
    }[form]
    a, b = sorted(data.draw(st.tuples(*[st.integers(0, len(whole))] * 2)))
    content = whole[:a] + data.draw(st.binary(max_size=20)) + whole[b:]
    try:
        found = read(put(tmp_path, "it", content), form)
    except ValueError:
        return
    assert found.X is not None


def test_thousands_of_columns_of_one_name_are_told_apart():
    names = text_tables._apart(["x"] * 20_000 + ["x.1", "y"])
    assert len(set(names)) == 20_002
    assert names[:3] == ["x", "x.2", "x.3"]
    assert names[-2:] == ["x.1", "y"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_pipes_and_devices_are_not_data(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(OSError, match="pass - to read from a pipe"):
            readers.read(path)


def test_what_is_packed_too_well_is_refused_by_its_size(tmp_path):
    rows = b"a,b\n" + b"1,2\n" * 1_000_000
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(rows))
    np.savez_compressed(tmp_path / "t.npz", X=np.zeros((1000, 1000)), y=np.zeros(1000))
    pd.DataFrame({"x": np.zeros(10**6)}).to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv.gz", "t.npz", "t.parquet"):
        with pytest.raises(ValueError, match=r"more than 0.001 GiB when it is unpacked; --max-gib"):
            read(str(tmp_path / name), max_gib=0.001)
        assert read(str(tmp_path / name)).width >= 1


def test_nul_bytes_in_a_table_are_named(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\n3,\x004\n")
    with pytest.raises(ValueError, match="line 3 has a NUL byte"):
        read(str(tmp_path / "t.csv"))


def test_json_feather_and_spreadsheets(tmp_path):
    table = pd.DataFrame(
        {"n": [1.5, None, 3.0], "w": ["x", "y", None], "day": ["2024-01-31", "2024-02-01", None]}
    )
    lines = table.to_json(orient="records", lines=True)
    times = table.assign(day=pd.to_datetime(table["day"]).dt.tz_localize("UTC"))
    contents = {
        "t.jsonl": lines,
        "t.json": table.to_json(orient="records"),
        "lines": lines,
        "t.feather": feather(times),
        "t.xlsx": sheet(table),
        "sheet": sheet(table),
        "t.csv": table.to_csv(index=False),
    }
    for name, content in contents.items():
        found = read(put(tmp_path, name, content)).X
        assert found["n"].tolist()[::2] == [1.5, 3.0], name
        assert found["w"].tolist()[:2] == ["x", "y"], name
        assert found["w"].isna().tolist() == [False, False, True], name
        assert found["day"].dt.strftime("%Y-%m-%d").tolist()[:2] == ["2024-01-31", "2024-02-01"]


def test_text_of_other_encodings(tmp_path):
    path = put(tmp_path, "t.csv", "city,y\nMünchen,1\nKöln,2\n".encode("latin-1"))
    data = read(path)
    assert data.X["city"].tolist() == ["München", "Köln"]
    assert data.notes[0].endswith("not UTF-8 and was read as Windows-1252; --encoding overrides")
    path = put(tmp_path, "t.csv", "city,y\nМосква,1\nОмск,2\n".encode("cp1251"))
    data = read(path, encoding="cp1251")
    assert data.X["city"].tolist() == ["Москва", "Омск"]
    assert data.notes == ()
    path = put(tmp_path, "t.csv", b"a,b\n\x81\xfe\xfa,1\n")
    assert "Latin-1" in read(path).notes[0]
    with pytest.raises(ValueError, match="not ascii text"):
        read(path, encoding="ascii")
    with pytest.raises(ValueError, match="there is no such encoding"):
        read(path, encoding="cp9999")


def test_days_of_eight_digits_need_a_name_that_says_so(tmp_path):
    path = put(tmp_path, "t.csv", "date,code\n20220814,20220814\n20220815,20220815\n")
    found = read(path).X
    assert found["date"].dt.strftime("%d.%m.%Y").tolist() == ["14.08.2022", "15.08.2022"]
    assert found["code"].tolist() == [20220814, 20220815]
    path = put(tmp_path, "t.csv", "date,code\n20220832,1\n20220815,2\n")
    assert read(path).X["date"].tolist() == [20220832, 20220815]
