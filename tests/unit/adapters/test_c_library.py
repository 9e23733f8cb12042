"""`covey.adapters.c_library`: freed memory goes back to the kernel, at the times of `covey.app.agent.freed_memory`."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from covey.adapters import c_library
from covey.app.agent.freed_memory import FreedMemory
from covey.core.now import Now
from covey.limits.storage import FREED_MEMORY_START_US, FREED_MEMORY_US
from tests.meta.source_tree import ROOT

_PROGRAM = """
from covey.adapters.c_library import return_freed_memory

def resident_kib():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmRSS"))

blocks = [bytes(2_000) for _ in range(20_000)]
blocks[:-1] = []  # the last one keeps glibc from giving back the others by itself
before = resident_kib()
return_freed_memory()
assert before - resident_kib() > 30_000, (before, resident_kib())
"""


@pytest.mark.processes
def test_freed_memory_goes_back_to_the_kernel() -> None:
    assert platform.libc_ver()[0] == "glibc"
    subprocess.run([sys.executable, "-c", _PROGRAM], check=True, cwd=ROOT)


def test_an_agent_returns_memory_after_its_start_and_then_each_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    returned: list[int] = []
    monkeypatch.setattr(c_library, "return_freed_memory", lambda: returned.append(1))
    began, hour = 1_000_000, FREED_MEMORY_US
    role = FreedMemory(Now(began, began))
    times = (
        began,
        began + FREED_MEMORY_START_US - 1,
        began + FREED_MEMORY_START_US,
        began + FREED_MEMORY_START_US + hour - 1,
        began + FREED_MEMORY_START_US + hour,
    )
    counts = []
    for at in times:
        role.turn(None, Now(at, at))  # type: ignore[arg-type]
        counts.append(len(returned))
    assert counts == [0, 0, 1, 1, 2]
