"""What the client keeps of a fit on disk, so that a fit cut short can go on."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from mercer.solvers.nystrom.sums import Totals
from mercer.whole_files import write_whole

_folder: ContextVar[Path | None] = ContextVar("folder", default=None)


@contextmanager
def checkpoint(folder: str | os.PathLike) -> Iterator[None]:
    """Keep the totals of every pass over the data in a folder, and recall those that are there.

    A fit that ended before its time, whatever ended it, is called again with the same data,
    parameters and folder: passes that were done are read, the one under way begins anew, and the
    model has the same bits as if nothing had happened. The folder may be deleted when the fit is
    done.

    Parameters
    ----------
    folder : path
        Made if it is not there.

    Examples
    --------
    >>> import tempfile
    >>> import dask.array as da
    >>> from mercer import KernelRidge
    >>> from mercer.distributed import checkpoint
    >>> X = da.random.default_rng(0).normal(size=(200, 2), chunks=(50, 2))
    >>> with tempfile.TemporaryDirectory() as folder, checkpoint(folder):
    ...     model = KernelRidge(kernel="rbf", solver="nystrom", n_centers=20).fit(X, X[:, 0])
    """
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    reset = _folder.set(path)
    try:
        yield
    finally:
        _folder.reset(reset)


def require_seed(estimator: Any) -> None:
    """Refuse to checkpoint what would not choose the same centres again."""
    chooses = isinstance(getattr(estimator, "centers", "pivoted"), str)
    if _folder.get() is not None and chooses and not isinstance(estimator.random_state, Integral):
        raise ValueError(
            f"random_state={estimator.random_state!r} chooses other centres when the fit is called "
            "again, and its checkpoint would be of no use; give a number"
        )


def recalled(name: str, token: str, compute: Callable[[], Any]) -> Any:
    """What ``compute()`` gives, read if it was kept, else computed and kept.

    Only its attributes that are numbers or arrays are written: no code is run in reading them.
    """
    folder = _folder.get()
    if folder is None:
        return compute()
    path = folder / f"{name}-{token}.npz"
    if path.exists():
        return _read(path)
    found = compute()
    arrays = {key: np.asarray(value) for key, value in vars(found).items()}
    if all(array.dtype.kind != "O" for array in arrays.values()):
        data = io.BytesIO()
        np.savez(data, allow_pickle=False, kind=type(found).__name__, **arrays)
        write_whole(path, data.getbuffer())
    return found


def _read(path: Path) -> Totals:
    kinds = {kind.__name__: kind for kind in Totals.__subclasses__()}
    with np.load(path, allow_pickle=False) as arrays:
        kind = kinds[arrays["kind"].item()]
        found = kind.__new__(kind)
        for name in set(arrays) - {"kind"}:
            value = arrays[name]
            setattr(found, name, value if value.ndim else value.item())
    return found
