"""What the ingest costs as a vault grows from 1,000 to 100,000 segments, and as devices come to be 100,000.

1. Growth: the newest 64 segments are planned and read, as a micro-batch does, from vaults whose manifests list more and
   more before them. Aimed at: the same cost for each reading, within 10 %. No object but the manifest, the last range
   and the segments is read, and only the folder of manifests is listed.
2. State: what `gaps` keeps of 100,000 devices, and the seconds for comparing one message of each with it (`dedup`) and
   for taking these in. A third of the messages leave a hole behind them.
3. Boards: what `gaps` keeps of 20,000 boards that began a new incarnation 100 times each, and the seconds that a
   micro-batch of 100 messages then takes, and one in which all of them begin once more.
4. Gaps: the seconds for taking in a message of each of 100,000 devices where its numbers go on, where each leaves out
   one, and where each brings what it had left out.
"""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake

from covey.core.crypto import Identity
from covey.core.ids import Incarnation, LinkSeq, NodeId, Place, VaultId, node_id
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, numbered
from covey.core.vault.documents import (
    SegmentEntry,
    SegmentRange,
    SegmentRecord,
    VaultManifest,
    manifest_key,
    next_manifest,
    range_key,
    seal_range,
    seal_segment,
    seal_vault_manifest,
    segment_key,
)
from covey.core.vault.keys import KeyRing, VaultKey
from covey.core.vault.reading import Floor, VaultReader
from covey.core.wire.message import NO_GROUP, MessageType, write_message
from covey.limits.vault import VAULT_RANGE_SEGMENTS
from covey_ingest.tables import dedup, gaps, standing
from covey_ingest.tables.messages import MESSAGES, messages_in
from covey_ingest.task.columns import TIMESTAMP
from covey_ingest.task.reading import work_rows
from covey_ingest.task.rows import Verify
from covey_ingest.vault.offsets import Position, latest_offset, ranges

SEGMENTS = (1_000, 10_000, 100_000)
NEWEST = 64
RECORDS = 10
PER_RECORD = 100
NOW_US = 1_800_000_000_000_000
INCARNATION = Incarnation(bytes(8))
TRIES = 15

DEVICES = 100_000
BOARDS, BOOTS = 20_000, 100
BATCHES = 50


def main() -> None:
    """Run and print."""
    print_growth()
    print_state()
    print_boards()
    print_gaps()


@dataclass(slots=True)
class _Memory:
    """A store without a disk, so that nothing but the reader's own work is measured; counts what it is asked."""

    objects: dict[str, bytes] = field(default_factory=dict)
    gets: int = 0
    lists: list[str] = field(default_factory=list)

    def get(self, key: str, maximum: int) -> bytes | None:
        """Return an object."""
        self.gets += 1
        content = self.objects.get(key)
        return content if content is None or len(content) <= maximum else None

    def keys(self, prefix: str) -> Iterator[str]:
        """List."""
        self.lists.append(prefix)
        return iter(sorted(key for key in self.objects if key.startswith(prefix)))


def print_growth() -> None:
    """Measure and print point 1; vaults take turns, and the median of the tries is told."""
    vaults = {total: _build(total) for total in SEGMENTS}
    costs: dict[int, list[float]] = {total: [] for total in SEGMENTS}
    for _ in range(TRIES):
        for total, (key, store, node) in vaults.items():
            costs[total].append(_read_newest(key, store, NodeId(node), total))
    readings = NEWEST * RECORDS * PER_RECORD
    least = statistics.median(costs[SEGMENTS[0]])
    for total, (_, store, _) in vaults.items():
        cost = statistics.median(costs[total])
        print(
            f"growth   {total:7,} segments {cost / readings * 1e9:6.0f} ns a reading, {cost / least:.2f} of the first"
            f" ({min(costs[total]) / least:.2f} to {max(costs[total]) / least:.2f}; aim 0.9 to 1.1), objects read"
            f" {store.gets}, folders listed {len(store.lists)}",
            flush=True,
        )


def _build(total: int) -> tuple[VaultKey, _Memory, bytes]:
    """Return a vault whose newest segments are real; of the older ones there is what the manifest says of them."""
    rng = random.Random(total)
    collector, device = (Identity.from_seeds(rng.randbytes(32), rng.randbytes(32)) for _ in range(2))
    key, store, node = (
        VaultKey(VaultId(rng.randbytes(16)), rng.randbytes(32)),
        _Memory(),
        node_id(collector.signing_public),
    )
    entries: list[SegmentEntry] = []
    manifest: VaultManifest | None = None
    for number in range(1, total + 1):
        if number <= total - NEWEST:
            entries.append(SegmentEntry(number, INCARNATION, rng.randbytes(32), 4_000, NOW_US, RECORDS))
            continue
        records = [SegmentRecord(NOW_US, _message(device, collector, number, Place(place))) for place in range(RECORDS)]
        public, nonce = collector.signing_public, rng.randbytes(24)
        entry, content = seal_segment(key, public, number, INCARNATION, NOW_US, records, nonce)
        store.objects[segment_key(key.vault_id, node, number, INCARNATION)] = content
        entries.append(entry)
    folded: list[SegmentRange] = []
    for first in range(0, total - VAULT_RANGE_SEGMENTS, VAULT_RANGE_SEGMENTS):
        part = tuple(entries[first : first + VAULT_RANGE_SEGMENTS])
        named, content = seal_range(key, collector.signing_public, part)
        store.objects[range_key(key.vault_id, node, named)] = content
        folded.append(named)
    listed = tuple(entries[len(folded) * VAULT_RANGE_SEGMENTS :])
    manifest = next_manifest(None, key, collector.signing_public, INCARNATION, NOW_US, listed)
    manifest = replace(manifest, ranges=tuple(folded))
    content = seal_vault_manifest(key, manifest, collector, rng.randbytes(24))
    store.objects[manifest_key(key.vault_id, node)] = content
    return key, store, node


def _message(device: Identity, collector: Identity, number: int, place: Place) -> bytes:
    seq = LinkSeq(number * RECORDS + place)
    builder = BatchBuilder()
    for reading in range(PER_RECORD):
        builder.add(f"sensor/{reading % 10}", "Cel", seq * 10_000_000 + reading // 10 * 1_000_000, 20 + reading / 10)
    clock = ClockReading(bytes(8), (seq + 1) * 10_000_000, NOW_US, ClockKind.SYNCHRONISED)
    body = numbered(seq, builder.body(clock))
    recipient = collector.signing_public
    return write_message(device, MessageType.TELEMETRY, recipient, NO_GROUP, INCARNATION, seq, seq, NOW_US, body)


def _read_newest(key: VaultKey, store: _Memory, node: NodeId, total: int) -> float:
    """Plan and read what came since the offset before, as a micro-batch does; return CPU seconds."""
    reader = VaultReader(store, KeyRing((key,)))
    found = reader.manifest(node.hex(), Floor())
    assert isinstance(found, VaultManifest)
    before = Position(found.manifest_seq, total - NEWEST, found.hash.hex()[:16])
    start = {node.hex(): before.to_json()}
    store.gets, store.lists = 0, []
    reader = VaultReader(store, KeyRing((key,)))
    began = time.process_time()
    end = latest_offset(reader, start, None)
    rows = 0
    for work in ranges(reader, start, end):
        for batch in work_rows(reader, work, Verify.ALL):
            rows += len(batch.column("times").values)
    spent = time.process_time() - began
    assert rows == NEWEST * RECORDS * PER_RECORD
    return spent


def print_state() -> None:
    """Measure and print point 2."""
    rng = np.random.default_rng(1)
    links = [pa.array([rng.bytes(size).hex() for _ in range(DEVICES)]) for size in (32, 8)]
    seq = np.zeros(DEVICES, np.int64)
    compared, taken = [], []
    with tempfile.TemporaryDirectory(prefix="covey-bench-") as work:
        tables = Path(work)
        for number in range(BATCHES):
            seq += np.where(rng.random(DEVICES) < 1 / 3, 2, 1)
            staged = _stage(tables / f"staged-{number}", links, seq)
            began = time.monotonic()
            assert dedup.find(tables, messages_in(staged)).copies == 0
            compared.append(time.monotonic() - began)
            (tables / "readings").mkdir(exist_ok=True)
            staged.rename(tables / "readings" / f"batch={number}")
            began = time.monotonic()
            gaps.update(tables)
            taken.append(time.monotonic() - began)
        size = sum(file.stat().st_size for file in gaps.numbers_in(tables).parent.iterdir())
    for name, spent in (("compared", compared), ("taken in", taken)):
        print(f"state    {DEVICES:,} messages {name} in {statistics.median(spent):.2f} s (most {max(spent):.2f})")
    print(
        f"state    {DEVICES:,} devices: {size / 1e6:.1f} MB, {size / DEVICES:.0f} bytes each, after {BATCHES} batches"
    )


def print_boards() -> None:
    """Measure and print point 3."""
    rng = np.random.default_rng(1)
    authors = pa.array([rng.bytes(32).hex() for _ in range(BOARDS)])
    first, zeros = pa.array(np.ones(BOARDS, np.int64)), pa.array(np.zeros(BOARDS, np.int32))
    with tempfile.TemporaryDirectory(prefix="covey-bench-") as work:
        tables = Path(work)
        (tables / "readings").mkdir()

        def spent(number: int, boards: int, incarnations: pa.Array) -> float:
            names = ["author", "incarnation", "seq", "index", "boot", "batch_number", "collector", "received_at"]
            came = [pa.repeat("collector", BOARDS), pa.repeat(NOW_US + number, BOARDS).cast(TIMESTAMP)]
            rows = pa.table([authors, incarnations, first, zeros, incarnations, first, *came], names).slice(0, boards)
            staged = tables / f"staged-{number}"
            staged.mkdir()
            pq.write_table(rows, staged / "part-0.parquet", compression="zstd")
            began = time.process_time()
            assert dedup.find(tables, messages_in(staged), number - 1).copies == 0
            staged.rename(tables / "readings" / f"batch={number}")
            gaps.update(tables, number)
            return time.process_time() - began

        for boot in range(BOOTS):
            all_begin = spent(boot, BOARDS, pa.array([rng.bytes(8).hex() for _ in range(BOARDS)]))
        few = spent(BOOTS, 100, pa.array([rng.bytes(8).hex() for _ in range(BOARDS)]))
        there = tables / "there"
        committed = pq.read_table(tables / "readings" / "batch=0" / "part-0.parquet")
        for name in set(MESSAGES.names).difference(committed.column_names):
            committed = committed.append_column(
                MESSAGES.field(name), pa.nulls(len(committed), MESSAGES.field(name).type)
            )
        write_deltalake(str(there / "readings"), committed)
        standing.lies_at(tables, str(there))
        repeated = messages_in(tables / "readings" / "batch=0").slice(0, 100)
        began = time.process_time()
        assert dedup.find(tables, repeated, BOOTS).copies == len(repeated), (
            "first incarnations, forgotten by now, come again"
        )
        sought = time.process_time() - began
        size = sum(file.stat().st_size for file in gaps.numbers_in(tables).parent.iterdir())
    print(f"boards   {BOARDS:,} with {BOOTS} incarnations each: {size / 1e6:.1f} MB, {size / BOARDS:.0f} bytes each")
    print(f"boards   100 messages {few:.2f} s of CPU; {BOARDS:,} that begin once more {all_begin:.2f} s", flush=True)
    print(f"boards   100 repeats of forgotten incarnations: found in {sought:.2f} s of CPU", flush=True)


def print_gaps() -> None:
    """Measure and print point 4."""
    rng = np.random.default_rng(1)
    links = [pa.array([rng.bytes(size).hex() for _ in range(DEVICES)]) for size in (32, 8)]
    same = [pa.repeat("collector", DEVICES), pa.repeat(NOW_US, DEVICES).cast(TIMESTAMP), pa.repeat(0, DEVICES)]
    names = ["author", "incarnation", "collector", "received_at", "index", "batch_number"]
    with tempfile.TemporaryDirectory(prefix="covey-bench-") as work:
        tables = Path(work)
        for batch, (number, case) in enumerate({1: "begin", 2: "go on", 4: "leave out one", 3: "bring it"}.items()):
            folder = tables / "readings" / f"batch={batch}"
            folder.mkdir(parents=True)
            rows = pa.table([*links, *same, pa.repeat(number, DEVICES)], names)
            pq.write_table(rows, folder / "part-0.parquet", compression="zstd")
            began = time.monotonic()
            gaps.update(tables)
            print(f"gaps     {DEVICES:,} devices {case}: {time.monotonic() - began:.2f} s", flush=True)


def _stage(folder: Path, links: list[pa.Array], seq: np.ndarray) -> Path:
    folder.mkdir()
    names = ["author", "incarnation", "seq", "batch_number", "index", "collector", "received_at"]
    same = [pa.array(np.zeros(DEVICES, np.int32)), pa.repeat("collector", DEVICES)]
    columns = [*links, pa.array(seq), pa.array(seq), *same, pa.repeat(NOW_US, DEVICES).cast(TIMESTAMP)]
    pq.write_table(pa.table(columns, names), folder / "part-0.parquet", compression="zstd")
    return folder


if __name__ == "__main__":
    main()
