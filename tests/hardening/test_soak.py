"""Fits and predictions by the thousand in one process, whose memory does not grow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Fits of all estimators together; `make test-all` asks for ten thousand.
ROUNDS = 200 * int(os.environ.get("MERCER_TEST_LENGTH", "1"))
# What allocators may take after the first fits: 24 MiB.
MOST = 24 * 2**20
TESTS = Path(__file__).parents[1]
SCRIPT = """
import gc, os, sys, warnings
from every_estimator import lesson, made, names, said
warnings.simplefilter("ignore")

def memory():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

given = {name: lesson(name, 40) for name in names()}
rounds, begun = int(sys.argv[1]) // len(given) + 1, None
for k in range(rounds):
    for name in given:
        said(made(name).fit(*given[name]), given[name][0][:5])
    if k == rounds // 5:
        begun = memory()
print(memory() - begun)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="the system does not tell")
@pytest.mark.thread_unsafe(reason="a process of its own")
def test_memory_does_not_grow():
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", SCRIPT, str(ROUNDS)]
    told = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert int(told.stdout) < MOST
