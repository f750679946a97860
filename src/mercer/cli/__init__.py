"""The `mercer` command."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command. Imports come late, so that Ctrl-C works from the start."""
    try:
        from mercer.cli.app import app

        app(prog_name="mercer")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
