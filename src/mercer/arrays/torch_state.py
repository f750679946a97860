"""The state of torch while we compute: full float32 products, no autocast, no tracing.

torch is never imported here: where nobody else has, there is no state to look after.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any, NoReturn

FULL = ("none", "ieee")  # precisions of a float32 product that keep all its bits
DEVICES = ("cuda", "cpu")  # whose autocast is switched off


def computing(function: Callable) -> Callable:
    """A public function that computes with torch, if at all, exactly and eagerly.

    `torch.compile` calls it as it is and does not trace into it.
    """

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        if "torch" not in sys.modules or _INSIDE.already:
            return function(*arguments, **named)
        if "torch._dynamo" not in sys.modules:  # torch.compile imports it, which takes seconds
            return exactly(*arguments, **named)
        if not untraced:
            untraced.append(sys.modules["torch"].compiler.disable(exactly))
        return untraced[0](*arguments, **named)

    def exactly(*arguments: Any, **named: Any) -> Any:
        with exact_products():
            _INSIDE.already = True
            try:
                return function(*arguments, **named)
            finally:
                _INSIDE.already = False

    untraced: list[Callable] = []
    return called


class _Inside(threading.local):
    """Whether this thread is in one of our functions, called by another of them."""

    already = False


_INSIDE = _Inside()


def learning(function: Callable) -> Callable:
    """The same for what learns from points: torch records nothing of it for derivatives."""

    @functools.wraps(function)
    def learned(*arguments: Any, **named: Any) -> Any:
        with sys.modules["torch"].no_grad() if "torch" in sys.modules else nullcontext():
            return function(*arguments, **named)

    return computing(learned)


@contextmanager
def exact_products() -> Iterator[None]:
    """Full float32 in torch's products and no autocast, whatever the caller has set."""
    torch = sys.modules["torch"]
    with ExitStack() as stack:
        for device in DEVICES:
            if torch.is_autocast_enabled(device):
                stack.enter_context(torch.autocast(device, enabled=False))
        if _PRECISION.depth or not _is_full(torch):
            stack.enter_context(_PRECISION)
        yield


def is_transforming() -> bool:
    """Whether torch computes for `torch.func`, with tensors that wrap those with the numbers."""
    torch = sys.modules.get("torch")
    return torch is not None and torch._C._functorch.peek_interpreter_stack() is not None


def refuse_transforms(X: Any) -> None:
    """Raise an error where X is part of what torch computes in ways that kernels do not follow."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(X, torch.Tensor):
        return
    if torch._C._functorch.is_batchedtensor(X):
        refuse_vmap()
    if torch.autograd.forward_ad.unpack_dual(X).tangent is not None:
        refuse_forward_mode()


def refuse_forward_mode() -> NoReturn:
    raise RuntimeError(
        "forward-mode derivatives of a kernel (torch.func.jvp, jacfwd) were asked for; use reverse "
        "mode, as torch.autograd.grad and torch.func.grad do"
    )


def refuse_vmap() -> NoReturn:
    raise TypeError(
        "torch.func.vmap (or jacrev, which maps over outputs) does not go through kernels; pass "
        "all points as one tensor of shape (n, d), or call the kernel in a loop"
    )


def _flags(torch: Any) -> tuple[Any, ...]:
    """Where torch keeps the precision of float32 products, since 2.9."""
    return torch.backends.cuda.matmul, torch.backends.mkldnn.matmul


def _is_full(torch: Any) -> bool:
    if hasattr(torch.backends, "fp32_precision"):
        return all(flag.fp32_precision in FULL for flag in _flags(torch))
    return torch.get_float32_matmul_precision() == "highest"


class _Precision:
    """Full float32 products for as long as some thread is in here; then what was set before."""

    def __init__(self) -> None:
        self.depth, self.lock = 0, threading.RLock()
        self.legacy: str | None = None
        self.flags: tuple[str, ...] = ()

    def __enter__(self) -> None:
        with self.lock:
            self.depth += 1
            if self.depth == 1:
                self._save()

    def __exit__(self, *error: Any) -> None:
        with self.lock:
            self.depth -= 1
            if self.depth == 0:
                self._restore()

    def _save(self) -> None:
        torch = sys.modules["torch"]
        self.flags = ()
        if hasattr(torch.backends, "fp32_precision"):
            self.flags = tuple(flag.fp32_precision for flag in _flags(torch))
        try:
            self.legacy = torch.get_float32_matmul_precision()
        except RuntimeError:  # set in the new way alone, which the old one refuses to read
            self.legacy = None
        if self.legacy not in (None, "highest"):
            torch.set_float32_matmul_precision("highest")  # in both ways
        elif self.flags:
            for flag in _flags(torch):
                flag.fp32_precision = "ieee"

    def _restore(self) -> None:
        torch = sys.modules["torch"]
        if self.legacy not in (None, "highest"):
            torch.set_float32_matmul_precision(self.legacy)
        for flag, value in zip(_flags(torch), self.flags, strict=False):
            flag.fp32_precision = value


_PRECISION = _Precision()
if hasattr(os, "register_at_fork"):
    # A child has none of its parent's other threads, which would never give the lock back.
    os.register_at_fork(
        before=_PRECISION.lock.acquire,
        after_in_parent=_PRECISION.lock.release,
        after_in_child=_PRECISION.lock.release,
    )
