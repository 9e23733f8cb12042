"""What a micro-batch costs the driver after 1,000 and after 1,000,000 of them: `python -m bench.tables.table_growth`.

A million micro-batches are three weeks at one each two seconds. Their history is made up, as it stands by then: state
files at that micro-batch; a Delta log at that version, with the commits that it keeps; one day's replaced files, which
are still there, named in the checkpoint. Then `BATCHES` real micro-batches of `DEVICES` devices are compared,
written, compared and committed as an engine does, in turns for both histories. Counted is CPU time.
"""

from __future__ import annotations

import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema

from covey.core.ids import VaultId
from covey_ingest.committer import tables_state
from covey_ingest.committer.delta_log import BATCHES_PER_MERGE
from covey_ingest.committer.state_file import replace_state
from covey_ingest.committer.table_locations import MARK, VERSIONS_KEPT, location_at
from covey_ingest.committer.tables import Tables
from covey_ingest.tables import clocks, gaps
from covey_ingest.tables.forgotten import ForgottenIncarnations
from covey_ingest.task.columns import READINGS
from covey_ingest.task.schema import MESSAGE_SCHEMA
from covey_ingest.task.writing import write

HISTORIES = (1_000, 1_000_000)
DEVICES = 100
BATCHES = 4 * BATCHES_PER_MERGE
A_DAY = 43_200
MERGED_FILES = 50

_AUTHORS = [f"{device:064x}" for device in range(DEVICES)]
_NOW_US = 1_800_000_000_000_000
_VAULT = VaultId(bytes(16))


def main() -> None:
    """Build both histories, run, and print."""
    with tempfile.TemporaryDirectory(prefix="covey-bench-") as folder:
        worlds = {count: _World(Path(folder) / str(count), count) for count in HISTORIES}
        for number in range(BATCHES):
            for world in [*worlds.values()][:: 1 if number % 2 else -1]:
                world.micro_batch()
        few, many = (statistics.mean(world.seconds) for world in worlds.values())
        for count, world in worlds.items():
            print(
                f"after {count:9,} micro-batches: {1e3 * statistics.mean(world.seconds):6.1f} ms of CPU each,"
                f" median {1e3 * statistics.median(world.seconds):6.1f}, most {1e3 * max(world.seconds):6.1f}"
            )
        print(f"ratio {many / few:.2f} (aim 1.10)")


class _World:
    """Tables with a history of so many micro-batches."""

    def __init__(self, root: Path, history: int) -> None:
        self.next = history
        self.seconds: list[float] = []
        location = location_at(str(root / "tables"))
        readings = root / "tables" / "readings"
        one = readings / f"batch={history - 1}" / "part-0.parquet"
        one.parent.mkdir(parents=True)
        pq.write_table(READINGS.empty_table(), one)
        replaced = range(history - min(history, A_DAY), history - 1)
        for number in replaced:
            (readings / f"batch={number}").mkdir()
            (readings / f"batch={number}" / one.name).hardlink_to(one)
        _write_log(readings, one, history, replaced)
        mark = {"layout": 1, "ingest": "bench", "vaults": [_VAULT.hex()], "run": 1}
        (root / "tables" / MARK).write_text(json.dumps(mark))
        _write_state(root / "state", history)
        tables_state.put(location, root / "state", history - 1, 1, {"node": [history]})
        self._tables = Tables(location, root / "committer", [_VAULT])

    def micro_batch(self) -> None:
        """Take one in."""
        began = time.process_time()
        written = list(write(self._tables.target, [_messages(self.next)]))
        brought = self._tables.commit(written, {"node": [self.next + 1]}, lambda _: [])
        self._tables.log.maintain()
        self.seconds.append(time.process_time() - began)
        if brought.repeats:
            raise RuntimeError("a new message was taken for a repeat")
        self.next += 1


def _write_state(root: Path, history: int) -> None:
    """Write what is remembered of the devices after so many micro-batches."""
    root.mkdir()
    span = {"firsts": [[1]] * DEVICES, "lasts": [[history]] * DEVICES}
    links = {"author": _AUTHORS, "incarnation": ["x"] * DEVICES}
    came = {"collector": ["c"] * DEVICES, "heard_at": [_NOW_US] * DEVICES}
    numbers = links | came | {"floor": [0] * DEVICES, "forgotten": [0] * DEVICES} | span
    replace_state(gaps.path_in(root), gaps.GAPS.empty_table(), history - 1)
    replace_state(clocks.path_in(root), clocks.SCHEMA.empty_table(), history - 1)
    forgotten = gaps.numbers_in(root).with_name("forgotten.parquet")
    ForgottenIncarnations.none().replace(forgotten, history - 1)
    replace_state(gaps.numbers_in(root), pa.table(numbers, gaps.NUMBERS), history - 1)


def _messages(number: int) -> pa.RecordBatch:
    """Return a message of each device, of two readings."""
    at_us = _NOW_US + 1_000_000 * number
    lists: dict[str, object] = {field.name: [] for field in MESSAGE_SCHEMA if pa.types.is_list(field.type)}
    lists |= {"names": ["t"], "units": ["Cel"], "series": [0, 0], "times": [at_us] * 2, "values": [1.0, 2.0]}
    row = lists | {"kind": "telemetry", "node": "n", "vault": "v", "collector": "c", "incarnation": "x", "boot": "b"}
    row |= {"seq": number + 1, "batch_number": number + 1, "received_at": at_us, "booleans_from": 0}
    row |= {"booleans_until": 0, "clock_offset": 0, "time_quality": "synchronised"}
    return pa.RecordBatch.from_pylist([row | {"author": author} for author in _AUTHORS], MESSAGE_SCHEMA)


def _write_log(table: Path, one: Path, version: int, replaced: range) -> None:
    """Write a checkpoint at a version, and the commits before it that are kept."""
    log, now_ms, size = table / "_delta_log", time.time_ns() // 1_000_000, one.stat().st_size
    DeltaTable.create(str(table), Schema.from_arrow(pq.read_schema(one)))
    actions: list[dict[str, object]] = [{"txn": {"appId": "bench", "version": version - 1}}]
    for number in range(MERGED_FILES):
        path = f"merged-{number}.parquet"
        (table / path).hardlink_to(one)
        added = {"path": path, "size": 128 << 20, "modificationTime": now_ms, "partitionValues": {}}
        actions.append({"add": added | {"dataChange": True}})
    for number in replaced:
        gone = {"path": f"batch={number}/{one.name}", "deletionTimestamp": now_ms, "size": size}
        actions.append({"remove": gone | {"dataChange": False, "extendedFileMetadata": False}})
    (log / f"{1:020}.json").write_text("\n".join(map(json.dumps, actions)))
    DeltaTable(str(table)).create_checkpoint()
    (checkpoint,) = log.glob("*.checkpoint.parquet")
    checkpoint.rename(log / f"{version:020}.checkpoint.parquet")
    last = log / "_last_checkpoint"
    last.write_text(json.dumps(json.loads(last.read_text()) | {"version": version}))
    for old in log.glob("*.json"):
        old.unlink()
    commit = log / f"{version:020}.json"
    commit.write_text(json.dumps({"commitInfo": {"timestamp": now_ms, "operation": "WRITE"}}))
    source = shutil.copy(commit, table.parent / "commit")
    for number in range(max(0, version - VERSIONS_KEPT), version):
        shutil.copy(source, log / f"{number:020}.json")


if __name__ == "__main__":
    main()
