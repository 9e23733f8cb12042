"""The machine's clocks (Linux). Whether the wall clock can be believed is the kernel's own answer, not a guess.

Every time daemon (chrony, ntpd, systemd-timesyncd) tells the kernel when it has the clock in hand, and the kernel
forgets that again when the daemon falls silent. Where `adjtimex` may not be called, timesyncd's flag file answers.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIMESYNC_FLAG = Path("/run/systemd/timesync/synchronized")

_STATE_ERROR = 5  # TIME_ERROR of <sys/timex.h>
_STATUS_UNSYNCHRONISED = 0x40  # STA_UNSYNC


class SystemClock:
    """Implements `ports.Clock`."""

    def __init__(self) -> None:
        self._boot_id: bytes | None = None
        self._kernel_synchronised: Callable[[], bool | None] | None = None

    def monotonic_us(self) -> int:
        """Return microseconds since boot, suspend included."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000

    def wall_us(self) -> int:
        """Return microseconds since the Unix epoch, as the machine believes."""
        return time.time_ns() // 1000

    def synchronised(self) -> bool:
        """Say whether a time source disciplines the wall clock at the moment."""
        if self._kernel_synchronised is None:
            self._kernel_synchronised = _load_adjtimex()
        answer = self._kernel_synchronised()
        return _TIMESYNC_FLAG.exists() if answer is None else answer

    def boot_id(self) -> bytes:
        """Return the first 8 bytes of the kernel's boot UUID; where there is none, 8 of this process."""
        if self._boot_id is None:
            try:
                self._boot_id = bytes.fromhex(_BOOT_ID.read_text().strip().replace("-", ""))[:8]
            except (OSError, ValueError):
                self._boot_id = os.urandom(8)
        return self._boot_id


def _load_adjtimex() -> Callable[[], bool | None]:
    """Return a function that asks the kernel, or returns None if it may not (seccomp, another libc)."""
    import ctypes

    class Timex(ctypes.Structure):
        _fields_ = (
            ("modes", ctypes.c_uint),  # 0: read only
            ("offset", ctypes.c_long),
            ("freq", ctypes.c_long),
            ("maxerror", ctypes.c_long),
            ("esterror", ctypes.c_long),
            ("status", ctypes.c_int),
            ("rest", ctypes.c_byte * 512),  # far more than any ABI's struct timex still has
        )

    try:
        adjtimex = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return lambda: None

    def ask() -> bool | None:
        timex = Timex()
        state = adjtimex(ctypes.byref(timex))
        if state < 0:
            return None
        return bool(state != _STATE_ERROR and not timex.status & _STATUS_UNSYNCHRONISED)

    return ask
