"""The role that deletes local history covered by a checkpoint (docs/protocol/history.md, "Forgetting").

It deletes in small transactions, one a turn: after a power cut, each operation is either deleted or still here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.limits.history import FORGET_LOOK_US, FORGOTTEN_AT_ONCE
from covey.ports import Report, Transactions

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.core.node import Node
    from covey.core.now import Now


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
