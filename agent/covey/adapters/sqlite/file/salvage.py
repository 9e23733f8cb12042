"""Recover a damaged state database: copy its readable rows into a new one, table by table.

1. The damaged file is only read. The new one is complete before it takes the damaged one's place, which is kept next to
   it under a name with the time; after a crash the next start finishes or begins again.
2. A row is copied if its digest, its signature or its hash proves it, whichever it has.
3. The new state is a new incarnation. Waiting messages keep their own (`incarnations`), so nothing arrives twice;
   messages that are known to have waited and cannot be read are reported to their recipients by a signed record.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import asdict, astuple, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from covey.adapters.files import remove_durably, storage_errors, synchronise
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.database import moving
from covey.adapters.sqlite.file.groups_copy import GROUPS_COPY, GroupsCopy
from covey.adapters.sqlite.file.inspection import UNREADABLE
from covey.adapters.sqlite.file.salvage_queue import Queue
from covey.adapters.sqlite.file.salvage_report import COMPLETE, SalvageReport
from covey.adapters.sqlite.file.salvage_source import Row, Source
from covey.adapters.sqlite.membership.groups import place_of_secret
from covey.adapters.sqlite.membership.pairing import place_in_pairing, place_in_request
from covey.adapters.sqlite.orders.commands import command_record, read_group_move, read_installation
from covey.adapters.sqlite.orders.settings import ordered_setting
from covey.adapters.sqlite.rows import check_digest
from covey.adapters.sqlite.store import SqliteStore
from covey.core.actions.results import OrderResult
from covey.core.crypto import Identity
from covey.core.group.manifest import read_manifest, secret_id
from covey.core.history.operation import read_operation
from covey.core.ids import KEY_BYTES, EpochId, Incarnation
from covey.core.settings.states import SettingReport
from covey.core.telemetry.packages import unpacked
from covey.core.vault.landed_records import RecordKind, record_kind, verify_record
from covey.core.wire.message import read_message
from covey.errors import CoveyError, MalformedError, StorageError


def salvage(
    path: Path,
    identity: Identity,
    incarnation: Incarnation,
    outbox_bytes: int,
    now_ns: int,
    moves: Callable[[], None] | None = None,
) -> SalvageReport:
    """Build a new database out of a damaged one and put it into its place.

    Raises:
        StorageError: the disk refused; everything is as it was.
    """
    building = path.with_name(f"{path.name}.salvaging")
    _discard(building)
    try:
        report = _build(
            path, SqliteStore(building, incarnation, StorageKey.of(identity), outbox_bytes), identity, now_ns, moves
        )
        with storage_errors("save", path):
            descriptor = os.open(building, os.O_RDONLY | os.O_CLOEXEC)
            os.fsync(descriptor)
            os.utime(descriptor, ns=(now_ns, now_ns))  # `finish` names the damaged file by it
            os.close(descriptor)
            building.rename(_complete(path))
            synchronise(path.parent)
    except StorageError:
        with suppress(StorageError):  # its room is wanted
            _discard(building)
        raise
    finish(path)
    return report


def _discard(building: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        remove_durably(building.with_name(building.name + suffix))


def _build(
    path: Path, building: SqliteStore, identity: Identity, now_ns: int, moves: Callable[[], None] | None
) -> SalvageReport:
    """Write the new database, and fold it into its file, which alone takes the damaged one's place."""
    there = path.exists()
    report = SalvageReport(_aside(path, now_ns).name if there else "")
    with closing(building) as store:
        with store.transaction():
            target = store.connection
            if there:
                with closing(Source(path)) as source, moving(target, moves):
                    _fill(source, target, identity, report)
            else:
                report.lost["everything"] = None
            copy = GroupsCopy(path.with_name(path.name + GROUPS_COPY), StorageKey.of(identity))
            restored = _restore_groups(copy, store, now_ns // 1000)
            report = replace(report, restored=restored)
            store.operations.rebuild()
            store.mailbox.recount()
            target.execute("INSERT INTO salvage (salvaged_at, report) VALUES (?, ?)", (now_ns // 1000, _json(report)))
            target.execute("INSERT INTO counter VALUES ('salvages', 1) ON CONFLICT DO UPDATE SET value = value + 1")
        store.fold()
    return report


def finish(path: Path) -> None:
    """Put a new database that is complete into its place; the damaged one is kept.

    Raises:
        StorageError: the disk refused.
    """
    complete = _complete(path)
    with storage_errors("save", path):
        if not complete.exists():
            return
        aside = _aside(path, complete.stat().st_mtime_ns)
        for suffix in ("-wal", ""):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(aside.with_name(aside.name + suffix))
        path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
        synchronise(path.parent)
        complete.rename(path)
        synchronise(path.parent)


def _complete(path: Path) -> Path:
    return path.with_name(f"{path.name}{COMPLETE}")


def _aside(path: Path, now_ns: int) -> Path:
    stamp = datetime.fromtimestamp(now_ns // 1_000_000_000, UTC)
    return path.with_name(f"{path.name}.damaged-{stamp:%Y%m%dT%H%M%SZ}")


def _json(report: SalvageReport) -> str:
    return json.dumps(asdict(report))


# -- taking over ------------------------------------------------------------------------------------------------------


def _sound_manifest(row: Row) -> None:
    manifest = read_manifest(row["raw"])
    if (manifest.group_id, manifest.version, manifest.hash) != (row["group_id"], row["version"], row["hash"]):
        raise MalformedError("the manifest does not match its row")


def _sound_operation(row: Row) -> None:
    operation, log = read_operation(row["raw"]), (row["author"], row["incarnation"], row["number"])
    if operation.id != row["hash"] or (operation.group_id, operation.height) != (row["group_id"], row["height"]):
        raise MalformedError("the operation does not match its row")
    if (*astuple(operation.log), operation.number) != log or row["manifest_version"] < 1:
        raise MalformedError("the log does not match its row")


def _sound_ordered_setting(row: Row, storage_key: StorageKey) -> None:
    ordered_setting(row, storage_key)


def _sound_command(row: Row) -> None:
    command_record(row)


def _sound_installation(row: Row) -> None:
    read_installation(row)


def _sound_group_move(row: Row) -> None:
    read_group_move(row)


def _sound_report(row: Row) -> None:
    SettingReport.from_wire(row["body"])


def _sound_result(row: Row) -> None:
    if OrderResult.from_wire(row["body"]).order != row["operation"]:
        raise MalformedError("the result does not match its row")


def _sound_secret(row: Row, storage_key: StorageKey) -> None:
    place = place_of_secret(row["group_id"], row["epoch_id"])
    if secret_id(storage_key.unwrap(row["secret"], *place)) != row["epoch_id"]:
        raise MalformedError("the secret does not match its epoch")


def _sound_received(row: Row) -> None:
    check_digest(row["digest"], row["author"], row["incarnation"], row["upto"], row["ranges"])


def _sound_resumed(row: Row) -> None:
    check_digest(row["digest"], row["author"], row["incarnation"], row["ranges"])


def _sound_inbox(row: Row) -> None:
    check_digest(row["digest"], row["group_id"], row["author"], row["body"])


def _sound_landing(row: Row) -> None:
    if record_kind(row["message"]) is RecordKind.MESSAGE:
        read_message(row["message"])
    else:
        verify_record(row["message"])
    check_digest(row["digest"], row["author"], row["incarnation"], row["link_seq"] or row["place"], row["message"])


def _sound_invite(row: Row) -> None:
    if not all(isinstance(name, str) for name in json.loads(row["capabilities"])):
        raise MalformedError("not a list of capabilities")


def _sound_pairing(row: Row) -> None:
    json.loads(row["verifier"])


def _sound_codes(row: Row, storage_key: StorageKey) -> None:
    for column in ("code", "secret"):
        if row[column] is not None:
            storage_key.unwrap(row[column], *place_in_pairing(row["secret_hash"], column))


def _sound_request(row: Row, storage_key: StorageKey) -> None:
    storage_key.unwrap(row["secret"], *place_in_request(row["group_id"], row["inviter_signing"]))


def _sound_address(row: Row) -> None:
    if any(len(value) != KEY_BYTES for value in row.values() if isinstance(value, bytes)):
        raise MalformedError("not keys")


def _sound_inventory(row: Row) -> None:
    unpacked(row["content"])


def _anything(_: Row) -> None:
    """Take a row that nothing but its shape speaks for."""


_TABLES: dict[str, tuple[tuple[str, ...], Callable[[Row], None]]] = {
    "group_manifest": (("group_id", "version", "hash"), _sound_manifest),
    "epoch_secret": (("group_id", "epoch_id"), _anything),
    "operation": (("arrival",), _sound_operation),
    "forgotten_log": (("id",), _anything),
    "forgotten_manifest": (("id",), _anything),
    "forgotten_operation": (("arrival",), _anything),
    "ordered_setting": (("key",), _anything),
    "reverted_setting": (("place",), _anything),
    "command": (("place",), _sound_command),
    "command_once": (("once",), _anything),
    "installation": (("place",), _sound_installation),
    "group_move": (("source",), _sound_group_move),
    "move_order": (("operation",), _anything),
    "reported_setting": (("group_id", "device"), _sound_report),
    "order_result": (("id",), _sound_result),
    "order_output": (("id",), _anything),
    "sent_report": (("id",), _anything),
    "vote": (("group_id", "raw"), _anything),
    "message_ahead": (("id",), _anything),
    "revocation": (("group_id",), _anything),
    "idempotency": (("id",), _anything),
    "departure": (("signing_public",), _sound_address),
    "invite": (("secret_hash",), _sound_invite),
    "pending_join": (("group_id", "inviter_signing"), _sound_address),
    "pairing": (("secret_hash",), _sound_pairing),
    "replacement": (("secret_hash",), _anything),
    "invited_operator": (("group_id", "operator"), _sound_address),
    "personal_group": (("one",), _anything),
    "own_group_obeyed": (("group_id",), _anything),
    "own_group_invited": (("group_id", "device"), _anything),
    "own_group_owed": (("group_id", "device"), _anything),
    "own_device_incarnation": (("device", "incarnation"), _anything),
    "group_request": (("group_id", "inviter_signing"), _anything),
    "declined_group": (("group_id",), _anything),
    "group_ask": (("device", "is_wish", "group_id"), _sound_address),
    "content": (("hash",), _anything),
    "content_holder": (("hash", "device"), _anything),
    "mailbox_inbox": (("id",), _anything),
    "mailbox_sender": (("id",), _anything),
    "mailbox_blob": (("id",), _anything),
    "mailbox_hook": (("device", "kind", "target"), _anything),
    "mailbox_position": (("mailbox",), _anything),
    "mailbox_pushed": (("recipient", "mailbox"), _anything),
    "mailbox_hand_over": (("recipient",), _anything),
    "carrier": (("device",), _sound_address),
    "board": (("port",), _anything),
    "last_seen": (("device",), _anything),
    "counter": (("name",), _anything),
    "condition": (("name",), _anything),
    "sensor_position": (("name",), _anything),
    "inventory": (("author",), _sound_inventory),
    "received": (("author", "incarnation"), _sound_received),
    "resumed": (("author", "incarnation"), _sound_resumed),
    "imprint": (("author", "incarnation", "block"), _anything),
    "rolled_back_incarnation": (("incarnation",), _anything),
    "inbox": (("id",), _sound_inbox),
    "landing": (("id",), _sound_landing),
    "quarantine": (("id",), _anything),
    "salvage": (("id",), _anything),
}
"""Each table's key, and what shows that a row of it is what was written."""

_WRAPPED: dict[str, Callable[[Row, StorageKey], None]] = {
    "epoch_secret": _sound_secret,
    "ordered_setting": _sound_ordered_setting,
    "pairing": _sound_codes,
    "group_request": _sound_request,
}
"""What shows that the secrets of a row are what was written."""

_NUMBERED = {"message_ahead", "inbox", "landing", "quarantine", "salvage"}


_KEPT_OUT = (CoveyError, sqlite3.IntegrityError, sqlite3.DataError, TypeError, ValueError, KeyError, OverflowError)
"""What a row that is no good raises. What the disk refuses is not among it: that ends the saving."""


def _fill(source: Source, target: sqlite3.Connection, identity: Identity, report: SalvageReport) -> None:
    transfer = _Transfer(source, target, report)
    storage_key = StorageKey.of(identity)

    def sound_with_secrets(table: str, sound: Callable[[Row], None], row: Row) -> None:
        sound(row)
        if table in _WRAPPED:
            _WRAPPED[table](row, storage_key)

    whole = {
        table: transfer.table(table, keys, partial(sound_with_secrets, table, sound))
        for table, (keys, sound) in _TABLES.items()
    }
    storage_key.wipe()
    if whole["landing"]:  # a segment may be half written: the same messages again, or another segment
        transfer.table("landing_plan", ("one",), _anything)
        transfer.table("kept_manifest", ("one",), _anything)
    queue = Queue(target, identity)
    transfer.device(queue)
    peers_whole = transfer.visit("peer", ("id",), queue.take_peer, lambda: [(1, queue.highest_peer)])
    transfer.visit("incarnation_span", ("peer", "base"), queue.take_span)
    transfer.visit("outbox", ("id",), queue.take_message, queue.to_seek)
    transfer.visit("unreported_loss", ("peer", "first"), queue.take_gone)
    queue.finish(peers_whole)
    report.saved["outbox"] = queue.messages
    if (missing := queue.missing) is not None:
        report.lost["outbox"] = missing


def _restore_groups(copy: GroupsCopy, store: SqliteStore, now_us: int) -> int:
    restored, target = 0, store.connection
    for group in copy.read():
        before = target.total_changes
        for raw in group.manifests:
            with suppress(*_KEPT_OUT):
                manifest = read_manifest(raw)
                if manifest.group_id == group.group_id:
                    target.execute(
                        "INSERT OR IGNORE INTO group_manifest VALUES (?, ?, ?, 0, ?, ?)",
                        (manifest.group_id, manifest.version, manifest.hash, raw, now_us),
                    )
        for epoch_id, secret in group.secrets:
            if secret_id(secret) == epoch_id:
                store.groups.save_secret(group.group_id, EpochId(epoch_id), secret, now_us)
        restored += target.total_changes > before
    return restored


class _Transfer:
    """Row by row out of the damaged database, with a count of what was taken and what was not."""

    def __init__(self, source: Source, target: sqlite3.Connection, report: SalvageReport) -> None:
        self._source = source
        self._target = target
        self._report = report
        self._visited = _Visited(target)

    def table(self, table: str, keys: tuple[str, ...], sound: Callable[[Row], None]) -> bool:
        """Take the sound rows of a table as they are; return whether all of it could be read and taken."""
        columns = {row[1] for row in self._target.execute(f"PRAGMA table_info({table})")}
        highest = 0

        def take(row: Row) -> bool:
            nonlocal highest
            sound(row)
            names = [name for name in row if name in columns]
            marks = ", ".join("?" * len(names))
            insert = f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({marks})"  # noqa: S608 - our names
            self._target.execute(insert, [row[name] for name in names])
            if table in _NUMBERED:
                highest = max(highest, row["id"])
            return True

        return self.visit(table, keys, take, lambda: [(1, highest)] if table in _NUMBERED else [])

    def device(self, queue: Queue) -> None:
        """Copy the continuing numbers; totals are counted again."""

        def take(row: Row) -> bool:
            self._target.execute(
                "UPDATE device SET next_seq = max(1, ?), manifest_floor = max(0, ?), commits = max(0, ?), lineage = ?, "
                "age = max(0, ?)",
                (row["next_seq"], row["manifest_floor"], row["commits"], row["lineage"], row["age"]),
            )
            return queue.take_totals(row)

        self.visit("device", ("one",), take)
        self._target.execute(
            "UPDATE device SET inbox_bytes = (SELECT coalesce(sum(length(body)), 0) FROM inbox), "
            "landing_bytes = (SELECT coalesce(sum(size), 0) FROM landing)"
        )

    def visit(
        self,
        table: str,
        keys: tuple[str, ...],
        take: Callable[[Row], bool],
        seek: Callable[[], list[tuple[int, int]]] = list,
    ) -> bool:
        """Hand each row of a table over; count; return whether all of it could be read and taken."""
        self._visited.clear()
        whole = True
        rows = self._source.rows(table, keys, seek)
        while True:
            try:
                row = next(rows)
            except StopIteration:
                break
            except UNREADABLE:
                whole = False
                break
            key = tuple(row[name] for name in keys)
            if self._visited.taken(key):
                continue
            try:
                if take(row):
                    self._visited.note(key, taken=True)
            except _KEPT_OUT:
                self._visited.note(key, taken=False)
        taken, refused = self._visited.counts()
        self._report.saved[table] = taken
        if not whole:
            self._report.lost[table] = None
        elif refused:
            self._report.lost[table] = refused
        return whole and not refused


class _Visited:
    """The keys of a table's rows that were taken, and of those that were refused: rows are read more than once.

    They lie in SQLite's temporary file, which goes with the connection: a long queue must not need as much memory.
    """

    def __init__(self, target: sqlite3.Connection) -> None:
        self._execute = target.execute
        self._execute("CREATE TEMP TABLE visited (key TEXT, taken INTEGER, PRIMARY KEY (key, taken)) WITHOUT ROWID")

    def clear(self) -> None:
        self._execute("DELETE FROM visited")

    def taken(self, key: tuple[Any, ...]) -> bool:
        return self._execute("SELECT 1 FROM visited WHERE key = ? AND taken", (repr(key),)).fetchone() is not None

    def note(self, key: tuple[Any, ...], *, taken: bool) -> None:
        self._execute("INSERT OR IGNORE INTO visited VALUES (?, ?)", (repr(key), taken))

    def counts(self) -> tuple[int, int]:
        """Return how many were taken, and how many refused."""
        counts = dict(self._execute("SELECT taken, count(*) FROM visited GROUP BY taken").fetchall())
        return counts.get(True, 0), counts.get(False, 0)
