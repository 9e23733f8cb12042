"""Which process of a device does what only one may do at a time: a lock each, on a file of the state folder.

A lock goes with its process, however that ends.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

_ALERTS = "alerts.lock"


@dataclass(frozen=True, slots=True)
class ProcessLocks:
    """The locks of one state folder. Each is a file descriptor, or None where another process holds it."""

    folder: Path

    def agent(self) -> int | None:
        """Take the lock of the one agent on this state."""
        return self._take("agent.lock")

    def agent_runs(self) -> bool:
        """Say whether an agent runs, or wants to."""
        return _is_held(self.agent())

    def relay(self) -> int | None:
        """Take the lock of whoever speaks with the relay: the agent, or a command that waits for something."""
        return self._take("relay.lock")

    def served_relay(self) -> int | None:
        """Take the lock of whoever serves a relay of this device's own."""
        return self._take("broker.lock")

    def alerts(self) -> int | None:
        """Take the lock of the one process that sends alerts."""
        return self._take(_ALERTS)

    def alerts_are_watched(self) -> bool:
        """Say whether a process sends alerts; where none ever has, nothing is written to find out."""
        return (self.folder / _ALERTS).exists() and _is_held(self.alerts())

    def doors(self) -> int | None:
        """Take the lock of the one process that sends readings on."""
        return self._take("doors.lock")

    def vault(self) -> int | None:
        """Take the lock of the one process that writes this node's segments anew."""
        return self._take("vault.lock")

    def _take(self, name: str) -> int | None:
        descriptor = os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor


def _is_held(taken: int | None) -> bool:
    """Say whether another process holds what was to be taken; what was free is free again."""
    if taken is not None:
        os.close(taken)
    return taken is None
