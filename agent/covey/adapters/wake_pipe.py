"""A pipe next to the state by which commands wake the agent.

What comes by it says nothing: what there is to do is in the state. A word that nobody takes is lost, and the agent
finds what there is at its next look. So a command waits for no agent, and an agent loses nothing.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_AT_ONCE = 4_096
"""Bytes that are taken at once: of many words one is as good."""


def wake_agent(path: Path) -> None:
    """Wake the agent, if there is one that listens."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
                os.write(descriptor, b"\0")
        finally:
            os.close(descriptor)


class WakePipe:
    """The agent's side: a thread that sleeps until it is woken. Where no pipe can be made, nobody wakes it."""

    def __init__(self, path: Path, woken: Callable[[], None]) -> None:
        self._woken = woken
        self._ends = False
        self._descriptor: int | None = None
        with suppress(OSError):
            path.unlink(missing_ok=True)
            os.mkfifo(path, 0o600)
            # also for writing: so that reading does not end with each command's end, and needs none to begin
            self._descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._listen, name="wake pipe", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while self._descriptor is not None and os.read(self._descriptor, _AT_ONCE) and not self._ends:
            self._woken()

    def close(self) -> None:
        """Stop listening."""
        if self._descriptor is None:
            return
        self._ends = True
        os.write(self._descriptor, b"\0")
        self._thread.join()
        os.close(self._descriptor)
        self._descriptor = None
