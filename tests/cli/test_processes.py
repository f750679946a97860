"""The command among others: pipes, full disks, interrupts, colours, help, and its documentation."""

from __future__ import annotations

import errno
import os
import pathlib
import re
import shlex
import sys

import pytest

import mercer
from command_line import command, refused, run, runner
from mercer.cli import main, models
from mercer.cli.app import app
from mercer.reports import drawing


def test_pipes(irises):
    """The model goes through a pipe, and so do the data."""
    with open("iris.csv", "rb") as file:
        table = file.read()
    model = command("fit", "-", "--target", "species", "-o", "-", input=table)
    assert model.returncode == 0, model.stderr
    predicted = command("predict", "-", "iris.csv", "-q", input=model.stdout)
    assert predicted.returncode == 0, predicted.stderr
    assert len(predicted.stdout.splitlines()) == 151
    assert predicted.stderr == b""
    assert os.listdir() == ["iris.csv"]
    wrong = command("fit", "-", "--target", "kind", input=table)
    assert wrong.returncode == 2
    assert re.fullmatch(rb"mercer: [^\n]+\n", wrong.stderr)


def test_a_full_disk_is_named(irises, monkeypatch):
    run("fit", "iris.csv", "-t", "species", "-q")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    told = refused("fit", "iris.csv", "-t", "species", "-o", "m.mercer", "--max-time", "1")
    assert told == "mercer: m.mercer: No space left on device\n"
    told = refused("report", "iris.mercer", "-o", "p.html")
    assert told == "mercer: p.html: No space left on device\n"


def test_a_report_that_cannot_be_written_leaves_the_model_and_its_score(irises, monkeypatch):
    def full(path, text):
        raise OSError(errno.ENOSPC, "No space left on device", path)

    monkeypatch.setattr(sys.modules["mercer.cli.commands.fit"], "write", full)
    arguments = ("fit", "iris.csv", "-t", "species", "--max-time", "1", "--report", "p.html")
    ended = run(*arguments, status=2)
    assert "accuracy" in ended.stdout
    assert "saved as iris.mercer\n" in ended.stderr
    assert "the report was not written: p.html: No space left on device" in ended.stderr
    assert len(mercer.load("iris.mercer").classes_) == 3


def test_a_report_without_matplotlib_is_refused_before_any_work(irises, monkeypatch):
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)
    monkeypatch.setattr(models.Trainer, "train", None)
    assert "need matplotlib" in refused("fit", "iris.csv", "-t", "species", "--report", "p.html")


def test_a_folder_that_may_not_be_written_to_is_told_before_any_work(irises, here, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    monkeypatch.setattr(models.Trainer, "train", None)
    told = refused("fit", "iris.csv", "-t", "species")
    assert f"iris.mercer: the folder {here.resolve()} is not writable" in told


def interrupted(*arguments, **named):
    raise KeyboardInterrupt


def test_an_interrupt_ends_it_without_a_word(diabetes, monkeypatch, capsys):
    monkeypatch.setattr(models.Trainer, "train", interrupted)
    result = run("fit", "diabetes.csv", "-t", "target", "--report", "p.html", status=130)
    assert result.stdout + result.stderr == ""
    assert os.listdir() == ["diabetes.csv"]
    monkeypatch.setattr(sys.modules["mercer.cli.app"], "app", interrupted)
    with pytest.raises(SystemExit, match="130"):
        main()
    assert capsys.readouterr() == ("", "")


# A module that is interrupted while it is imported.
INTERRUPTED = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # background shells turn it off
signal.raise_signal(signal.SIGINT)
"""


@pytest.mark.parametrize(
    "module", ["typer", "pandas", "matplotlib"], ids=["starting", "reading", "drawing"]
)
def test_a_signal_ends_it_without_a_word(module, irises, here):
    (here / "stubs").mkdir()
    (here / "stubs" / f"{module}.py").write_text(INTERRUPTED)
    before = sorted(os.listdir())
    arguments = ("fit", "iris.csv", "-t", "species", "--max-time", "1", "--report", "p.html")
    ended = command(*arguments, env={**os.environ, "PYTHONPATH": str(here / "stubs")})
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
    assert sorted(os.listdir()) == before


def test_an_interrupt_in_writing_leaves_whole_files(irises, monkeypatch):
    run("fit", "iris.csv", "-t", "species", "-q", "--max-time", "1", "--report", "p.html")
    held = {name: pathlib.Path(name).read_bytes() for name in os.listdir()}
    monkeypatch.setattr(os, "fsync", interrupted)
    again = ("-q", "--max-time", "1", "--seed", "1", "--report", "p.html")
    run("fit", "iris.csv", "-t", "species", *again, status=130)
    run("report", "iris.mercer", "-o", "p.html", status=130)
    assert {name: pathlib.Path(name).read_bytes() for name in os.listdir()} == held


def test_no_color(irises):
    environment = {**os.environ, "FORCE_COLOR": "1"}
    environment.pop("NO_COLOR")
    coloured = command("fit", "iris.csv", "-t", "species", env=environment)
    assert b"\x1b[1m" in coloured.stdout
    plain = command("fit", "iris.csv", "-t", "species", env={**os.environ, "NO_COLOR": "1"})
    assert b"\x1b" not in plain.stdout + plain.stderr


def test_help_and_version():
    assert "fit" in run().stdout
    assert "density" in run("--help").stdout
    assert "--target" in run("fit", "-h").stdout
    assert mercer.__version__ in run("--version").stdout


def test_tab_completion():
    def complete(words):
        environment = {"_MERCER_COMPLETE": "complete_bash", "COMP_WORDS": words}
        environment["COMP_CWORD"] = str(len(words.split()) - (not words.endswith(" ")))
        return runner.invoke(app, [], prog_name="mercer", env=environment).output.split()

    assert "fit" in complete("mercer f")
    assert "RBF" in complete("mercer kernels RB")
    assert "fasta" in complete("mercer fit data --format f")


def test_the_commands_of_the_documentation_run(irises):
    docs = pathlib.Path(__file__).parents[2] / "docs" / "command.md"
    blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", docs.read_text(encoding="utf-8"))
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) >= 8
    for line in lines:
        if "|" not in line:
            run(*shlex.split(line)[1:], status=1 if "Sigmoid" in line else 0)
    made = {"iris.mercer", "iris.html", "predictions.csv", "density.html", "densities.csv"}
    assert set(os.listdir()) == made | {"iris.csv"}
