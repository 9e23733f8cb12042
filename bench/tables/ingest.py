"""The ingest beside Spark's own sources, on the same readings in the same run: 10 sensors at 1 Hz.

1. The decoder alone, on one core: microseconds for each message, with signatures and without. The difference is
   Ed25519, which no reader of signed messages comes below.
2. Source to no-op sink and source to Parquet, at 1,000 and at 100 readings for each message. Sources take turns, forth
   and back; rounds that warm up are not counted. Printed are medians, the spread, and what is aimed at. Ratios are what
   counts on a shared machine, and there the CPU seconds of all processes together tell more than the clock.
3. The fixed part: the same with a vault, a table of one message. What it takes of each run is told, since readings
   enough make any source look fast that starts slowly, and too few make it look slow.
4. The whole job, into all tables, beside Spark that copies the same readings: `whole_job`.
5. Bytes at rest: of segments as they landed, and as `covey vault compact` merges them.

`python -m bench.tables --readings 4000000 --rounds 5` for figures to quote.
"""

from __future__ import annotations

import gzip
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from bench.cost import Cost, cost
from bench.tables import whole_job
from covey.adapters.objects.folder import DirectoryStore
from covey.core.telemetry.batch import ClockKind, ClockReading
from covey.core.vault import merging
from covey.core.vault.documents import SegmentPart, SegmentRecord, VaultManifest, open_parts
from covey.core.vault.reading import Floor, VaultReader
from covey.core.vault.segments import seal_merged
from covey.limits.message import MAXIMUM_COUNTER
from covey.limits.vault import SEGMENT_BYTES
from covey_ingest.spark.session import spark_session
from covey_ingest.spark.source import FORMAT, readings
from covey_ingest.task.reading import work_rows
from covey_ingest.task.rows import Verify
from covey_ingest.vault.key_file import read_key_file
from covey_ingest.vault.offsets import Work
from tests.spark.fleet import NOW_US, Author, Collector, Given

READINGS = 1_000_000
ROUNDS = 3
WARM_UP = 6
"""Rounds until the JVM has compiled what it runs: at 4 million readings the third still took twice the last's CPU."""
SENSORS = 10
DEVICES = 20
SEGMENT_READINGS = 100_000
SIZES = (1_000, 100)

TARGET = {
    ("no-op", 1_000): {"JSON": 6.0, "Parquet": 0.85},
    ("no-op", 100): {"Parquet": 0.65},
    ("Parquet", 1_000): {"Parquet": 0.9},
}
"""What is aimed at, by sink and readings for each message: times the rate of Spark's own source."""


def main(readings_in_all: int = READINGS, rounds: int = ROUNDS) -> None:
    """Run and print."""
    with tempfile.TemporaryDirectory(prefix="covey-bench-") as work:
        root = Path(work)
        vaults = {size: root / f"vault-{size}" for size in SIZES}
        for size, vault in vaults.items():
            build_vault(vault, size, readings_in_all)
            every, unsigned = (size / decode_rate(vault, verify) for verify in (Verify.ALL, Verify.NONE))
            print(
                f"one core, {size:5,} per message: {every:6.1f} us a message, {size / every:5.2f} M/s; of it Ed25519"
                f" {every - unsigned:5.1f} us: alone {size / (every - unsigned):5.2f} M/s",
                flush=True,
            )
        build_vault(root / "tiny", 100, 100)
        spark = spark_session("covey bench")
        measure(spark, root, vaults, readings_in_all, rounds)
        whole_job.measure(spark, root, vaults, root / "tiny", rounds, min(WARM_UP, 1))


def build_vault(vault: Path, per_message: int, total: int) -> None:
    """Land `total` readings of slowly drifting sensors, signed by 20 devices, in segments of 100,000 readings."""
    per_segment = min(SEGMENT_READINGS, total)
    rng = random.Random(per_message)
    collector = Collector(vault, per_message)
    fleet = [_Sensors(rng, Author(collector, seed)) for seed in range(DEVICES)]
    for _ in range(total // per_segment):
        chosen = rng.choices(fleet, k=per_segment // per_message)
        collector.land_records([sensors.sample(per_message) for sensors in chosen])


class _Sensors:
    """The sensors of one device: their values drift, and they are sampled each second, not quite on time."""

    def __init__(self, rng: random.Random, author: Author) -> None:
        self._rng = rng
        self._author = author
        self._tenths = [200 + 10 * sensor for sensor in range(SENSORS)]
        self._elapsed_us = 0

    def sample(self, count: int) -> SegmentRecord:
        """Return the next `count` readings in one message, and when it was received: half a second later."""
        sampled: list[Given] = []
        for _ in range(count // SENSORS):
            self._elapsed_us += 1_000_000
            for sensor in range(SENSORS):
                self._tenths[sensor] += self._rng.choice((-1, 0, 0, 0, 1))
                sampled_us = self._elapsed_us + self._rng.randrange(2_000)
                sampled.append((f"sensor/{sensor}", "Cel", sampled_us, self._tenths[sensor] / 10))
        now_us = NOW_US + self._elapsed_us
        clock = ClockReading(self._author.boot_id, self._elapsed_us, now_us, ClockKind.SYNCHRONISED)
        return SegmentRecord(now_us + 500_000, self._author.telemetry(sampled, clock))


def decode_rate(vault: Path, verify: Verify) -> float:
    """Open, verify, inflate, decode and build Arrow; return the best of three, in M readings a second of CPU."""
    reader, node, manifest = _opened(vault)
    rates = []
    for _ in range(3):
        started = time.process_time()
        count = 0
        work = Work(node, None, manifest.segments, first=1, last=manifest.last_number)
        for batch in work_rows(reader, work, verify):
            count += len(batch.column("times").values)
        rates.append(count / (time.process_time() - started) / 1e6)
    return max(rates)


def _opened(vault: Path) -> tuple[VaultReader, str, VaultManifest]:
    """Return a reader of a vault, its one node, and what that lists."""
    reader = VaultReader(DirectoryStore(vault), read_key_file(vault / "vault.key"))
    (node,) = reader.nodes()
    manifest = reader.manifest(node, Floor())
    assert isinstance(manifest, VaultManifest)
    return reader, node, manifest


def measure(spark: SparkSession, root: Path, vaults: dict[int, Path], total: int, rounds: int) -> None:
    """Run every source into every sink, in turn, and print."""

    def covey(vault: Path) -> DataFrame:
        source = spark.read.format(FORMAT).option("keyFile", str(vault / "vault.key"))
        return readings(source.load(str(vault)))

    json, parquet = str(root / "json"), str(root / "parquet")
    covey(vaults[1_000]).coalesce(2).write.option("compression", "zstd").parquet(parquet)
    schema = spark.read.parquet(parquet).schema
    spark.read.parquet(parquet).write.json(json)
    covey(root / "tiny").coalesce(1).write.parquet(str(root / "tiny-parquet"))
    sources: dict[str, Callable[[], DataFrame]] = {
        "JSON": lambda: spark.read.schema(schema).json(json),
        "Parquet": lambda: spark.read.schema(schema).parquet(parquet),
        "1000": lambda: covey(vaults[1_000]),
        "100": lambda: covey(vaults[100]),
        "fixed, Parquet": lambda: spark.read.schema(schema).parquet(str(root / "tiny-parquet")),
        "fixed, covey": lambda: covey(root / "tiny"),
    }
    sinks: dict[str, Callable[[DataFrame], None]] = {
        "no-op": lambda frame: frame.write.format("noop").mode("overwrite").save(),
        "Parquet": lambda frame: (
            frame.coalesce(2).write.mode("overwrite").option("compression", "zstd").parquet(str(root / "out"))
        ),
    }
    for sink, write in sinks.items():
        costs: dict[str, list[Cost]] = {name: [] for name in sources}
        for number in range(WARM_UP + rounds):
            for name in list(sources) if number % 2 else reversed(sources):
                taken = cost(partial(_written, write, sources[name]))
                if number >= WARM_UP:
                    costs[name].append(taken)
        _print_costs(sink, costs, total)
    _print_at_rest(Path(parquet), Path(json), vaults, total)


def _written(write: Callable[[DataFrame], None], source: Callable[[], DataFrame]) -> None:
    write(source())


def _print_costs(sink: str, costs: dict[str, list[Cost]], total: int) -> None:
    for name, runs in costs.items():
        clocks = sorted(run.clock for run in runs)
        clock, cpu = statistics.median(clocks), statistics.median(run.cpu for run in runs)
        rate = "" if name.startswith("fixed") else f"{total / clock / 1e6:6.2f} M/s "
        print(f"{sink:8} {name:15} {rate:12} {clock:6.2f} s ({clocks[0]:.2f} to {clocks[-1]:.2f}), CPU {cpu:6.2f} s")
    for size in SIZES:
        for other in ("JSON", "Parquet"):
            asked = TARGET.get((sink, size), {}).get(other)
            ratios = [theirs.clock / ours.clock for theirs, ours in zip(costs[other], costs[str(size)], strict=True)]
            of_cpu = statistics.median(run.cpu for run in costs[other]) / statistics.median(
                run.cpu for run in costs[str(size)]
            )
            print(
                f"{sink:8} {size:5,} per message, x {other:8} {statistics.median(ratios):5.2f}"
                f" ({min(ratios):.2f} to {max(ratios):.2f}), by CPU {of_cpu:5.2f}"
                f"{f'   aim {asked}' if asked else ''}",
                flush=True,
            )


def _print_at_rest(parquet: Path, json: Path, vaults: dict[int, Path], total: int) -> None:
    packed_json, packed_parquet = _gzip_size(json) / total, _size(parquet, ".parquet") / total
    print(f"at rest  JSON, gzip {packed_json:.2f}, Parquet (zstd) {packed_parquet:.2f} bytes a reading")
    for size, vault in vaults.items():
        for state, stored in (("landed", _size(vault, ".hxseg")), ("merged", _merged_size(vault))):
            ours = stored / total
            print(
                f"at rest  vault, {size:5,} per message, {state} {ours:.2f} bytes a reading:"
                f" {ours / packed_json:.2f} of JSON (aim 0.33), {ours / packed_parquet:.2f} of Parquet (aim 1.2)"
            )


def _merged_size(vault: Path) -> int:
    """Return the bytes of a vault's segments once they are merged."""
    reader, node, manifest = _opened(vault)
    groups = list(merging.groups(manifest.segments, SEGMENT_BYTES, MAXIMUM_COUNTER))
    size = sum(entry.size for entry in manifest.segments) - sum(entry.size for group in groups for entry in group)
    for group in groups:
        parts: list[SegmentPart] = []
        for entry in group:
            content = reader.segment(node, entry) or b""
            key = reader.key_for(node, content)
            parts += open_parts(key, manifest.node_id, entry, content)
        size += seal_merged(key, manifest.signing_public, parts)[0].size
    return size


def _size(folder: Path, suffix: str) -> int:
    return sum(path.stat().st_size for path in folder.rglob(f"*{suffix}"))


def _gzip_size(folder: Path) -> int:
    packed = folder.parent / "packed.gz"
    with gzip.open(packed, "wb", compresslevel=6) as out:
        for path in folder.glob("*.json"):
            with path.open("rb") as file:
                shutil.copyfileobj(file, out)
    return packed.stat().st_size
