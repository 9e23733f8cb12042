"""Is each reading in the tables once, whatever is killed? `python -m tests.spark.harness --minutes 480 --seed 7`

A real broker, an agent that measures, a collector, and engines that follow its vault: the local one and Spark, each
into tables in a folder and into tables in an object store. At moments that the seed decides something fails: a driver
(alone, or with its JVM), a local worker, a Python worker, an executor (where `--master` is a local-cluster), the
collector, the vault's store (read-only, slow, failing puts, unplugged, not mounted), the tables' store (it refuses,
cuts connections, does what it was asked and does not say so, or lies: it forgets or shortens what it says it has
stored, denies what it did, answers with older things), the disk of the local engine's tables (it is full; for root
alone). A store fails for some seconds, in which other things fail, too. What ends by itself is started again, as
systemd would. When everything has failed once, all tables must get more readings, by themselves, before anything fails
twice.

With `--vault-in-store` or `--sink cluster` the vault lies in the object store as well, which fails and lies, too.

With `--sink cluster` an ingest follows it from a standalone cluster of Spark's: a master, two workers and a driver,
each with a file system of its own, and no folder in common. What fails there, too: the driver's JVM alone, an executor,
a worker of Spark's with all that it runs, and the master, which has a disk.

In the end another implementation (`tests/outside`) reads vault and tables: the vault must hold as many readings as the
agent says that it published, and each table just these, once, and each as it was signed. So must have seen them who
follows the change feed of a table since it was begun: what a follower read was never taken back nor told again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from demo.device import Device
from demo.fleet import Fleet
from tests.failing_s3 import FailingS3
from tests.outside.audit import Audit, audit, read_members
from tests.outside.holdings import Holdings
from tests.outside.vault import Vault
from tests.spark import follower
from tests.spark.cluster import NEEDS_ROOT, ROOT, is_allowed
from tests.spark.failing_buckets import FailingBuckets
from tests.spark.failing_store import VARIABLE
from tests.spark.ingests import TABLES_BUCKET, Ingest, IngestHere, IngestInCluster, Where
from tests.spark.strikes import Dice, Strike
from tests.spark.tables_disk import TablesDisk
from tests.spark.vault_places import VaultFolder, VaultInStore, VaultPlace
from tests.vault_keys import plain_copy
from tests.waiting import Patience

INTERVAL_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 3.0
ON_THIS_MACHINE = (Where.LOCAL, Where.SPARK, Where.LOCAL_STORE, Where.STORE)
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 120.0
_SHOWN_LINES = 12

Say = Callable[[str], None]


class FailedError(Exception):
    """Not each reading is in the tables once, or something did not get there in time."""


class Collector(Device):
    """The collector's process over a store that may fail."""

    program = (sys.executable, "-m", "tests.spark.failing_store")

    def __init__(self, fleet: Fleet, fault: Path) -> None:
        super().__init__(fleet.folder, "collector")
        self._vault = fleet.vault
        self._faults = {VARIABLE: str(fault), "PYTHONPATH": str(ROOT)}

    def begin(self) -> None:
        """Start it."""
        self.start("collect", "--vault", self._vault, "--no-sensors", environment=self._faults)

    def look(self) -> None:
        """Start it again where it has ended by itself."""
        if self.ended_by_itself:
            self.end()
            self.begin()


class Harness:
    """One run. Use `running`."""

    def __init__(
        self,
        folder: Path,
        sinks: Sequence[Where],
        master: str | None,
        store: FailingS3,
        dice: Dice,
        say: Say,
        *,
        vault_in_store: bool = False,
    ) -> None:
        self._folder = folder
        self._dice = dice
        self._say = say
        self._buckets = FailingBuckets(store, dice, dice.another())
        fault = folder / "fault"
        in_store = vault_in_store or Where.CLUSTER in sinks
        self._vault: VaultPlace = VaultInStore(self._buckets) if in_store else VaultFolder(folder, fault, dice)
        self.struck: Counter[str] = Counter()
        self.fleet = Fleet(folder, agents=1, vault=self._vault.location)
        (self.agent,) = self.fleet.agents
        self.collector = Collector(self.fleet, fault)
        self.ingests = [self._ingest(sink, master) for sink in sinks]
        self._disk = TablesDisk(folder / f"tables-{Where.LOCAL}", dice) if _has_disk(sinks) else None
        self._strikes: dict[str, Strike] = {"collector": self._restart_collector, **self._vault.strikes()}
        for ingest in self.ingests:
            self._strikes |= {f"{what} ({ingest.name})": strike for what, strike in ingest.strikes().items()}
        if {Where.LOCAL_STORE, Where.STORE, Where.CLUSTER} & {*sinks}:
            self._strikes["the tables' store fails"] = partial(self._buckets.fail, TABLES_BUCKET)
            self._strikes["the tables' store lies"] = partial(self._buckets.lie, TABLES_BUCKET)
        if self._disk is not None:
            self._strikes["the tables' disk is full"] = self._disk.fail

    def _ingest(self, sink: Where, master: str | None) -> Ingest:
        key_file = self.collector.state / "vault.key"
        if sink is Where.CLUSTER:
            return IngestInCluster(self._folder, self._vault.location, key_file, self._dice)
        return IngestHere(self._folder, self._vault.location, key_file, sink, master, self._dice)

    def set_up(self) -> None:
        """Start everything, and return when the first readings are in the tables."""
        self.fleet.set_up(batch_seconds=1.0, interval_seconds=INTERVAL_SECONDS)
        self.fleet.collector.end()
        self.collector.begin()
        self.agent.start("run")
        for ingest in self.ingests:
            ingest.set_up()
        self._wait("the first readings", lambda: min(self._rows()) > 0)

    def close(self) -> None:
        """End every process."""
        for ingest in self.ingests:
            ingest.close()
        for device in (self.collector, *self.fleet.devices):
            device.kill()
        self.fleet.close()
        if self._disk is not None:
            self._disk.close()

    def strike_while(self, is_going_on: Callable[[], bool]) -> None:
        """Let something fail again and again: everything once, and then all tables get more, before anything twice.

        Raises:
            FailedError: something could not fail, or the tables did not get more, in time.
        """
        while is_going_on():
            before = self._rows()
            for name in self._dice.shuffled(sorted(self._strikes)):
                if is_going_on():
                    self.strike(name)
            self._wait("more readings in each of the tables", partial(self._have_grown, before))
            self._follow()

    def _follow(self) -> None:
        """Let who follows the tables read on: from a store that tells the truth."""
        self._buckets.mend()
        for ingest in self.ingests:
            command = [sys.executable, "-m", "tests.spark.follower", ingest.tables, str(self._followed(ingest))]
            with (self._folder / "followers.log").open("ab") as log:
                subprocess.run(command, cwd=ROOT, check=True, stderr=log)

    def _followed(self, ingest: Ingest) -> Path:
        return self._folder / f"followed-{ingest.name}.json"

    def strike(self, name: str) -> None:
        """Let one thing fail, as soon as it can: a Python worker must be there, and the vault's folder be whole.

        Raises:
            FailedError: it could not in time.
        """
        self._pause(self._dice.pause_seconds())
        self._wait(name, self._strikes[name])
        self.struck[name] += 1
        self._say(f"{name}; {self._published()} readings published")

    def audit(self) -> int:
        """Wait until the tables hold what was published; return how many readings that is.

        Raises:
            FailedError: something is missing, doubled or not what was signed.
        """
        self.agent.end()
        self.agent.start("run", "--no-sensors")
        self._buckets.mend()
        self._vault.mend()
        if self._disk is not None:
            self._disk.mend()
        self._wait("the delivery", self._is_delivered)
        published = self._published()
        with suppress(FailedError):
            self._wait_while_growing(published)
        for ingest in self.ingests:
            ingest.close()
        self._follow()
        found = self._audit_from_outside()
        expected = Counter({self.agent.author: published})
        if found.findings or any(each != expected for each in (found.readings, *found.rows.values())) or not published:
            shown = "\n".join(map(str, found.findings[:_SHOWN_LINES]))
            listed = f"{len(found.findings)} findings:\n{shown}\n"
            raise FailedError(f"published {expected}, {listed}{found.readings=}, {found.rows=}{self._logs()}")
        for ingest in self.ingests:
            seen = follower.seen(self._followed(ingest))
            if len(seen) != published or {*seen.values()} != {1}:
                wrong = sum(count != 1 for count in seen.values())
                raise FailedError(f"who follows {ingest.name} saw {len(seen)} readings, {wrong} of them not once")
        return published

    def _audit_from_outside(self) -> Audit:
        """Let somebody else read the vault, by key files and the group's manifests alone, and the tables."""
        history = self._folder / "history"
        self.collector.ok("history", "export", str(history))
        holdings = Holdings(read_members(history, self.collector.state))
        keys = plain_copy(self.collector.state / "vault.key", self._folder / "audit.key")
        holdings.take(Vault(self.fleet.vault, keys))
        return audit(holdings, [ingest.tables for ingest in self.ingests])

    def _is_delivered(self) -> bool:
        return not self.agent.ledger().queued_messages and not self.collector.ledger().landing_bytes

    def _published(self) -> int:
        return self.agent.ledger().published

    def _restart_collector(self) -> int:
        self.collector.kill()
        self._pause(self._dice.restart_seconds())
        self.collector.begin()
        return 1

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()
            time.sleep(_LOOK_SECONDS)

    def _wait(self, what: str, condition: Callable[[], object]) -> None:
        patience = Patience(_PATIENCE_SECONDS)
        while not condition():
            if not patience.left:
                raise FailedError(f"waited in vain for {what}{self._logs()}")
            self._look()
            time.sleep(_LOOK_SECONDS)

    def _wait_while_growing(self, published: int) -> None:
        """Wait until the tables have that many rows, as long as more of them come."""
        rows: list[int] = []
        while not rows or min(rows) < published:
            before = rows or [-1]
            self._wait("the tables", lambda before=before: sum(self._rows()) > sum(before))
            rows = self._rows()

    def _have_grown(self, before: Sequence[int]) -> bool:
        return all(now > then for now, then in zip(self._rows(), before, strict=True))

    def _rows(self) -> list[int]:
        return [_rows(each.tables) for each in self.ingests]

    def _look(self) -> None:
        self._vault.look()
        if self._disk is not None:
            self._disk.look()
        self.collector.look()
        for ingest in self.ingests:
            ingest.look()

    def _logs(self) -> str:
        """Return the last lines of every log."""
        lines = [""]
        for log in sorted(self._folder.glob("*.log")):
            lines += ["", f"{log}:", *log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]]
        return "\n".join(lines)


def _has_disk(sinks: Sequence[Where]) -> bool:
    return Where.LOCAL in sinks and TablesDisk.is_allowed()


def _rows(tables: str) -> int:
    """Return how many readings tables have, as their log says: it is asked often."""
    try:
        return sum(DeltaTable(f"{tables}/readings").get_add_actions().column("num_records").to_pylist())
    except (OSError, ValueError, DeltaError):
        return 0  # not begun, or the store fails


@contextmanager
def running(
    folder: Path,
    seed: int,
    say: Say,
    *,
    master: str | None = None,
    sinks: Sequence[Where] = ON_THIS_MACHINE,
    longest_pause: float = LONGEST_PAUSE_SECONDS,
    vault_in_store: bool = False,
) -> Iterator[Harness]:
    """Set everything up, and end every process after. `longest_pause`: seconds between two strikes, at most."""
    with FailingS3().running() as store, _in_environment(store.environment):
        dice = Dice(seed, longest_pause)
        harness = Harness(folder, sinks, master, store, dice, say, vault_in_store=vault_in_store)
        try:
            harness.set_up()
            yield harness
        finally:
            harness.close()


@contextmanager
def _in_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Let this process and those that it starts know a store."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def main() -> int:
    """Run what the command line says; 1 when a reading is lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.harness", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long things fail (default 10)")
    parser.add_argument("--strikes", type=int, help="how often something fails, instead of --minutes")
    parser.add_argument("--report", type=Path, help="write the result and its totals there, as JSON")
    parser.add_argument("--seed", type=int, default=1, help="decides what fails when (default 1)")
    parser.add_argument(
        "--pause", type=float, default=LONGEST_PAUSE_SECONDS, help="seconds between two strikes at most (default 3)"
    )
    parser.add_argument("--master", help='through spark-submit: "local[2,4]", "local-cluster[2,1,1024]", spark://…')
    parser.add_argument(
        "--sink",
        type=Where,
        choices=list(Where),
        action="append",
        help="engine and place; repeatable (default: all but cluster, which needs root)",
    )
    parser.add_argument(
        "--vault-in-store",
        action="store_true",
        help="the vault lies in the object store, which fails and lies, too (default: with cluster only)",
    )
    parser.add_argument(
        "--keep", type=Path, help="a new folder for everything (default: one that only a failure keeps)"
    )
    options = parser.parse_args()
    sinks = options.sink or ON_THIS_MACHINE
    if Where.CLUSTER in sinks and not is_allowed():
        parser.error(NEEDS_ROOT)
    folder = options.keep.absolute() if options.keep else Path(tempfile.mkdtemp(prefix="covey-harness-"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    began = time.monotonic()
    report: dict[str, object] = {"seed": options.seed, "sinks": [*map(str, sinks)], "result": "failed"}
    try:
        with running(
            folder,
            options.seed,
            _print,
            master=options.master,
            sinks=sinks,
            longest_pause=options.pause,
            vault_in_store=options.vault_in_store,
        ) as harness:
            try:
                harness.strike_while(_until(harness, options))
                _print("nothing fails any more; delivering …")
                readings = harness.audit()
                report |= {"result": "each reading once", "readings": readings}
            finally:
                report |= {"strikes": harness.struck.total(), "faults": dict(sorted(harness.struck.items()))}
                report |= {"starts": {ingest.name: ingest.starts for ingest in harness.ingests}}
    except FailedError as error:
        report["error"] = str(error)
        print(f"seed {options.seed}: {error}\neverything is kept in {folder}")
        return 1
    finally:
        report["seconds"] = round(time.monotonic() - began)
        if options.report:
            options.report.write_text(json.dumps(report, indent=1) + "\n")
    faults = ", ".join(f"{count} x {name}" for name, count in sorted(harness.struck.items()))
    print(f"{faults}\n{harness.struck.total()} strikes; {readings} readings published, and by the audit from outside")
    print("0 lost, 0 doubled, 0 changed in the vault, in each of the tables, and for who follows their change feeds")
    if not options.keep:
        shutil.rmtree(folder)
    return 0


def _until(harness: Harness, options: argparse.Namespace) -> Callable[[], bool]:
    """Return what says whether things are still to fail."""
    end = time.monotonic() + 60 * options.minutes
    if options.strikes is not None:
        return lambda: harness.struck.total() < options.strikes
    return lambda: time.monotonic() < end


def _print(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
