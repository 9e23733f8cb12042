"""A clock for programs under test, which runs faster than real time and may be set: `clock.c`, between them and libc.

Start a program with `Clock.environment`. Its sleeps, its waits for locks and sockets, and its clocks then follow
`run`, `jump` and `set` at once, as do its children's. Several programs may share a clock; each with one of its own may
be wrong in its own way. Programs must be linked to glibc dynamically, as Python and mosquitto are; those in Go are not.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
import time
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")
_CHANGES = struct.Struct("=Q")
_CONSTANTS = struct.Struct("=qq")
_PACE = struct.Struct("=qqqd")
_PACES = 8
_FIRST_PACE = _CHANGES.size + _CONSTANTS.size
_FILE_BYTES = _FIRST_PACE + _PACES * _PACE.size
_SECOND_NS = 1_000_000_000


def compiles() -> bool:
    """Whether this machine has a C compiler."""
    return shutil.which("cc") is not None


class Clock:
    """What programs take for the time, if they are started with its environment."""

    def __init__(self, folder: Path, *, wall: float | None = None, speed: float = 1.0, least_s: float = 0.0) -> None:
        """Build the library, and begin to run.

        Args:
            folder: an existing one, for the library and the clock's file.
            wall: seconds since 1970 that the wall clock shows now; None is the real time.
            speed: seconds of this clock per real second.
            least_s: real seconds that a wait takes at least.
        """
        self._least_ns = int(least_s * _SECOND_NS)
        self._library = folder / "clock.so"
        self._name = folder / "clock"
        self._name.write_bytes(bytes(_FILE_BYTES))
        with self._name.open("r+b") as file:
            self._file = mmap.mmap(file.fileno(), _FILE_BYTES)
        self.synchronise(None)
        since = time.monotonic_ns()
        self._begin(since, since, time.time_ns() if wall is None else int(wall * _SECOND_NS), speed)
        if compiles():
            command = ["cc", "-shared", "-fPIC", "-O2", "-o", str(self._library), str(_SOURCE)]
            subprocess.run(command, check=True, capture_output=True)

    @property
    def environment(self) -> dict[str, str]:
        """What a program is started with; empty where there is no compiler."""
        if not self._library.exists():
            return {}
        return {"LD_PRELOAD": str(self._library), "FAST_CLOCK": str(self._name)}

    @property
    def speed(self) -> float:
        """Seconds of this clock per real second."""
        return self._pace()[3]

    def monotonic(self) -> float:
        """Return the monotonic time that its programs see, in seconds."""
        return self._now()[1] / _SECOND_NS

    def wall(self) -> float:
        """Return the wall time that its programs see, in seconds since 1970."""
        return self._now()[2] / _SECOND_NS

    def run(self, speed: float) -> None:
        """Run at another speed from now on; waits that have begun follow."""
        self._begin(*self._now(), speed)

    def set(self, wall: float) -> None:
        """Set the wall clock to so many seconds since 1970; monotonic time and the speed stay."""
        since, monotonic, _ = self._now()
        self._begin(since, monotonic, int(wall * _SECOND_NS), self.speed)

    def jump(self, seconds: float) -> None:
        """Let so much time pass at once, as for a machine that was asleep: of both clocks."""
        since, monotonic, wall = self._now()
        passed = int(seconds * _SECOND_NS)
        self._begin(since, monotonic + passed, wall + passed, self.speed)

    def synchronise(self, synchronised: bool | None) -> None:
        """Have the kernel say that a time service has the wall clock in hand, or that none has; None: the truth."""
        _CONSTANTS.pack_into(self._file, _CHANGES.size, self._least_ns, -1 if synchronised is None else synchronised)

    def sleep(self, seconds: float) -> None:
        """Wait here for so many seconds of this clock, if its speed stays."""
        time.sleep(seconds / self.speed)

    def _pace(self) -> tuple[int, int, int, float]:
        (changes,) = _CHANGES.unpack_from(self._file)
        since, monotonic, wall, speed = _PACE.unpack_from(self._file, _place(changes))
        return since, monotonic, wall, speed

    def _now(self) -> tuple[int, int, int]:
        """Return real monotonic time, this clock's monotonic time, and its wall time, in nanoseconds."""
        since, monotonic, wall, speed = self._pace()
        real = time.monotonic_ns()
        passed = int((real - since) * speed)
        return real, monotonic + passed, wall + passed

    def _begin(self, since: int, monotonic: int, wall: int, speed: float) -> None:
        assert speed > 0, "a clock that stands still ends no wait"
        (changes,) = _CHANGES.unpack_from(self._file)
        _PACE.pack_into(self._file, _place(changes + 1), since, monotonic, wall, speed)
        _CHANGES.pack_into(self._file, 0, changes + 1)


def _place(changes: int) -> int:
    return _FIRST_PACE + changes % _PACES * _PACE.size
