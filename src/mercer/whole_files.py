"""Files read whole, and written whole or not at all."""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import stat
import time
from pathlib import Path

# A part of a file that nobody has written to for so long belongs to a process that was killed.
REMAINS_SECONDS = 3600


def read_regular(path: str | os.PathLike) -> bytes:
    """The bytes of a regular file; an OSError for pipes and devices, which may never end."""
    # Without O_NONBLOCK opening a pipe waits for someone to write to it.
    descriptor = os.open(
        path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    )
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{os.fspath(path)} is not a regular file")
        return file.read()


def write_whole(path: str | os.PathLike, *parts: bytes | memoryview) -> None:
    """Put the bytes in the file; until they are all on the disk, it stays as it was.

    Whatever ends the process leaves the old file or the new one. Links are followed, and a file
    that is replaced keeps its permissions.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"the folder {target.parent} of {target.name} does not exist")
    if target.exists() and not target.is_file():
        raise OSError(f"{os.fspath(path)} is not a regular file")
    part = target.with_name(f".{target.name}.{secrets.token_hex(8)}.part")
    _remove_remains(target)
    try:
        with open(part, "xb") as file:
            if target.exists():
                os.chmod(part, stat.S_IMODE(target.stat().st_mode))
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):  # which names the part, or nothing
            error.filename, error.filename2 = os.fspath(path), None
        raise
    _settle(target.parent)


def _remove_remains(target: Path) -> None:
    """Remove what processes that were killed have left of this file, some time ago."""
    for remains in target.parent.glob(f".{glob.escape(target.name)}.{'?' * 16}.part"):
        with contextlib.suppress(OSError):
            if time.time() - remains.stat().st_mtime > REMAINS_SECONDS:
                remains.unlink()


def _settle(folder: Path) -> None:
    """Wait until the folder's entry is on the disk too, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
