"""Sequences in FASTA files."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator


def read_fasta(path: str | os.PathLike[str]) -> tuple[list[str], list[str]]:
    """The sequences of a FASTA file and their descriptions.

    Parameters
    ----------
    path : str or path
        A text file, which may be compressed with gzip.

    Returns
    -------
    sequences : list of str
        In capital letters, without line breaks.
    names : list of str
        The text after ``>`` of each record.
    """
    with open(path, "rb") as file:
        content = file.read()
    if content[:2] == b"\x1f\x8b":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError) as error:
            raise ValueError(f"{os.fspath(path)!r} is a damaged gzip file ({error})") from error
    try:
        records = list(fasta_records(content.decode("utf-8-sig").splitlines()))
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)!r} is no FASTA file: {error}") from error
    return [sequence for _, sequence in records], [name for name, _ in records]


def fasta_records(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The description and the sequence of each record.

    Examples
    --------
    >>> list(fasta_records([">a gene", "acg", "t", ">b", "G"]))
    [('a gene', 'ACGT'), ('b', 'G')]
    """
    name, parts = None, []
    for line in map(str.strip, lines):
        if line.startswith(">"):
            if name is not None:
                yield name, "".join(parts).upper()
            name, parts = line[1:].strip(), []
        elif line and not line.startswith(";"):
            if name is None:
                raise ValueError("its first line does not begin with >")
            parts.append(line)
    if name is not None:
        yield name, "".join(parts).upper()
