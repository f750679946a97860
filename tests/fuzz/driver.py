"""A loop that makes cases from a seed and checks them, each within limits of time and memory.

A target is a function ``make(rng)``, which gives the bytes of a case, and a function
``check(data)``, which raises where the case is a finding. Past findings are the files of
``corpus/<target>``; they are checked first, always.

``MERCER_FUZZ_SECONDS`` is the time for each target; without it, each runs a number of cases of its
own. ``MERCER_FUZZ_SEED`` chooses other cases. A finding is written to the folder
``MERCER_FUZZ_FINDINGS``, by default ``mercer-findings`` among the temporary files, as is the last
case before a crash; once mended, it belongs in the corpus.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

try:
    import resource
except ImportError:  # Windows sets its processes no limits
    resource = None

CORPUS = Path(__file__).parent / "corpus"
SEED = int(os.environ.get("MERCER_FUZZ_SEED", "0"))
SECONDS = float(os.environ.get("MERCER_FUZZ_SECONDS", "0"))
FINDINGS = Path(
    os.environ.get("MERCER_FUZZ_FINDINGS", Path(tempfile.gettempdir()) / "mercer-findings")
)
# The sanitizers reserve terabytes of addresses, which no limit of memory may count.
SANITIZED = "libasan" in os.environ.get("LD_PRELOAD", "")
GIB = 2**30


class TooLong(BaseException):
    """Raised in the middle of a case that takes too long; no code under test catches it."""


@contextlib.contextmanager
def limits(seconds: float = 20.0, gib: float = 4.0) -> Iterator[None]:
    """So many seconds of processor time, and so much more memory than is in use, on POSIX."""
    if resource is None:
        yield
        return

    def stop(*_: object) -> None:
        raise TooLong(f"more than {seconds} seconds of processor time")

    before = signal.signal(signal.SIGPROF, stop)
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        if not SANITIZED and (pages := _pages()):
            allowed = pages * resource.getpagesize() + int(gib * GIB)
            resource.setrlimit(resource.RLIMIT_AS, (allowed, hard))
        signal.setitimer(signal.ITIMER_PROF, seconds)
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _pages() -> int:
    """Pages of address space in use, where the system says so."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[0]) if statm.exists() else 0


def corpus(target: str) -> list[Path]:
    return sorted((CORPUS / target).glob("*")) if (CORPUS / target).is_dir() else []


def fuzz(
    target: str,
    make: Callable[[np.random.Generator], bytes],
    check: Callable[[bytes], str],
    cases: int,
) -> Counter[str]:
    """Check the corpus and then new cases; how often each outcome that `check` names was seen."""
    outcomes: Counter[str] = Counter()
    for path in corpus(target):
        outcomes[_checked(target, path.read_bytes(), check, path)] += 1
    FINDINGS.mkdir(exist_ok=True, parents=True)
    last = FINDINGS / f"{target}-{os.getpid()}"
    deadline, case = time.monotonic() + SECONDS, 0
    while time.monotonic() < deadline if SECONDS else case < cases:
        data = make(np.random.default_rng([SEED, zlib.crc32(target.encode()), case]))
        last.write_bytes(data)
        outcomes[_checked(target, data, check, last)] += 1
        case += 1
    last.unlink(missing_ok=True)
    print(f"{target}: {case} cases; {dict(outcomes.most_common())}")
    return outcomes


def _checked(target: str, data: bytes, check: Callable[[bytes], str], path: Path) -> str:
    try:
        with limits():
            return check(data)
    except (Exception, TooLong) as error:
        told = repr(error)[:500]
        raise AssertionError(f"a finding of {target}, kept in {path}: {told}") from error
