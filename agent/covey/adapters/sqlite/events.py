"""A device's events, numbered in commit order.

Operations have numbers of their own (`operations.py`), everything else a row here. So a reader that has reached a
number finds later events, and none that a power cut takes back. Rows are bounded; the oldest are deleted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from covey.adapters.sqlite.database import Database
from covey.core.group.manifest import Member
from covey.core.history.kinds import OperationKind
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.membership.events import GroupDestroyed, GroupEvent, InvitationState, RemovedFromGroup, VoteCast
from covey.limits.storage import EVENT_MEMBERS, EVENTS_KEPT

NO_GROUP = GroupId(b"")


class KeptEvent(NamedTuple):
    """What happened, other than an operation; `group_id` is empty where it is of no group."""

    arrival: int
    kind: str
    group_id: GroupId
    at_us: int
    about: dict[str, Any]


class EventTable:
    """The events of this device."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def number(self) -> int:
        """Return the next number; it is never given again."""
        return self._database.one("UPDATE device SET next_arrival = next_arrival + 1 RETURNING next_arrival - 1")

    def last_number(self) -> int:
        """Return the highest number that was given, 0 where none was."""
        return self._database.one("SELECT next_arrival - 1 FROM device")

    def begin_after(self, arrival: int) -> None:
        """Let numbers begin after one that is taken, after a salvage."""
        self._database.run("UPDATE device SET next_arrival = max(next_arrival, ?)", (arrival + 1,))

    def keep(self, event: GroupEvent, now_us: int) -> None:
        """Store an event of a group. Of very many members only the first are named."""
        manifest = event.manifest
        about: dict[str, Any] = {"version": manifest.version, "epoch": manifest.epoch}
        match event:
            case GroupDestroyed():
                self.note("group_destroyed", manifest.group_id, now_us, about | {"by": event.issuer.hex()})
            case RemovedFromGroup():
                self.note("group_removed", manifest.group_id, now_us, about | {"by": manifest.issuer.hex()})
            case _:
                about |= {
                    "by": manifest.issuer.hex(),
                    "members": len(manifest.members),
                    "added": [] if event.joined else _named(event.added),
                    "removed": _named(event.removed),
                    "conflict": event.conflict,
                }
                self.note("group_joined" if event.joined else "group_changed", manifest.group_id, now_us, about)

    def invitation(self, group_id: GroupId, device: DeviceKey, state: InvitationState, now_us: int) -> None:
        """Note the state of an invitation; `device` is the other one."""
        self.note("invitation", group_id, now_us, {"device": device.hex(), "state": state.value})

    def vote(self, cast: VoteCast, now_us: int) -> None:
        """Note that somebody has voted."""
        about = {"action": cast.action.name.lower(), "target": cast.target.hex(), "voter": cast.voter.hex()}
        self.note("vote", cast.group_id, now_us, about | {"votes": cast.votes, "needed": cast.needed})

    def setting(self, key: str, now_us: int) -> None:
        """Note that an ordered setting, or its state, has changed."""
        self.note("setting", NO_GROUP, now_us, {"key": key})

    def reported(self, group_id: GroupId, device: DeviceKey, now_us: int) -> None:
        """Note that a device has reported its settings."""
        self.note("setting_report", group_id, now_us, {"device": device.hex()})

    def order_result(self, group_id: GroupId, device: DeviceKey, order: OperationId, now_us: int) -> None:
        """Note that a device has reported a command's result."""
        self.note("order_result", group_id, now_us, {"device": device.hex(), "order": order.hex()})

    def own(self, kind: OperationKind, group_id: GroupId, operation: OperationId, now_us: int) -> None:
        """Note that one of a person's devices has said something of their groups or preferences."""
        self.note(kind.name.lower(), group_id, now_us, {"operation": operation.hex()})

    def note(self, kind: str, group_id: GroupId, now_us: int, about: dict[str, Any]) -> None:
        """Keep an event; the oldest one goes where there are too many."""
        arrival = self.number()
        self._database.run(
            "INSERT INTO event VALUES (?, ?, ?, ?, ?)", (arrival, kind, group_id, now_us, json.dumps(about))
        )
        self._database.run(
            "DELETE FROM event WHERE arrival <= (SELECT arrival FROM event ORDER BY arrival DESC LIMIT 1 OFFSET ?)",
            (EVENTS_KEPT,),
        )

    def between(self, after: int, upto: int, most: int) -> list[KeptEvent]:
        """Return the first events after a number, up to another one."""
        rows = self._database.run(
            "SELECT arrival, kind, group_id, at, about FROM event WHERE arrival > ? AND arrival <= ? "
            "ORDER BY arrival LIMIT ?",
            (after, upto, most),
        )
        return [
            KeptEvent(arrival, kind, group_id, at_us, json.loads(about))
            for arrival, kind, group_id, at_us, about in rows
        ]

    def may_lack(self, after: int) -> bool:
        """Say whether events after a number may have gone already."""
        count, oldest = self._database.first("SELECT count(*), coalesce(min(arrival), 0) FROM event")
        return int(count) >= EVENTS_KEPT and after < int(oldest)


def _named(members: Iterable[Member]) -> list[dict[str, str]]:
    first = [*members][:EVENT_MEMBERS]
    return [{"device": member.keys.signing_public.hex(), "label": member.label} for member in first]
