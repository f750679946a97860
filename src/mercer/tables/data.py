"""What a file holds: points, targets, and the columns set aside."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.tables.identifiers import why_identifier

GROUPS_ROWS = "it groups the rows (--group)"


@dataclass(frozen=True)
class Data:
    """Points, and targets if they are there.

    Attributes
    ----------
    X : DataFrame, array, CSR matrix or list of graphs
    y : array or None
    source : str
        The name of the file.
    target : str or None
        What the targets are called.
    held_out : tuple (X, y) or None
        Points to test on, where the file says which.
    left_out : dict of str to str
        Columns that are not used, and why.
    is_text : bool
        Whether numbers were read from text, where 1 and 1.0 may be the same.
    names : dict of str to array
        What the points are called, where the file says it.
    repeated : dict of str to list of str
        Names that several columns have in the file, and what these are called here.
    read_as : dict of str to str
        Columns of numbers with marks, each with an example: "$12.30 as 12.30".
    groups : array or None
        The group of each row; rows of one group are not split.
    times : array or None
        The time of each row, as numbers; later rows are tested on.
    notes : tuple of str
        Remarks on how the file was read.
    """

    X: Any
    y: Any = None
    source: str = ""
    target: str | None = None
    held_out: tuple[Any, Any] | None = None
    left_out: dict[str, str] | None = None
    is_text: bool = False
    names: dict[str, np.ndarray] = field(default_factory=dict)
    repeated: dict[str, list[str]] = field(default_factory=dict)
    read_as: dict[str, str] = field(default_factory=dict)
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> list[str] | None:
        return [str(name) for name in self.X.columns] if hasattr(self.X, "columns") else None

    @property
    def width(self) -> int:
        """The number of features, 0 of graphs."""
        return self.X.shape[1] if hasattr(self.X, "shape") else 0


def grouped(data: Data, column: str) -> Data:
    """The data with a column as the groups of the rows, which is no feature."""
    name = _named(data, "--group", column)
    groups = data.X[name].astype(str).to_numpy()
    left_out = {**(data.left_out or {}), name: GROUPS_ROWS}
    return replace(data, X=data.X.drop(columns=name), groups=groups, left_out=left_out)


def timed(data: Data, column: str) -> Data:
    """The data with the times of a column, which stays a feature."""
    name = _named(data, "--time", column)
    values = data.X[name]
    kind = getattr(values.dtype, "kind", "O")
    if kind not in "iufM":
        word = next(iter(values.dropna()), "")
        raise ValueError(f"--time {name}: found {word!r}; expected dates or numbers")
    if values.isna().any():
        row = int(np.flatnonzero(values.isna())[0])
        raise ValueError(f"--time {name}: row {row} has no value; fill or remove it first")
    times = values.to_numpy(dtype="datetime64[us]") if kind == "M" else values.to_numpy()
    return replace(data, times=times.astype(np.float64))


def _named(data: Data, option: str, column: str) -> str:
    require_columns(data, option, [column])
    refuse_repeated(data, [column])
    return column


def require_columns(data: Data, option: str, names: Collection[str]) -> None:
    """Raise an error if an option names a column that the data do not have."""
    if names and data.columns is None:
        raise ValueError(f"{option}: {data.source} has no named columns")
    for name in names:
        if name not in (data.columns or ()):
            meant = suggested(name, data.columns or ())
            raise ValueError(f"{option} {name}: there is no such column; {meant}")


def refuse_repeated(data: Data, names: Collection[str], otherwise: str = "") -> None:
    """Raise where one of these columns shares its name with another."""
    names = set(names)
    for name, columns in data.repeated.items():
        if any(column in names for column in columns):
            raise ValueError(
                f"{data.source} has {len(columns)} columns called {name!r}; give each a name of "
                f"its own{otherwise.format(name)}"
            )


def counted(number: int, name: str) -> str:
    """A number of things, with the plural of their name."""
    return f"{number:,} {name}" if number == 1 else f"{number:,} {name}s"


def listed(names: list[str]) -> str:
    """The names, or the first dozen of them."""
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def suggested(name: str, known: Collection[str]) -> str:
    """The known name that was perhaps meant, or all of them."""
    small = {other.lower(): other for other in known}
    close = difflib.get_close_matches(name.lower(), small, n=1)
    return f"did you mean {small[close[0]]}?" if close else f"there are {listed(list(known))}"


def without_names(data: Data, keep: Collection[str] = ()) -> Data:
    """The data without columns that identify the rows, for training.

    Columns named in ``keep`` stay, and so do all if there were no other left.
    """
    if data.columns is None:
        return data
    left_out = {}
    for name, column in data.X.items():
        if name not in keep and (why := why_identifier(str(name), column)):
            left_out[str(name)] = why
    if len(left_out) == data.X.shape[1]:
        return data
    known = {**(data.left_out or {}), **left_out}
    return replace(data, X=data.X.drop(columns=list(left_out)), left_out=known)
