"""Collections of graphs in the format of the TU benchmarks (Kersting et al., Morris et al.)."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from mercer.kernels.graph.graphs import Graph, Labels

EDGES, OWNERS, CLASSES = "_A.txt", "_graph_indicator.txt", "_graph_labels.txt"
NODE_LABELS, EDGE_LABELS = "_node_labels.txt", "_edge_labels.txt"


def read_tu(
    path: str | os.PathLike[str], edge_labels: bool = True
) -> tuple[list[Graph], np.ndarray | None]:
    """Graphs and their classes from a folder or zip file of the TU collection.

    Parameters
    ----------
    path : str or path
        A folder, or a zip file, that holds one collection: ``DS_A.txt`` and
        ``DS_graph_indicator.txt``, and if there are any ``DS_graph_labels.txt``,
        ``DS_node_labels.txt`` and ``DS_edge_labels.txt``. A label of several columns becomes a
        tuple. Attributes are not read.
    edge_labels : bool, default=True
        Whether to read edge labels where there are some.

    Returns
    -------
    graphs : list of Graph
    y : array of the graphs' classes, or None where the collection has none
    """
    read = _lines(Path(path))
    where = f"the collection {os.fspath(path)!r}"
    owner = _column(_numbers(read(OWNERS), OWNERS), OWNERS) - 1
    pairs = _numbers(read(EDGES), EDGES) - 1
    classes = read(CLASSES, optional=True)
    y = None if classes is None else _column(_numbers(classes, CLASSES), CLASSES)
    n = len(owner)
    count = int(owner.max(initial=-1)) + 1 if y is None else len(y)
    if y is None and count > n:
        raise ValueError(f"{where} has {n} nodes, and *{OWNERS} names graph {count}")
    wrong = np.flatnonzero((owner < 0) | (owner >= count))
    if len(wrong):
        raise ValueError(
            f"{where} has {count} graphs, and line {wrong[0] + 1} of *{OWNERS} names graph "
            f"{owner[wrong[0]] + 1}"
        )
    if pairs.size and pairs.shape[1] != 2:
        raise ValueError(f"{where} has {pairs.shape[1]} columns in *{EDGES}; expected two")
    u, v = pairs.reshape(-1, 2).T
    _check_edges(where, u, v, owner)

    labels = Labels()
    node_codes = _codes(labels.nodes, read(NODE_LABELS, optional=True), n, NODE_LABELS)
    text = read(EDGE_LABELS, optional=True) if edge_labels else None
    edge_codes = _codes(labels.edges, text, len(u), EDGE_LABELS)

    # Nodes in the order of their graphs, and every edge both ways, once.
    order = np.argsort(owner, kind="stable")
    place = np.empty(n, dtype=np.int64)
    place[order] = np.arange(n)
    rows, columns = place[np.concatenate((u, v))], place[np.concatenate((v, u))]
    codes = np.concatenate((edge_codes, edge_codes))
    found, first, inverse = np.unique(rows * n + columns, return_index=True, return_inverse=True)
    if np.any(codes != codes[first][inverse]):
        k = int(np.flatnonzero(codes != codes[first][inverse])[0]) % len(u)
        raise ValueError(
            f"{where} has two labels for the edge between nodes {u[k] + 1} and {v[k] + 1} (line "
            f"{k + 1} of *{EDGES}); edges are undirected"
        )
    offsets = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=count))))
    graphs = labels.split(
        offsets, found // max(n, 1), found % max(n, 1), node_codes[order], codes[first]
    )
    return graphs, y


def _lines(path: Path) -> Callable[..., list[str] | None]:
    """What reads the lines of the file with some ending; None for an optional one that is not."""
    if path.is_dir():
        names = [entry.name for entry in path.iterdir()]
    elif path.is_file():
        if not zipfile.is_zipfile(path):
            raise ValueError(f"{os.fspath(path)!r} is neither a folder nor a zip file")
        with _naming(path), zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    else:
        raise FileNotFoundError(f"there is no folder or zip file {os.fspath(path)!r}")
    edges = [name for name in names if name.endswith(EDGES)]
    if len(edges) != 1:
        raise ValueError(
            f"{os.fspath(path)!r} has {len(edges)} files with a name that ends in {EDGES}; "
            f"expected one collection of graphs: DS{EDGES}, DS{OWNERS} and others"
        )
    stem = edges[0][: -len(EDGES)]

    def read(ending: str, optional: bool = False) -> list[str] | None:
        name = stem + ending
        if name not in names:
            if optional:
                return None
            raise FileNotFoundError(
                f"{os.fspath(path)!r} has no file {PurePosixPath(name).name}, which says to which "
                "graph each node belongs"
            )
        if path.is_dir():
            text = (path / name).read_text(encoding="utf-8")
        else:
            with _naming(path), zipfile.ZipFile(path) as archive:
                text = archive.read(name).decode()
        return text.split("\n")[:-1] if text.endswith("\n") else text.split("\n")

    return read


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What `zipfile` raises for damaged archives, encrypted ones and strange ones, as one error."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise ValueError(f"{os.fspath(path)!r} is a damaged zip file ({error})") from error


def _numbers(lines: Any, ending: str) -> np.ndarray:
    """Rows of whole numbers, (lines, columns)."""
    if lines == [""]:
        lines = []
    width = 1 + lines[0].count(",") if lines else 1
    try:
        # One pass over the whole text, which np.loadtxt takes several times as long for.
        return np.array(",".join(lines).split(",") if lines else [], dtype=np.int64).reshape(
            -1, width
        )
    except (ValueError, OverflowError):
        for number, line in enumerate(lines, 1):
            try:
                good = len(np.array(line.split(","), dtype=np.int64)) == width
            except (ValueError, OverflowError):
                good = False
            if not good:
                raise ValueError(
                    f"line {number} of *{ending} is {line!r:.100}; expected {width} whole "
                    f"number{'s' if width > 1 else ''} with commas between, below 2^63"
                ) from None
        raise


def _column(rows: np.ndarray, ending: str) -> np.ndarray:
    if rows.shape[1] != 1:
        raise ValueError(f"*{ending} has {rows.shape[1]} columns; expected one")
    return rows[:, 0]


def _codes(alphabet: Any, lines: Any, size: int, ending: str) -> np.ndarray:
    """One code per label; labels of several columns are tuples, None where there is no file."""
    if lines is None:
        return np.full(size, alphabet[None], dtype=np.int32)
    rows = _numbers(lines, ending)
    if len(rows) != size:
        raise ValueError(f"*{ending} has {len(rows)} lines; expected {size}, one for each")
    different, inverse = np.unique(rows, axis=0, return_inverse=True)
    labels = different[:, 0].tolist() if rows.shape[1] == 1 else map(tuple, different.tolist())
    codes = np.array([alphabet[label] for label in labels], dtype=np.int32)
    return codes[inverse.ravel()]


def _check_edges(where: str, u: np.ndarray, v: np.ndarray, owner: np.ndarray) -> None:
    """Edges join different nodes of one graph."""
    n = len(owner)
    outside = (u < 0) | (u >= n) | (v < 0) | (v >= n)
    inside = np.where(outside, 0, u), np.where(outside, 0, v)
    across = owner[inside[0]] != owner[inside[1]] if n else outside
    for wrong, what in (
        (outside, f"names a node that is not one of the {n} in *{OWNERS}"),
        (across, "joins nodes of two graphs"),
        (u == v, "joins a node to itself; these kernels compare graphs without self-loops"),
    ):
        if wrong.any():
            k = int(np.flatnonzero(wrong)[0])
            raise ValueError(f"{where}: line {k + 1} of *{EDGES}, {u[k] + 1}, {v[k] + 1}, {what}")
