"""The tables of settings: what operators gave this device, and what other devices report of theirs."""

from __future__ import annotations

import json
from typing import Any

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.events import EventTable
from covey.adapters.sqlite.rows import PLACE_BITS
from covey.core.history.orders import Scalar
from covey.core.ids import DeviceKey, GroupId, Incarnation, Place
from covey.core.settings.ordered import HeldValue, OrderedSetting
from covey.core.settings.reporting import KeptReport, SentReport
from covey.core.settings.states import SettingState

_COLUMNS = "key, group_id, operation, author, state, held, former, code, why, tries, own"
_WAITING = f"peer.id << {PLACE_BITS} | setting_report_sent.place"
_WAITS = f"EXISTS (SELECT 1 FROM peer JOIN outbox ON outbox.id = {_WAITING} WHERE signing_public = member)"  # noqa: S608

_KNOWN = "EXISTS (SELECT 1 FROM peer WHERE signing_public = member AND place > base)"
"""Of this incarnation: what an earlier one sent, its recipient can lack without saying so."""


class OrderedSettingTable:
    """The settings that operators gave this device."""

    def __init__(self, database: Database, events: EventTable) -> None:
        self._database = database
        self._events = events

    def all(self) -> list[OrderedSetting]:
        """Return them by key."""
        rows = self._database.run(f"SELECT {_COLUMNS} FROM ordered_setting ORDER BY key")  # noqa: S608 - our names
        return [ordered_setting(dict(zip(_COLUMNS.split(", "), row, strict=True))) for row in rows]

    def put(self, given: OrderedSetting, now_us: int) -> None:
        """Keep what has become of one."""
        self._database.run(
            f"INSERT OR REPLACE INTO ordered_setting ({_COLUMNS}, changed_at) "  # noqa: S608 - our names
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                given.key,
                given.group_id,
                given.operation,
                given.author,
                int(given.state),
                _held_text(given.held),
                _held_text(given.before),
                given.code,
                given.why,
                given.tries,
                None if given.own is None else json.dumps(given.own),
                now_us,
            ),
        )
        self._events.setting(given.key, now_us)

    def forget(self, key: str, now_us: int) -> None:
        """Forget one."""
        self._database.run("DELETE FROM ordered_setting WHERE key = ?", (key,))
        self._events.setting(key, now_us)


class SettingReports:
    """What was reported of this device's settings, and what other devices report of theirs."""

    def __init__(self, database: Database, events: EventTable) -> None:
        self._database = database
        self._events = events

    def sent(self, group_id: GroupId, member: DeviceKey) -> SentReport | None:
        """Return what a member was told last; None where that is nothing."""
        row = self._database.first(
            f"SELECT CASE WHEN {_KNOWN} OR {_WAITS} THEN digest ELSE x'' END, {_WAITS} "  # noqa: S608 - our names
            "FROM setting_report_sent WHERE group_id = ? AND member = ?",
            (group_id, member),
        )
        return None if row is None else SentReport(row[0], waits=bool(row[1]))

    def note_sent(self, group_id: GroupId, member: DeviceKey, digest: bytes, place: Place) -> None:
        """Note that a report waits for a member, at a place of its queue."""
        self._database.run(
            "INSERT OR REPLACE INTO setting_report_sent VALUES (?, ?, ?, ?)", (group_id, member, digest, place)
        )

    def note_lacking(self, member: DeviceKey, first: int, last: int) -> None:
        """Note that a member lacks what was sent at some places of its queue, both included."""
        self._database.run(
            "UPDATE setting_report_sent SET digest = x'' WHERE member = ? AND place BETWEEN ? AND ?",
            (member, first, last),
        )

    def keep(self, group_id: GroupId, device: DeviceKey, report: KeptReport) -> None:
        """Keep what a device reports, in place of what it reported before."""
        self._database.run(
            "INSERT OR REPLACE INTO reported_setting VALUES (?, ?, ?, ?, ?, ?)",
            (group_id, device, report.incarnation, report.seq, report.received_at_us, report.body),
        )
        self._events.reported(group_id, device, report.received_at_us)

    def of(self, group_id: GroupId, device: DeviceKey) -> KeptReport | None:
        """Return what a device has last reported."""
        row = self._database.first(
            "SELECT incarnation, seq, received_at, body FROM reported_setting WHERE group_id = ? AND device = ?",
            (group_id, device),
        )
        return None if row is None else KeptReport(Incarnation(row[0]), *row[1:])

    def forget(self, group_id: GroupId) -> None:
        """Forget what was reported in a group."""
        for table in ("setting_report_sent", "reported_setting"):
            self._database.run(f"DELETE FROM {table} WHERE group_id = ?", (group_id,))  # noqa: S608 - our names


def ordered_setting(row: dict[str, Any]) -> OrderedSetting:
    """Read a row of `ordered_setting`.

    Raises:
        ValueError: it is none.
    """
    return OrderedSetting(
        row["key"],
        row["group_id"],
        row["operation"],
        row["author"],
        SettingState(row["state"]),
        _held(row["held"]),
        _held(row["former"]),
        row["code"],
        row["why"],
        row["tries"],
        _scalar(row["own"]),
    )


def _held(text: str | None) -> HeldValue | None:
    if text is None:
        return None
    value, author, *secret = json.loads(text)
    return HeldValue(value, DeviceKey(bytes.fromhex(author)), secret=secret == [True])


def _held_text(held: HeldValue | None) -> str | None:
    """Return JSON: the value, its author, and true where it is secret."""
    if held is None:
        return None
    return json.dumps([held.value, held.author.hex(), *([True] if held.secret else [])])


def _scalar(text: str | None) -> Scalar | None:
    found: Scalar | None = None if text is None else json.loads(text)
    return found
