"""Waiting for what other processes and threads do: patience counts seconds in which the machine idled.

What has not happened although there was a processor for it will not happen. Beside others' work it only comes later,
and a deadline in seconds would speak of them. Where nothing ever idles, a limit ends what hangs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

IDLE_S = 30.0
GUARD_S = 600.0
"""Of a process or a test that hangs: no test waits for it."""

_LOOK_S = 0.02


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
    """Look again and again until a condition holds."""
    patience = Patience(idle_s)
    while not condition():
        assert patience.left, f"waited in vain until {what}"
        time.sleep(_LOOK_S)


def _idle_s() -> float:
    """Return the seconds in which all processors have idled since the machine was started."""
    return float(psutil.cpu_times().idle) / (psutil.cpu_count() or 1)
