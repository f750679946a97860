"""mercer demo."""

from __future__ import annotations

from typing import Annotated

import typer

from mercer.cli.options import JsonOption, QuietOption
from mercer.cli.output import Output, require_html_suffix, require_writable


def demo(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="PAGE", help="HTML file of the report.")
    ] = "mercer-demo.html",
    max_time: Annotated[float, typer.Option(min=0.1, help="Seconds of training per model.")] = 20.0,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Demonstrate the commands on small tables that come with scikit-learn."""
    from mercer.cli.demonstration import demonstrate

    require_writable(output)
    require_html_suffix(output)
    demonstrate(Output(as_json, quiet), output, max_time)
