"""Tables as an engine leaves them, written by pyarrow: what a report tells of them is known."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from covey_ingest.task.columns import TIMESTAMP
from tests.delta_files import log_file

NOW_US = 1_800_000_000_000_000
HOUR_US = 3_600_000_000
AWAKE, SILENT = "a" * 64, "b" * 64
TRAP = "</svg><script>alert(1)</script>"


def moment(time_us: int) -> datetime:
    return datetime.fromtimestamp(time_us / 1e6, UTC)


def write_table(folder: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows into the folder of a table, or of a micro-batch of it."""
    folder.mkdir(parents=True)
    table = pa.Table.from_pylist(rows)
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(place, field.name, table[field.name].cast(TIMESTAMP))
    pq.write_table(table, folder / "part-0.parquet")
    root = folder.parent.parent if folder.name.startswith("batch=") else folder.parent
    log_file(root, folder.relative_to(root).parts[0], folder / "part-0.parquet")


def reading(author: str, index: int, age_us: int, delay_us: int, **more: object) -> dict[str, Any]:
    landed = NOW_US - age_us
    row = {"author": author, "name": "temperature", "unit": "Cel", "index": index, "time_quality": "synchronised"}
    return row | {"time": moment(landed - delay_us), "received_at": moment(landed)} | more


def write_tables(root: Path) -> Path:
    """Write the tables of a device that spoke an hour ago, and of one that has been silent for two days."""
    awake = [reading(AWAKE, index, HOUR_US, (index + 1) * 1_000_000) for index in range(100)]
    unsure = reading(AWAKE, 0, HOUR_US, 10**12, time_quality="arrival", name=TRAP)
    write_table(root / "readings" / "batch=0", [*awake, unsure])
    write_table(root / "readings" / "batch=1", [reading(SILENT, 0, 48 * HOUR_US, 1_000_000)])
    devices = [
        {"author": author, "last_seen": moment(NOW_US - age), "time_quality": quality, "boots": 2}
        for author, age, quality in ((AWAKE, HOUR_US, "arrival"), (SILENT, 48 * HOUR_US, "synchronised"))
    ]
    write_table(root / "devices", devices)
    gap = {"author": AWAKE, "state": "lost", "reason": "outbox_full", "numbers": 5, "first_seen_at": moment(NOW_US)}
    write_table(root / "gaps", [gap, gap | {"state": "open", "reason": None, "numbers": 2}])
    loss = {"author": AWAKE, "reason": "outbox_full", "first": 7, "last": 11, "received_at": moment(NOW_US)}
    write_table(root / "losses" / "batch=0", [loss])
    damage = {"author": None, "reason": "decryption", "detail": "\x1b[2Jdoes not open", "received_at": None}
    write_table(root / "quarantine" / "batch=0", [damage])
    _write_orders(root)
    return root


def _write_orders(root: Path) -> None:
    """A command that failed on one of two devices, a setting that went back, a secret, and a result without order."""
    command, setting, secret = (
        {"author": "0" * 64, "operation": f"{n:064x}", "ordered_at": moment(NOW_US)} for n in range(3)
    )
    command |= {"kind": "command", "subject": "reboot", "value": "{}", "secret": False, "selector": f"{AWAKE},{SILENT}"}
    setting |= {"kind": "setting", "subject": "app.mode", "value": '"eco"', "secret": False, "selector": "all"}
    secret |= {"kind": "setting", "subject": "app.key", "value": None, "secret": True, "selector": "all"}
    landed = {"received_at": moment(NOW_US - HOUR_US)}
    old = {"received_at": moment(NOW_US - 48 * HOUR_US)}
    write_table(root / "orders" / "batch=1", [command | old, setting | landed, secret | old])
    done = landed | {"operation": command["operation"], "taken_at": moment(NOW_US), "ended_at": moment(NOW_US + 1)}
    results = [
        done | {"author": AWAKE, "state": "done", "exit": 3, "code": "", "why": TRAP},
        done | {"author": SILENT, "state": "done", "exit": 0, "code": "", "why": ""},
        done | {"author": SILENT, "operation": "f" * 64, "state": "refused", "exit": None, "code": "late", "why": ""},
    ]
    write_table(root / "commands" / "batch=1", results)
    said = landed | {"author": AWAKE, "operation": setting["operation"], "key": "app.mode", "code": "", "why": ""}
    states = enumerate(("handed_over", "applied", "reverted"))
    reports = [said | {"state": state, "reported_at": moment(NOW_US + after)} for after, state in states]
    write_table(root / "settings" / "batch=1", reports)
