"""Text from files does nothing to a terminal, and nothing in a spreadsheet."""

from __future__ import annotations

import io
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import mercer
from mercer.cli.escaping import escape
from mercer.cli.output import require_writable, write_table

COLOUR = "\x1b[31m"


def run(*words, **options):
    return subprocess.run(
        [sys.executable, "-m", "mercer", *map(str, words)],
        capture_output=True, text=True, check=False, **options,
    )  # fmt: skip


def test_what_a_terminal_obeys_is_written_out():
    assert escape(f"a{COLOUR}b\x07\x9b\u202ec\nd\te") == ("a\\x1b[31mb\\x07\\x9b\\u202ec\nd\te")


def test_names_labels_files_and_expressions_never_reach_the_terminal_raw(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=60)
    frame = pd.DataFrame({f"x{COLOUR}": x, "y": np.where(x > 0, f"up{COLOUR}", "down")})
    path = tmp_path / f"data{COLOUR}.csv"
    frame.to_csv(path, index=False)
    said = [
        run(
            *("fit", path, "--target", "y", "--max-time", 5, "-o", tmp_path / "m.mercer"),
            *("--report", tmp_path / "r.html"),
        ),
        run("fit", path, "--target", f"no{COLOUR}"),
        run("check", f"RBF({COLOUR})"),
        run("predict", tmp_path / f"none{COLOUR}", path),
    ]
    assert said[0].returncode == 0, said[0].stderr
    for found in said:
        assert "\x1b" not in found.stdout + found.stderr
    assert "\\x1b[31m" in said[1].stderr
    report = (tmp_path / "r.html").read_text()
    assert "\x1b" not in report
    assert "x\\x1b[31m" in report


def test_labels_that_a_spreadsheet_would_run_are_quoted(tmp_path):
    columns = {"prediction": np.array(["=1+1", "@x", "plain"]), "value": np.array([-1.5, 2, 3])}
    assert write_table(str(tmp_path / "out.csv"), columns) == 2
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert lines == ["prediction,value", "'=1+1,-1.5", "'@x,2.0", "plain,3.0"]
    assert write_table(str(tmp_path / "out.csv"), columns, quote=False) == 0
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == "=1+1,-1.5"


def test_predictions_are_escaped_for_a_terminal_only(monkeypatch):
    columns = {"prediction": np.array([f"up{COLOUR}", "\u202edown"])}
    for terminal, expected in (
        (False, f"prediction\nup{COLOUR}\n\u202edown\n"),
        (True, "prediction\nup\\x1b[31m\n\\u202edown\n"),
    ):
        stdout = io.StringIO()
        monkeypatch.setattr(stdout, "isatty", lambda terminal=terminal: terminal)
        monkeypatch.setattr(sys, "stdout", stdout)
        write_table("-", columns)
        assert stdout.getvalue() == expected


def test_another_name_of_the_input_is_no_place_for_output(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a\n1\n")
    os.link(path, tmp_path / "again.csv")
    with pytest.raises(ValueError, match="it is an input"):
        require_writable(str(tmp_path / "again.csv"), read=(str(path),))


def test_deep_expressions_and_closed_output_end_in_a_line(tmp_path):
    deep = run("check", "Linear()" + ".normalize()" * 200)
    assert deep.returncode in (0, 1, 2)
    assert "Traceback" not in deep.stderr
    assert len(deep.stderr.splitlines()) <= 1
    code = (
        "import os, sys; os.close(1); "
        "os.execv(sys.executable, [sys.executable, '-m', 'mercer', 'check', 'Linear()'])"
    )
    closed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert "Error" not in closed.stderr


def test_remains_of_killed_saves_are_removed(tmp_path):
    old, new = (tmp_path / f".m.mercer.{word * 16}.part" for word in "ab")
    for part in (old, new):
        part.write_bytes(b"x")
    os.utime(old, (0, 0))
    mercer.save(mercer.kernels.RBF(), tmp_path / "m.mercer")
    assert sorted(path.name for path in tmp_path.iterdir()) == [new.name, "m.mercer"]
