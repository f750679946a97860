"""Molecules from SMILES, with RDKit."""

from __future__ import annotations

import pytest

from mercer import kernels as K

pytest.importorskip("rdkit")


def test_elements_and_bond_orders_are_labels(tmp_path):
    ethanol, benzene, acid = K.read_smiles(["CCO", "c1ccccc1", "CC(=O)O"])
    assert ethanol.node_labels == ("C", "C", "O")
    assert set(benzene.edge_labels) == {1.5}
    assert sorted(acid.edge_labels) == [1.0, 1.0, 1.0, 1.0, 2.0, 2.0]
    (tmp_path / "m.smi").write_text("CCO ethanol\n\nc1ccccc1\n")
    read = K.read_smiles(tmp_path / "m.smi")
    k = K.WeisfeilerLehman(2)
    assert (k(read, [ethanol, benzene]) == k([ethanol, benzene])).all()


def test_what_is_not_smiles_is_named():
    with pytest.raises(ValueError, match="molecule 1: 'C1C' is not valid SMILES"):
        K.read_smiles(["C", "C1C"])
    with pytest.raises(TypeError, match="molecule 0 is a int"):
        K.read_smiles([3])
