"""The table of what operators have this device install on trial, while it is under way."""

from __future__ import annotations

from typing import Any

from covey.adapters.sqlite.database import Database
from covey.core.actions.installation import Installation, InstallationPhase
from covey.core.ids import DeviceKey, GroupId, OperationId

_COLUMNS = (
    *("operation", "group_id", "author", "action", "file", "phase", "boot_id", "since", "tries", "code", "why"),
    *("output", "version_before"),
)
_NAMES = ", ".join(_COLUMNS)
_CHANGED = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS)
_PUT = (
    f"INSERT INTO installation ({_NAMES}) VALUES ({', '.join('?' * len(_COLUMNS))}) "  # noqa: S608 - our names
    f"ON CONFLICT (operation) DO UPDATE SET {_CHANGED}"
)


class InstallationTable:
    """The installations that are under way; implements `installation.InstallationRecords`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def all(self) -> list[Installation]:
        rows = self._database.run(f"SELECT {_NAMES} FROM installation ORDER BY place")  # noqa: S608 - our names
        return [read_installation(dict(zip(_COLUMNS, row, strict=True))) for row in rows]

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
