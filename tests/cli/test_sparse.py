"""Sparse files of very many columns: fit, predict, report, density; new columns; damaged ones."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import mercer
from command_line import refused, run
from mercer.tables.sparse import SparseCoding

WIDTH = 1_300_000


def lines(n=120, entries=40, width=WIDTH, seed=0):
    """Lines of LIBSVM's format; the first columns tell the classes apart."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        words = 2 * rng.integers(0, 50, 10) + (rng.random(10) < (0.85 if i % 2 else 0.15)) + 1
        columns = np.unique(np.append(words, rng.integers(101, width, entries - 10)))
        columns = [*columns, width] if i == 0 and columns[-1] < width else columns
        values = rng.random(len(columns))
        pairs = (f"{c}:{v:.3f}" for c, v in zip(columns, values, strict=True))
        yield f"{i % 2} {' '.join(pairs)}"


@pytest.fixture
def words(here):
    (here / "words.svm").write_text("\n".join(lines()) + "\n")
    return here


def test_fit_predict_and_report(words):
    summary = json.loads(
        run("fit", "words.svm", "--json", "--report", "r.html", "--max-time", "5").stdout
    )
    assert summary["score"]["value"] > 0.8
    (columns,) = summary["columns"]
    assert columns["name"] == "1,300,000 columns"
    assert columns["kind"] == "sparse numbers"
    assert columns["holds"].endswith(" per row")
    assert summary["importances"] is None
    model = mercer.load("words.mercer")
    assert isinstance(model.coding_, SparseCoding)
    assert (words / "r.html").stat().st_size < 2**20
    assert (words / "words.mercer").stat().st_size < 2**20
    predicted = run("predict", "words.mercer", "words.svm", "--probabilities", "-o", "p.csv")
    assert "accuracy" in predicted.stderr
    assert len((words / "p.csv").read_text().splitlines()) == 121
    run("report", "words.mercer", "-o", "again.html")
    assert (words / "again.html").stat().st_size < 2**20


def test_files_with_fewer_or_more_columns(words):
    run("fit", "words.svm", "-q", "--max-time", "5")
    table = (words / "words.svm").read_text().splitlines()
    expected = run("predict", "words.mercer", "words.svm").stdout.splitlines()
    # A file ends with its last column that is not empty.
    narrow = [" ".join(w for w in row.split() if len(w.split(":")[0]) <= 3) for row in table]
    (words / "narrow.svm").write_text("\n".join(narrow) + "\n")
    assert len(run("predict", "words.mercer", "narrow.svm").stdout.splitlines()) == 121
    few = "1 3:1 9:0.5 15:2\n"
    (words / "few.svm").write_text(few)
    (words / "padded.svm").write_text(few.strip() + f" {WIDTH}:0\n")
    answers = [run("predict", "words.mercer", name).stdout for name in ("few.svm", "padded.svm")]
    assert answers[0] == answers[1]
    # Columns beyond those of training have no part in predictions, and this is said.
    (words / "wide.svm").write_text("\n".join(f"{row} {WIDTH + 5}:9" for row in table) + "\n")
    wide = run("predict", "words.mercer", "wide.svm")
    assert wide.stdout.splitlines() == expected
    assert "wide.svm has 1,300,005 columns and training had 1,300,000; 120 of" in wide.stderr


def test_a_table_of_few_columns_takes_no_more(here):
    narrow = "\n".join(f"{i % 7 / 2} 1:{i % 7} 2:{i % 3}" for i in range(40))
    (here / "t.svm").write_text(narrow + "\n")
    run("fit", "t.svm", "-q", "--max-time", "1")
    (here / "w.svm").write_text("1 1:3 9:1\n")
    assert "9 feature columns; the model" in refused("predict", "t.mercer", "w.svm")
    (here / "w.svm").write_text("1 1:3 2000000:1\n")
    assert "2000000 feature columns" in refused("predict", "t.mercer", "w.svm")


def test_one_entry_in_a_far_column_takes_no_memory(here):
    text = "\n".join(lines(60)) + "\n1 2147483647:1\n"
    (here / "far.svm").write_text(text)
    run("fit", "far.svm", "-q", "--max-time", "2")
    assert mercer.load("far.mercer").n_features_in_ == 2**31 - 1
    run("predict", "far.mercer", "far.svm", "-q")
    (here / "beyond.svm").write_text(text + "1 2147483648:1\n")
    told = refused("fit", "beyond.svm")
    assert "beyond.svm cannot be read as libsvm: a column is beyond 2,147,483,647" in told


def test_densities_are_of_columns_that_are_asked_for(words):
    told = refused("density", "words.svm")
    assert "words.svm has 1,300,000 columns, mostly zeros" in told
    assert "choose some with --column" in told
    told = refused("density", "words.svm", "-c", "1300000")
    assert "no such column; there are 0 to 1299999" in told
    found = json.loads(run("density", "words.svm", "-c", "7", "-c", "column 3", "--json").stdout)
    assert [column["name"] for column in found["columns"]] == ["column 7", "column 3"]


def test_errors_of_memory_are_one_line(here, monkeypatch):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000000), }"
    header = header.ljust(117) + b"\n"
    with zipfile.ZipFile("vast.npz", "w") as file:
        file.writestr("X.npy", b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    told = refused("fit", "vast.npz")
    assert "reading vast.npz" in told
    assert "unable to allocate" in told
    assert "(1000000000, 1000000)" in told or "(1000000000000000,)" in told
    assert "fewer rows or columns" in told

    def no_room(*arguments):
        raise MemoryError

    (here / "t.svm").write_text("\n".join(lines(30)) + "\n")
    monkeypatch.setattr("mercer.cli.splits.holdout", no_room)
    assert "this needs more memory than there is; use fewer rows" in refused("fit", "t.svm")


PEAK = """
import resource, sys
from mercer.cli import main
try:
    main()
finally:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, file=sys.stderr)
"""


def peak(*arguments):
    """The most memory, in MiB, that a command takes in a process of its own."""
    ended = subprocess.run(
        [sys.executable, "-c", PEAK, *arguments], capture_output=True, text=True, check=True
    )
    return int(ended.stderr.splitlines()[-1])


@pytest.mark.long
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="measures memory as Linux does")
@pytest.mark.parametrize(("n", "entries", "most"), [(600, 60, 400), (20_000, 450, 1100)])
def test_the_memory_of_large_files(here, n, entries, most):
    """As news20.binary is; dense, 6 GiB and 190 GiB."""
    with open("news.svm", "w") as file:
        file.writelines(f"{line}\n" for line in lines(n, entries))
    assert peak("fit", "news.svm", "-q", "--max-time", "60") < most
    assert peak("predict", "news.mercer", "news.svm", "-q", "-o", "p.csv") < most
