"""Tables in an object store that follow the working tables: a thread brings there what is committed.

1. The ingest waits for nobody here. A store that is down or refuses is reported and tried again, ever less often up to
   `_PAUSE_SECONDS`; meanwhile micro-batches are committed to the working tables, and they are brought in order later.
2. What is to be brought lies in the working tables, and what has been stands in the logs. Nothing is queued in memory.
3. In the end the thread brings the rest; somebody who stops the ingest waits for that `_PATIENCE_SECONDS` at most.
4. `.published.json` beside the working tables says where they are published, and how far by the last answer of the
   store, so that the lag is known while it is down. Only what has been brought may be merged in the working tables
   (`merging`), so they have no log of their own, and are not written to without their publisher.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covey.adapters.files import replace_file
from covey.adapters.objects.cloud import brief
from covey.errors import ConfigurationError, CoveyError, StorageError, TransientError
from covey_ingest.committed import batch_folder, committed_after
from covey_ingest.delta_log import STATE_SECONDS, DeltaLog, is_delta
from covey_ingest.progress import OnPublished, Published
from covey_ingest.table_locations import Bucket

_PAUSE_SECONDS = 60.0
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class PublishTarget:
    """What a person wants of it."""

    url: str
    on_published: OnPublished
    stop: threading.Event
    """Set by whoever wants the ingest to end soon."""


def open_log(root: Path, ingest: str, vault_id: str, publishing: PublishTarget | None) -> DeltaLog | TablePublisher:
    """Return the log of Delta tables: of those at `root`, or of those that are published.

    Raises:
        ConfigurationError: they are not as they should be for that; nothing was written.
        StorageError: the store is not there, and these tables have never been published there.
    """
    before = _Memory.of(root)
    if publishing is None:
        if before.url:
            raise ConfigurationError(
                f"the tables at {root} are published at {before.url}", hint=f"start with --publish {before.url}"
            )
        return DeltaLog(root, ingest)
    if is_delta(root / "readings"):
        raise ConfigurationError(
            f"the tables at {root} are Delta tables themselves, and their files may have been merged",
            hint="publish from new tables, with a new checkpoint: the vault holds all of it",
        )
    location = Bucket.at(publishing.url)
    log = DeltaLog(root, ingest, location)

    def claim() -> None:
        location.claim(ingest, vault_id)

    if before.url != location.url:
        try:
            claim()
        except StorageError as error:
            raise StorageError(
                str(error),
                hint="look at the URL and the credentials; once published, an ingest starts without its store",
            ) from error
        before = _Memory(location.url)
        before.keep(root)
    return TablePublisher(root, log, claim, before, publishing)


def published_at(root: Path, binding: Mapping[str, Any]) -> Bucket | None:
    """Return where tables are published, if they are; `binding` is what their `covey.json` says.

    Raises:
        ConfigurationError: another ingest publishes there.
        StorageError: the store refused, or was not reached.
    """
    url = _Memory.of(root).url
    if not url:
        return None
    location = Bucket.at(url)
    location.claim(binding["ingest"], binding["vault_id"])
    return location


def is_published(root: Path) -> bool:
    """Say whether the tables are published somewhere."""
    return _memory_in(root).exists()


class TablePublisher:
    """Keeps the published tables close behind the working tables."""

    def __init__(
        self, root: Path, log: DeltaLog, claim: Callable[[], None], memory: _Memory, publishing: PublishTarget
    ) -> None:
        """Begin."""
        self._root = root
        self._log = log
        self._claim: Callable[[], None] | None = claim
        self._memory = memory
        self._on_published = publishing.on_published
        self._stop = publishing.stop
        self._error: CoveyError | None = None
        self._newest: int | None = None
        self._news, self._ending, self._leaving = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="covey-publish", daemon=True)
        self._thread.start()

    @property
    def mergeable_upto(self) -> int:
        """The last micro-batch that has been brought (rule 4)."""
        return self._memory.upto

    def publish(self, newest: int | None = None) -> None:
        """Say that a micro-batch has been committed, and which.

        Raises:
            CoveyError: it cannot be published, now or later: see `Bucket.claim` and `DeltaLog.missing`.
        """
        if self._error is not None and not self._thread.is_alive():
            raise self._error
        self._newest = self._newest if newest is None else newest
        self._news.set()
        self._report(self._error)

    def close(self, *, whole: bool) -> None:
        """End: when all is published (rule 3), or soon, if something went wrong.

        Raises:
            CoveyError: it is not, and nobody asked to stop.
        """
        if not whole:
            self._leaving.set()
        self._ending.set()
        self._news.set()
        began = time.monotonic()
        while self._thread.is_alive():
            self._thread.join(0.1)
            hurried = self._leaving.is_set() or self._stop.is_set()
            if hurried and time.monotonic() - began > _PATIENCE_SECONDS:
                self._leaving.set()
                return
        if whole and isinstance(self._error, StorageError) and not self._stop.is_set():
            raise StorageError(
                f"not all is published: {self._error}",
                hint=f"the tables at {self._root} are whole; start again, and the rest is published",
            ) from self._error
        if whole and self._error is not None and not self._stop.is_set():
            raise self._error

    def _run(self) -> None:
        try:
            self._follow()
        except Exception as error:  # noqa: BLE001 - nobody else sees what ends a thread
            self._error = TransientError(f"publishing has stopped: {brief(error)}", hint="start the ingest again")

    def _follow(self) -> None:
        pause = 0.0
        while not self._leaving.is_set():
            ending = self._ending.is_set()
            self._error = self._round(last=ending)
            if ending or isinstance(self._error, ConfigurationError):
                return
            pause = min(max(2 * pause, 1.0), _PAUSE_SECONDS) if self._error else 0.0
            if pause:
                self._ending.wait(pause)
            else:
                self._news.wait(STATE_SECONDS)
                self._news.clear()

    def _round(self, *, last: bool) -> CoveyError | None:
        """Bring all that is missing; return what was in the way."""
        try:
            if self._claim is not None:
                self._claim()
                self._claim = None
            missing = self._log.missing(self._newest)
            for index, number in enumerate(missing):
                if self._leaving.is_set():
                    return None
                self._log.add(number)
                self._error = None
                self._memory = _Memory(self._memory.url, max(number, self._memory.upto))
                self._memory.keep(self._root)
                self._report_waiting(missing[index + 1 :])
            self._log.rebase()
            self._log.replace_states(last=last)
        except (StorageError, ConfigurationError) as error:
            self._report(error)
            return error
        self._report()
        return None

    def _report(self, error: CoveyError | None = None) -> None:
        self._report_waiting(committed_after(self._root, self._memory.upto, self._newest), error)

    def _report_waiting(self, waiting: list[int], error: CoveyError | None = None) -> None:
        oldest = batch_folder(self._root, "readings", waiting[0]).stat().st_mtime if waiting else time.time()
        age = max(time.time() - oldest, 0.0)
        self._on_published(Published(len(waiting), round(age, 1), str(error) if error else ""))


@dataclass(frozen=True, slots=True)
class _Memory:
    """What rule 4 speaks of."""

    url: str = ""
    upto: int = -1

    @classmethod
    def of(cls, root: Path) -> _Memory:
        try:
            found = json.loads(_memory_in(root).read_text())
            return cls(str(found["url"]), int(found["upto"]))
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return cls()

    def keep(self, root: Path) -> None:
        replace_file(_memory_in(root), json.dumps({"url": self.url, "upto": self.upto}).encode(), 0o666)


def _memory_in(root: Path) -> Path:
    return root / ".published.json"
