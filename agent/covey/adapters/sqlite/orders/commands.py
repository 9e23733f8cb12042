"""The tables of commands for this device, their results, the groups in which it obeys, and the installation
on trial.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, NamedTuple

from covey.adapters.sqlite.database import Database
from covey.core.actions.commands import CommandRecord, GivenCommand, ObeyedSince
from covey.core.actions.installation import Installation, InstallationPhase
from covey.core.actions.moves import GroupMove, MovePhase
from covey.core.actions.results import FINAL, CommandState, OrderResult
from covey.core.actions.secrets import SealedArguments
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.limits.actions import RESULTS_OF_ONE

_COLUMNS = (
    *("operation", "group_id", "once", "author", "action", "arguments", "secrets", "deadline", "state", "taken_at"),
    *("synchronised", "started_at", "boot_id", "tries", "body", "in_waves"),
)
_NAMES = ", ".join(_COLUMNS)
_FINAL = tuple(int(state) for state in FINAL)


class CommandTables:
    """The commands that this device has taken."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def knows(self, operation: OperationId) -> bool:
        return self._database.first("SELECT 1 FROM command WHERE operation = ?", (operation,)) is not None

    def used(self, once: bytes) -> bool:
        return self._database.first("SELECT 1 FROM command_once WHERE once = ?", (once,)) is not None

    def is_reported(self, operation: OperationId) -> bool:
        """Say whether an operation's result is final, and was queued for all its recipients."""
        return self._database.first("SELECT 1 FROM command WHERE operation = ? AND reported", (operation,)) is not None

    def add(self, record: CommandRecord) -> None:
        marks = ", ".join("?" * len(_COLUMNS))
        self._database.run(f"INSERT INTO command ({_NAMES}) VALUES ({marks})", _values(record))  # noqa: S608 - our names
        self._database.run("INSERT OR IGNORE INTO command_once VALUES (?)", (record.command.once,))

    def change(self, record: CommandRecord) -> None:
        names = ", ".join(f"{name} = ?" for name in _COLUMNS)
        self._database.run(
            f"UPDATE command SET {names} WHERE operation = ?",  # noqa: S608 - our names
            (*_values(record), record.command.operation),
        )

    def waiting(self, group_id: GroupId | None = None) -> list[OperationId]:
        rows = self._database.run(
            "SELECT operation FROM command WHERE NOT reported AND state = ? "
            "AND coalesce(group_id = ?, 1) ORDER BY place",
            (int(CommandState.WAITING), group_id),
        )
        return [row[0] for row in rows]

    def next_waiting(
        self, but: Collection[str] = (), held: Collection[tuple[GroupId, bytes]] = ()
    ) -> CommandRecord | None:
        rows = self._database.run(
            "SELECT operation, action, group_id, once FROM command WHERE NOT reported AND state = ? ORDER BY place",
            (int(CommandState.WAITING),),
        )
        found = (row[0] for row in rows if row[1] not in but and (row[2], row[3]) not in held)
        first = next(found, None)
        return None if first is None else self.record(first)

    def waves(self, group_id: GroupId) -> list[CommandRecord]:
        rows = self._database.run(
            f"SELECT {_NAMES} FROM command WHERE group_id = ? AND in_waves AND reported "  # noqa: S608 - our names
            "ORDER BY place DESC LIMIT ?",
            (group_id, RESULTS_OF_ONE),
        )
        return [command_record(dict(zip(_COLUMNS, row, strict=True))) for row in reversed(rows)]

    def last_of_actions(self) -> list[CommandRecord]:
        """Return of each action what has become final last."""
        rows = self._database.run(
            f"SELECT {_NAMES} FROM command WHERE place IN "  # noqa: S608 - our names
            f"(SELECT max(place) FROM command WHERE state IN {_FINAL} GROUP BY action) ORDER BY place"
        )
        return [command_record(dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    def begun(self) -> list[CommandRecord]:
        rows = self._database.run(
            f"SELECT {_NAMES} FROM command WHERE NOT reported AND state = ? ORDER BY place",  # noqa: S608 - our names
            (int(CommandState.BEGUN),),
        )
        return [command_record(dict(zip(_COLUMNS, row, strict=True))) for row in rows]

    def record(self, operation: OperationId) -> CommandRecord | None:
        return self._first("operation = ?", operation)

    def next_unreported(self, after: OperationId | None = None) -> CommandRecord | None:
        behind = "place > coalesce((SELECT place FROM command WHERE operation = ?), 0)"
        return self._first(f"NOT reported AND state IN {_FINAL} AND {behind}", after)

    def _first(self, condition: str, *values: object) -> CommandRecord | None:
        row = self._database.first(
            f"SELECT {_NAMES} FROM command WHERE {condition} ORDER BY place LIMIT 1",  # noqa: S608 - our names
            values,
        )
        return None if row is None else command_record(dict(zip(_COLUMNS, row, strict=True)))

    def note_reported(self, record: CommandRecord) -> None:
        self.change(record)
        self._database.run("UPDATE command SET reported = 1 WHERE operation = ?", (record.command.operation,))

    def obeyed_since(self, group_id: GroupId) -> ObeyedSince | None:
        row = self._database.first(
            "SELECT operation, height, incarnation FROM obeyed_group WHERE group_id = ?", (group_id,)
        )
        return None if row is None else ObeyedSince(*row)

    def note_obeyed(self, group_id: GroupId, since: ObeyedSince) -> None:
        self._database.run(
            "INSERT OR REPLACE INTO obeyed_group VALUES (?, ?, ?, ?)",
            (group_id, since.operation, since.height, since.incarnation),
        )

    def obeyed_groups(self) -> list[GroupId]:
        return [row[0] for row in self._database.run("SELECT group_id FROM obeyed_group ORDER BY group_id")]

    def end_obeying(self, group_id: GroupId) -> None:
        self._database.run("DELETE FROM obeyed_group WHERE group_id = ?", (group_id,))

    def forget(self, group_id: GroupId) -> None:
        """Forget what was ordered in a group; the once-ids stay."""
        for table in ("command", "obeyed_group"):
            self._database.run(f"DELETE FROM {table} WHERE group_id = ?", (group_id,))  # noqa: S608 - our names


def _values(record: CommandRecord) -> tuple[object, ...]:
    command, result = record.command, record.result
    return (
        command.operation,
        command.group_id,
        command.once,
        command.author,
        command.action,
        json.dumps(dict(command.arguments)) if command.arguments else None,
        None if command.sealed is None else command.sealed.to_stored(),
        command.deadline_us,
        int(record.state),
        record.taken_us,
        int(record.synchronised),
        record.started_us,
        record.boot_id,
        record.tries,
        None if result is None else result.to_wire(),
        int(command.in_waves),
    )


def command_record(row: dict[str, Any]) -> CommandRecord:
    """Read a row of `command`.

    Raises:
        ValueError: it is none.
        RemoteError: its result is none, or its sealed arguments.
    """
    secrets = row["secrets"]
    command = GivenCommand(
        row["once"],
        GroupId(row["group_id"]),
        OperationId(row["operation"]),
        DeviceKey(row["author"]),
        row["action"],
        json.loads(row["arguments"] or "{}"),
        row["deadline"],
        None if secrets is None else SealedArguments.from_stored(secrets),
        bool(row["in_waves"]),
    )
    return CommandRecord(
        command,
        CommandState(row["state"]),
        row["taken_at"],
        bool(row["synchronised"]),
        row["started_at"],
        row["boot_id"],
        row["tries"],
        None if row["body"] is None else OrderResult.from_wire(row["body"]),
    )


_INSTALLATION_COLUMNS = (
    *("operation", "group_id", "author", "action", "file", "phase", "boot_id", "since", "tries", "code", "why"),
    *("output", "version_before"),
)
_INSTALLATION_NAMES = ", ".join(_INSTALLATION_COLUMNS)
_CHANGED = ", ".join(f"{name} = excluded.{name}" for name in _INSTALLATION_COLUMNS)
_PUT = (
    f"INSERT INTO installation ({_INSTALLATION_NAMES}) VALUES ({', '.join('?' * len(_INSTALLATION_COLUMNS))}) "  # noqa: S608 - our names
    f"ON CONFLICT (operation) DO UPDATE SET {_CHANGED}"
)


class InstallationTable:
    """The installations that are under way; implements `installation.InstallationRecords`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Installation]:
        rows = self._database.run(f"SELECT {_INSTALLATION_NAMES} FROM installation ORDER BY place")  # noqa: S608 - our names
        return [read_installation(dict(zip(_INSTALLATION_COLUMNS, row, strict=True))) for row in rows]

    def put(self, installation: Installation) -> None:
        each = installation
        self._database.run(
            _PUT,
            (
                *(each.operation, each.group_id, each.author, each.action, each.file, int(each.phase)),
                *(each.boot_id, each.since_us, each.tries, each.code, each.why, each.output, each.before),
            ),
        )

    def remove(self, operation: OperationId) -> None:
        self._database.run("DELETE FROM installation WHERE operation = ?", (operation,))


_MOVE_COLUMNS = ("source", "target", "operation", "author", "phase", "since", "asks", "asked_at")


class GroupMoveTable:
    """The moves of this device to other groups; implements `GroupMoveRecords`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[GroupMove]:
        rows = self._database.run(f"SELECT {', '.join(_MOVE_COLUMNS)} FROM group_move ORDER BY source")  # noqa: S608 - our names
        return [read_group_move(dict(zip(_MOVE_COLUMNS, row, strict=True))) for row in rows]

    def put(self, move: GroupMove) -> None:
        self._database.run(
            "INSERT OR REPLACE INTO group_move VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(move.source, move.target, move.operation, move.author),
                *(int(move.phase), move.since_us, move.asks, move.asked_at_us),
            ),
        )

    def remove(self, source: GroupId) -> None:
        self._database.run("DELETE FROM group_move WHERE source = ?", (source,))

    def targets(self) -> dict[GroupId, GroupId]:
        """Return by old group where its readings go, for the moves that have come so far."""
        joining = int(MovePhase.JOINING)
        return dict(self._database.run("SELECT source, target FROM group_move WHERE phase > ?", (joining,)))


class MoveOrder(NamedTuple):
    """An ordered move between two groups, whose devices this one removes from the old group."""

    operation: OperationId
    source: GroupId
    target: GroupId


class MoveOrders:
    """The ordered moves that this device, as the operator's, completes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[MoveOrder]:
        """Return them by operation."""
        return [
            MoveOrder(*row)
            for row in self._database.run("SELECT operation, source, target FROM move_order ORDER BY operation")
        ]

    def put(self, operation: OperationId, source: GroupId, target: GroupId) -> None:
        """Keep one."""
        self._database.run("INSERT OR REPLACE INTO move_order VALUES (?, ?, ?)", (operation, source, target))

    def remove(self, operation: OperationId) -> None:
        """Forget one: its devices have moved."""
        self._database.run("DELETE FROM move_order WHERE operation = ?", (operation,))


def read_group_move(row: dict[str, Any]) -> GroupMove:
    """Read a row.

    Raises:
        ValueError: it is none.
    """
    return GroupMove(
        GroupId(row["source"]),
        GroupId(row["target"]),
        OperationId(row["operation"]),
        DeviceKey(row["author"]),
        MovePhase(row["phase"]),
        row["since"],
        row["asks"],
        row["asked_at"],
    )


def read_installation(row: dict[str, Any]) -> Installation:
    """Read a row.

    Raises:
        ValueError: it is none.
    """
    return Installation(
        OperationId(row["operation"]),
        GroupId(row["group_id"]),
        DeviceKey(row["author"]),
        row["action"],
        row["file"],
        InstallationPhase(row["phase"]),
        row["boot_id"],
        row["since"],
        row["tries"],
        row["code"],
        row["why"],
        row["output"],
        row["version_before"],
    )
