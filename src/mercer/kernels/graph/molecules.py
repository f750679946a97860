"""Molecules as graphs, from SMILES through RDKit."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mercer.kernels.graph.graphs import Graph, Labels


def read_smiles(smiles: str | os.PathLike[str] | Iterable[str]) -> list[Graph]:
    """Molecules as graphs, with elements as node labels and bond orders as edge labels.

    Hydrogen is left out where SMILES leaves it out; the order of an aromatic bond is 1.5. Needs
    RDKit: ``pip install rdkit``.

    Parameters
    ----------
    smiles : path of a file, or iterable of str
        A file has one molecule per line, a name may follow after a space.

    Returns
    -------
    list of Graph
    """
    try:
        from rdkit import Chem, rdBase  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise ImportError("read_smiles needs RDKit: pip install rdkit") from error
    if isinstance(smiles, str | os.PathLike):
        lines = Path(smiles).read_text(encoding="utf-8").splitlines()
        smiles = [line.split()[0] for line in lines if line.strip()]
    labels, found = Labels(), []
    for number, text in enumerate(smiles):
        if not isinstance(text, str):
            raise TypeError(f"molecule {number} is a {type(text).__name__}; expected SMILES text")
        with rdBase.BlockLogs():
            molecule = Chem.MolFromSmiles(text)
        if molecule is None or not molecule.GetNumAtoms():
            raise ValueError(f"molecule {number}: {text!r:.80} is not valid SMILES")
        found.append(_graph(labels, molecule))
    return found


def _graph(labels: Labels, molecule: Any) -> Graph:
    bonds = list(molecule.GetBonds())
    return Graph._from_edges(
        labels,
        [(bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()) for bond in bonds],
        [atom.GetSymbol() for atom in molecule.GetAtoms()],
        [bond.GetBondTypeAsDouble() for bond in bonds],
    )
