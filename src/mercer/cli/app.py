"""The `mercer` command and its subcommands."""

from __future__ import annotations

from typing import Annotated

import typer

import mercer
from mercer.cli.commands.demo import demo
from mercer.cli.commands.density import density
from mercer.cli.commands.fit import fit
from mercer.cli.commands.kernels import check, kernels
from mercer.cli.commands.saved_models import explain, inspect_model, predict, report
from mercer.cli.errors import OneLine

app = typer.Typer(
    cls=OneLine,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"mercer {mercer.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def main_options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Train, test and explain kernel models on a table."""
    if context.invoked_subcommand is None:
        print(context.get_help())


app.command()(fit)
app.command("inspect")(inspect_model)
for command in (predict, explain, check, density, kernels, report, demo):
    app.command()(command)
