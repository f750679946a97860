"""Where the tests with tensors run: on a GPU, else on the host with Triton interpreted."""

from __future__ import annotations

import os

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'mercer[gpu]'")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if DEVICE.type == "cpu":  # read when triton is first imported
    os.environ["TRITON_INTERPRET"] = "1"
else:  # which deterministic products need, read before the first of them
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
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


class Deterministic(torch.overrides.TorchFunctionMode):
    """torch with deterministic algorithms only, refusing on the host what it refuses on a GPU."""

    REFUSED = ("kthvalue", "histc", "bincount", "mode", "scatter_add", "scatter_add_")

    def __enter__(self):
        torch.use_deterministic_algorithms(True)
        return super().__enter__()

    def __exit__(self, *error):
        torch.use_deterministic_algorithms(False)
        return super().__exit__(*error)

    def __torch_function__(self, function, types, arguments=(), named=None):
        name, named = getattr(function, "__name__", ""), named or {}
        refused = name in self.REFUSED
        refused |= name == "median" and (len(arguments) > 1 or "dim" in named)
        refused |= name == "cumsum" and arguments[0].is_floating_point()
        refused |= name == "put_" and (named.get("accumulate") or arguments[3:] == (True,))
        if refused:
            raise RuntimeError(f"{name} does not have a deterministic implementation")
        return function(*arguments, **named)
