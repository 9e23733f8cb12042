"""The commands that a device has taken, and what its durable state says of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

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
    """Releases that do not go on, by group and once-id: of the one kind nobody begins for now, of the other ever."""

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
    """A command that this device has taken, and what has become of it; where that is final, `result`, and no arguments.

    `started` is when it was begun last, and in which boot; `tries` how often it was begun.
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


class CommandRecords(Protocol):
    """The commands that this device has taken. What is put here is durable once the caller's transaction is."""

    def knows(self, operation: OperationId) -> bool:
        """Say whether an operation was taken."""

    def used(self, once: bytes) -> bool:
        """Say whether a command of a once-id was ever taken, in whatever group, forgotten ones too."""

    def add(self, record: CommandRecord) -> None:
        """Keep a command that is new."""

    def change(self, record: CommandRecord) -> None:
        """Keep what has become of one."""

    def waiting(self, group_id: GroupId | None = None) -> list[OperationId]:
        """Return the operations that wait, of one group or of all, in the order in which they were taken."""

    def next_waiting(
        self, but: Collection[str] = (), held: Collection[tuple[GroupId, bytes]] = ()
    ) -> CommandRecord | None:
        """Return what has waited longest, of all actions but some, and of no group's once-id that is held."""

    def waves(self, group_id: GroupId) -> list[CommandRecord]:
        """Return the waves of releases in a group that are final and were reported, the last `RESULTS_OF_ONE`."""

    def begun(self) -> list[CommandRecord]:
        """Return what has begun and not ended."""

    def record(self, operation: OperationId) -> CommandRecord | None:
        """Return what is kept of an operation."""

    def next_unreported(self, after: OperationId | None = None) -> CommandRecord | None:
        """Return the first final one, behind another one, that has not been queued for whoever is to know of it."""

    def note_reported(self, record: CommandRecord) -> None:
        """Note that a result is queued, and what of it is kept."""

    def obeyed_since(self, group_id: GroupId) -> ObeyedSince | None:
        """Return from where on this device obeys in a group."""

    def note_obeyed(self, group_id: GroupId, since: ObeyedSince) -> None:
        """Note that it begins to."""

    def obeyed_groups(self) -> Collection[GroupId]:
        """Return the groups that it obeys in."""

    def end_obeying(self, group_id: GroupId) -> None:
        """Forget from where on; what was taken stays."""
