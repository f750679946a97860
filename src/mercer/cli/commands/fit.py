"""mercer fit."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import mercer
from mercer.cli.errors import sentence
from mercer.cli.options import (
    DataArgument,
    EncodingOption,
    FormatOption,
    HeaderOption,
    JsonOption,
    MaxGibOption,
    MetricName,
    QuietOption,
    ReportOption,
    TaskName,
)
from mercer.cli.output import Output, require_html_suffix, require_writable, save_model, write
from mercer.reports.summaries import plain
from mercer.tables.data import Data, grouped, require_columns, timed, without_names
from mercer.tables.readers import MAX_GIB, is_model_file, read


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
        raise OSError(f"the report was not written: {sentence(unwritten)}")


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
