"""The commands that a device has accepted, and their durable state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from covey.core.actions.results import CommandState, OrderResult
from covey.core.actions.secrets import SealedArguments
from covey.core.ids import DeviceKey, GroupId, Incarnation, OperationId


@dataclass(frozen=True, slots=True)
class GivenCommand:
    """A command that counts for this device; `deadline_us` is microseconds since 1970."""

    once: bytes
    group_id: GroupId
    operation: OperationId
    author: DeviceKey
    action: str
    arguments: Mapping[str, str] = field(default_factory=dict, repr=False)
    deadline_us: int | None = None
    sealed: SealedArguments | None = None
    in_waves: bool = False
    """Whether it is one wave of a release."""


@dataclass(frozen=True, slots=True)
class Halted:
    """Releases that do not continue, by group and once-id: paused ones for now, aborted ones permanently."""

    paused: frozenset[tuple[GroupId, bytes]] = frozenset()
    aborted: frozenset[tuple[GroupId, bytes]] = frozenset()


NOTHING_HALTED = Halted()


@dataclass(frozen=True, slots=True)
class Moment:
    """The date as this device believes it, whether it can be believed, and since which boot it runs.

    `settled` says that the agent has run for so long that a clock which can be set would have been; `monotonic_us` is
    that boot's own clock.
    """

    wall_us: int
    synchronised: bool
    boot_id: bytes = b""
    settled: bool = True
    monotonic_us: int = 0


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """A command that this device has accepted, and its state; once final, `result`, without arguments.

    `started` is its last start, with the boot; `tries` counts starts.
    """

    command: GivenCommand
    state: CommandState
    taken_us: int
    synchronised: bool
    """Whether the clock could be believed at every time that stands here."""
    started_us: int | None = None
    boot_id: bytes | None = None
    tries: int = 0
    result: OrderResult | None = None


@dataclass(frozen=True, slots=True)
class ObeyedSince:
    """The operation by which this device began to obey in a group, in which incarnation, and how high it stands."""

    operation: OperationId
    height: int
    incarnation: Incarnation
