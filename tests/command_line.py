"""Commands, as a person types them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

from typer.testing import CliRunner

from mercer.cli.app import app

runner = CliRunner()


def run(*arguments, status=0, **named):
    result = runner.invoke(app, [str(argument) for argument in arguments], **named)
    assert result.exit_code == status, result.output + repr(result.exception)
    return result


def refused(*arguments, **named):
    """The line that a wrong command gives; nothing else is written or left."""
    before = set(os.listdir())
    result = run(*arguments, status=2, **named)
    assert result.stdout == ""
    assert re.fullmatch(r"mercer: [^\n]+\n", result.stderr)
    assert set(os.listdir()) == before
    return result.stderr


def command(*arguments, **named):
    return subprocess.run(
        [sys.executable, "-m", "mercer", *arguments], capture_output=True, **named
    )
