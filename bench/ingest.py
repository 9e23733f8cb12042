"""The ingest beside Spark's own sources, on the same readings in the same run: 10 sensors at 1 Hz.

Prints the decoder alone (one core), then medians of interleaved rounds, source to no-op sink and source to Parquet,
at 1,000 and at 100 readings for each message; and bytes at rest. Ratios are what counts on a shared machine.
"""

from __future__ import annotations

import gzip
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from agent.core.crypto import Identity
from agent.core.ids import node_id
from agent.core.message import NO_GROUP, MessageType, write_message
from agent.core.telemetry import BatchBuilder, ClockKind, ClockReading
from agent.core.vault import (
    SegmentEntry,
    SegmentRecord,
    VaultManifest,
    manifest_key,
    next_manifest,
    seal_segment,
    seal_vault_manifest,
    segment_key,
)
from agent.core.vault_keys import VaultKey, key_file_text
from agent.core.vault_reading import Floor, VaultReader
from spark_ingest.key_file import read_key_file
from spark_ingest.object_stores import DirectoryStore
from spark_ingest.rows import Origin, Verify, segment_rows
from spark_ingest.session import spark_session
from spark_ingest.source import FORMAT
from spark_ingest.tables import readings

READINGS = 1_000_000
ROUNDS = 3
SENSORS = 10
DEVICES = 20
SEGMENT_READINGS = 100_000
NOW_US = 1_800_000_000_000_000
BOOT = bytes(8)


def main() -> None:
    """Run and print."""
    with tempfile.TemporaryDirectory(prefix="covey-bench-") as work:
        root = Path(work)
        vaults = {size: root / f"vault-{size}" for size in (1_000, 100)}
        for size, vault in vaults.items():
            build_vault(vault, size, READINGS)
            for verify in (Verify.ALL, Verify.NONE):
                rate = decode_rate(vault, verify)
                print(f"one core {size:6,} per message, verify={verify}: {rate:5.2f} M/s", flush=True)
        measure(spark_session("covey bench"), root, vaults, READINGS, ROUNDS)


def build_vault(vault: Path, per_message: int, total: int) -> None:
    """Land `total` readings of slowly drifting sensors, signed by 20 devices, in segments of 100,000 readings."""
    rng = random.Random(per_message)
    collector = Identity.from_seeds(rng.randbytes(32), rng.randbytes(32))
    key = VaultKey(rng.randbytes(16), rng.randbytes(32))
    node = node_id(collector.signing_public)
    fleet = [_Device(rng, collector.signing_public) for _ in range(DEVICES)]
    entries: list[SegmentEntry] = []
    for number in range(1, total // SEGMENT_READINGS + 1):
        records = []
        for _ in range(SEGMENT_READINGS // per_message):
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
    def __init__(self, rng: random.Random, recipient: bytes) -> None:
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
        body = builder.body(ClockReading(BOOT, self.now_us - NOW_US, self.now_us, ClockKind.SYNCHRONISED))
        numbers = (self._seq, self._seq, self.now_us)
        return write_message(self._identity, MessageType.TELEMETRY, self._recipient, NO_GROUP, BOOT, *numbers, body)


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
        for entry in manifest.segments:
            content = reader.segment(node, entry) or b""
            origin = Origin(node, None, entry.number)
            for batch in segment_rows(keys.for_object(content), origin, entry, content, verify):
                count += len(batch.column("times").values)
        rates.append(count / (time.process_time() - started) / 1e6)
    return max(rates)


def measure(spark: SparkSession, root: Path, vaults: dict[int, Path], total: int, rounds: int) -> None:
    """Run every source into every sink, in turn, and print medians."""

    def covey(size: int) -> DataFrame:
        source = spark.read.format(FORMAT).option("keyFile", str(vaults[size] / "vault.key"))
        return readings(source.load(str(vaults[size])))

    json, parquet = str(root / "json"), str(root / "parquet")
    covey(1_000).coalesce(2).write.option("compression", "zstd").parquet(parquet)
    schema = spark.read.parquet(parquet).schema
    spark.read.parquet(parquet).write.json(json)
    sources: dict[str, Callable[[], DataFrame]] = {
        "Spark JSON": lambda: spark.read.schema(schema).json(json),
        "Spark Parquet": lambda: spark.read.schema(schema).parquet(parquet),
        "covey, 1,000 per message": lambda: covey(1_000),
        "covey, 100 per message": lambda: covey(100),
    }
    sinks: dict[str, Callable[[DataFrame], None]] = {
        "no-op": lambda frame: frame.write.format("noop").mode("overwrite").save(),
        "Parquet": lambda frame: (
            frame.coalesce(2).write.mode("overwrite").option("compression", "zstd").parquet(str(root / "out"))
        ),
    }
    for sink, write in sinks.items():
        times: dict[str, list[float]] = {name: [] for name in sources}
        for _ in range(rounds + 1):  # the first round warms up
            for name, frame in sources.items():
                started = time.monotonic()
                write(frame())
                times[name].append(time.monotonic() - started)
        rates = {name: total / statistics.median(took[1:]) for name, took in times.items()}
        for name, rate in rates.items():
            against = (rate / rates["Spark JSON"], rate / rates["Spark Parquet"])
            print(f"{sink:8} {name:26} {rate / 1e6:5.2f} M/s   x JSON {against[0]:5.2f}   x Parquet {against[1]:5.2f}")
    for name, size in {
        "Parquet (zstd)": _size(Path(parquet), ".parquet"),
        "JSON, gzip": _gzip_size(Path(json)),
        **{f"vault, {size:,} per message": _size(vault, ".hxseg") for size, vault in vaults.items()},
    }.items():
        print(f"at rest  {name:26} {size / total:6.2f} bytes a reading")


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
    main()
