"""Durable state of orders, their execution and their reports."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from covey.core.actions.commands import CommandRecord, ObeyedSince
from covey.core.actions.installation import Installation
from covey.core.actions.moves import GroupMove
from covey.core.actions.results import KeptResult, OrderResult
from covey.core.ids import DeviceKey, GroupId, OperationId, Place
from covey.core.orders.nodes import Lacked, SentReport, Subject
from covey.core.settings.ordered import OrderedSetting
from covey.core.settings.states import KeptReport


class SentReportRecords(Protocol):
    """Sent reports by recipient, with their place in its queue."""

    def sent(self, group_id: GroupId, recipient: DeviceKey, subject: Subject) -> SentReport | None:
        """Return what a recipient was sent last of a subject; None where that is nothing."""

    def note_sent(self, group_id: GroupId, recipient: DeviceKey, subject: Subject, digest: bytes, place: Place) -> None:
        """Note that a report waits for a recipient, at a place of its queue (rule 3)."""

    def lacked(self, limit: int, *, of_boards: bool) -> list[Lacked]:
        """Return the first reports of single orders that their recipients lack, in the order of the orders.

        Those of this device itself, or `of_boards` behind it.
        """

    def forget_sent(self, lacked: Lacked) -> None:
        """Forget that a recipient was sent a report."""

    def forget_sent_to_others(self, group_id: GroupId, subject: Subject, recipients: Collection[DeviceKey]) -> None:
        """Forget what was sent of a subject to anybody but some recipients."""

    def note_lacking(self, recipient: DeviceKey, first: int, last: int) -> None:
        """Note that a recipient lacks what was sent at some places of its queue, both included."""


class SettingReportRecords(Protocol):
    """What other devices have reported."""

    def of(self, group_id: GroupId, device: DeviceKey) -> KeptReport | None:
        """Return what a device has last reported."""

    def keep(self, group_id: GroupId, device: DeviceKey, report: KeptReport) -> None:
        """Keep what a device reports, in place of what it reported before."""


class ResultRecords(Protocol):
    """The results that have come."""

    def keep(
        self, group_id: GroupId, device: DeviceKey, result: OrderResult, now_us: int, share: int, *, judged: bool
    ) -> bool:
        """Keep the first result of an order by a device, and of its outputs the last `share` bytes (rules 1, 4, 5)."""

    def of_device(self, group_id: GroupId, operation: OperationId, device: DeviceKey) -> KeptResult | None:
        """Return what a device has reported of an order; None where that is nothing, or has gone."""


class CommandRecords(Protocol):
    """The commands that this device has taken. What is put here is durable once the caller's transaction is."""

    def knows(self, operation: OperationId) -> bool:
        """Say whether an operation was taken."""

    def used(self, once: bytes) -> bool:
        """Say whether a command of a once-id was ever taken, in whatever group, forgotten ones too."""

    def add(self, record: CommandRecord) -> None:
        """Keep a command that is new."""

    def change(self, record: CommandRecord) -> None:
        """Store a command's state."""

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
        """Return the first final command, after another one, that has not been queued for its recipients."""

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


class InstallationRecords(Protocol):
    """The installations that are under way; durable once the caller's transaction is."""

    def all(self) -> list[Installation]:
        """Return them, the oldest first."""

    def put(self, installation: Installation) -> None:
        """Keep one, in the place of what was kept of it."""

    def remove(self, operation: OperationId) -> None:
        """Forget one."""


class GroupMoveRecords(Protocol):
    """The moves of this device to other groups; durable once the caller's transaction is."""

    def all(self) -> list[GroupMove]:
        """Return them by old group, those that have ended as well."""

    def put(self, move: GroupMove) -> None:
        """Keep one, in the place of what was kept of its old group."""

    def remove(self, source: GroupId) -> None:
        """Forget the move away from a group."""


class OrderedSettingRecords(Protocol):
    """The settings that operators gave this device."""

    def all(self) -> list[OrderedSetting]:
        """Return them by key."""

    def put(self, given: OrderedSetting, now_us: int) -> None:
        """Store a setting's state."""

    def forget(self, key: str, now_us: int) -> None:
        """Forget one."""

    def note_gone_back(self, operation: OperationId, code: str) -> None:
        """Remember that an order has gone back, and what stood against it."""

    def gone_back(self, operation: OperationId) -> str | None:
        """Return what stood against an order that has gone back here; None of any other."""
