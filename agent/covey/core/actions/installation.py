"""The stored state of an installation on trial; `installing` decides the next step.

It is a module of its own, since every agent looks whether anything is under way, and few ever install.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from covey.core.ids import DeviceKey, GroupId, OperationId


class InstallationPhase(IntEnum):
    """How far an installation has come; stored."""

    FETCHING = 0
    """Nothing is changed yet."""
    INSTALLING = 1
    TRIAL = 2
    """It is installed, and nobody has acknowledged anything since."""
    CONFIRMING = 3
    ROLLING_BACK = 4
    ENDING = 5
    """All is done, but to ask which version that is."""


@dataclass(frozen=True, slots=True)
class Installation:
    """One that is under way. `file` is the id of the operation that offers the file, in hex.

    `since_us` is when its phase began by the monotonic clock of the boot `boot_id`; `tries` how often the agent has
    begun on trial, or it was tried to fall back. `code`, `why` and `output` say why it does not stay; without a code,
    `why` says what it waits for. `before` is the version of before, None where it was not asked for yet.
    """

    operation: OperationId
    group_id: GroupId
    author: DeviceKey
    action: str
    file: str
    phase: InstallationPhase
    boot_id: bytes
    since_us: int
    tries: int = 0
    code: str = ""
    why: str = ""
    output: bytes = field(default=b"", repr=False)
    before: str | None = None
