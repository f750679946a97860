"""Where the tests with tensors run: on a GPU, else on the host with Triton interpreted."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if DEVICE.type == "cpu":  # read when triton is first imported
    os.environ["TRITON_INTERPRET"] = "1"
WAYS = ["torch", "triton"]


def tensor(A, dtype=None):
    """An array as a tensor where the tests run."""
    found = torch.as_tensor(A, device=DEVICE)
    return found if dtype is None else found.to(dtype)


def use(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute by torch's own operations, or by Triton's kernels."""
    if way == "triton":
        pytest.importorskip("triton", reason="triton is not installed")
    monkeypatch.setattr("mercer.expressions.tensors.by_triton", lambda device: way == "triton")
