"""mercer density."""

from __future__ import annotations

from typing import Annotated

import typer

from mercer.cli.options import (
    DataArgument,
    EncodingOption,
    FormatOption,
    HeaderOption,
    JsonOption,
    MaxGibOption,
    QuietOption,
    ReportOption,
)
from mercer.cli.output import (
    Output,
    require_html_suffix,
    require_table_suffix,
    require_writable,
    save_model,
    write,
    write_table,
)
from mercer.reports.summaries import plain
from mercer.tables.data import without_names
from mercer.tables.readers import MAX_GIB, read


def density(
    data: DataArgument,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", help="Column name or position; repeat for several."),
    ] = None,
    bandwidth: Annotated[
        str | None, typer.Option(help="A number, scott, silverman, isj, lscv, mlcv or plugin.")
    ] = None,
    kernel: Annotated[
        str, typer.Option(help="Smoothing kernel: gaussian, epanechnikov, biweight, tophat, ...")
    ] = "gaussian",
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="Write the density at each row to this file; - for stdout."
        ),
    ] = None,
    save: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Save the fitted density.")
    ] = None,
    report: ReportOption = None,
    form: FormatOption = None,
    max_gib: MaxGibOption = MAX_GIB,
    encoding: EncodingOption = None,
    header: HeaderOption = True,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Estimate the density of one numeric column, or the joint density of several."""
    out = Output(as_json, quiet)
    require_table_suffix(output)
    require_writable(output, save, report, read=(data,))
    require_html_suffix(report)
    found = read(data, form, header, max_gib=max_gib, encoding=encoding)
    for line in found.notes:
        out.note(line)
    from mercer.cli.density import estimate, rows
    from mercer.reports import pages

    found = found if column else without_names(found)
    fitted, X, names, summary = estimate(found, column, bandwidth, kernel)
    page = None
    if report is not None:
        page = pages.page(f"Density of {found.source}", [plain(summary)])
    if output is not None:
        write_table(output, {**rows(X, names, summary), "density": fitted.pdf(X)})
    if save is not None:
        save_model(fitted, save, summary)
    if report is not None and page is not None:
        write(report, page)
    if "-" not in (output, save, report):
        out.result(summary)
        for line in summary["advice"]:
            out.note(f"\n{line}")
        written = {"densities in": output, "saved as": save, "report in": report}
        files = ", ".join(f"{words} {path}" for words, path in written.items() if path)
        if files:
            out.note(f"\n{files}")
