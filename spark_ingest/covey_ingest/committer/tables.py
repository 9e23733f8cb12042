"""The tables of a location, for one run of an engine: what tasks have written becomes one commit a micro-batch.

    <table>/_delta_log/, <table>/batch=N/*.parquet   Delta tables, whose files tasks write and the committer commits
    covey.json, deletions.json                       their owner: see `tables_log`; and the deletions (rule 6)
    state/                                           derived state: see `tables_state`
    copies/                                          of logs and documents: see `copies`

The location is a folder or a prefix in an object store (`table_locations`); the engine is anything that runs tasks
(`writing`) and calls `commit`. How each reading is there once, whatever is killed at any moment:

    1. Tasks write files under names that are never reused. No log names them, so no reader sees them.
    2. No store is believed (rule 3 of `table_locations`): tasks read back what they wrote, and the committer looks
       whether it is there. It compares new rows with existing ones, stores rows other than readings, and commits: the
       other tables first, then `readings`, by one entry with the number of the micro-batch and the offset up to which
       the vault is in the tables (`tables_log`). Before that entry nothing of the micro-batch counts: it is repeated
       under the same number, perhaps with more segments. After it, nothing of it is repeated.
    3. The committer's folder is new at each start. It holds nothing that the location does not: state, and one row for
       each message of later micro-batches. It may be lost at any moment.
    4. A new run stops the one before (rule 3 of `tables_log`), even if that is only slow. In a folder a lock refuses
       the second run as long as the first one lives.
    5. Files that no log names are deleted after a day, when a run begins, and once a day.
    6. `deletions.json` lists deletions; each run reads it once it has stopped the one before. `deleting` says why
       deleted rows never return.
"""

from __future__ import annotations

import fcntl
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from covey.core.ids import VaultId
from covey.errors import ConfigurationError, StorageError
from covey.limits.tables import MAXIMUM_DELETIONS_BYTES
from covey_ingest.committer import deletions, tables_state
from covey_ingest.committer.committed import batch_folder, folder_numbers
from covey_ingest.committer.copies import TableFile
from covey_ingest.committer.deletions import Deletions
from covey_ingest.committer.delta_log import STATE_SECONDS, STATE_TABLES
from covey_ingest.committer.file_names import DAMAGED_HINT, check_content, named
from covey_ingest.committer.table_locations import SCRATCH, Folder, TableLocation, location_at
from covey_ingest.committer.tables_log import Offset, TablesLog
from covey_ingest.committer.verifying import Rounds
from covey_ingest.tables import clocks, dedup, devices, gaps, members, rollups, seen_orders, standing
from covey_ingest.tables.messages import MESSAGES
from covey_ingest.task import memberships
from covey_ingest.task.columns import READINGS
from covey_ingest.task.orders import KEYS
from covey_ingest.task.others import SMALL_TABLES
from covey_ingest.task.schema import RowKind
from covey_ingest.task.writing import PlacedFile, Rework, Target, Written, notes_of, put_file, summary_of
from covey_ingest.vault import repairs

SCHEMAS = {"readings": READINGS, **SMALL_TABLES, rollups.TABLE: rollups.SCHEMA}
"""All tables but those that are replaced whole."""

ALL_TABLES = (*SCHEMAS, *STATE_TABLES)

_SWEEP_SECONDS = 86_400.0
_ORDERS = (RowKind.ORDER, RowKind.RESULT, RowKind.SETTING)
_NOTED = MESSAGES.append(pa.field("index", pa.int32()))

Reworker = Callable[[list[Rework]], list[Written]]
"""Has an engine rewrite files, in its tasks."""


@dataclass(frozen=True, slots=True)
class BatchWritten:
    """What one micro-batch brought."""

    batch_id: int
    messages: int = 0
    readings: int = 0
    losses: int = 0
    orders: int = 0
    """Of orders, and of what devices report of them, repeats included."""
    memberships: int = 0
    """Members that signed manifests list, and profiles of groups."""
    quarantined: int = 0
    repaired: int = 0
    """Segments that an earlier micro-batch had to pass over."""
    repeats: int = 0
    """Messages left out of `readings`, since they are in there already."""
    unverified: int = 0
    """What is quarantined since a signature or a seal does not hold."""
    newest_us: int | None = None
    """The newest arrival at a collector."""
    bytes: int = 0
    """Of the files of `readings`."""


class Tables:
    """The tables of a location, for one run; `root` is an empty folder of the committer's own.

    Use as a context manager: the end of it brings the state up to date, unless something went wrong.
    """

    def __init__(self, location: TableLocation, root: Path, vault_ids: Sequence[VaultId] | None = None) -> None:
        """Shut out earlier runs, and find out where the last one ended.

        Missing tables are made. Without `vault_ids`, vaults and tables are those that there are: for a run that adds
        nothing.

        Raises:
            ConfigurationError: the location is of other vaults, or holds something else, or another run has begun.
            StorageError: the location refused, or was not reached.
        """
        self.root = root
        self.location = location
        with self._storage_errors():
            root.mkdir(parents=True, exist_ok=True)
            self.log = TablesLog(location, vault_ids, root)
            self._tables = self._there() if vault_ids is None else dict(SCHEMAS)
            self.log.take_over(self._tables)
            self._fetch_deletions()
            self._sweep()
            standing.lies_at(root, location.name)
            rewritten = max(map(self.log.delta.rewritten, self._tables), default=-1)
            self._recover(*tables_state.fetch(location, root, range(rewritten, self.log.done + 1)))
        self._kept, self._kept_at = -1, float("-inf")
        self._rounds = Rounds(location, self.log.delta, ALL_TABLES)

    @property
    def home(self) -> str:
        """The id of the vault that the tables were filled from first, in hex (`vaults`)."""
        return self.log.home

    @property
    def done(self) -> int:
        """The last micro-batch that is committed, or -1."""
        return self.log.done

    @property
    def offset(self) -> Offset:
        """Up to where the vault is in the tables."""
        return self.log.offset

    @property
    def target(self) -> Target:
        """Where tasks write the next micro-batch."""
        return Target(self.location.name, self.done + 1, deletions.read(self.root))

    def __enter__(self) -> Self:
        """Return the tables."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Put tables that are replaced whole, and the state."""
        if kind is None and self.done > self._kept:
            self._keep()

    def commit(self, written: Sequence[Written], offset: Offset, reworked: Reworker) -> BatchWritten:
        """Commit the next micro-batch: what tasks have written.

        Raises:
            ConfigurationError: another run has begun.
            StorageError: the location refused, or was not reached: start again.
        """
        number = self.log.done + 1
        with self._storage_errors():
            placed, repeats = self._once([each for each in written if each.files], reworked)
            others, excess = self._others(written)
            files = {name: [self._put_rows(name, number, rows)] for name, rows in others.items() if len(rows)}
            for name in ("readings", rollups.TABLE):
                files[name] = [each.files[name] for each in placed if name in each.files]
            self.log.commit(number, files, offset)
            came = _messages(placed)
            self._note(number, came)
            self._follow(number, [each.summary for each in placed if each.summary is not None], came)
        return _brought(number, written, files["readings"], repeats, excess)

    def keep_in_time(self) -> list[TableFile]:
        """Put the state and look after files, where it is time for that; return damaged files, restored where possible.

        Raises:
            ConfigurationError: another run has begun.
            StorageError: the location refused, or was not reached.
        """
        if self.done > self._kept and time.monotonic() - self._kept_at >= STATE_SECONDS:
            self._keep()
        if time.monotonic() - self._swept_at >= _SWEEP_SECONDS:
            self._sweep()
        found = self._rounds.damaged()
        return [self._renewed(each) for each in found] + self.restored()

    def restored(self) -> list[TableFile]:
        """Return what was damaged as it was opened since this was last asked, and is restored."""
        found, self.log.delta.found = self.log.delta.found, []
        return found

    def _renewed(self, file: TableFile) -> TableFile:
        """Write a table again that is replaced whole and has a damaged file."""
        if file.restored or file.table not in STATE_TABLES or self.done < 0:
            return file
        with self._storage_errors():
            self.log.delta.renew(file.table)
            self.log.delta.replace_states()
        return replace(file, restored=True)

    def forget(self, placed: Sequence[Written]) -> None:
        """Remove files that were put and are not to be committed.

        Raises:
            StorageError: the location refused, or was not reached.
        """
        keys = [f"{name}/{file.key}" for each in placed for name, file in each.files.items()]
        if keys:
            self.location.store.discard(keys)

    def put_state(self) -> None:
        """Store the state next to the logs, if there is any yet.

        Raises:
            ConfigurationError: another run has begun.
            StorageError: the location refused, or was not reached.
        """
        if self.done < 0:
            return
        with self._storage_errors():
            self.log.delta.replace_states()
            tables_state.put(self.location, self.root, self.done, self.log.run, self.offset)
            self._kept, self._kept_at = self.done, time.monotonic()
            self.log.delta.kept = self.done

    def _once(self, placed: list[Written], reworked: Reworker) -> tuple[list[Written], int]:
        """Rewrite files with repetitions or corrected times; count the repetitions."""
        came = _messages(placed)
        repeats = dedup.find(self.root, came, self.done)
        known = clocks.known_for(self.root, came, self.done)
        if not repeats.copies and not len(known):
            return placed, 0
        kept = dedup.kept([each.notes for each in placed], repeats)
        boots = set(_keys(known, clocks.BOOT))
        right, due = [], []
        for each, stays in zip(placed, kept, strict=True):
            if all(stays) and boots.isdisjoint(_keys(each.notes, clocks.BOOT)):
                right.append(each)
            else:
                job = Rework(self.target, each.files["readings"].key, each.notes, tuple(stays), known)
                due.append((each, job))
        better = reworked([job for _, job in due])
        self.forget([each for each, _ in due])
        return [*right, *better], repeats.copies

    def _others(self, written: Sequence[Written]) -> tuple[dict[str, pa.Table], int]:
        """Return rows other than readings, by table, and how many rows of quarantine report excess."""
        found = {
            name: pa.concat_tables([each.others[name] for each in written if name in each.others])
            for name in SMALL_TABLES
            if any(name in each.others for each in written)
        }
        reported = []
        for table in KEYS:
            if table in found:
                found[table], excess = seen_orders.admitted(self.root, table, found[table], self.done)
                reported += excess
        if reported:
            rows = seen_orders.quarantined(reported, SMALL_TABLES["quarantine"])
            found["quarantine"] = pa.concat_tables([*filter(None, [found.get("quarantine")]), rows])
        return found, len(reported)

    def _keep(self) -> None:
        """Store the state. Then correct times, merge small files, and delete what the state covers.

        Not before: recovery asks for the files of later micro-batches by name (rule 3 of `tables_state`).
        """
        self.put_state()
        with self._storage_errors():
            self._let_go()
            self.log.delta.rebase()
            self.log.maintain()

    def _there(self) -> dict[str, pa.Schema]:
        return {name: pa.schema([]) for name in SCHEMAS if self.log.delta.exists(name)}

    def _fetch_deletions(self) -> None:
        """Fetch the list of deletions, for comparison with new rows (rule 6)."""
        content = self.location.store.get(deletions.NAME, MAXIMUM_DELETIONS_BYTES)
        if content is not None:
            deletions.write(self.root, Deletions.from_bytes(content, f"{self.location.name}/{deletions.NAME}"))

    def _sweep(self) -> None:
        """Delete orphans (rule 5)."""
        for name in (*self._tables, *STATE_TABLES):
            self.log.delta.sweep(name)
        self._swept_at = time.monotonic()

    def _put_rows(self, name: str, number: int, rows: pa.Table) -> PlacedFile:
        file = batch_folder(self.root, name, number) / f"{uuid4().hex}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, file, compression="zstd", store_schema=False)
        return put_file(self.location.store, number, name, named(file))

    def _note(self, number: int, messages: pa.Table) -> None:
        folder = batch_folder(self.root, "readings", number)
        folder.mkdir(parents=True, exist_ok=True)
        _write_notes(messages, folder / f"{uuid4().hex}.parquet")

    def _follow(self, number: int, summaries: list[pa.Table], came: pa.Table | None = None) -> None:
        """Update everything derived from committed rows up to a micro-batch; `came` are its messages."""
        gaps.update(self.root, number, came)
        clocks.update(self.root, number, came)
        devices.update(self.root, number, lambda: summaries)
        seen_orders.update(self.root, number)
        members.update(self.root)
        repairs.update(self.root, number, self.home)

    def _recover(self, state: int, offset: Offset) -> None:
        if self.done < 0:
            return
        self.log.offset = offset if state == self.done else self.log.offset_in_log()
        for name in self._tables.keys() & set(SMALL_TABLES):
            sizes = self.log.files(name)
            for path in self._files_after(sizes, -1 if name == memberships.TABLE else state):
                file = self.root / name / path
                file.parent.mkdir(parents=True, exist_ok=True)
                self._fetch(f"{name}/{path}", sizes[path], file)
        summaries = []
        fetched = self.root / "fetched.parquet"
        sizes = self.log.files("readings")
        for path in self._files_after(sizes, state):
            self._fetch(f"readings/{path}", sizes[path], fetched)
            summaries.append(summary_of(fetched))
            target = self.root / "readings" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            _write_notes(notes_of(fetched), target)
        fetched.unlink(missing_ok=True)
        for number in [*range(max(state, 0), self.done), self.done] if state >= 0 else [self.done]:
            if not batch_folder(self.root, "readings", number).is_dir():
                self._note(number, MESSAGES.empty_table())
        self._follow(self.done, summaries)

    def _fetch(self, key: str, size: int, file: Path) -> None:
        """Fetch a file of a table, as it was written: a store may return another, and state comes of its rows."""
        key = unquote(key)
        self.location.store.download(key, file)
        if file.stat().st_size != size:
            raise StorageError(f"the file {key} of the tables has not {size} B", hint=DAMAGED_HINT)
        check_content(file, key)

    def _files_after(self, sizes: Mapping[str, int], state: int) -> Iterator[str]:
        """Yield the paths of a table's files of committed micro-batches after the state's; without a state, of all.

        Files of a killed run in small tables are not committed (rule 2 of `tables_log`).
        """
        for path in [] if state == self.done else sorted(sizes):
            folder, _, number = path.partition("/")[0].partition("=")
            if (state < int(number) <= self.done) if folder == "batch" else state < 0:
                yield path

    def _let_go(self) -> None:
        """Delete what the state covers: messages and rows of its micro-batches except the last."""
        for name in ("readings", *SMALL_TABLES):
            if name != memberships.TABLE:
                for number in folder_numbers(self.root / name):
                    if number < self.done:
                        shutil.rmtree(batch_folder(self.root, name, number))
        for merged in (self.root / "readings").glob("*.parquet"):
            merged.unlink()

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StorageError(f"the folder {self.root} refused: {error}") from error


@contextmanager
def opened_tables(name: str, vault_ids: Sequence[VaultId] | None = None) -> Iterator[Tables]:
    """Open the tables at a path or a URL for one run, with a folder for the committer.

    Raises:
        ConfigurationError: another run writes there; or as `Tables`.
        StorageError: as `Tables`.
    """
    location = location_at(name)
    with (
        _locked(location),
        location.store.scratch() as folder,
        Tables(location, folder / "committer", vault_ids) as held,
    ):
        yield held


@contextmanager
def _locked(location: TableLocation) -> Iterator[None]:
    """Lock tables in a folder, and delete what killed runs have left there."""
    if not isinstance(location, Folder):
        yield
        return
    root = location.root
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = (root / ".lock").open("w")
    except OSError as error:
        raise ConfigurationError(
            f"the tables at {root} cannot be written: {error.strerror}",
            hint="choose a folder that this user can write to",
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"another engine is writing the tables at {root}",
                hint="stop that engine, or choose another folder for tables",
            ) from None
        for left in root.glob(f"{SCRATCH}*"):
            shutil.rmtree(left, ignore_errors=True)
        yield


def _messages(placed: Sequence[Written]) -> pa.Table:
    return pa.concat_tables([MESSAGES.empty_table(), *(each.notes.select(MESSAGES.names) for each in placed)])


def _keys(rows: pa.Table, names: Sequence[str]) -> list[tuple[object, ...]]:
    return [*zip(*(rows[name].to_pylist() for name in names), strict=True)]


def _write_notes(messages: pa.Table, file: Path) -> None:
    first = pa.array([0] * len(messages), pa.int32())
    rows = messages.select(MESSAGES.names).append_column("index", first).cast(_NOTED)
    pq.write_table(rows, file, compression="zstd")


def _brought(
    number: int, written: Sequence[Written], files: Sequence[PlacedFile], repeats: int, excess: int
) -> BatchWritten:
    def count(*kinds: str) -> int:
        return sum(each.counts[kind] for each in written for kind in kinds)

    return BatchWritten(
        number,
        messages=count(RowKind.TELEMETRY) - repeats,
        readings=sum(file.rows for file in files),
        losses=count(RowKind.LOSS),
        orders=count(*_ORDERS),
        memberships=count(RowKind.MEMBERSHIP),
        quarantined=count(RowKind.QUARANTINE) + excess,
        repaired=count(RowKind.REPAIRED),
        repeats=repeats,
        unverified=count("unverified"),
        newest_us=max((each.newest_us for each in written if each.newest_us is not None), default=None),
        bytes=sum(file.size for file in files),
    )
