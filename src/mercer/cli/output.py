"""Output: results to standard output, notes and progress to standard error."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

import mercer
from mercer.cli.escaping import escape, escape_json, quote_formula
from mercer.reports.summaries import facts, plain
from mercer.tables.readers import is_model_file, standard_input
from mercer.whole_files import write_whole

PLOTTED = ("grid", "held out", "spectrum", "training rows", "roc", "precision recall")


class Output:
    """The output of a command.

    Parameters
    ----------
    as_json : bool
        Whether results are one JSON object.
    quiet : bool
        Whether to print errors only, and what ``-o -`` or ``--json`` asks for.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.console = Console(highlight=False)
        self.stderr = Console(stderr=True, highlight=False, quiet=quiet)

    def result(self, summary: dict[str, Any], shown: Table | str | None = None) -> None:
        """Print the result, as a table or as JSON."""
        if self.as_json:
            text = json.dumps(plain(without_plots(summary)), ensure_ascii=False)
            sys.stdout.write(escape_json(text) + "\n")
        elif not self.quiet:
            shown = facts_table(summary) if shown is None else shown
            shown = escape(shown) if isinstance(shown, str) else shown
            # The terminal wraps long lines.
            self.console.print(shown, markup=False, soft_wrap=isinstance(shown, str))

    def note(self, text: str) -> None:
        """Print a note to standard error."""
        if not self.as_json:
            self.stderr.print(escape(text), markup=False, soft_wrap=True)

    @contextmanager
    def progress(self, budget: float) -> Iterator[Any]:
        """A progress bar of the time allowed, with the name of the current stage."""
        if not self.stderr.is_terminal or self.quiet or self.as_json:
            yield lambda name: None
            return
        columns = (TextColumn("{task.description}"), BudgetBar(bar_width=24), TimeLeft())
        bar = Progress(*columns, console=self.stderr, transient=True)
        with bar:
            task = bar.add_task("reading", total=budget)
            yield lambda name: bar.update(task, description=escape(name))


class BudgetBar(BarColumn):
    """The time used as a fraction of the time allowed."""

    def render(self, task: Task) -> ProgressBar:
        used = min(task.elapsed or 0.0, task.total or 0.0)
        return ProgressBar(total=task.total, completed=used, width=self.bar_width)


class TimeLeft(ProgressColumn):
    def render(self, task: Task) -> Text:
        left = max((task.total or 0.0) - (task.elapsed or 0.0), 0.0)
        return Text(f"{task.elapsed or 0.0:.0f} s, at most {left:.0f} s left")


def facts_table(summary: dict[str, Any]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in facts(summary):
        table.add_row(Text(escape(name)), Text(escape(value)))
    return table


def without_plots(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary without numbers that only the plots need."""
    kept = {key: value for key, value in summary.items() if key not in PLOTTED}
    if "certificate" in kept:
        kept["certificate"] = {k: v for k, v in kept["certificate"].items() if k != "gaps"}
    return kept


# Suffixes of formats that tables are not written in.
NOT_WRITTEN = (".feather", ".mercer", ".ods", ".parquet", ".pq", ".xls", ".xlsx")


def require_table_suffix(path: str | None) -> None:
    """Raise an error if the suffix of a file is a format that is not written."""
    if path is not None and (suffix := Path(path).suffix.lower()) in NOT_WRITTEN:
        raise ValueError(
            f"-o {path}: tables are written as .csv, .tsv, .jsonl or .npz, not {suffix}"
        )


def require_html_suffix(path: str | None) -> None:
    """Raise an error if the suffix of a report is not HTML."""
    if path is not None and (suffix := Path(path).suffix.lower()) not in ("", ".html", ".htm"):
        raise ValueError(f"{path}: reports are written as .html, not {suffix}")


def require_writable(*paths: str | None, read: tuple[str, ...] = ()) -> None:
    """Raise an error, before any work is done, if a file cannot be written.

    Parameters
    ----------
    paths : str or None
        Outputs, no two to the same file.
    read : tuple of str
        Inputs, which must not be overwritten.
    """
    used = {_identity(path): "it is an input" for path in read if path != "-"}
    for path in filter(None, paths):
        place = path if path == "-" else _identity(path)
        if place in used:
            shown = "standard output" if path == "-" else path
            raise ValueError(f"cannot write to {shown}: {used[place]}")
        used[place] = "another output goes there"
        if path == "-":
            continue
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            raise FileNotFoundError(f"the folder {target.parent} of {target.name} does not exist")
        if target.exists() and not target.is_file():
            raise OSError(f"{path} is not a regular file")
        if not os.access(target.parent, os.W_OK):
            raise PermissionError(f"{path}: the folder {target.parent} is not writable")


def _identity(path: str) -> Any:
    """The identity of a file: the same for all its links."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def write(path: str, text: str) -> None:
    """Write text to a file, whole or not at all, or to standard output.

    Control characters are escaped for a terminal, and written as they are to a pipe.
    """
    if path == "-":
        sys.stdout.write(escape(text) if sys.stdout.isatty() else text)
        sys.stdout.flush()
    else:
        write_whole(path, text.encode())


def write_table(path: str, columns: dict[str, np.ndarray], quote: bool = True) -> int:
    """Write columns as CSV, or as TSV, JSON lines or npz by the suffix of the file.

    With ``quote``, text in CSV and TSV that a spreadsheet would run as a formula gets a leading
    quotation mark. Returns the number of such cells.
    """
    suffix = os.path.splitext(path)[1].lower()
    if suffix == ".npz":
        content = io.BytesIO()
        np.savez(content, **columns)  # type: ignore[arg-type]
        write_whole(path, content.getvalue())
        return 0
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    text, changed = io.StringIO(), 0
    if suffix in (".json", ".jsonl"):
        for row in rows:
            text.write(json.dumps(dict(zip(columns, plain(list(row)), strict=True))) + "\n")
    else:
        writer = csv.writer(text, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
        for row in ([*columns], *rows):
            cells = [quote_formula(value) for value in row] if quote else row
            changed += sum(cell is not value for cell, value in zip(cells, row, strict=True))
            writer.writerow(cells)
    write(path, text.getvalue())
    return changed


def save_model(model: Any, path: str, notes: dict[str, Any]) -> None:
    """Write the model to a file, or to standard output."""
    if path != "-":
        mercer.save(model, path, notes=plain(notes))
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "model.mercer")
        mercer.save(model, copy, notes=plain(notes))
        with open(copy, "rb") as file:
            sys.stdout.buffer.write(file.read())
            sys.stdout.flush()


def load_model(path: str, n_features: int = 0) -> tuple[Any, dict[str, Any]]:
    """A model and its notes, from a file or from standard input.

    A LIBSVM model does not store the number of features, which ``n_features`` gives.
    """
    if path != "-":
        if not is_model_file(path):
            raise ValueError(f"{path} is not a model; mercer fit writes models")
        with open(path, "rb") as file:
            is_libsvm = file.read(8) == b"svm_type"
        if is_libsvm:
            return mercer.read_libsvm(path, n_features=n_features), {}
        return mercer.load(path), known_notes(mercer.read_notes(path))
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "standard input")
        with open(copy, "wb") as file:
            file.write(standard_input())
        if not is_model_file(copy):
            raise ValueError("standard input is not a model; mercer fit writes models")
        return load_model(copy, n_features)


def known_notes(notes: dict[str, Any]) -> dict[str, Any]:
    """The notes if they have the form that `mercer fit` writes; none if they are the user's own.

    Raises
    ------
    ValueError
        If they are marked as those of `mercer fit` and have another form.
    """
    columns = notes.get("columns", [])
    named = isinstance(columns, list) and all(
        isinstance(column, dict) and all(isinstance(column.get(k), str) for k in ("name", "kind"))
        for column in columns
    )
    tables = [notes.get(key) or {} for key in ("left out", "read as", "score", "threshold")]
    texts = [notes.get(key) or "" for key in ("target", "task")]
    if (
        named
        and all(isinstance(t, dict) for t in tables)
        and all(isinstance(t, str) for t in texts)
    ):
        return notes
    if "kind" in notes:
        raise ValueError("the notes of the model are not those that mercer fit writes")
    return {}
