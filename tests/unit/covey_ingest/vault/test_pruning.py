"""What is asked for comes out as if all had been read and the rest thrown away; the rest is not touched."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from covey.core.telemetry.batch import numbered
from covey.core.wire import cbor
from covey.core.wire.message import MessageType
from covey.core.wire.varints import write_varints
from covey.errors import ConfigurationError
from covey_ingest.options import SourceOptions
from covey_ingest.spark.source import CoveySource, Segments, VaultBatchReader
from covey_ingest.task.schema import MESSAGE_SCHEMA
from tests.spark.fleet import BOOTED_US, NOW_US, Author, Collector

MINUTE_US = 60_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


def _moment(us: int) -> str:
    return (EPOCH + us * MICROSECOND).isoformat()


@pytest.fixture
def collector(tmp_path: Path) -> Collector:
    """A vault of four segments, a minute apart: readings, a loss, something forged."""
    collector = Collector(tmp_path / "vault")
    one, two = Author(collector, 1), Author(collector, 2)
    for minute in range(4):
        forged = bytearray(two.measure(1))
        forged[10] ^= 1
        messages = one.measure(3), two.measure(5), one.loss(minute + 1, minute + 2), bytes(forged)
        collector.land(*messages, received_at_us=NOW_US + minute * MINUTE_US)
    return collector


def _options(collector: Collector, **more: str) -> dict[str, str]:
    return {"path": str(collector.vault), "keyFile": str(collector.key_file)} | more


def _batches(collector: Collector, columns: StructType | None = None, **more: str) -> Iterator[pa.RecordBatch]:
    source = CoveySource(_options(collector, **more))
    reader = source.reader(columns or source.schema())
    for partition in reader.partitions():
        yield from reader.read(partition)


def _rows(collector: Collector, columns: StructType | None = None, **more: Any) -> list[dict[str, Any]]:
    return [row for batch in _batches(collector, columns, **more) for row in batch.to_pylist()]


def _opened(collector: Collector, **more: str) -> list[int]:
    """Return the numbers of the segments that are planned."""
    planned = VaultBatchReader(SourceOptions.parse(_options(collector, **more))).partitions()
    return [entry.number for each in planned if isinstance(each, Segments) for entry in each.work.entries]


def _struct(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def test_some_columns_are_those_of_a_full_read_in_the_order_asked_for(collector: Collector) -> None:
    text, number = StringType(), LongType()
    asked = _struct(received_at=TimestampType(), seq=number, author=text, kind=text, batch_number=number, boot=text)
    asked = StructType([*asked, *_struct(reason=text, first=number, incarnation=text)])
    full = _rows(collector)
    assert _rows(collector, asked) == [{name: row[name] for name in asked.names} for row in full]
    assert {row["kind"] for row in full} == {"telemetry", "loss", "quarantine"}
    lists = _struct(values=ArrayType(DoubleType()), times=ArrayType(TimestampType(), False), seq=number)
    assert _rows(collector, lists) == [{name: row[name] for name in lists.names} for row in full]
    (schema,) = {str(batch.schema) for batch in _batches(collector, lists)}
    assert "values: list<element: double>\n" in schema
    assert "times: list<element: timestamp[us, tz=UTC] not null>" in schema


def test_all_columns_are_what_they_are_without_a_schema(collector: Collector) -> None:
    assert {batch.schema == MESSAGE_SCHEMA for batch in _batches(collector)} == {True}


def test_columns_stay_packed_where_none_is_asked_for(tmp_path: Path) -> None:
    collector = Collector(tmp_path / "vault")
    device = Author(collector, 1)
    columns = cbor.encode([b"\0\4", b"\0\0", write_varints([2**62 - 1, 2**62 - 1])])  # whose sum exceeds 62 bits
    batch = cbor.encode([1, device.boot_id, 0, BOOTED_US, NOW_US, cbor.encode(["x", ""]), 0, columns])
    collector.land(device.sign(MessageType.TELEMETRY, numbered(9, batch)), device.sign(MessageType.BLOB, b"\0"))
    assert [row["kind"] for row in _rows(collector)] == ["quarantine", "quarantine"]
    narrow = _rows(collector, _struct(kind=StringType(), batch_number=LongType()))
    assert narrow == [{"kind": "telemetry", "batch_number": 9}, {"kind": "quarantine", "batch_number": None}]
    assert [row["kind"] for row in _rows(collector, _struct(kind=StringType(), time_quality=StringType()))] == [
        "quarantine",
        "quarantine",
    ]


@pytest.mark.parametrize(
    ("field", "message"),
    [
        (StructField("autor", StringType()), "no column autor"),
        (StructField("Author", StringType()), "no column Author"),
        (StructField("seq", StringType()), "column seq cannot be string"),
        (StructField("seq", LongType(), nullable=False), "column seq cannot be bigint not null"),
        (StructField("values", DoubleType()), "column values cannot be double"),
        (StructField("values", ArrayType(LongType())), "column values cannot be array<bigint>"),
    ],
)
def test_columns_that_there_are_not_are_refused(collector: Collector, field: StructField, message: str) -> None:
    source = CoveySource(_options(collector))
    for reader in (source.reader, source.streamReader):
        with pytest.raises(ConfigurationError, match=message) as caught:
            reader(StructType([field]))
        assert caught.value.hint


@pytest.mark.parametrize(("first", "until"), [(0, 9), (1, 9), (2, 3), (0, 2), (3, 3)])
def test_times_are_those_of_a_full_read_and_older_segments_are_not_opened(
    collector: Collector, first: int, until: int
) -> None:
    since_us, until_us = NOW_US + first * MINUTE_US, NOW_US + until * MINUTE_US
    bounds: dict[str, Any] = {"receivedSince": _moment(since_us), "receivedUntil": _moment(until_us)}
    expected = [row for row in _rows(collector) if since_us <= (row["received_at"] - EPOCH) // MICROSECOND < until_us]
    assert _opened(collector, **bounds) == [1, 2, 3, 4][first:]
    assert collector.manifest is not None
    for entry in collector.manifest.segments[:first]:
        collector.segment_path(entry).unlink()
    assert _rows(collector, **bounds) == expected
    assert len(expected) == 4 * (min(until, 4) - first)


def test_times_are_the_same_whatever_was_merged(collector: Collector) -> None:
    bounds: dict[str, Any] = {
        "receivedSince": _moment(NOW_US + MINUTE_US),
        "receivedUntil": _moment(NOW_US + 2 * MINUTE_US),
    }
    before = _rows(collector, **bounds)
    assert collector.compact().merged == 1
    assert _opened(collector, **bounds) == [3, 4], "one to three are one"
    assert _rows(collector, **bounds) == before != []
    assert _opened(collector, receivedSince=_moment(NOW_US + 2 * MINUTE_US + 1)) == [4]


def test_of_other_nodes_nothing_is_read(collector: Collector) -> None:
    other = Collector(collector.vault, seed=7, key=collector.key)
    other.land(Author(other, 3).measure(2))
    mine, key = collector.node.hex(), collector.identity.signing_public.hex()
    for named in (mine, key):
        rows = _rows(collector, nodes=named)
        assert {row["node"] for row in rows} == {mine}
        assert len(rows) == 4 * 4
    assert {row["node"] for row in _rows(collector, nodes=f"{key}, {other.node.hex()}")} == {mine, other.node.hex()}
    other.manifest_path.write_bytes(b"damaged")
    assert len(_rows(collector, nodes=mine)) == 4 * 4
    assert {row["reason"] for row in _rows(collector, nodes=other.node.hex())} == {"decryption"}


def test_a_stream_is_narrowed_alike(collector: Collector) -> None:
    source = CoveySource(_options(collector, receivedSince=_moment(NOW_US + 2 * MINUTE_US)))
    stream = source.streamReader(_struct(seq=LongType()))
    end = stream.latestOffset({}, stream.getDefaultReadLimit())
    batches: Any = [batch for each in stream.partitions({}, end) for batch in stream.read(each)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    assert [row["seq"] for row in rows if row["seq"]] == [5, 6, 6, 7, 8, 8]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("receivedSince", "yesterday"),
        ("receivedUntil", "2026-11-20T06:00:00"),  # where?
        ("nodes", ""),
        ("nodes", "ab,cd"),
        ("nodes", "A" * 32),
    ],
)
def test_options_are_checked(collector: Collector, option: str, value: str) -> None:
    with pytest.raises(ConfigurationError, match=option) as caught:
        SourceOptions.parse(_options(collector, **{option: value}))
    assert caught.value.hint


def test_options_are_read_as_they_are_written(collector: Collector) -> None:
    bounds = {"receivedSince": "2026-11-20T06:00:00.000001+01:00", "receivedUntil": "2026-11-21T00:00:00Z"}
    options = SourceOptions.parse(_options(collector, nodes=collector.node.hex(), **bounds))
    assert SourceOptions.parse(options.to_options()) == options
    assert options.received_us[1] - options.received_us[0] == 19 * 3_600_000_000 - 1
