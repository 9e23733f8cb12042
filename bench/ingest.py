"""The ingest beside Spark's own sources, on the same readings in the same run: 10 sensors at 1 Hz.

1. The decoder alone, on one core: microseconds for each message, with signatures and without. The difference is
   Ed25519, which no reader of signed messages comes below.
2. Source to no-op sink and source to Parquet, at 1,000 and at 100 readings for each message. Sources take turns, forth
   and back; rounds that warm up are not counted. Printed are medians, the spread, and what is aimed at. Ratios are what
   counts on a shared machine, and there the CPU seconds of all processes together tell more than the clock.
3. The fixed part: the same with a vault, a table of one message. What it takes of each run is told, since readings
   enough make any source look fast that starts slowly, and too few make it look slow.
4. Bytes at rest. Then, without Spark, the vault's growth and the state for 100,000 devices (`bench/vault_growth.py`).

`python -m bench.ingest --readings 4000000 --rounds 5` for figures to quote.
"""

from __future__ import annotations

import argparse
import gzip
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from pyspark.sql import DataFrame, SparkSession

from bench import vault_growth
from covey.adapters.objects.folder import DirectoryStore
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey, Incarnation, LinkSeq, VaultId, node_id
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, numbered
from covey.core.vault.documents import (
    SegmentEntry,
    SegmentRecord,
    VaultManifest,
    manifest_key,
    next_manifest,
    seal_segment,
    seal_vault_manifest,
    segment_key,
)
from covey.core.vault.keys import VaultKey, key_file_text
from covey.core.vault.reading import Floor, VaultReader
from covey.core.wire.message import NO_GROUP, MessageType, write_message
from covey_ingest.key_file import read_key_file
from covey_ingest.offsets import Work
from covey_ingest.reading import work_rows
from covey_ingest.rows import Verify
from covey_ingest.session import spark_session
from covey_ingest.source import FORMAT
from covey_ingest.tables import readings

READINGS = 1_000_000
ROUNDS = 3
WARM_UP = 6
"""Rounds until the JVM has compiled what it runs: at 4 million readings the third still took twice the last's CPU."""
SENSORS = 10
DEVICES = 20
SEGMENT_READINGS = 100_000
NOW_US = 1_800_000_000_000_000
BOOT = Incarnation(bytes(8))
SIZES = (1_000, 100)

REACH = {
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
        build_vault(root / "tiny", 100, 100, 100)
        measure(spark_session("covey bench"), root, vaults, readings_in_all, rounds)
    vault_growth.main()


def build_vault(vault: Path, per_message: int, total: int, per_segment: int = SEGMENT_READINGS) -> None:
    """Land `total` readings of slowly drifting sensors, signed by 20 devices, in segments of 100,000 readings."""
    rng = random.Random(per_message)
    collector = Identity.from_seeds(rng.randbytes(32), rng.randbytes(32))
    key = VaultKey(VaultId(rng.randbytes(16)), rng.randbytes(32))
    node = node_id(collector.signing_public)
    fleet = [_Device(rng, collector.signing_public) for _ in range(DEVICES)]
    entries: list[SegmentEntry] = []
    for number in range(1, total // per_segment + 1):
        records = []
        for _ in range(per_segment // per_message):
            device = rng.choice(fleet)
            message = device.message(per_message)
            records.append(SegmentRecord(device.now_us + 500_000, message))
        entry, content = seal_segment(key, collector.signing_public, number, BOOT, NOW_US, records, rng.randbytes(24))
        entries.append(entry)
        _put(vault / segment_key(key.vault_id, node, number, BOOT), content)
    manifest = next_manifest(None, key, collector.signing_public, BOOT, NOW_US, tuple(entries))
    content = seal_vault_manifest(key, manifest, collector, rng.randbytes(24))
    _put(vault / manifest_key(key.vault_id, node), content)
    _put(vault / "vault.key", key_file_text(key).encode())
    (vault / "vault.key").chmod(0o600)


class _Device:
    def __init__(self, rng: random.Random, recipient: DeviceKey) -> None:
        self._rng = rng
        self._identity = Identity.from_seeds(rng.randbytes(32), rng.randbytes(32))
        self._recipient = recipient
        self._state = [200 + 10 * sensor for sensor in range(SENSORS)]
        self._seq = 0
        self.now_us = NOW_US

    def message(self, count: int) -> bytes:
        builder = BatchBuilder()
        for _ in range(count // SENSORS):
            self.now_us += 1_000_000
            for sensor in range(SENSORS):
                self._state[sensor] += self._rng.choice((-1, 0, 0, 0, 1))
                jittered_us = self.now_us + self._rng.randrange(2_000) - NOW_US
                builder.add(f"sensor/{sensor}", "Cel", jittered_us, self._state[sensor] / 10)
        self._seq += 1
        clock = ClockReading(BOOT, self.now_us - NOW_US, self.now_us, ClockKind.SYNCHRONISED)
        body = numbered(self._seq, builder.body(clock))
        telemetry = MessageType.TELEMETRY, self._recipient, NO_GROUP, Incarnation(BOOT)
        return write_message(self._identity, *telemetry, self._seq, LinkSeq(self._seq), self.now_us, body)


def _put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def decode_rate(vault: Path, verify: Verify) -> float:
    """Open, verify, inflate, decode and build Arrow; return the best of three, in M readings a second of CPU."""
    keys = read_key_file(vault / "vault.key")
    reader = VaultReader(DirectoryStore(vault), keys)
    (node,) = reader.nodes()
    manifest = reader.manifest(node, Floor())
    assert isinstance(manifest, VaultManifest)
    rates = []
    for _ in range(3):
        started = time.process_time()
        count = 0
        work = Work(node, None, manifest.segments, first=1, last=manifest.last_number)
        for batch in work_rows(keys, reader, work, verify):
            count += len(batch.column("times").values)
        rates.append(count / (time.process_time() - started) / 1e6)
    return max(rates)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took, in seconds: by the clock, and of all processors together."""

    clock: float
    cpu: float


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
                cost = _cost(write, sources[name])
                if number >= WARM_UP:
                    costs[name].append(cost)
        _print_costs(sink, costs, total)
    _print_at_rest(Path(parquet), Path(json), vaults, total)


def _cost(write: Callable[[DataFrame], None], source: Callable[[], DataFrame]) -> Cost:
    clock, cpu = time.monotonic(), _cpu_seconds()
    write(source())
    return Cost(time.monotonic() - clock, _cpu_seconds() - cpu)


def _cpu_seconds() -> float:
    """Return what this process and all below it have used so far: the JVM, and its Python workers."""
    here = psutil.Process()
    used = [process.cpu_times() for process in [here, *here.children(recursive=True)]]
    return sum(times.user + times.system + times.children_user + times.children_system for times in used)


def _print_costs(sink: str, costs: dict[str, list[Cost]], total: int) -> None:
    for name, runs in costs.items():
        clocks = sorted(run.clock for run in runs)
        clock, cpu = statistics.median(clocks), statistics.median(run.cpu for run in runs)
        rate = "" if name.startswith("fixed") else f"{total / clock / 1e6:6.2f} M/s "
        print(f"{sink:8} {name:15} {rate:12} {clock:6.2f} s ({clocks[0]:.2f} to {clocks[-1]:.2f}), CPU {cpu:6.2f} s")
    for size in SIZES:
        for other in ("JSON", "Parquet"):
            asked = REACH.get((sink, size), {}).get(other)
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
        ours = _size(vault, ".hxseg") / total
        print(
            f"at rest  vault, {size:5,} per message {ours:.2f} bytes a reading:"
            f" {ours / packed_json:.2f} of JSON (aim 0.33), {ours / packed_parquet:.2f} of Parquet (aim 1.2)"
        )


def _size(folder: Path, suffix: str) -> int:
    return sum(path.stat().st_size for path in folder.rglob(f"*{suffix}"))


def _gzip_size(folder: Path) -> int:
    packed = folder.parent / "packed.gz"
    with gzip.open(packed, "wb", compresslevel=6) as out:
        for path in folder.glob("*.json"):
            with path.open("rb") as file:
                shutil.copyfileobj(file, out)
    return packed.stat().st_size


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m bench.ingest", description=__doc__)
    parser.add_argument("--readings", type=int, default=READINGS, help="in each vault, by the hundred thousand")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="that are counted")
    given = parser.parse_args()
    main(given.readings, given.rounds)
