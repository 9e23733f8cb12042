"""Waiting for what other processes and threads do: patience counts seconds in which the machine idled.

What has not happened although there was a processor for it will not happen. Beside others' work it only comes later,
and a deadline in seconds would speak of them. Where nothing ever idles, a limit ends what hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from queue import Empty, Queue, SimpleQueue
from typing import TypeVar

import psutil

Item = TypeVar("Item")

IDLE_S = 30.0
GUARD_S = 300.0
"""Of a process or a test that hangs: no test waits for it."""

_LOOK_S = 0.02
_LOOK_S_MAX = 0.5
"""A look may be a command of its own, and would take the processor from what it waits for."""


class Patience:
    """So many seconds of an idle machine."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_until = _idle_s() + idle_s
        self._until = time.monotonic() + GUARD_S

    @property
    def left(self) -> bool:
        """Say whether there is some left."""
        return _idle_s() < self._idle_until and time.monotonic() < self._until


def wait_until(condition: Callable[[], object], what: str = "it happens", idle_s: float = IDLE_S) -> None:
    """Look again and again until a condition holds, less often if looking takes long."""
    patience, pause_s, began_s = Patience(idle_s), _LOOK_S, time.thread_time()
    while not condition():
        assert patience.left, f"waited in vain until {what}"
        looked_s = time.thread_time() - began_s
        time.sleep(max(pause_s, looked_s))
        pause_s, began_s = min(1.5 * pause_s, _LOOK_S_MAX), time.thread_time()


def take(source: SimpleQueue[Item] | Queue[Item], what: str = "something came") -> Item:
    """Return the next item of a queue that another thread fills."""
    patience = Patience()
    while True:
        try:
            return source.get(timeout=_LOOK_S_MAX)
        except Empty:
            assert patience.left, f"waited in vain until {what}"


def _idle_s() -> float:
    """Return the seconds in which all processors have idled since the machine was started."""
    return float(psutil.cpu_times().idle) / (psutil.cpu_count() or 1)
