"""The tables of settings: what operators gave this device, and what other devices report of theirs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.events import EventTable
from covey.core.history.orders import Scalar
from covey.core.ids import DeviceKey, GroupId, Incarnation, OperationId
from covey.core.settings.ordered import HeldValue, OrderedSetting
from covey.core.settings.states import KeptReport, SettingState
from covey.errors import DamagedStateError, DecryptionError
from covey.limits.settings import MAXIMUM_SETTINGS_GONE_BACK

if TYPE_CHECKING:
    from covey.adapters.keys.storage_key import StorageKey

_COLUMNS = "key, group_id, operation, author, state, held, previous, code, why, tries, own"


class OrderedSettingTable:
    """The settings that operators gave this device."""

    def __init__(self, database: Database, events: EventTable, storage_key: StorageKey) -> None:
        self._database = database
        self._events = events
        self._storage_key = storage_key

    def all(self) -> list[OrderedSetting]:
        rows = self._database.run(f"SELECT {_COLUMNS} FROM ordered_setting ORDER BY key")  # noqa: S608 - our names
        try:
            return [
                ordered_setting(dict(zip(_COLUMNS.split(", "), row, strict=True)), self._storage_key) for row in rows
            ]
        except DecryptionError as error:
            raise DamagedStateError("a setting in the state database is damaged") from error

    def put(self, given: OrderedSetting, now_us: int) -> None:
        """Store a setting's state, overwriting the previous one, which may have been a secret."""
        with self._database.overwriting():
            self._database.run(
                f"INSERT OR REPLACE INTO ordered_setting ({_COLUMNS}, changed_at) "  # noqa: S608 - our names
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    given.key,
                    given.group_id,
                    given.operation,
                    given.author,
                    int(given.state),
                    self._wrapped(given.key, "held", _held_text(given.held)),
                    self._wrapped(given.key, "previous", _held_text(given.before)),
                    given.code,
                    given.why,
                    given.tries,
                    self._wrapped(given.key, "own", None if given.own is None else json.dumps(given.own)),
                    now_us,
                ),
            )
        self._events.setting(given.key, now_us)

    def _wrapped(self, key: str, column: str, text: str | None) -> bytes | None:
        return None if text is None else self._storage_key.wrap(text.encode(), "ordered_setting", column, key)

    def forget(self, key: str, now_us: int) -> None:
        """Forget one, and overwrite it."""
        with self._database.overwriting():
            self._database.run("DELETE FROM ordered_setting WHERE key = ?", (key,))
        self._events.setting(key, now_us)

    def note_gone_back(self, operation: OperationId, code: str) -> None:
        """Remember that an order has gone back, and what stood against it; the oldest beyond the bound go."""
        self._database.run("INSERT OR REPLACE INTO reverted_setting (operation, code) VALUES (?, ?)", (operation, code))
        self._database.run(
            "DELETE FROM reverted_setting WHERE place <= (SELECT max(place) FROM reverted_setting) - ?",
            (MAXIMUM_SETTINGS_GONE_BACK,),
        )

    def gone_back(self, operation: OperationId) -> str | None:
        row = self._database.first("SELECT code FROM reverted_setting WHERE operation = ?", (operation,))
        return None if row is None else str(row[0])


class SettingReports:
    """What other devices report of their settings."""

    def __init__(self, database: Database, events: EventTable) -> None:
        self._database = database
        self._events = events

    def keep(self, group_id: GroupId, device: DeviceKey, report: KeptReport) -> None:
        self._database.run(
            "INSERT OR REPLACE INTO reported_setting VALUES (?, ?, ?, ?, ?, ?)",
            (group_id, device, report.incarnation, report.seq, report.received_at_us, report.body),
        )
        self._events.reported(group_id, device, report.received_at_us)

    def of(self, group_id: GroupId, device: DeviceKey) -> KeptReport | None:
        row = self._database.first(
            "SELECT incarnation, seq, received_at, body FROM reported_setting WHERE group_id = ? AND device = ?",
            (group_id, device),
        )
        return None if row is None else KeptReport(Incarnation(row[0]), *row[1:])

    def forget(self, group_id: GroupId) -> None:
        """Forget what was reported in a group."""
        self._database.run("DELETE FROM reported_setting WHERE group_id = ?", (group_id,))


def ordered_setting(row: dict[str, Any], storage_key: StorageKey) -> OrderedSetting:
    """Read a row of `ordered_setting`.

    Raises:
        ValueError: it is none.
        DecryptionError: a value in it is not what was written.
    """

    def text(column: str) -> str | None:
        stored, key = row[column], row["key"]
        return None if stored is None else storage_key.unwrap(stored, "ordered_setting", column, key).decode()

    return OrderedSetting(
        row["key"],
        row["group_id"],
        row["operation"],
        row["author"],
        SettingState(row["state"]),
        _held(text("held")),
        _held(text("previous")),
        row["code"],
        row["why"],
        row["tries"],
        _scalar(text("own")),
    )


def _held(text: str | None) -> HeldValue | None:
    if text is None:
        return None
    value, author, *secret = json.loads(text)
    return HeldValue(value, DeviceKey(bytes.fromhex(author)), secret=secret == [True])


def _held_text(held: HeldValue | None) -> str | None:
    if held is None:
        return None
    return json.dumps([held.value, held.author.hex(), *([True] if held.secret else [])])


def _scalar(text: str | None) -> Scalar | None:
    found: Scalar | None = None if text is None else json.loads(text)
    return found
