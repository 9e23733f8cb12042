"""The machine's clocks (Linux). Whether the wall clock can be believed is the kernel's own answer, not a guess.

Every time daemon (chrony, ntpd, systemd-timesyncd) tells the kernel when it has the clock in hand, and the kernel
forgets that again when the daemon falls silent. Where `adjtimex` may not be called, timesyncd's flag file answers.

A machine without a battery says 1970 until a time service answers. No time before `earliest_us` can be right: what
nobody has set and is below it counts on from there, so that an invite ends some day and an order is not of the future.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIMESYNC_FLAG = Path("/run/systemd/timesync/synchronized")

PROGRAM_S = 1_735_689_600
"""2025-01-01: no Covey is older."""


class SystemClock:
    """Implements `ports.Clock`."""

    def __init__(self, earliest_us: int = PROGRAM_S * 1_000_000) -> None:
        """`earliest_us` is a moment that has passed, of the wall clock."""
        self._earliest_us = earliest_us
        self._began_us = self.monotonic_us()
        self._boot_id: bytes | None = None

    def monotonic_us(self) -> int:
        """Return microseconds since boot, suspend included."""
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000

    def wall_us(self) -> int:
        """Return microseconds since the Unix epoch, as the machine believes, or as it can be at the earliest."""
        now_us = time.time_ns() // 1000
        if now_us >= self._earliest_us or self.synchronised():
            return now_us
        return self._earliest_us + self.monotonic_us() - self._began_us

    def synchronised(self) -> bool:
        """Say whether a time source disciplines the wall clock at the moment."""
        from covey.adapters.c_library import clock_is_synchronised

        answer = clock_is_synchronised()
        return _TIMESYNC_FLAG.exists() if answer is None else answer

    def boot_id(self) -> bytes:
        """Return the first 8 bytes of the kernel's boot UUID; where there is none, 8 of this process."""
        if self._boot_id is None:
            try:
                self._boot_id = bytes.fromhex(_BOOT_ID.read_text().strip().replace("-", ""))[:8]
            except (OSError, ValueError):
                self._boot_id = os.urandom(8)
        return self._boot_id


def was_never_set() -> bool:
    """Say whether the machine's clock says a time before the first Covey."""
    return time.time_ns() < PROGRAM_S * 1_000_000_000
