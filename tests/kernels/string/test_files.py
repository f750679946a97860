"""Sequences from FASTA files."""

from __future__ import annotations

import gzip

import pytest

from mercer import kernels as K

TEXT = "; a comment\n>one gene=2\nacg\nTTa\n\n>two\nGG\n"


@pytest.mark.parametrize("packed", [False, True])
def test_sequences_and_names(tmp_path, packed):
    content = TEXT.encode()
    (tmp_path / "s.fa").write_bytes(gzip.compress(content) if packed else content)
    sequences, names = K.read_fasta(tmp_path / "s.fa")
    assert sequences == ["ACGTTA", "GG"]
    assert names == ["one gene=2", "two"]


def test_other_files_are_refused(tmp_path):
    (tmp_path / "s.fa").write_text("ACGT\n")
    with pytest.raises(ValueError, match="no FASTA file: its first line does not begin with >"):
        K.read_fasta(tmp_path / "s.fa")
    (tmp_path / "s.gz").write_bytes(gzip.compress(TEXT.encode())[:-9])
    with pytest.raises(ValueError, match="damaged gzip"):
        K.read_fasta(tmp_path / "s.gz")
