"""What is said, and where: results to standard output, the rest to standard error."""

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
from mercer.cli.visible import quoted, visible, visible_json
from mercer.report.summaries import facts
from mercer.tables.readers import is_model_file, standard_input
from mercer.whole_files import write_whole

PLOTTED = ("grid", "held out", "spectrum")


class Output:
    """How a command speaks.

    Parameters
    ----------
    as_json : bool
        Whether results are one JSON object.
    quiet : bool
        Whether nothing is said but errors, and what was asked for by ``-o -`` or ``--json``.
    """

    def __init__(self, as_json: bool = False, quiet: bool = False) -> None:
        self.as_json, self.quiet = as_json, quiet
        self.console = Console(highlight=False)
        self.aside = Console(stderr=True, highlight=False, quiet=quiet)

    def result(self, summary: dict[str, Any], shown: Table | str | None = None) -> None:
        """The outcome, as a table or as JSON."""
        if self.as_json:
            text = json.dumps(plain(without_plots(summary)), ensure_ascii=False)
            sys.stdout.write(visible_json(text) + "\n")
        elif not self.quiet:
            shown = facts_table(summary) if shown is None else shown
            shown = visible(shown) if isinstance(shown, str) else shown
            # A terminal breaks long lines of text by itself, and nothing else should.
            self.console.print(shown, markup=False, soft_wrap=isinstance(shown, str))

    def say(self, text: str) -> None:
        if not self.as_json:
            self.aside.print(visible(text), markup=False, soft_wrap=True)

    @contextmanager
    def progress(self, budget: float) -> Iterator[Any]:
        """A live bar of the time that may be used, and what it is used for."""
        if not self.aside.is_terminal or self.quiet or self.as_json:
            yield lambda name: None
            return
        columns = (TextColumn("{task.description}"), BudgetBar(bar_width=24), TimeLeft())
        bar = Progress(*columns, console=self.aside, transient=True)
        with bar:
            task = bar.add_task("reading", total=budget)
            yield lambda name: bar.update(task, description=visible(name))


class BudgetBar(BarColumn):
    """The time used, of the time allowed."""

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
        table.add_row(Text(visible(name)), Text(visible(value)))
    return table


def without_plots(summary: dict[str, Any]) -> dict[str, Any]:
    """The summary without the numbers that only plots are drawn from."""
    kept = {key: value for key, value in summary.items() if key not in PLOTTED}
    if "certificate" in kept:
        kept["certificate"] = {k: v for k, v in kept["certificate"].items() if k != "gaps"}
    return kept


def plain(value: Any) -> Any:
    """The value in what JSON has; numbers that are none of JSON's are null."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value)


# What a table is not written as, whatever its name asks for.
UNWRITTEN = (".feather", ".mercer", ".ods", ".parquet", ".pq", ".xls", ".xlsx")


def refuse_unwritten(path: str | None) -> None:
    """Raise where the name of a file asks for a kind of table that is not written."""
    if path is not None and (suffix := Path(path).suffix.lower()) in UNWRITTEN:
        raise ValueError(
            f"-o {path}: tables are written as .csv, .tsv, .jsonl or .npz, not {suffix}"
        )


def refuse_unpaged(path: str | None) -> None:
    """Raise where the name of a report asks for anything but HTML."""
    if path is not None and (suffix := Path(path).suffix.lower()) not in ("", ".html", ".htm"):
        raise ValueError(f"{path}: reports are written as .html, not {suffix}")


def refuse_places(*paths: str | None, read: tuple[str, ...] = ()) -> None:
    """Raise, before any work is done, where a file cannot go.

    Parameters
    ----------
    paths : str or None
        What is to be written; no two to one place.
    read : tuple of str
        What is read, and not to be lost.
    """
    taken = {_place(path): "it is read" for path in read if path != "-"}
    for path in filter(None, paths):
        place = path if path == "-" else _place(path)
        if place in taken:
            shown = "standard output" if path == "-" else path
            raise ValueError(f"nothing can be written to {shown}: {taken[place]}")
        taken[place] = "something else goes there"
        if path == "-":
            continue
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            raise FileNotFoundError(f"the folder {target.parent} of {target.name} does not exist")
        if target.exists() and not target.is_file():
            raise OSError(f"{path} is not a regular file")
        if not os.access(target.parent, os.W_OK):
            raise PermissionError(f"{path}: the folder {target.parent} may not be written to")


def _place(path: str) -> Any:
    """What tells a file from others, whatever it is called: links of all kinds are the same."""
    try:
        found = os.stat(path)
    except OSError:
        return os.path.realpath(path)
    return found.st_dev, found.st_ino


def write(path: str, text: str) -> None:
    """Text to a file, whole, or to standard output."""
    if path == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
    else:
        write_whole(path, text.encode())


def write_table(path: str, columns: dict[str, np.ndarray], quote: bool = True) -> int:
    """Columns as CSV; as TSV, JSON lines or npz by the file's name.

    With ``quote``, text in CSV and TSV that a spreadsheet would run as a formula is written behind
    a quotation mark; how many cells that were is returned.
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
            cells = [quoted(value) for value in row] if quote else row
            changed += sum(cell is not value for cell, value in zip(cells, row, strict=True))
            writer.writerow(cells)
    write(path, text.getvalue())
    return changed


def save_model(model: Any, path: str, notes: dict[str, Any]) -> None:
    """The model to a file, or to standard output."""
    if path != "-":
        mercer.save(model, path, notes=plain(notes))
        return
    with tempfile.TemporaryDirectory() as folder:
        held = os.path.join(folder, "model.mercer")
        mercer.save(model, held, notes=plain(notes))
        with open(held, "rb") as file:
            sys.stdout.buffer.write(file.read())
            sys.stdout.flush()


def load_model(path: str, n_features: int = 0) -> tuple[Any, dict[str, Any]]:
    """A model and its notes, from a file or from standard input.

    A model of LIBSVM's does not know how many features its data have, and takes them as told.
    """
    if path != "-":
        if not is_model_file(path):
            raise ValueError(f"{path} is not a model; mercer fit writes them")
        with open(path, "rb") as file:
            is_libsvm = file.read(8) == b"svm_type"
        if is_libsvm:
            return mercer.read_libsvm(path, n_features=n_features), {}
        return mercer.load(path), mercer.read_notes(path)
    with tempfile.TemporaryDirectory() as folder:
        held = os.path.join(folder, "standard input")
        with open(held, "wb") as file:
            file.write(standard_input())
        if not is_model_file(held):
            raise ValueError("standard input is not a model; mercer fit writes them")
        return load_model(held, n_features)
