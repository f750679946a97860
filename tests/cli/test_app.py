"""The command itself: its subcommands, help, version, and errors in one line."""

from __future__ import annotations

import typer

import mercer
from command_line import refused, run
from mercer.cli import errors
from mercer.cli.app import app

COMMANDS = {"fit", "inspect", "predict", "explain", "check", "density", "kernels", "report", "demo"}


def test_every_command_is_there_and_has_help():
    names = set(typer.main.get_command(app).commands)
    assert names >= COMMANDS
    shown = run("--help").stdout
    for name in names:
        assert f"  {name} " in shown
        assert f"mercer {name}" in run(name, "--help", prog_name="mercer").stdout


def test_help_without_arguments_and_the_version():
    assert run().stdout == run("--help").stdout
    assert run("--version").stdout == f"mercer {mercer.__version__}\n"


def test_a_wrong_option_or_command_is_one_line():
    assert "--targt" in refused("fit", "x.csv", "--targt", "y")
    assert "fits" in refused("fits")


def test_sentences_of_errors():
    assert errors.sentence(ValueError("two\nlines")) == "two lines"
    assert errors.sentence(OSError(2, "No such file", "a.csv")) == "a.csv: No such file"
    assert "fewer rows" in errors.sentence(MemoryError())
    assert errors.sentence(KeyError("x")) == "KeyError: 'x'"
