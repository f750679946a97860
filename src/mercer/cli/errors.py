"""Errors in one line, and the exit status."""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from mercer.cli import INTERRUPTED
from mercer.cli.escaping import escape
from mercer.memory_errors import explained, is_bare

FEWER = "use fewer rows or columns, or a machine with more memory"


class OneLine(TyperGroup):
    """Commands that report errors in one line, with exit status 2."""

    def main(self, *arguments: Any, standalone_mode: bool = True, **named: Any) -> Any:
        if not standalone_mode:
            return super().main(*arguments, standalone_mode=False, **named)
        for stream in ("stdout", "stderr"):
            if getattr(sys, stream) is None:  # closed by the caller: discard the output
                setattr(sys, stream, open(os.devnull, "w"))  # noqa: SIM115
        try:
            status = super().main(*arguments, standalone_mode=False, **named)
        except BrokenPipeError:
            sys.stderr.close()  # no reader is left
            sys.exit(1)
        except (KeyboardInterrupt, typer.Abort):
            sys.exit(INTERRUPTED)
        except RecursionError:
            print("mercer: the input is nested too deeply", file=sys.stderr)
            sys.exit(2)
        except Exception as error:
            print(f"mercer: {sentence(error)}", file=sys.stderr)
            sys.exit(2)
        sys.exit(status if isinstance(status, int) else 0)


def sentence(error: Exception) -> str:
    """The message of an error, in one line."""
    formatted = getattr(error, "format_message", None)
    if formatted is not None:  # typer: a wrong option
        text = formatted()
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    elif isinstance(error, MemoryError) and is_bare(error):
        text = str(explained(error, "this", FEWER))
    elif isinstance(error, ValueError | TypeError | OSError | ImportError | MemoryError):
        text = str(error) or type(error).__name__
    else:
        text = f"{type(error).__name__}: {error}"
    return escape(" ".join(text.split()))
