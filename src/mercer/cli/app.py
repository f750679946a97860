"""The commands: read, compute, write."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import mercer
from mercer.cli import INTERRUPTED
from mercer.cli.escaping import escape
from mercer.cli.output import (
    Output,
    facts_table,
    load_model,
    require_html_suffix,
    require_table_suffix,
    require_writable,
    save_model,
    write,
    write_table,
)
from mercer.memory_errors import explained, is_bare
from mercer.reports.summaries import plain
from mercer.tables.readers import (
    MAX_GIB,
    READERS,
    Data,
    grouped,
    is_model_file,
    read,
    require_columns,
    suggested,
    timed,
    without_names,
)

FEWER = "use fewer rows or columns, or a machine with more memory"

# Most names that `inspect` lists per kind, and their most characters.
MOST_SHOWN, LONGEST_SHOWN = 100, 80


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
            print(f"mercer: {_sentence(error)}", file=sys.stderr)
            sys.exit(2)
        sys.exit(status if isinstance(status, int) else 0)


def _sentence(error: Exception) -> str:
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


app = typer.Typer(
    cls=OneLine,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class TaskName(StrEnum):
    classification = "classification"
    regression = "regression"


class MetricName(StrEnum):
    accuracy = "accuracy"
    balanced_accuracy = "balanced_accuracy"
    f1 = "f1"
    auc = "auc"
    log_loss = "log_loss"
    r2 = "r2"
    rmse = "rmse"
    mae = "mae"


DataArgument = Annotated[
    str, typer.Argument(metavar="DATA", help="A file, a folder of graphs, or - for stdin.")
]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="|".join(READERS),
        help="Format of DATA; inferred from the file name by default.",
        autocompletion=lambda incomplete: [n for n in READERS if n.startswith(incomplete)],
    ),
]
MaxGibOption = Annotated[
    float,
    typer.Option("--max-gib", min=0.0, help="Largest unpacked size of a compressed file, in GiB."),
]
EncodingOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Encoding of text that is not UTF-8, such as cp1251."),
]
HeaderOption = Annotated[
    bool, typer.Option("--header/--no-header", help="Whether the first line holds column names.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
ReportOption = Annotated[
    str | None, typer.Option("--report", metavar="PAGE", help="Write an HTML page with plots.")
]


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


@app.command()
def fit(
    data: DataArgument,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", "-t", help="Column to predict: name or position."),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="MODEL", help="Model file; - for stdout."),
    ] = None,
    task: Annotated[
        TaskName | None, typer.Option(help="Override the task inferred from the target.")
    ] = None,
    report: ReportOption = None,
    max_time: Annotated[
        float,
        typer.Option(min=0.1, help="Seconds of training, without reading, testing and the report."),
    ] = 60.0,
    holdout: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="Fraction of rows to test on.")
    ] = 0.25,
    cv: Annotated[
        int, typer.Option(min=0, max=100, help="Test by cross-validation with so many folds.")
    ] = 0,
    group: Annotated[
        str | None, typer.Option(help="Column whose rows of one value are not split by the test.")
    ] = None,
    time: Annotated[
        str | None, typer.Option(help="Column of times: test on the latest rows.")
    ] = None,
    refit: Annotated[
        bool,
        typer.Option("--refit", help="After testing, fit the chosen kernel to all rows."),
    ] = False,
    metric: Annotated[
        MetricName | None, typer.Option(help="Score to report and to choose the threshold for.")
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(metavar="balanced|CLASS=WEIGHT,...", help="Weights of the classes."),
    ] = None,
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Describe the target as a sum of parts, such as trend and season.",
        ),
    ] = False,
    ignore: Annotated[
        list[str] | None, typer.Option(help="Exclude a column; repeat for several.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a model of other data, or another file.")
    ] = False,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Use a column although it seems to identify the rows; repeatable."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(min=0, max=2**32 - 1, help="Random seed for the split and the search."),
    ] = 0,
    form: FormatOption = None,
    max_gib: MaxGibOption = MAX_GIB,
    encoding: EncodingOption = None,
    header: HeaderOption = True,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train a model, test it on held-out rows, and save it."""
    out = Output(as_json, quiet)
    require_writable(output, report, read=(data,))
    require_html_suffix(report)
    weights = _weights(class_weight)
    if cv == 1:
        raise ValueError("--cv 1: expected at least 2 folds, or 0 for one split")
    if group and time:
        raise ValueError("--group and --time cannot be combined")
    if cv and refit:
        raise ValueError("--cv trains the saved model on all rows already; leave --refit out")
    path = output or f"{'model' if data == '-' else _stem(data)}.mercer"
    require_writable(path)
    _require_replaceable(path, force, data, _one(target))
    with out.progress(max_time) as step:
        found = read(data, form, header, _one(target), max_gib, encoding)
        require_columns(found, "--keep", keep or [])
        found = grouped(found, group) if group else found
        found = timed(found, time) if time else found
        found = _without(without_names(found, keep or []), ignore or [])
        from mercer.cli import fitting  # slow to import
        from mercer.reports import figures, pages

        if report is not None:
            figures.refuse_undrawable()
        model, summary = fitting.fit(
            found,
            task=task and task.value,
            share=holdout,
            max_time=max_time,
            random_state=seed,
            refit=refit,
            metric=metric and metric.value,
            class_weight=weights,
            cv=cv,
            structure=explain,
            step=step,
        )
        step("writing")
        title = f"Learning from {found.source}"
        page = None if report is None else pages.page(title, [plain(summary)])
        save_model(model, path, summary)
        unwritten = None
        if page is not None and report is not None:
            try:
                write(report, page)
            except OSError as error:  # the model is saved all the same
                unwritten = error
    summary["saved as"] = path
    if path != "-" and report != "-":
        out.result(summary)
        for line in summary.get("structure", {}).get("words", []):
            out.note(line)
        for line in [*found.notes, *summary["advice"]]:
            out.note(f"\n{line}")
        written = report is not None and unwritten is None
        out.note(f"\nsaved as {path}" + (f", report in {report}" if written else ""))
    if unwritten is not None:
        raise OSError(f"the report was not written: {_sentence(unwritten)}")


@app.command("inspect")
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


@app.command()
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


@app.command()
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


@app.command()
def check(
    expression: Annotated[
        str, typer.Argument(help='A kernel, such as "RBF(0.5) * Polynomial(2) + 1".')
    ],
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Prove that an expression is a valid kernel, or find a counterexample.

    The exit status is 0 for valid, 1 for indefinite, 3 for undecided.
    """
    import mercer.kernels as K

    try:
        kernel = K.parse(expression)
    except K.KernelSyntaxError as error:  # without the caret, which needs a line of its own
        where = f"{expression}: " if expression.strip() else ""
        raise ValueError(where + str(error).splitlines()[0]) from error
    validity = kernel.validity
    found: dict[str, Any] = {
        "kernel": repr(kernel),
        "status": validity.status,
        "domain": str(kernel.domain),
        "proof": validity.proof and str(validity.proof),
        "reason": validity.reason,
        "counterexample": None,
    }
    lines = [str(validity.proof or f"{kernel!r} is {WORDS[validity.status]}")]
    if validity.reason:
        lines.append(str(validity.reason))
    if validity.counterexample is not None:
        shown = validity.counterexample
        found["counterexample"] = {"points": shown.points, "eigenvalue": shown.eigenvalue}
        lines.append(str(shown))
    Output(as_json, quiet).result(found, "\n".join(lines))
    raise typer.Exit(EXIT_STATUS[validity.status])


EXIT_STATUS = {"valid": 0, "indefinite": 1, "unknown": 3}
WORDS = {
    "indefinite": "not a kernel",
    "unknown": "undecided: no proof and no counterexample found",
}


@app.command()
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


@app.command()
def kernels(
    name: Annotated[
        str | None,
        typer.Argument(
            help="Show the documentation of one kernel.",
            autocompletion=lambda incomplete: [n for n in _kernels() if n.startswith(incomplete)],
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the kernels, or show the documentation of one."""
    import inspect

    from rich.table import Table
    from rich.text import Text

    known = _kernels()
    if name is not None:
        if name not in known:
            raise ValueError(f"there is no kernel {name}; {suggested(name, known)}")
        text = inspect.cleandoc(known[name].__doc__ or "")
        Output(as_json).result({"name": name, "text": text}, f"{name}\n\n{text}")
        return
    rows = [
        {
            "name": key,
            "written": f"{key}{str(inspect.signature(cls)).split(' ->')[0]}",
            "is": inspect.cleandoc(cls.__doc__ or "").splitlines()[0].strip(),
        }
        for key, cls in known.items()
    ]
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", overflow="fold")
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(_without_types(known[row["name"]]), Text(row["is"]))
    Output(as_json).result({"kernels": rows}, table)


def _kernels() -> dict[str, type]:
    """The kernels that are written by name, in alphabetical order."""
    import mercer.kernels as K

    made = ("Sum", "Product", "Power", "Exp", "Normalized", "Rescaled", "Composed", "OnColumns")
    ours = {key: cls for key, cls in K.REGISTRY.items() if cls.__module__.startswith("mercer.")}
    return {key: ours[key] for key in sorted(ours) if key not in made}


def _without_types(cls: type) -> str:
    import inspect

    parameters = inspect.signature(cls).parameters.values()
    shown = [
        p.name if p.default is inspect.Parameter.empty else f"{p.name}={p.default!r}"
        for p in parameters
    ]
    return f"{cls.__name__}({', '.join(shown)})"


@app.command()
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


@app.command()
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


def _refuse_swapped(model: str, data: str) -> None:
    """Raise an error if the model and the table are given in the wrong order."""
    both = all(Path(path).is_file() for path in (model, data))
    if both and is_model_file(data) and not is_model_file(model):
        raise ValueError(f"the model comes first: mercer predict {data} {model}")


def _without(data: Data, ignored: list[str]) -> Data:
    from dataclasses import replace

    if not ignored:
        return data
    left_out = data.left_out or {}
    require_columns(data, "--ignore", [name for name in ignored if name not in left_out])
    left_out = {**left_out, **dict.fromkeys(ignored, "excluded by --ignore")}
    columns = [column for name in ignored for column in data.repeated.get(name, [name])]
    return replace(data, X=data.X.drop(columns=columns, errors="ignore"), left_out=left_out)


def _one(target: list[str] | None) -> str | None:
    """The target; an error if there are several."""
    if target and len(target) > 1:
        raise ValueError(
            f"--target {', '.join(target)}: one column is predicted at a time; train a model for "
            "each, and exclude the other targets with --ignore"
        )
    return target[0] if target else None


def _require_replaceable(path: str, force: bool, data: str, target: str | None) -> None:
    """Raise an error if a file would be overwritten that is no model of these data and target."""
    if force or path == "-" or not Path(path).exists() or Path(path) == Path(data):
        return
    if not is_model_file(path):
        raise ValueError(f"{path} exists and is not a model; --force overwrites it")
    try:
        notes = mercer.read_notes(path)
    except (ValueError, OSError):  # a damaged model
        return
    source = "standard input" if data == "-" else Path(data).name
    other = notes.get("data")
    if other not in (None, source):
        raise ValueError(f"{path} holds a model of {other}; --force overwrites it")
    if target is not None and notes.get("target") not in (None, target) and not target.isdecimal():
        raise ValueError(
            f"{path} holds a model of the target {notes['target']}; --force overwrites it"
        )


def _weights(text: str | None) -> Any:
    """Class weights as written: "balanced", or class=weight pairs with commas."""
    if text is None or text == "balanced":
        return text
    found = {}
    for part in text.split(","):
        name, equals, number = part.rpartition("=")
        try:
            found[name.strip()] = weight = float(number)
        except ValueError:
            weight = 0.0
        if not equals or not 0 < weight < float("inf"):
            raise ValueError(
                f"--class-weight {text}: expected balanced, or class=weight pairs as yes=5,no=1"
            )
    return found


def _stem(path: str) -> str:
    """The name of a file without its suffixes."""
    name = Path(path).resolve().name
    for suffix in (".gz", Path(name.removesuffix(".gz")).suffix):
        name = name.removesuffix(suffix) if suffix else name
    return name or "model"
