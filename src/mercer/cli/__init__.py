"""The `mercer` command."""

from mercer.cli.app import app, main

__all__ = ["app", "main"]
