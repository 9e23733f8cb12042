"""Tables in an object store and nowhere else, for a cluster whose machines have no folder in common. Needs no Spark.

    <table>/_delta_log/, <table>/batch=N/*.parquet   Delta tables, put by executors and committed by the driver
    covey.json, deletions.json                       whose they are: see `store_log`; and what was deleted (rule 6)
    state/                                           what the driver has computed of them: see `store_state`

How a kill of anything at any moment leaves each reading once:
    1. Executors put files under names that are never used twice (`placing`). No log names them: nobody sees them.
    2. The driver compares what came with what is there, puts what is no reading, and commits: the other tables first,
       then `readings`, by one entry with the micro-batch's number and the offset up to which the vault is in the tables
       (`store_log`). Before that entry nothing of the micro-batch counts, and it is made again under the same number,
       perhaps of more segments; after it, nothing of it is ever made again.
    3. The driver's folder is a new one at each start, and holds nothing that the store does not: state, and of the
       micro-batches after it the messages, by one row each. It may be lost at any moment.
    4. A run that begins shuts out the one before (rule 3 of `store_log`), also where that one is only slow.
    5. What no log names and is a day old is deleted when an ingest begins, and once a day.
    6. What was deleted stands beside `covey.json` (`deletions`), and is read by each run once it has shut out the one
       before: see `store_deleting` for why nothing of it comes back.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from covey.core.ids import VaultId
from covey.errors import ConfigurationError, StorageError
from covey.limits.tables import MAXIMUM_DELETIONS_BYTES
from covey_ingest import (
    clocks,
    deletions,
    devices,
    gaps,
    members,
    memberships,
    repairs,
    rollups,
    seen_orders,
    standing,
    store_state,
)
from covey_ingest.committed import batch_folder, folder_numbers
from covey_ingest.deletions import Deletions
from covey_ingest.delta_log import STATE_SECONDS, STATE_TABLES
from covey_ingest.messages import MESSAGES
from covey_ingest.placing import Placed, PlacedFile, described, put_file
from covey_ingest.store_log import SMALL_TABLES, Offset, StoreLog
from covey_ingest.table_locations import Bucket

_SWEEP_SECONDS = 86_400.0
_NO_MESSAGES = MESSAGES.append(pa.field("index", pa.int32())).empty_table()


class StoreTables:
    """The tables below a URL, for one run of the ingest; `root` is an empty folder of the driver's own.

    Use as a context manager: the end of it brings the state up to date, unless something went wrong.
    """

    def __init__(
        self,
        url: str,
        root: Path,
        vault_ids: Sequence[VaultId] | None = None,
        schemas: Mapping[str, pa.Schema] | None = None,
    ) -> None:
        """Shut out earlier runs, and find out where the last one ended.

        `schemas` are those of `readings` and of `SMALL_TABLES`; tables that are missing are made. Without them and
        `vault_ids`, vaults and tables are those that there are: for a run that adds nothing.

        Raises:
            ConfigurationError: the prefix is other vaults', or holds something else, or another run has just begun.
            StorageError: the store refused, or was not reached.
        """
        self.root = root
        self.bucket = Bucket.at(url)
        with self._storage_errors():
            root.mkdir(parents=True, exist_ok=True)
            self.log = StoreLog(self.bucket, vault_ids, root)
            self._tables = self._there() if schemas is None else {**schemas, rollups.TABLE: rollups.SCHEMA}
            self.log.take_over(self._tables)
            self._fetch_deletions()
            self._sweep()
            standing.lies_at(root, self.bucket.url)
            self._recover(*store_state.fetch(self.bucket, root))
        self._kept, self._kept_at = -1, float("-inf")

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

    def __enter__(self) -> Self:
        """Return the tables."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Put tables that are replaced whole, and the state."""
        if kind is None and self.done > self._kept:
            self._keep()

    def commit(self, placed: list[Placed], others: Mapping[str, pa.Table], offset: Offset) -> int:
        """Commit the next micro-batch: what executors have put, and what is no reading; return its number.

        Raises:
            ConfigurationError: another run of the ingest has begun.
            StorageError: the store refused, or was not reached: start again.
        """
        number = self.log.done + 1
        with self._storage_errors():
            files = {name: [self._put_rows(name, number, rows)] for name, rows in others.items() if len(rows)}
            for name in ("readings", rollups.TABLE):
                files[name] = [each.files[name] for each in placed if name in each.files]
            self.log.commit(number, files, offset)
            self._note_messages(number, [each.messages for each in placed])
            self._follow(number, [each.summary for each in placed])
        self.keep_in_time()
        return number

    def keep_in_time(self) -> None:
        """Put the state and look after files, where it is time for that.

        Raises:
            ConfigurationError: another run of the ingest has begun.
            StorageError: the store refused, or was not reached.
        """
        if self.done > self._kept and time.monotonic() - self._kept_at >= STATE_SECONDS:
            self._keep()
        if time.monotonic() - self._swept_at >= _SWEEP_SECONDS:
            self._sweep()

    def forget(self, placed: list[Placed]) -> None:
        """Remove files that were put and are not to be committed.

        Raises:
            StorageError: the store refused, or was not reached.
        """
        keys = [f"{name}/{file.key}" for each in placed for name, file in each.files.items()]
        if keys:
            self.bucket.store.discard(keys)

    def put_state(self) -> None:
        """Put the state beside the logs, if there is any yet.

        Raises:
            ConfigurationError: another run of the ingest has begun.
            StorageError: the store refused, or was not reached.
        """
        if self.done < 0:
            return
        with self._storage_errors():
            self.log.delta.replace_states(last=True)
            store_state.put(self.bucket, self.root, self.done, self.log.run, self.offset)
            self._kept, self._kept_at = self.done, time.monotonic()

    def _keep(self) -> None:
        """Put the state. Then repair times and merge small files, and let go of what it stands for.

        Not before: files of micro-batches after the state are asked for by their names (rule 3 of `store_state`).
        """
        self.put_state()
        with self._storage_errors():
            self._let_go()
            self.log.delta.rebase()
            self.log.maintain()

    def _there(self) -> dict[str, pa.Schema]:
        """Return the tables that there are, with no columns to be added."""
        names = ("readings", rollups.TABLE, *SMALL_TABLES)
        return {name: pa.schema([]) for name in names if self.log.delta.exists(name)}

    def _fetch_deletions(self) -> None:
        """Lay what was deleted where a table's rows are compared with it (rule 6)."""
        content = self.bucket.store.get(deletions.NAME, MAXIMUM_DELETIONS_BYTES)
        if content is not None:
            deletions.write(self.root, Deletions.from_bytes(content, f"{self.bucket.url}/{deletions.NAME}"))

    def _sweep(self) -> None:
        """Delete orphans (rule 5)."""
        for name in (*self._tables, *STATE_TABLES):
            self.log.delta.sweep(name)
        self._swept_at = time.monotonic()

    def _put_rows(self, name: str, number: int, rows: pa.Table) -> PlacedFile:
        """Put rows of a small table; the file is kept here as well."""
        file = batch_folder(self.root, name, number) / f"{uuid4().hex}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, file, compression="zstd", store_schema=False)
        return put_file(self.bucket.store, number, name, file)

    def _note_messages(self, number: int, messages: list[pa.Table]) -> None:
        """Write what is known of a committed micro-batch's messages, as if it were its readings."""
        folder = batch_folder(self.root, "readings", number)
        folder.mkdir(parents=True, exist_ok=True)
        found = pa.concat_tables([_NO_MESSAGES, *messages])
        pq.write_table(found, folder / f"{uuid4().hex}.parquet", compression="zstd")

    def _follow(self, number: int, summaries: list[pa.Table]) -> None:
        """Bring all that follows from committed rows up to a micro-batch."""
        gaps.update(self.root, number)
        clocks.update(self.root, number)
        devices.update(self.root, number, lambda: summaries)
        seen_orders.update(self.root, number)
        members.update(self.root)
        repairs.update(self.root, number, self.home)

    def _recover(self, state: int, offset: Offset) -> None:
        """Read from the tables what was committed after the state (rule 3)."""
        if self.done < state:
            raise ConfigurationError(
                f"the logs at {self.bucket.url} are older than the state beside them",
                hint="delete what is below state/ there: it is made anew from the tables",
            )
        if self.done < 0:
            return
        self.log.offset = offset if state == self.done else self.log.offset_in_log()
        for name in self._tables.keys() & set(SMALL_TABLES):
            for path in self._files_after(name, -1 if name == memberships.TABLE else state):
                file = self.root / name / path
                file.parent.mkdir(parents=True, exist_ok=True)
                self.bucket.store.download(f"{name}/{path}", file)
        summaries = []
        fetched = self.root / "fetched.parquet"
        for path in self._files_after("readings", state):
            self.bucket.store.download(f"readings/{path}", fetched)
            messages, summary = described(fetched)
            summaries.append(summary)
            target = self.root / "readings" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(messages, target, compression="zstd")
        fetched.unlink(missing_ok=True)
        for number in [*range(max(state, 0), self.done), self.done] if state >= 0 else [self.done]:
            if not batch_folder(self.root, "readings", number).is_dir():
                self._note_messages(number, [])
        self._follow(self.done, summaries)

    def _files_after(self, name: str, state: int) -> Iterator[str]:
        """Yield the paths of a table's files of committed micro-batches after the state's; without any, of all.

        What a killed run has left in small tables is not committed (rule 2 of `store_log`).
        """
        for path in [] if state == self.done else sorted(self.log.files(name)):
            folder, _, number = path.partition("/")[0].partition("=")
            if (state < int(number) <= self.done) if folder == "batch" else state < 0:
                yield path

    def _let_go(self) -> None:
        """Remove what the state stands for: messages and rows of its micro-batches but the last."""
        for name in ("readings", *SMALL_TABLES):
            if name != memberships.TABLE:
                for number in folder_numbers(self.root / name):
                    if number < self.done:
                        shutil.rmtree(batch_folder(self.root, name, number))
        for merged in (self.root / "readings").glob("*.parquet"):
            merged.unlink()

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        """Turn errors of the driver's own disk into ours."""
        try:
            yield
        except OSError as error:
            raise StorageError(f"the driver's folder {self.root} refused: {error}") from error
