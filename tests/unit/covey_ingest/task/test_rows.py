"""Whatever lies in a segment, rows come out: readings where all is right, quarantine where anything is not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from covey.adapters.objects.folder import DirectoryStore
from covey.core.telemetry.batch import BatchBuilder, ClockKind, numbered
from covey.core.vault.documents import SegmentEntry
from covey.core.vault.keys import KeyRing
from covey.core.vault.reading import VaultReader
from covey.core.wire import cbor
from covey.core.wire.message import Loss, LossReason, MessageType
from covey_ingest.task.message_rows import BYTES_PER_BATCH, DECODED_TOGETHER, ROWS_PER_BATCH
from covey_ingest.task.reading import work_rows
from covey_ingest.task.rows import Verify
from covey_ingest.task.schema import MESSAGE_SCHEMA
from covey_ingest.vault.offsets import Work
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    return Collector(tmp_path / "vault")


def _rows(
    collector: Collector, entry: SegmentEntry, content: bytes | None = None, verify: Verify = Verify.ALL
) -> list[dict[str, Any]]:
    if content is not None:
        collector.put(collector.segment_path(entry), content)
    keys, public = KeyRing((collector.key,)), collector.identity.signing_public.hex()
    work = Work(collector.node.hex(), public, (entry,), first=entry.first, last=entry.number)
    batches = list(work_rows(VaultReader(DirectoryStore(collector.vault), keys), work, verify))
    assert all(batch.schema == MESSAGE_SCHEMA for batch in batches)
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_message_is_one_row_with_its_readings_in_lists(collector: Collector) -> None:
    device = Author(collector, 1)
    message = device.telemetry(
        [
            ("door", "", BOOTED_US - 4, True),
            ("temperature", "Cel", BOOTED_US - 3, 21.5),
            ("state", "", BOOTED_US - 2, "running"),
            ("raw", "", BOOTED_US - 1, b"\x00\xff"),
            ("pi", "", BOOTED_US, 3.141592653589793),
        ]
    )
    (row,) = _rows(collector, collector.land(message, received_at_us=NOW_US + 5))
    assert row["kind"] == "telemetry"
    assert (row["author"], row["seq"], row["boot"]) == (device.author, 1, device.boot_id.hex())
    assert row["time_quality"] == "synchronised"
    assert [row["names"][series] for series in row["series"]] == ["temperature", "door", "pi", "state", "raw"]
    assert row["units"] == ["Cel", "", "", "", ""]
    assert row["values"] == [21.5, 1.0, 3.141592653589793]
    assert (row["booleans_from"], row["booleans_until"]) == (1, 2)
    assert (row["texts"], row["data"]) == (["running"], [b"\x00\xff"])
    assert [round(time.timestamp() * 1e6) - NOW_US for time in row["times"]] == [-3, -4, 0, -2, -1]


def test_one_bad_message_leaves_its_neighbours_alone(collector: Collector) -> None:
    device = Author(collector, 1)
    good = [device.measure(2), device.measure(3)]
    forged = bytearray(device.measure(1))
    forged[10] ^= 1
    blob = device.sign(MessageType.BLOB, b"\x00")
    empty = device.sign(MessageType.TELEMETRY, b"\x80")
    nobody_knew = device.telemetry([("x", "", 0, 1.0)], device.clock(ClockKind.UNSYNCHRONISED, wall_us=0))
    entry = collector.land(good[0], bytes(forged), b"", blob, empty, good[1])
    rows = _rows(collector, entry)
    assert [row["kind"] for row in rows] == ["telemetry", *["quarantine"] * 4, "telemetry"]
    assert [row["reason"] for row in rows[1:5]] == ["signature", "malformed", "malformed", "malformed"]
    assert [row["record"] for row in rows] == [0, 1, 2, 3, 4, 5]
    assert rows[3]["author"] == device.author
    (timeless,) = _rows(collector, collector.land(nobody_knew, received_at_us=0))
    assert (timeless["kind"], timeless["times"]) == ("quarantine", [])


def test_a_sum_that_wraps_leaves_the_batches_that_are_alike_alone(collector: Collector) -> None:
    device = Author(collector, 1)
    good = [device.telemetry([("x", "", BOOTED_US, float(value))]) for value in range(4)]
    series, column = [["x", "", 0, 0, 1]], [BOOTED_US, 1, b"\0"]
    columns = cbor.encode([series, column, [2**62, 1, b"\0"], b"", []])
    batch = cbor.encode([1, device.boot_id, 0, BOOTED_US, NOW_US, 1, 0, len(columns), columns])
    bad = device.sign(MessageType.TELEMETRY, numbered(9, batch))
    rows = _rows(collector, collector.land(*good[:2], bad, *good[2:]))
    assert [row["kind"] for row in rows] == ["telemetry", "telemetry", "quarantine", "telemetry", "telemetry"]
    assert [row["values"] for row in rows] == [[0.0], [1.0], [], [2.0], [3.0]]
    assert (rows[2]["reason"], rows[2]["author"], rows[2]["record"]) == ("malformed", device.author, 2)


def test_interleaved_devices_keep_their_order_and_their_own_readings(collector: Collector) -> None:
    one, two = Author(collector, 1), Author(collector, 2)
    messages = [(one.measure(4), two.measure(7, names=2)) for _ in range(3)]
    rows = _rows(collector, collector.land(*[message for pair in messages for message in pair]))
    assert [(row["author"], len(row["times"])) for row in rows] == [(one.author, 4), (two.author, 7)] * 3
    assert rows[1]["names"] == ["sensor-0", "sensor-1"]
    assert rows[1]["values"] == [20.0, 20.2, 20.4, 20.6, 20.1, 20.3, 20.5]


@pytest.mark.slow
def test_more_readings_than_are_decoded_at_once_stay_in_order(collector: Collector) -> None:
    device = Author(collector, 1)
    values = [[float(message)] * 9_000 for message in range(5)]
    messages = [device.telemetry([("x", "", BOOTED_US, value) for value in part]) for part in values]
    rows = _rows(collector, collector.land(*messages))
    assert sum(len(row["values"]) for row in rows) > DECODED_TOGETHER
    assert [row["values"] for row in rows] == values


def test_a_loss_record_is_carried_on(collector: Collector) -> None:
    (row,) = _rows(collector, collector.land(Author(collector, 1).loss(3, 9)))
    assert (row["kind"], row["first"], row["last"], row["reason"]) == ("loss", 3, 9, "outbox_full")


# accepts: 004.19, 004.20
def test_any_flipped_byte_of_a_segment_is_one_quarantine_row(collector: Collector) -> None:
    entry = collector.land(Author(collector, 1).measure(1))
    content = collector.segment_path(entry).read_bytes()
    for position in range(0, len(content), 7):
        harmed = bytearray(content)
        harmed[position] ^= 0x20
        (row,) = _rows(collector, entry, bytes(harmed))
        assert (row["kind"], row["segment"]) == ("quarantine", 1)
    (row,) = _rows(collector, entry, content[:-1])
    assert row["kind"] == "quarantine"


def test_a_segment_in_the_place_of_another_is_quarantined(collector: Collector) -> None:
    device = Author(collector, 1)
    one, two = collector.land(device.measure(1)), collector.land(device.measure(1))
    content = collector.segment_path(two).read_bytes()
    assert [row["kind"] for row in _rows(collector, one, content)] == ["quarantine"]
    relisted = replace(two, number=1)
    assert [row["kind"] for row in _rows(collector, relisted, content)] == ["quarantine"]


def test_verification_can_be_left_out(collector: Collector) -> None:
    device = Author(collector, 1)
    forged = []
    for _ in range(17):
        message = bytearray(device.measure(1))
        message[10] ^= 1
        forged.append(bytes(message))
    entry = collector.land(*forged)
    quarantined = {
        verify: sum(row["kind"] == "quarantine" for row in _rows(collector, entry, verify=verify)) for verify in Verify
    }
    assert quarantined == {Verify.ALL: 17, Verify.NONE: 0}


def _batches(collector: Collector, *messages: bytes, received_at_us: int = NOW_US) -> list[pa.RecordBatch]:
    entry = collector.land(*messages, received_at_us=received_at_us)
    keys, public = KeyRing((collector.key,)), collector.identity.signing_public.hex()
    work = Work(collector.node.hex(), public, (entry,), first=entry.first, last=entry.number)
    return list(work_rows(VaultReader(DirectoryStore(collector.vault), keys), work, Verify.ALL))


@pytest.mark.slow
def test_an_arrow_batch_closes_by_bytes_as_well(collector: Collector) -> None:
    """Text inflates: a few kilobytes of envelopes were half a gigabyte of one batch."""
    device = Author(collector, 1)
    messages = [device.telemetry([("log", "", BOOTED_US, "x" * 4_000)] * 100) for _ in range(60)]
    batches = _batches(collector, *messages)
    assert sum(batch.num_rows for batch in batches) == 60
    assert max(batch.nbytes for batch in batches) < BYTES_PER_BATCH + 500_000


@pytest.mark.slow
def test_an_arrow_batch_closes_by_rows_as_well(collector: Collector) -> None:
    device = Author(collector, 1)
    ranges = tuple((1 + 3 * number, 2 + 3 * number) for number in range(64))
    body = Loss(LossReason.OUTBOX_FULL, ranges, ranges).to_wire()
    batches = _batches(collector, *(device.sign(MessageType.LOSS, body) for _ in range(200)))
    assert sum(batch.num_rows for batch in batches) == 200 * 128
    assert max(batch.num_rows for batch in batches) < ROWS_PER_BATCH + 128


@pytest.mark.parametrize("received_at_us", [253_402_300_800_000_000, 2**62, 2**63 - 1])
def test_a_collector_whose_clock_is_beyond_all_calendars_stops_nobody(
    collector: Collector, received_at_us: int
) -> None:
    device = Author(collector, 1)
    (row,) = _rows(collector, collector.land(device.measure(1), received_at_us=received_at_us))
    assert (row["kind"], row["reason"], row["received_at"]) == ("quarantine", "malformed", None)
    assert "after the year 9999" in row["detail"]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_none_are_refused_and_their_neighbours_come(collector: Collector, value: float) -> None:
    device = Author(collector, 1)
    good = [device.telemetry([("x", "", BOOTED_US, 0.1 + 1e-9 * number)]) for number in range(3)]
    packed = [good[0], *(_with_float(device, value) for _ in range(2)), *good[1:]]
    rows = _rows(collector, collector.land(*packed))
    assert [row["reason"] for row in rows] == [None, "malformed", "malformed", None, None]
    assert all("finite" in row["detail"] for row in rows[1:3])


def _with_float(device: Author, value: float) -> bytes:
    """Sign what no builder writes: the same batch, with another float."""
    builder = BatchBuilder()
    builder.add("x", "", BOOTED_US, 1 / 3)
    (series,) = builder._series.values()
    series.values[0] = value
    device.number += 1
    return device.sign(MessageType.TELEMETRY, numbered(device.number, builder.body(device.clock())))


def test_small_segments_fill_one_arrow_batch_and_a_damaged_one_keeps_its_place(collector: Collector) -> None:
    device = Author(collector, 1)
    entries = [collector.land(device.measure(value)) for value in range(4)]
    keys, public = KeyRing((collector.key,)), collector.identity.signing_public.hex()
    work = Work(collector.node.hex(), public, tuple(entries), first=entries[0].first, last=entries[-1].number)

    def batches() -> list[pa.RecordBatch]:
        return [*work_rows(VaultReader(DirectoryStore(collector.vault), keys), work, Verify.ALL)]

    (together,) = batches()
    assert together["segment"].to_pylist() == [1, 2, 3, 4]
    collector.put(collector.segment_path(entries[2]), b"damaged")
    before, damaged, after = batches()
    assert before["segment"].to_pylist() == [1, 2]
    assert (damaged["kind"].to_pylist(), damaged["segment"].to_pylist()) == (["quarantine"], [3])
    assert after["segment"].to_pylist() == [4]
