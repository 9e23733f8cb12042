"""The versions on this device and its boards, as readings: at a start, after a change, and every 50 minutes.

So the last hour of a vault always has them.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from covey.ports import AttachedBoard

NAME = "firmware"
"""The reading's name; a board's, as its gateway has heard it: `board/<its signing key, hex>/firmware`."""

_OS_RELEASES = (Path("/etc/os-release"), Path("/usr/lib/os-release"))

_REPORT_EVERY_SECONDS = 3_000.0


class Firmware:
    """Tells what runs here: the versions of Covey, of the system and of the kernel. `boards` gives those behind us."""

    def __init__(
        self, boards: Callable[[], Sequence[AttachedBoard]], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._boards = boards
        self._monotonic = monotonic
        self._here = _here()
        self._reported: dict[str, tuple[str, float]] = {}

    def sample(self) -> list[tuple[str, str, str]]:
        """Return name, unit and text of what is to be told now; mostly nothing."""
        now = self._monotonic()
        news = []
        for name, text in self._texts():
            reported, at = self._reported.get(name, ("", 0.0))
            if text != reported or now >= at + _REPORT_EVERY_SECONDS:
                self._reported[name] = text, now
                news.append((name, "", text))
        return news

    def _texts(self) -> Iterator[tuple[str, str]]:
        yield NAME, self._here
        for board in self._boards():
            if board.up:
                yield f"board/{board.keys.signing_public.hex()}/{NAME}", board.software


def _here() -> str:
    kernel = os.uname()
    return f"covey {_version()}; {_system() or kernel.sysname}; {kernel.release} {kernel.machine}"


def _system() -> str:
    """Return the system's name, as os-release(5) says it; `platform` would cost 0.1 MiB."""
    for path in _OS_RELEASES:
        with suppress(OSError, ValueError):
            for line in path.read_text(encoding="utf-8").splitlines():
                name, _, value = line.partition("=")
                if name == "PRETTY_NAME":
                    return " ".join(shlex.split(value))
            return ""
    return ""


def _version() -> str:
    """Return the version in the name of the package's folder; `importlib.metadata` would cost 3 MB."""
    for folder in map(Path, sys.path):
        for found in folder.glob("covey-*.dist-info"):
            return found.name.removeprefix("covey-").removesuffix(".dist-info")
    return "unknown"
