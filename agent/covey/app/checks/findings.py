"""What `covey check` says of a device, and what it looks at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from covey.adapters.clock import SystemClock
from covey.limits.units import MIB

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder
    from covey.app.checks.documents import Status
    from covey.app.device.device import Device
    from covey.config.file import Configuration
    from covey.core.crypto import Identity
    from covey.ports import Clock


class Level(Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line, and how to mend what it says."""

    level: Level
    check: str
    line: str
    hint: str = ""


LEAST_FREE_BYTES = 64 * MIB
"""With less room on a disk, something fails soon."""

Seen = tuple[Level, str, str]
"""What a check yields: how bad, one line, how to mend it."""


def ok(line: str) -> Seen:
    """Nothing to do."""
    return Level.OK, line, ""


def warning(line: str, hint: str) -> Seen:
    """It works, and something should be done."""
    return Level.WARNING, line, hint


def error(line: str, hint: str) -> Seen:
    """Something does not work."""
    return Level.ERROR, line, hint


@dataclass(slots=True)
class Examined:
    """What is checked; the parts are there once their own check has found no error."""

    folder: StateFolder
    clock: Clock = field(default_factory=SystemClock)
    configuration: Configuration = field(init=False)
    identity: Identity = field(init=False)
    opened: Device = field(init=False)
    status: Status = field(init=False)
    _open_now: ExitStack = field(default_factory=ExitStack)

    def open(self) -> None:
        """Open the state, and ask it how the device is.

        Raises:
            StorageError: it cannot be opened.
        """
        from covey.app.checks.status import status_of
        from covey.app.device.device import device_on

        opened = self._open_now.enter_context(device_on(self.folder, self.identity, self.configuration.config))
        self.opened = replace(opened, clock=self.clock)
        self.status = status_of(self.opened)

    def close(self) -> None:
        """Close what checks have opened."""
        self._open_now.close()


@dataclass(frozen=True, slots=True)
class Check:
    """A function, and the checks that must have gone well before."""

    look: Callable[[Examined], Iterable[Seen]]
    needs: frozenset[str] = frozenset()
    online: bool = False

    @property
    def name(self) -> str:
        """What findings call it."""
        return self.look.__name__
