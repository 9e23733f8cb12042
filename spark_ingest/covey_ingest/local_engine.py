"""The local engine: worker processes verify, decode and write; this process plans and commits. No Java, no Spark.

1. What a hostile message does to a worker it does to no other process. A worker that ends takes the pool with it: the
   engine starts another one and runs the tasks again, some times; then the run ends, and may be started again.
2. While one micro-batch is committed the workers are at the next one, where there was more to read. What they have
   written counts once it is committed, under the number that it was written for (`tables`).
3. Workers end when this process does, however it ends.
4. Workers load neither PySpark nor pandas (`without_pandas`): a small machine has 1 GiB for all of this.
5. What tasks need is loaded once. The first workers are copies of this process, if it has no threads yet; all others
   are copies of a server, which is started for them (`local_worker`).
"""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing.context import BaseContext
from typing import Any, Self

from covey.errors import TransientError
from covey_ingest import local_worker
from covey_ingest.committer.tables import Tables, opened_tables
from covey_ingest.options import SourceOptions
from covey_ingest.progress import Progress, ProgressReporter, Watcher, segments_between
from covey_ingest.task import without_pandas
from covey_ingest.task.tasks import TaskPart, rework_part, write_part
from covey_ingest.task.writing import Rework, Written
from covey_ingest.vault import repairs
from covey_ingest.vault.offsets import Offset
from covey_ingest.vault.planning import Planner, shared_out

_TRIES = 3


def run_here(
    source: SourceOptions,
    location: str,
    *,
    trigger_seconds: float | None = 2.0,
    watcher: Watcher = Watcher(),  # noqa: B008 - it holds nothing
    stop: threading.Event | None = None,
    workers: int | None = None,
) -> None:
    """Follow the vaults until `stop` is set, with this pause; without one, until all they list now is in the tables.

    Raises:
        ConfigurationError: keys, vaults or tables are not as they should be, or another engine is at these tables.
        CoveyError: what the vaults or the tables met; start again, nothing is lost.
    """
    with _Workers(workers or os.cpu_count() or 1) as pool, _opened(source, location) as held:
        options = source.settled(held.root / "covey-manifests", repairs.path_in(held.root))
        options = replace(options, home=held.home)
        _Follower(held, options, pool, ProgressReporter(watcher), stop or threading.Event()).follow(trigger_seconds)


@contextmanager
def _opened(source: SourceOptions, location: str) -> Iterator[Tables]:
    vaults = source.open_all()
    vaults.check_keys()
    with opened_tables(location, vaults.ids) as held:
        yield held


@dataclass(slots=True)
class _Started:
    """Calls that workers have been given."""

    function: Callable[[Any], list[Written]]
    jobs: list[Any]
    futures: list[Future[list[Written]]]
    pool: int


class _Workers:
    """Processes that run tasks. Use as a context manager."""

    def __init__(self, count: int) -> None:
        """Start them."""
        self.count = count
        self._number = 0
        self._pool = self._fresh()

    def __enter__(self) -> Self:
        """Return them."""
        return self

    def __exit__(self, *_: object) -> None:
        """End them; nobody waits for what is not committed."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def start(self, function: Callable[[Any], list[Written]], jobs: Sequence[Any]) -> _Started:
        """Have workers call a function for each job."""
        started = _Started(function, [*jobs], [], -1)
        self._submit(started)
        return started

    def results(self, started: _Started) -> list[Written]:
        """Return what they have written (rule 1).

        Raises:
            CoveyError: what a task met.
            TransientError: a worker ends, however often they are started.
        """
        for _ in range(_TRIES):
            try:
                return [written for future in started.futures for written in future.result()]
            except BrokenProcessPool:
                self._submit(started)
        raise TransientError(
            f"a worker process crashed {_TRIES} times on the same micro-batch",
            hint="check with dmesg whether memory ran out, then restart: it continues where it stopped",
        )

    def _submit(self, started: _Started) -> None:
        if started.pool == self._number:
            self._renew()
        try:
            started.futures = [self._pool.submit(started.function, job) for job in started.jobs]
        except BrokenProcessPool:
            self._renew()
            started.futures = [self._pool.submit(started.function, job) for job in started.jobs]
        started.pool = self._number

    def _renew(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._number += 1
        self._pool = self._fresh()

    def _fresh(self) -> ProcessPoolExecutor:
        """Return new workers (rule 5)."""
        context: BaseContext = multiprocessing.get_context("forkserver")
        if local_worker.may_copy_itself():
            local_worker.settle()
            context = multiprocessing.get_context("fork")
        context.set_forkserver_preload([without_pandas.__name__, local_worker.__name__])
        pool = ProcessPoolExecutor(self.count, context, local_worker.begin, (dict(os.environ),))
        for _ in range(self.count):
            pool.submit(os.getpid)
        return pool


@dataclass(frozen=True, slots=True)
class _Step:
    """A micro-batch that workers are at."""

    started: _Started
    end: Offset
    began: float
    behind: int
    """Segments that were there beyond it when it was planned."""


class _Follower:
    """Makes one micro-batch after the other."""

    def __init__(
        self, held: Tables, options: SourceOptions, pool: _Workers, reporter: ProgressReporter, stop: threading.Event
    ) -> None:
        self._tables = held
        self._options = options
        self._planner = Planner(options)
        self._pool = pool
        self._reporter = reporter
        self._stop = stop

    def follow(self, trigger_seconds: float | None) -> None:
        """Follow until asked to stop; without a pause, to what the vaults list now."""
        if trigger_seconds is None:
            self._planner.end_here()
        self._reporter.damaged(self._tables.restored())
        ahead: _Step | None = None
        while not self._stop.is_set():
            began = time.monotonic()
            step = ahead or self._begun(self._tables.offset, 1)
            ahead = None
            if step is not None:
                ahead = self._begun(step.end, 2) if step.behind else None
                self._finish(step)
            elif trigger_seconds is None:
                return
            self._reporter.damaged(self._tables.keep_in_time())
            if trigger_seconds is not None and ahead is None:
                self._stop.wait(max(began + trigger_seconds - time.monotonic(), 0.0))

    def _begun(self, start: Offset, after: int) -> _Step | None:
        """Plan the micro-batch so many after the last one, from an offset, and hand it to the workers."""
        began = time.monotonic()
        end = self._planner.next_offset(start, self._options.segments_per_trigger, self._options.bytes_per_trigger)
        self._reporter.reached(end)
        if end == start:
            return None
        target = replace(self._tables.target, number=self._tables.done + after)
        source = replace(self._options, memory=None, failed=None)
        parts = [
            TaskPart(source, target, part) for part in shared_out(self._planner.tasks(start, end), self._pool.count)
        ]
        return _Step(self._pool.start(write_part, parts), end, began, segments_between(end, self._planner.listed()))

    def _finish(self, step: _Step) -> None:
        written = self._pool.results(step.started)
        brought = self._tables.commit(written, step.end, self._reworked)
        self._reporter.written(Progress(seconds=round(time.monotonic() - step.began, 3), **asdict(brought)))
        self._reporter.lags(brought.batch_id, step.behind)

    def _reworked(self, jobs: list[Rework]) -> list[Written]:
        return self._pool.results(self._pool.start(rework_part, [[job] for job in jobs]))
