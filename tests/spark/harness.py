"""Is each reading in the tables once, whatever is killed? `python -m tests.spark.harness --minutes 480 --seed 7`

A real broker, an agent that measures, a collector, and two ingests that follow its vault, one into Parquet and one into
Delta tables. At moments that the seed decides something fails: a driver (alone, or with its JVM), a Python worker, the
collector, the store (read-only, slow, failing puts, unplugged). What ends by itself is started again, as systemd would.
In the end the agent's own count of what it published is compared with both tables.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from demo.fleet import Device, Fleet
from spark_ingest.tables import Sink
from tests.spark.failing_store import VARIABLE, Fault
from tests.spark.processes import below, kill, python_workers
from tests.spark.tally import Tally, tally

ROOT = Path(__file__).parents[2]
INTERVAL_SECONDS = 0.25
_LOOK_SECONDS = 0.1
_DEADLINE_SECONDS = 240.0
_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

Say = Callable[[str], None]


class FailedError(Exception):
    """Not each reading is in the tables once, or something did not get there in time."""


class Ingest:
    """The job as a process that is started again whenever it ends."""

    def __init__(self, folder: Path, vault: Path, key_file: Path, sink: Sink, master: str | None) -> None:
        self.tables = folder / f"tables-{sink}"
        self.log = folder / f"ingest-{sink}.log"
        self.starts = 0
        program = [sys.executable, "-m", "spark_ingest"]
        if master is not None:
            submit = str(Path(sys.executable).parent / "spark-submit")
            program = [submit, "--master", master, str(ROOT / "spark_ingest" / "__main__.py")]
        self._command = [*program, str(vault), str(self.tables), "--key-file", str(key_file), "--sink", str(sink)]
        self._command += ["--trigger-seconds", "0.5", "--max-segments-per-trigger", "4"]
        self._environment = os.environ | {
            "JDK_JAVA_OPTIONS": _JAVA,
            "SPARK_LOCAL_DIRS": str(folder / "spark"),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYSPARK_PYTHON": sys.executable,
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
        return kill([self._process.pid]) if self._process else 0

    def kill_all(self) -> int:
        """Kill the driver with all that it has started."""
        return kill([*below(self._process.pid)]) if self._process else 0

    def kill_worker(self, dice: random.Random) -> int:
        """Kill one Python process in which tasks run; there may be none right now."""
        workers = python_workers(self._process.pid) if self._process else []
        return kill([dice.choice(workers)]) if workers else 0

    def close(self) -> None:
        """End it for good."""
        self.kill_all()
        if self._process is not None:
            self._process.wait()


class Collector(Device):
    """The collector's process over a store that may fail."""

    def __init__(self, fleet: Fleet) -> None:
        super().__init__("collector", fleet.collector.folder)
        self.author, self.tap = fleet.collector.author, fleet.tap
        self._vault = fleet.vault

    def begin(self) -> None:
        """Start it."""
        words = ["collect", "--state", str(self.folder), "--vault", str(self._vault), "--no-sensors"]
        with (self.folder.parent / "collector.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.failing_store", *words], cwd=ROOT, stdout=log, stderr=log
            )

    def look(self) -> None:
        """Start it again where it has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            self._process = None
            self.begin()


class Harness:
    """One run. Use `running`."""

    def __init__(self, folder: Path, seed: int, master: str | None, say: Say) -> None:
        self._dice = random.Random(seed)
        self._say = say
        self._folder = folder
        self.struck: Counter[str] = Counter()
        os.environ[VARIABLE] = str(folder / "fault")
        (folder / "vault.there").mkdir()
        (folder / "vault").symlink_to("vault.there")
        self.fleet = Fleet(folder, agents=1)
        self.fleet.set_up(batch_seconds=1.0, interval_seconds=INTERVAL_SECONDS)
        self.fleet.collector.stop()
        self.collector = Collector(self.fleet)
        self.collector.begin()
        self.agent = self.fleet.agents[0]
        key_file = self.collector.folder / "vault.key"
        self.ingests = [Ingest(folder, self.fleet.vault, key_file, sink, master) for sink in Sink]
        self._strikes: dict[str, Callable[[], int]] = {
            f"{what} ({ingest.tables.name})": strike
            for ingest in self.ingests
            for what, strike in (
                ("driver", ingest.kill_driver),
                ("driver and JVM", ingest.kill_all),
                ("Python worker", lambda ingest=ingest: ingest.kill_worker(self._dice)),
            )
        }
        self._strikes["collector"] = self._restart_collector
        self._strikes |= {fault.value: lambda fault=fault: self._fail(fault) for fault in Fault}
        self._strikes["the store is unplugged"] = self._unplug

    def close(self) -> None:
        """End every process."""
        for ingest in self.ingests:
            ingest.close()
        self.collector.kill()
        self.fleet.close()

    def strike_for(self, seconds: float) -> None:
        """Let the agent measure, and something fail again and again: everything once before anything twice."""
        self._wait(lambda: all((each.tables / "readings").is_dir() for each in self.ingests) or self._measure())
        end, bag = time.monotonic() + seconds, []
        while time.monotonic() < end:
            bag = bag or self._dice.sample(sorted(self._strikes), len(self._strikes))
            self._pause(self._dice.uniform(0.2, 3.0))
            name = bag.pop()
            if self._strikes[name]():
                self.struck[name] += 1
                self._say(f"{name}; {self._published()} readings published")

    def audit(self) -> int:
        """Wait until the tables hold what was published; return how many readings that is.

        Raises:
            FailedError: something is missing or doubled.
        """
        self.agent.stop()
        self.agent.start("run", "--no-sensors")
        self._wait(lambda: not self.agent.ledger().queued_messages and not self.collector.ledger().landing_bytes)
        expected = {self.agent.author: Tally(self._published(), 0)}
        with suppress(FailedError):
            self._wait(lambda: all(_tally(each.tables) == expected for each in self.ingests))
        for ingest in self.ingests:
            ingest.close()
        found = {ingest.tables.name: tally(ingest.tables) for ingest in self.ingests}
        if any(each != expected for each in found.values()) or not self._published():
            raise FailedError(f"published {expected}, in the tables {found}; the logs are in {self._folder}")
        return self._published()

    def _measure(self) -> bool:
        with suppress(AssertionError):  # it runs already
            self.agent.start("run")
        return False

    def _published(self) -> int:
        return self.agent.ledger().published

    def _restart_collector(self) -> int:
        self.collector.kill()
        self._pause(self._dice.uniform(0, 1))
        self.collector.begin()
        return 1

    def _fail(self, fault: Fault) -> int:
        told = self._folder / "fault"
        told.with_suffix(".new").write_text(fault)
        told.with_suffix(".new").replace(told)
        self._pause(self._dice.uniform(2, 4))
        told.unlink()
        return 1

    def _unplug(self) -> int:
        for target in ("fault.none", "vault.there"):  # first a name that leads nowhere
            (self._folder / "vault.new").symlink_to(target)
            (self._folder / "vault.new").replace(self._folder / "vault")
            if target == "fault.none":
                self._pause(self._dice.uniform(1, 3))
        return 1

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()
            time.sleep(_LOOK_SECONDS)

    def _wait(self, condition: Callable[[], bool]) -> None:
        end = time.monotonic() + _DEADLINE_SECONDS
        while not condition():
            if time.monotonic() > end:
                raise FailedError(f"not so far in time; the logs are in {self._folder}")
            self._look()
            time.sleep(_LOOK_SECONDS)

    def _look(self) -> None:
        self.collector.look()
        for ingest in self.ingests:
            ingest.look()


def _tally(tables: Path) -> dict[str, Tally]:
    try:
        return tally(tables)
    except (OSError, ValueError):
        return {}  # files were merged meanwhile


@contextmanager
def running(folder: Path, seed: int, master: str | None, say: Say) -> Iterator[Harness]:
    """Set everything up, and end every process after."""
    harness = Harness(folder, seed, master, say)
    try:
        yield harness
    finally:
        harness.close()


def main() -> int:
    """Run what the command line says; 1 when a reading is lost or doubled."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.harness", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long things fail (default 10)")
    parser.add_argument("--seed", type=int, default=1, help="decides what fails when (default 1)")
    parser.add_argument("--master", help='through spark-submit: "local[2,4]", "local-cluster[2,1,1024]", spark://…')
    parser.add_argument("--keep", type=Path, help="a new folder for everything (default: one in the temporary folder)")
    options = parser.parse_args()
    folder = options.keep.absolute() if options.keep else Path(tempfile.mkdtemp(prefix="covey-harness-"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with running(folder, options.seed, options.master, lambda line: print(line, flush=True)) as harness:
            harness.strike_for(60 * options.minutes)
            print("nothing fails any more; delivering …", flush=True)
            readings = harness.audit()
    except FailedError as error:
        print(f"seed {options.seed}: {error}")
        return 1
    told = ", ".join(f"{count} x {name}" for name, count in sorted(harness.struck.items()))
    print(f"{told}\n{readings} readings published: 0 lost, 0 doubled in both tables, which lie in {folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
