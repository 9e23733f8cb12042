"""Segment bytes to verified Arrow rows. Whatever the bytes are, the answer is rows; what fails is a quarantine row.

1. A segment that does not open, or is not the one that the signed manifest lists, gives one quarantine row.
2. A message that does not parse or verify, or that a collector should not have landed, gives one quarantine row.
3. The same bytes give the same rows in the same order, so that Spark may read a segment again at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from agent.core.ids import printable
from agent.core.message import Loss, Message, MessageType, read_message
from agent.core.telemetry_reading import KnownLayouts, read_batch
from agent.core.vault import SegmentEntry, SegmentRecord, open_segment
from agent.core.vault_keys import VaultKey
from agent.errors import MalformedError, RemoteError
from spark_ingest.decode import batch_values, column_integers
from spark_ingest.honest_time import honest_times
from spark_ingest.schema import MESSAGE_SCHEMA, TIMESTAMP, RowKind

READINGS_PER_BATCH = 200_000
"""An Arrow batch closes at this many readings: about 6 MB, whatever a segment inflates to."""

_SAMPLE = 16


class Verify(StrEnum):
    """Whose Ed25519 signatures are checked; all of them were checked by the collector before landing."""

    ALL = "all"
    SAMPLE = "sample"
    """The first message of a segment and every sixteenth after it."""
    NONE = "none"

    def wants(self, record: int) -> bool:
        """Say whether the message at this place of a segment is to be verified."""
        return self is Verify.ALL or (self is Verify.SAMPLE and record % _SAMPLE == 0)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows come from: a node's segment, and the collector that signed for it (hex)."""

    node: str
    collector: str | None
    segment: int | None


def segment_rows(
    key: VaultKey, origin: Origin, entry: SegmentEntry, content: bytes, verify: Verify
) -> Iterator[pa.RecordBatch]:
    """Open a segment and yield its rows, in Arrow batches of bounded size."""
    try:
        records = open_segment(key, bytes.fromhex(origin.node), entry, content)
    except RemoteError as error:
        yield quarantine_rows(origin, error.code, str(error))
        return
    rows, known = Rows(), KnownLayouts()
    for number, record in enumerate(records):
        _add_record(rows, known, origin, number, record, verify)
        if rows.readings >= READINGS_PER_BATCH:
            yield rows.close()
    if rows.count:
        yield rows.close()


def quarantine_rows(origin: Origin, reason: str, detail: str) -> pa.RecordBatch:
    """Return one row that tells of something damaged as a whole."""
    rows = Rows()
    rows.add(_common(RowKind.QUARANTINE, origin) | {"reason": reason, "detail": printable(detail)})
    return rows.close()


def _add_record(
    rows: Rows, known: KnownLayouts, origin: Origin, number: int, record: SegmentRecord, verify: Verify
) -> None:
    """Add the one row of a message. A row is added last, when nothing can fail any more."""
    common = _common(RowKind.QUARANTINE, origin) | {"record": number, "received_at": record.received_at_us}
    try:
        message = read_message(record.message, verify=verify.wants(number))
        common |= {
            "author": message.author.hex(),
            "incarnation": message.incarnation.hex(),
            "seq": message.seq,
            "link_seq": message.link_seq,
        }
        if message.type is MessageType.TELEMETRY:
            _add_telemetry(rows, known, common, message, record.received_at_us)
        elif message.type is MessageType.LOSS:
            loss = Loss.from_wire(message.body)
            told: dict[str, object] = {"first": loss.first, "last": loss.last, "reason": loss.reason.name.lower()}
            if loss.incarnation is not None:
                told["incarnation"] = loss.incarnation.hex()
            rows.add(common | told | {"kind": RowKind.LOSS})
        else:
            raise MalformedError(f"a {message.type.name} message has no place in a vault")
    except RemoteError as error:
        rows.add(common | {"reason": error.code, "detail": printable(str(error))})


def _add_telemetry(
    rows: Rows, known: KnownLayouts, common: dict[str, object], message: Message, received_at_us: int
) -> None:
    batch = read_batch(message.body, known)
    values = batch_values(batch)
    times, quality = honest_times(batch.clock, column_integers(batch.times), received_at_us)
    rows.add(
        common
        | {
            "kind": RowKind.TELEMETRY,
            "boot": batch.clock.boot_id.hex(),
            "time_quality": quality,
            "booleans_from": values.booleans[0],
            "booleans_until": values.booleans[1],
        },
        {
            "names": [entry.name for entry in batch.series],
            "units": [entry.unit for entry in batch.series],
            "series": values.series,
            "times": times,
            "values": values.numbers,
            "texts": values.texts,
            "data": values.data,
        },
    )


def _common(kind: RowKind, origin: Origin) -> dict[str, object]:
    return {
        "kind": kind,
        "collector": origin.collector,
        "node": origin.node,
        "segment": origin.segment,
        "booleans_from": 0,
        "booleans_until": 0,
    }


class Rows:
    """Rows on their way into an Arrow batch."""

    def __init__(self) -> None:
        self._scalars: list[dict[str, object]] = []
        self._lists: list[dict[str, Sized]] = []
        self.readings = 0

    @property
    def count(self) -> int:
        """How many rows stand open."""
        return len(self._scalars)

    def add(self, scalars: dict[str, object], lists: dict[str, Sized] | None = None) -> None:
        """Add one message's row; lists that are not given are empty."""
        self._scalars.append(scalars)
        self._lists.append(lists or {})
        self.readings += len(lists["times"]) if lists else 0

    def close(self) -> pa.RecordBatch:
        """Return the rows as an Arrow batch of `MESSAGE_SCHEMA` and start anew."""
        columns = []
        for field in MESSAGE_SCHEMA:
            if pa.types.is_list(field.type):
                columns.append(_list_column(field.type, [row.get(field.name, ()) for row in self._lists]))
            else:
                columns.append(pa.array([row.get(field.name) for row in self._scalars], field.type))
        self._scalars, self._lists, self.readings = [], [], 0
        return pa.RecordBatch.from_arrays(columns, schema=MESSAGE_SCHEMA)


def _list_column(kind: pa.ListType, parts: list[Any]) -> pa.ListArray:
    """Join one list for each row: numpy arrays are copied once, whole."""
    offsets = np.zeros(len(parts) + 1, np.int32)
    np.cumsum([len(part) for part in parts], out=offsets[1:])
    if pa.types.is_string(kind.value_type) or pa.types.is_binary(kind.value_type):
        elements = pa.array(list(chain.from_iterable(parts)), kind.value_type)
    else:
        arrays = [part for part in parts if len(part) > 0] or [np.empty(0, np.int64)]
        elements = pa.array(np.concatenate(arrays))
        elements = elements.view(TIMESTAMP) if kind.value_type == TIMESTAMP else elements.cast(kind.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets), elements, type=kind)
