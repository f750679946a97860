"""Rows of the host's arrays on a device: while some are computed with, the next are coming."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from mercer.arrays import LazyModule, as_numpy

torch: Any = LazyModule("torch")


def streamed(arrays: Sequence[Any], parts: Iterable[Any], device: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of each part as tensors on the device.

    Parameters
    ----------
    arrays : arrays, memory maps or tensors of as many rows, or None, for which None comes
    parts : slices or positions of some rows each
    device : torch.device
        Tensors that are there already are not moved. To a GPU the others go by way of two buffers
        that its copy engine reads, filled by a thread of their own.
    """
    if device.type != "cuda":
        for rows in parts:
            yield tuple(_rows_there(A, rows) for A in arrays)
        return
    road = _Road(arrays, device)
    with ThreadPoolExecutor(1) as carrier:
        coming = None
        for rows in parts:
            after = carrier.submit(road.send, rows)
            if coming is not None:
                yield road.received(*coming.result())
            coming = after
        if coming is not None:
            yield road.received(*coming.result())


def _rows_there(A: Any, rows: Any) -> Any:
    if A is None or isinstance(A, torch.Tensor):
        return A if A is None else A[rows]
    return torch.as_tensor(np.require(A[rows], requirements=("C", "W")))


class _Road:
    """Two sets of buffers in memory that does not move, used in turn, and a queue of copies."""

    def __init__(self, arrays: Sequence[Any], device: Any):
        self.there = [isinstance(A, torch.Tensor) and A.device == device for A in arrays]
        self.arrays: list[Any] = [
            A if A is None or there else as_numpy(A)
            for A, there in zip(arrays, self.there, strict=True)
        ]
        self.device, self.queue = device, torch.cuda.Stream(device)
        self.buffers: list[dict[int, Any]] = [{}, {}]
        self.arrived = [torch.cuda.Event(), torch.cuda.Event()]
        self.turn = 0

    def send(self, rows: Any) -> tuple[Any, list[Any], Any]:
        """Fill the buffers with some rows, and queue their copies; from the carrier's thread."""
        buffers, arrived = self.buffers[self.turn], self.arrived[self.turn]
        self.turn = 1 - self.turn
        arrived.synchronize()  # what was in the buffers is on the device
        sent: list[Any] = []
        with torch.cuda.stream(self.queue):
            for i, A in enumerate(self.arrays):
                if A is None or self.there[i]:
                    sent.append(None)
                    continue
                some = A[rows]
                if i not in buffers or len(buffers[i]) < len(some):
                    dtype = getattr(torch, some.dtype.name)
                    buffers[i] = torch.empty(some.shape, dtype=dtype, pin_memory=True)
                room = buffers[i][: len(some)]
                np.copyto(room.numpy(), some)
                sent.append(room.to(self.device, non_blocking=True))
            arrived.record(self.queue)
        return rows, sent, arrived

    def received(self, rows: Any, sent: list[Any], arrived: Any) -> tuple[Any, ...]:
        """The tensors, which what is computed from now on waits for."""
        now = torch.cuda.current_stream(self.device)
        now.wait_event(arrived)
        found = []
        for A, there, moved in zip(self.arrays, self.there, sent, strict=True):
            if moved is not None:
                moved.record_stream(now)  # its memory is free once this is done with it
            found.append(A[rows] if there else moved)
        return tuple(found)
