"""Is each reading in the tables once, whatever is killed? `python -m tests.spark.harness --minutes 480 --seed 7`

A real broker, an agent that measures, a collector, and ingests that follow its vault: into Parquet tables, into Delta
tables, and into Delta tables in an object store. At moments that the seed decides something fails: a driver (alone, or
with its JVM), a Python worker, the collector, the vault's store (read-only, slow, failing puts, unplugged, not
mounted), the tables' store (it refuses, cuts connections, or does what it was asked and does not say so). A store fails
for some seconds, in which other things fail, too. What ends by itself is started again, as systemd would. In the end
another implementation (`tests/outside`) reads vault and tables: the vault must hold as many readings as the agent says
that it published, and each table just these, once, and each as it was signed.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path

from deltalake.exceptions import DeltaError

from covey.adapters.files import locked_folder
from demo.device import Device
from demo.fleet import Fleet
from demo.quick_spark import quick_spark
from tests.failing_s3 import FailingS3, Order
from tests.outside.audit import Audit, audit, read_members
from tests.outside.holdings import Holdings
from tests.outside.tables import READINGS, rows_of
from tests.outside.vault import Vault
from tests.spark.failing_store import VARIABLE, Fault
from tests.spark.processes import below, kill, python_workers
from tests.waiting import Patience

ROOT = Path(__file__).parents[2]
INTERVAL_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 3.0
_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 120.0
_SHOWN_LINES = 12
NOT_MOUNTED = "the store is not mounted"
_GONE = {"the store is unplugged": "vault.none", NOT_MOUNTED: "vault.empty"}
"""Where the vault's name leads: nowhere, or to the empty folder that another disk is usually mounted on."""


Say = Callable[[str], None]


class Where(StrEnum):
    """As what an ingest keeps its tables, and where: in folders, or as Delta tables in an object store."""

    PARQUET = "parquet"
    DELTA = "delta"
    STORE = "store"


class FailedError(Exception):
    """Not each reading is in the tables once, or something did not get there in time."""


class Ingest:
    """The job as a process that is started again whenever it ends."""

    def __init__(self, folder: Path, vault: Path, key_file: Path, where: Where, master: str | None) -> None:
        self.name = f"tables-{where}"
        in_store = where is Where.STORE
        self.tables = f"s3://bucket/{self.name}" if in_store else str(folder / self.name)
        self.log = folder / f"ingest-{where}.log"
        self.starts = 0
        program = [sys.executable, "-m", "covey_ingest"]
        if master is not None:
            submit = str(Path(sys.executable).parent / "spark-submit")
            program = [submit, "--master", master, str(ROOT / "spark_ingest" / "covey_ingest" / "__main__.py")]
        self._command = [*program, str(vault), self.tables, "--key-file", str(key_file)]
        self._command += [] if in_store else ["--sink", str(where)]
        self._command += ["--trigger-seconds", "0.5", "--max-segments-per-trigger", "16"]
        self._environment = os.environ | quick_spark()
        self._environment |= {
            "SPARK_LOCAL_DIRS": str(folder / "spark"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def look(self) -> None:
        """Start it where it does not run."""
        if self._process is None or self._process.poll() is not None:
            self.starts += 1
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(self._command, cwd=ROOT, env=self._environment, stdout=log, stderr=log)

    def kill_driver(self) -> int:
        """Kill the driver and leave its JVM to find that out."""
        return kill([*self._running()][:1])

    def kill_all(self) -> int:
        """Kill the driver with all that it has started."""
        return kill([*self._running()])

    def kill_worker(self, dice: random.Random) -> int:
        """Kill one Python process in which tasks run; there may be none right now."""
        workers = python_workers(self._process.pid) if self._process and self._running() else []
        return kill([dice.choice(workers)]) if workers else 0

    def close(self) -> None:
        """End it for good."""
        self.kill_all()
        if self._process is not None:
            self._process.wait()

    def _running(self) -> Iterable[int]:
        """Return the driver, if it has not ended, and what it has started."""
        return below(self._process.pid) if self._process is not None and self._process.poll() is None else ()


class Collector(Device):
    """The collector's process over a store that may fail."""

    program = (sys.executable, "-m", "tests.spark.failing_store")

    def __init__(self, fleet: Fleet, fault: Path) -> None:
        super().__init__(fleet.folder, "collector")
        self._vault = fleet.vault
        self._environment = {VARIABLE: str(fault), "PYTHONPATH": str(ROOT)}

    def begin(self) -> None:
        """Start it."""
        self.start("collect", "--vault", str(self._vault), "--no-sensors", environment=self._environment)

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
        seed: int,
        master: str | None,
        sinks: Sequence[Where],
        store: FailingS3,
        say: Say,
        longest_pause: float,
    ) -> None:
        self._longest_pause = longest_pause
        self._dice = random.Random(seed)
        self._say = say
        self._folder = folder
        self._fault = folder / "fault"
        self._whole_at = math.inf
        self._store_whole_at = 0.0
        self._requests = random.Random(seed)
        store.orders = self._order
        self.struck: Counter[str] = Counter()
        self.fleet = Fleet(folder, agents=1)
        (self.agent,) = self.fleet.agents
        self.collector = Collector(self.fleet, self._fault)
        key_file = self.collector.state / "vault.key"
        self.ingests = [Ingest(folder, self.fleet.vault, key_file, sink, master) for sink in sinks]
        self._strikes: dict[str, Callable[[], int]] = {
            f"{what} ({ingest.name})": strike
            for ingest in self.ingests
            for what, strike in (
                ("driver", ingest.kill_driver),
                ("driver and JVM", ingest.kill_all),
                ("Python worker", lambda ingest=ingest: ingest.kill_worker(self._dice)),
            )
        }
        self._strikes["collector"] = self._restart_collector
        self._strikes |= {name: lambda name=name: self._fail(name) for name in (*Fault, *_GONE)}
        if Where.STORE in sinks:
            self._strikes["the tables' store"] = self._fail_requests

    def set_up(self) -> None:
        """Start everything, and return when the first readings are in the tables."""
        for name in ("vault.there", "vault.empty"):
            (self._folder / name).mkdir()
        self._mend()
        self.fleet.set_up(batch_seconds=1.0, interval_seconds=INTERVAL_SECONDS)
        self.fleet.collector.end()
        self.collector.begin()
        self.agent.start("run")
        self._wait("the first readings", lambda: min(self._rows()) > 0)

    def close(self) -> None:
        """End every process."""
        for ingest in self.ingests:
            ingest.close()
        for device in (self.collector, *self.fleet.devices):
            device.kill()
        self.fleet.close()

    def strike_for(self, seconds: float) -> None:
        """Let something fail again and again: everything once before anything twice."""
        bag: list[str] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            bag = bag or self._dice.sample(sorted(self._strikes), len(self._strikes))
            self.strike(bag.pop())

    def strike(self, name: str) -> None:
        """Let one thing fail, as soon as it can: a Python worker must be there, and the store be whole.

        Raises:
            FailedError: it could not in time.
        """
        self._pause(self._dice.uniform(0.2, self._longest_pause))
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
        self._store_whole_at = 0.0
        self._wait("the delivery", self._is_delivered)
        published = self._published()
        with suppress(FailedError):
            self._wait_while_growing(published)
        for ingest in self.ingests:
            ingest.close()
        found = self._audit_from_outside()
        expected = Counter({self.agent.author: published})
        if found.findings or any(each != expected for each in (found.readings, *found.rows.values())) or not published:
            shown = "\n".join(map(str, found.findings[:_SHOWN_LINES]))
            listed = f"{len(found.findings)} findings:\n{shown}\n"
            raise FailedError(f"published {expected}, {listed}{found.readings=}, {found.rows=}{self._logs()}")
        return published

    def _audit_from_outside(self) -> Audit:
        """Let somebody else read the vault, by key files and the group's manifests alone, and the tables."""
        history = self._folder / "history"
        self.collector.ok("history", "export", str(history))
        holdings = Holdings(read_members(history, self.collector.state))
        holdings.take(Vault(str(self.fleet.vault), self.collector.state / "vault.key"))
        return audit(holdings, [ingest.tables for ingest in self.ingests])

    def _is_delivered(self) -> bool:
        return not self.agent.ledger().queued_messages and not self.collector.ledger().landing_bytes

    def _published(self) -> int:
        return self.agent.ledger().published

    def _restart_collector(self) -> int:
        self.collector.kill()
        self._pause(self._dice.uniform(0, 1))
        self.collector.begin()
        return 1

    def _fail(self, name: str) -> int:
        """Let the store fail for some seconds, unless it does so already."""
        if self._whole_at != math.inf:
            return 0
        if name in _GONE:
            self._point(_GONE[name])
        else:
            order = self._fault.with_suffix(".new")
            order.write_text(name)
            order.replace(self._fault)
        self._whole_at = time.monotonic() + self._longest_pause * self._dice.uniform(2 / 3, 4 / 3)
        return 1

    def _fail_requests(self) -> int:
        """Let requests to the tables' store fail for some seconds."""
        self._store_whole_at = time.monotonic() + self._longest_pause * self._dice.uniform(2 / 3, 4 / 3)
        return 1

    def _order(self, _method: str, _key: str) -> Order:
        if time.monotonic() > self._store_whole_at:
            return Order.OBEY
        return self._requests.choice([Order.OBEY, Order.REFUSE, Order.CUT, Order.LOSE])

    def _mend(self) -> None:
        self._fault.unlink(missing_ok=True)
        self._point("vault.there")
        self._whole_at = math.inf

    def _point(self, target: str) -> None:
        """Let the vault's name lead to another place, but not in mid-put: a disk in use is not unmounted."""
        with ExitStack() as puts:
            for folder in sorted(self._folder.glob("vault.*/vaults/*/objects/**/")):
                puts.enter_context(locked_folder(folder))
            (self._folder / "vault.new").symlink_to(target)
            (self._folder / "vault.new").replace(self._folder / "vault")

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

    def _rows(self) -> list[int]:
        return [_rows(each.tables) for each in self.ingests]

    def _look(self) -> None:
        if time.monotonic() > self._whole_at:
            self._mend()
        self.collector.look()
        for ingest in self.ingests:
            ingest.look()

    def _logs(self) -> str:
        """Return the last lines of every log."""
        lines = [""]
        for log in sorted(self._folder.glob("*.log")):
            lines += ["", f"{log}:", *log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]]
        return "\n".join(lines)


def _rows(tables: str) -> int:
    try:
        return int(rows_of(tables, "readings", READINGS).count_rows())
    except (OSError, ValueError, DeltaError):
        return 0  # files were merged meanwhile


@contextmanager
def running(
    folder: Path,
    seed: int,
    say: Say,
    *,
    master: str | None = None,
    sinks: Sequence[Where] = tuple(Where),
    longest_pause: float = LONGEST_PAUSE_SECONDS,
) -> Iterator[Harness]:
    """Set everything up, and end every process after. `longest_pause`: seconds between two strikes, at most."""
    with FailingS3().running() as store, _in_environment(store.environment):
        harness = Harness(folder, seed, master, sinks, store, say, longest_pause)
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
        help="tables of this kind, there, alone (default: each)",
    )
    parser.add_argument(
        "--keep", type=Path, help="a new folder for everything (default: one that only a failure keeps)"
    )
    options = parser.parse_args()
    folder = options.keep.absolute() if options.keep else Path(tempfile.mkdtemp(prefix="covey-harness-"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with running(
            folder,
            options.seed,
            _print,
            master=options.master,
            sinks=options.sink or tuple(Where),
            longest_pause=options.pause,
        ) as harness:
            harness.strike_for(60 * options.minutes)
            _print("nothing fails any more; delivering …")
            readings = harness.audit()
    except FailedError as error:
        print(f"seed {options.seed}: {error}\neverything is kept in {folder}")
        return 1
    faults = ", ".join(f"{count} x {name}" for name, count in sorted(harness.struck.items()))
    print(f"{faults}\n{harness.struck.total()} strikes; {readings} readings published, and by the audit from outside")
    print("0 lost, 0 doubled, 0 changed in the vault and in each of the tables")
    if not options.keep:
        shutil.rmtree(folder)
    return 0


def _print(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
