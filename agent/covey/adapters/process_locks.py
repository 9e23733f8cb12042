"""Which process of a device does what only one may do at a time: a lock each, on a file of the state folder.

A lock goes with its process, however that ends. Asking whether one is held writes nothing, so that works on a
read-only disk, too.
"""

from __future__ import annotations

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.files import storage_errors

_AGENT = "agent.lock"
_ALERTS = "alerts.lock"


@dataclass(frozen=True, slots=True)
class ProcessLocks:
    """The locks of one state folder. Each is a file descriptor, or None where another process holds it.

    Raises (whatever takes a lock):
        StorageError: the disk takes no lock file.
    """

    folder: Path

    def agent(self) -> int | None:
        """Take the lock of the one agent on this state."""
        return self._take(_AGENT)

    def agent_runs(self) -> bool:
        """Say whether an agent runs, or wants to."""
        return self._is_held(_AGENT)

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
        """Say whether a process sends alerts."""
        return self._is_held(_ALERTS)

    def doors(self) -> int | None:
        """Take the lock of the one process that sends readings on."""
        return self._take("doors.lock")

    def vault(self) -> int | None:
        """Take the lock of the one process that writes this node's segments anew."""
        return self._take("vault.lock")

    def _take(self, name: str) -> int | None:
        path = self.folder / name
        with storage_errors("lock", path):
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return descriptor if _locked(descriptor) else None

    def _is_held(self, name: str) -> bool:
        try:
            descriptor = os.open(self.folder / name, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # nobody ever held it, or nobody here may know
            return False
        if not _locked(descriptor):
            return True
        os.close(descriptor)
        return False


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return False
    return True
