"""A clock of its own for the edge: a library of ours (`clock.c`) between a program and the C library."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")
_DAY_S = 86_400


def compiles() -> bool:
    """Whether this machine has a C compiler."""
    return shutil.which("cc") is not None


class Clock:
    """What programs take for the real time, if they are started with its environment."""

    def __init__(self, folder: Path) -> None:
        self._file, self._library = folder / "clock", folder / "clock.so"
        self._file.write_bytes(bytes(8))
        if compiles():
            command = ["cc", "-shared", "-fPIC", "-O1", "-o", str(self._library), str(_SOURCE)]
            subprocess.run(command, check=True, capture_output=True)

    @property
    def environment(self) -> dict[str, str]:
        """What a program is started with; empty where there is no compiler."""
        if not self._library.exists():
            return {}
        return {"LD_PRELOAD": str(self._library), "VERSUS_CLOCK": str(self._file)}

    def set(self, days: int) -> None:
        """Jump to the right time and so many days more; programs see it at once."""
        with self._file.open("r+b") as file:
            file.write(struct.pack("=q", days * _DAY_S))
