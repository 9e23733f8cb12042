"""How much memory processes take at most, while something goes on: what the kernel says of each, time and again."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

_LOOK_S = 0.005


def memory_of(pid: int, field: str) -> int:
    """Return the bytes of a field of `smaps_rollup`: `Pss`, or `Anonymous`, which no file stands behind.

    0: the process is there no longer.
    """
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), 0)


class PeakMemory:
    """Looks at processes until its end; `more` is what each had more than at the beginning, at most, in bytes."""

    def __init__(self, field: str, *pids: int) -> None:
        self._field, self._pids = field, pids
        self._before = [memory_of(each, field) for each in pids]
        self.more = [0] * len(pids)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        while not self._ends.wait(_LOOK_S):
            now = [memory_of(each, self._field) for each in self._pids]
            later = zip(now, self._before, self.more, strict=True)
            self.more = [max(more, each - before) for each, before, more in later]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._ends.set()
        self._thread.join()
