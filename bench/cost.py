"""What a run takes: by the clock, and of all processors together. On a shared machine the latter tells more."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took, in seconds: by the clock, and of all processors together."""

    clock: float
    cpu: float


def cost(run: Callable[[], None]) -> Cost:
    """Run something, and return what it took."""
    clock, cpu = time.monotonic(), _cpu_seconds()
    run()
    return Cost(time.monotonic() - clock, _cpu_seconds() - cpu)


def _cpu_seconds() -> float:
    """Return what this process and all below it have used so far: the JVM, and its Python workers."""
    here = psutil.Process()
    used = [process.cpu_times() for process in [here, *here.children(recursive=True)]]
    return sum(times.user + times.system + times.children_user + times.children_system for times in used)
