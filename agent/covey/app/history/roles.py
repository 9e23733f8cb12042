"""The roles that sign checkpoints and delete local history (docs/protocol/history.md, "Checkpoints", "Forgetting").

`CheckpointSigning` computes each proposed state itself and signs only its own result. It reports once what it does
not sign. `HistoryForgetting` deletes in small transactions, one a turn: after a power cut, each operation is either
deleted or still here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.core.group.device_labels import DeviceLabels
from covey.core.history.kinds import OperationKind
from covey.core.history.orders import Approval
from covey.core.ids import GroupId, OperationId
from covey.errors import LocalError
from covey.limits.history import FORGET_LOOK_US, FORGOTTEN_AT_ONCE
from covey.ports import Report, Transactions

if TYPE_CHECKING:
    from covey.adapters.sqlite.history.operations import OperationTables
    from covey.app.device.device import Device
    from covey.core.checkpoints.checkpoints import Checkpoint
    from covey.core.group.manifest import GroupManifest
    from covey.core.node import Node
    from covey.core.now import Now


_KINDS = (OperationKind.CHECKPOINT,)
_LOOK_US = 5_000_000
"""Interval between looks at others' proposals: recomputing a state can take a second."""


class CheckpointSigning:
    """Looks at what was proposed since it has looked last; `proposals` returns each author's last one in a group."""

    def __init__(
        self,
        store: Transactions,
        arrivals: OperationTables,
        proposals: Callable[[Node, GroupManifest], Iterable[Checkpoint]],
        report: Report,
    ) -> None:
        self._store = store
        self._arrivals = arrivals
        self._proposals = proposals
        self._report = report
        self._seen: tuple[int, int] | None = None
        self._look_at_us = 0
        self._looked_at: dict[GroupId, int] = {}
        self._reported: set[OperationId] = set()

    def turn(self, node: Node, now: Now) -> int | None:
        """Do what is due; return when to be called next, in monotonic microseconds."""
        seen = (id(node), node.history.generation)
        if seen == self._seen:
            return None
        if now.monotonic_us < self._look_at_us:
            return self._look_at_us
        self._seen = seen
        for group in node.groups.joined():
            arrival = self._arrivals.last_arrival_of(group.group_id, _KINDS)
            if arrival != self._looked_at.get(group.group_id, 0):
                self._looked_at[group.group_id] = arrival
                self._look_at_us = now.monotonic_us + _LOOK_US
                self._sign(node, group, now)
        return None

    def _sign(self, node: Node, group: GroupManifest, now: Now) -> None:
        own = node.identity.signing_public
        for each in self._proposals(node, group):
            if own not in each.electors or own in each.signers:
                continue
            if each.objection:
                self._report_objection(each, group)
                continue
            try:
                with self._store.transaction():
                    node.history.write(group.group_id, Approval(each.id), now)
            except LocalError as error:
                self._report("warning", f"checkpoint {each.id.hex()[:8]} could not be signed: {error}")

    def _report_objection(self, checkpoint: Checkpoint, group: GroupManifest) -> None:
        if checkpoint.id not in self._reported:
            self._reported.add(checkpoint.id)
            who = DeviceLabels((group,)).named(checkpoint.author)
            self._report(
                "warning", f"checkpoint {checkpoint.id.hex()[:8]} by {who} was not signed: {checkpoint.objection_text}"
            )

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""


def signing_role(device: Device) -> CheckpointSigning:
    """Return the role that signs checkpoints whose state this device makes, too."""

    def proposals(node: Node, group: GroupManifest) -> Iterable[Checkpoint]:
        from covey.app.history.checkpoints import checkpoints  # few groups have any: it spares the memory

        return checkpoints(device, node, group).last_of_each_author()

    return CheckpointSigning(device.store, device.store.operations, proposals, report)


_PAUSE_US = 200_000
"""Between two portions: what else the agent does comes first."""


class HistoryForgetting:
    """Looks once an hour whether there is something to forget, and forgets it portion by portion.

    `forgettable` returns the arrivals of what may go in a group, `forget` has some of them go.
    """

    def __init__(
        self,
        store: Transactions,
        forgettable: Callable[[Node, GroupManifest, Now], Sequence[int]],
        forget: Callable[[Sequence[int]], int],
        report: Report,
    ) -> None:
        self._store = store
        self._forgettable = forgettable
        self._forget = forget
        self._report = report
        self._look_at_us = 0
        self._waiting: list[Sequence[int]] = []
        self._forgotten = 0

    def look(self) -> None:
        """Look at the next turn: what is to be kept has changed."""
        self._look_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:
        """Do what is due; return when to be called next, in monotonic microseconds."""
        if not self._waiting:
            if now.monotonic_us < self._look_at_us:
                return self._look_at_us
            self._look_at_us = now.monotonic_us + FORGET_LOOK_US
            found = (self._forgettable(node, group, now) for group in node.groups.joined())
            self._waiting = [each for each in found if each]
            return now.monotonic_us + _PAUSE_US if self._waiting else self._look_at_us
        portion, rest = self._waiting[0][:FORGOTTEN_AT_ONCE], self._waiting[0][FORGOTTEN_AT_ONCE:]
        with self._store.transaction():
            self._forgotten += self._forget(portion)
        self._waiting = [*([rest] if rest else []), *self._waiting[1:]]
        if not self._waiting and self._forgotten:
            self._report("info", f"deleted {self._forgotten} operations covered by a checkpoint")
            self._forgotten = 0
        return now.monotonic_us + _PAUSE_US

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""


def forgetting_role(device: Device) -> HistoryForgetting:
    """Return the role that forgets what checkpoints cover, where the owner has set how long it is kept."""

    def found(node: Node, group: GroupManifest, now: Now) -> Sequence[int]:
        days = device.live.config.history.keep_days
        if not days or not device.clock.synchronised():
            return ()
        from covey.app.history.forgetting import keep_us, may_go  # most keep everything: it spares the memory

        return may_go(device, node, group, now.wall_us - keep_us(days))[1]

    role = HistoryForgetting(device.store, found, device.store.operations.forgotten.take, report)
    device.live.follow(("history.keep_days",), lambda _: role.look())
    return role
