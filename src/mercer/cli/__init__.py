"""The `mercer` command."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Run it; what it needs is imported here, so that Ctrl-C is heard from the start."""
    try:
        from mercer.cli.app import app

        app(prog_name="mercer")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
