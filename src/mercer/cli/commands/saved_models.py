"""Commands that read a saved model: inspect, predict, explain, report."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

import mercer
from mercer.cli.options import (
    DataArgument,
    EncodingOption,
    FormatOption,
    HeaderOption,
    JsonOption,
    MaxGibOption,
    QuietOption,
)
from mercer.cli.output import (
    Output,
    facts_table,
    load_model,
    require_html_suffix,
    require_table_suffix,
    require_writable,
    write,
    write_table,
)
from mercer.reports.summaries import plain
from mercer.tables.readers import MAX_GIB, is_model_file, read

# Most names that `inspect` lists per kind, and their most characters.
MOST_SHOWN, LONGEST_SHOWN = 100, 80


def inspect_model(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file written by fit.")],
    as_json: JsonOption = False,
) -> None:
    """List the contents of a model file without loading the model."""
    from mercer.persistence.files import inspect

    found = inspect(model)
    arrays = found["arrays"].values()
    shown = {
        "model": found["class"],
        "written by": f"mercer {found['mercer']}, scikit-learn {found['scikit-learn']}",
        "format": str(found["format"]),
        "classes": _listed(f"{name} ({n})" for name, n in found["classes"].items()),
        "other values": _listed(f"{name} ({n})" for name, n in found["forms"].items()),
        "arrays": f"{len(arrays)}, {sum(a['bytes'] for a in arrays):,} bytes",
        "needs functions": _listed(found["functions"]),
        "notes": _listed(found["notes"]),
    }
    lines = "\n".join(f"{name:<16} {value}" for name, value in shown.items())
    Output(as_json).result(found, lines)


def _listed(names: Iterable[str]) -> str:
    """The first names, shortened: a file may hold any number of names of any length."""
    found = list(names)
    shown = [n if len(n) <= LONGEST_SHOWN else f"{n[:LONGEST_SHOWN]}…" for n in found[:MOST_SHOWN]]
    more = [f"and {len(found) - MOST_SHOWN} more"] if len(found) > MOST_SHOWN else []
    return ", ".join([*shown, *more]) or "none"


def predict(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A file written by fit, or a LIBSVM model.")
    ],
    data: DataArgument,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", help="Output file (.csv, .tsv, .jsonl or .npz); - for stdout."
        ),
    ] = "-",
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add the probability of each class.")
    ] = False,
    novelty: Annotated[
        bool,
        typer.Option(
            "--novelty",
            help="Add how far each row is from the training rows (0 to 1), what it has that they "
            "do not, and whether it was trained on.",
        ),
    ] = False,
    form: FormatOption = None,
    max_gib: MaxGibOption = MAX_GIB,
    encoding: EncodingOption = None,
    header: HeaderOption = True,
    quote_formulas: Annotated[
        bool,
        typer.Option(
            "--quote-formulas/--no-quote-formulas",
            help="Put ' before text that a spreadsheet would run as a formula.",
        ),
    ] = True,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Predict with a saved model, one line per row of the data."""
    out = Output(as_json, quiet)
    if model == data == "-":
        raise ValueError("the model and the data cannot both come from standard input")
    _refuse_swapped(model, data)
    require_table_suffix(output)
    require_writable(output, read=(model, data))
    found = read(data, form, header, max_gib=max_gib, encoding=encoding)
    for line in found.notes:
        out.note(line)
    fitted, notes = load_model(model, found.width)
    from mercer.cli.predicting import (
        newly_marked,
        notes_on_rows,
        predictions,
        score_of,
        trained_rows,
    )

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        columns = predictions(fitted, notes, found, probabilities, novelty)
        trained = trained_rows(fitted, notes, found)
        about = notes_on_rows(fitted, notes, found, trained)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        out.note(message)
    if marked := newly_marked(notes, found):
        out.note(marked)
    for line in about:
        out.note(line)
    if as_json:
        out.result({name: column.tolist() for name, column in columns.items()})
    if not as_json or output != "-":
        changed = write_table(output, columns, quote_formulas)
        if changed:
            out.note(
                f"{changed} cells that a spreadsheet would run as formulas now begin with '; "
                "--no-quote-formulas turns this off"
            )
    score = score_of(notes, found, columns, trained)
    if score is not None:
        out.note(score)


def explain(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file written by fit.")],
    data: DataArgument,
    row: Annotated[int, typer.Option(min=0, help="Row of DATA to explain, from 0.")] = 0,
    among: Annotated[
        str | None,
        typer.Option(metavar="DATA", help="List the rows of this file that are most similar."),
    ] = None,
    form: FormatOption = None,
    max_gib: MaxGibOption = MAX_GIB,
    encoding: EncodingOption = None,
    header: HeaderOption = True,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Explain the prediction for one row: the effect of each column, and similar rows."""
    from mercer.cli.explaining import explanation, lines

    out = Output(as_json, quiet)
    _refuse_swapped(model, data)
    found = read(data, form, header, max_gib=max_gib, encoding=encoding)
    for line in found.notes:
        out.note(line)
    others = read(among, form, header, max_gib=max_gib, encoding=encoding) if among else None
    fitted, notes = load_model(model, found.width)
    shown = explanation(fitted, notes, found, row, others)
    out.result(shown, lines(shown))


def report(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A file written by fit.")],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="PAGE", help="HTML file, MODEL.html by default; - for stdout."
        ),
    ] = None,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Summarise a saved model and write an HTML report."""
    out = Output(as_json, quiet)
    path = output or ("-" if model == "-" else str(Path(model).with_suffix(".html")))
    require_writable(path, read=(model,))
    require_html_suffix(path)
    fitted, notes = load_model(model)
    from mercer.reports import pages
    from mercer.reports.models import described

    summary = notes if "kind" in notes else {**described(fitted), "mercer": mercer.__version__}
    name = summary.get("data") or Path(model).name
    try:
        page = pages.page(f"Learning from {name}", [plain(summary)])
        shown = facts_table(summary)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ValueError(
            f"the notes of {model} are not those that mercer fit writes ({error!s:.200})"
        ) from error
    write(path, page)
    if path != "-":
        out.result(summary, shown)
        out.note(f"\nreport in {path}")


def _refuse_swapped(model: str, data: str) -> None:
    """Raise an error if the model and the table are given in the wrong order."""
    both = all(Path(path).is_file() for path in (model, data))
    if both and is_model_file(data) and not is_model_file(model):
        raise ValueError(f"the model comes first: mercer predict {data} {model}")
