"""An opened segment to verified Arrow rows. Whatever its messages are, the answer is rows.

1. A message that does not parse or verify, or that a collector should not have landed, gives one quarantine row.
2. The same bytes give the same rows in the same order, so that Spark may read a segment again at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from covey.core.history.operation import read_operation
from covey.core.ids import printable
from covey.core.telemetry.decoding import KnownLayouts, read_telemetry
from covey.core.telemetry.summaries import read_summary
from covey.core.vault.documents import SegmentRecord
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.segments import OpenedSegment
from covey.core.wire.message import Loss, Message, MessageType, read_message
from covey.errors import MalformedError, RemoteError
from covey.limits.message import MAXIMUM_COUNTER
from covey_ingest.task.memberships import is_profile, member_rows, profile_row
from covey_ingest.task.message_rows import CALENDAR_ENDS_US, Rows, Scalars, failure, group_of, origin_of
from covey_ingest.task.orders import ordered, reported_rows
from covey_ingest.task.schema import MESSAGE_SCHEMA, RowKind
from covey_ingest.task.summaries import summary_rows, thinned_reason
from covey_ingest.vault.pruning import EVERYTHING, Selection

ERASED = "erased"
"""The reason of a loss that no device has admitted: people had it erased from the vault."""

_REPORTS = (MessageType.ORDER_RESULT, MessageType.SETTING_REPORT)

_NOTHING: Scalars = {field.name: None for field in MESSAGE_SCHEMA if not pa.types.is_list(field.type)}


class Verify(StrEnum):
    """Whose Ed25519 signatures are checked; all of them were checked by the collector before landing."""

    ALL = "all"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where rows come from: a node's segment, the collector that signed for it, and the vault (hex)."""

    node: str
    collector: str | None
    segment: int | None
    vault: str | None = None


def rows_from(origin: Origin, wanted: Selection = EVERYTHING) -> Rows:
    """Return rows to fill: what they do not say of themselves is the origin's."""
    return Rows(wanted, _common(origin))


def record_rows(
    rows: Rows,
    known: KnownLayouts,
    records: Sequence[SegmentRecord],
    verify: Verify,
    span: tuple[int, int] = (0, MAXIMUM_COUNTER),
    wanted: Selection = EVERYTHING,
) -> Iterator[pa.RecordBatch]:
    """Add the rows of an opened segment's positions in `span`; yield Arrow batches of bounded size that became full.

    A row says where its message was landed, so that merging changes no row.
    """
    for record in records:
        if not span[0] <= record.number <= span[1] or not wanted.takes(record):
            continue
        _add_record(rows, known, record, verify)
        if rows.full:
            yield rows.close()


def erased_rows(
    origin: Origin, opened: OpenedSegment, segment: int, wanted: Selection = EVERYTHING
) -> Iterator[pa.RecordBatch]:
    """Yield what was erased from a segment as losses of numbers: else nobody could tell them from what never came."""
    if not wanted.takes_moment(opened.erased_at_us):
        return
    said = {"segment": segment, "kind": RowKind.LOSS.value, "reason": ERASED, "received_at": opened.erased_at_us}
    rows = Rows(wanted, _common(origin) | said)
    for erased in opened.erased:
        whose = {"author": erased.author.hex(), "incarnation": erased.incarnation.hex()}
        for first, last in erased.numbers:
            rows.add(whose | {"first_number": first, "last_number": last})
            if rows.full:
                yield rows.close()
    yield from rows.rest()


def quarantine_rows(
    wanted: Selection, origin: Origin, reason: str, detail: str, span: tuple[int, int] | None = None
) -> pa.RecordBatch:
    """Return one row that tells of something damaged as a whole, and of the positions that it holds."""
    return _whole(wanted, origin, RowKind.QUARANTINE, reason, detail, span)


def repaired_rows(wanted: Selection, origin: Origin, span: tuple[int, int]) -> pa.RecordBatch:
    """Return one row that says: these positions were passed over, and have been read now."""
    return _whole(wanted, origin, RowKind.REPAIRED, RowKind.REPAIRED.value, "skipped segments have been read", span)


def _whole(
    wanted: Selection, origin: Origin, kind: RowKind, reason: str, detail: str, span: tuple[int, int] | None
) -> pa.RecordBatch:
    rows = Rows(wanted, _common(origin))
    first, last = span or (None, None)
    rows.add({"kind": kind.value, "reason": reason, "detail": printable(detail), "first": first, "last": last})
    return rows.close()


def _add_record(rows: Rows, known: KnownLayouts, record: SegmentRecord, verify: Verify) -> None:
    """Add the rows of a message, added last, when nothing but the numbers in its columns can fail any more."""
    message: Message | None = None
    try:
        if record.received_at_us >= CALENDAR_ENDS_US:
            raise MalformedError("the collector's clock is after the year 9999")
        if record_kind(record.message) is not RecordKind.MESSAGE:
            for row in list(_beside_messages(record, verify)):
                rows.add(origin_of(record, None) | row)
            return
        message = read_message(record.message, verify=verify is Verify.ALL)
        if message.type is MessageType.TELEMETRY:
            number, batch = read_telemetry(message.body, known)
            rows.add_telemetry(record, message, number, batch)
        else:
            _add_rarer(rows, origin_of(record, message), message, record.received_at_us)
    except RemoteError as error:
        rows.add(origin_of(record, message) | failure(error))


def _add_rarer(rows: Rows, common: Scalars, message: Message, received_at_us: int) -> None:
    """Add the rows of a message that is no telemetry."""
    if message.type is MessageType.SUMMARY:
        _add_summary(rows, common | {"group": group_of(message)}, message, received_at_us)
    elif message.type is MessageType.LOSS:
        _add_losses(rows, common, Loss.from_wire(message.body))
    elif message.type in _REPORTS:
        row = common | {"group": message.group_id.hex()}
        for author, is_setting, reported in list(reported_rows(message)):
            kind = RowKind.SETTING if is_setting else RowKind.RESULT
            whose = {"author": author, "kind": kind.value, "reported": reported}
            rows.add(row | whose, len(reported.get("output", b"")))
    else:
        raise MalformedError(f"a vault cannot contain {message.type.name} messages")


def _beside_messages(record: SegmentRecord, verify: Verify) -> Iterator[Scalars]:
    """Yield additional rows for a manifest, a profile or an order."""
    verified, kind = verify is Verify.ALL, {"kind": RowKind.MEMBERSHIP.value}
    if record_kind(record.message) is RecordKind.MANIFEST:
        for group, author, membership in member_rows(record.message, verify=verified):
            yield kind | {"group": group, "author": author, "membership": membership}
        return
    operation = read_operation(record.message, verify=verified)
    whose = {"group": operation.group_id.hex()}
    if is_profile(operation):
        yield kind | whose | {"membership": profile_row(operation)}
        return
    author, incarnation = operation.author.hex(), operation.log.incarnation.hex()
    order = {"kind": RowKind.ORDER.value, "author": author, "incarnation": incarnation}
    yield order | whose | {"ordered": ordered(operation)}


def _add_summary(rows: Rows, common: Scalars, message: Message, received_at_us: int) -> None:
    """Add a row for each range of numbers, then one for each window."""
    numbers, summary = read_summary(message.body)
    windows = list(summary_rows(summary, received_at_us))
    reason = {"kind": RowKind.LOSS.value, "reason": thinned_reason(summary)}
    for first, last in numbers:
        rows.add(common | reason | {"first_number": first, "last_number": last})
    for window in windows:
        rows.add(common | {"kind": RowKind.SUMMARY.value} | window)


def _add_losses(rows: Rows, common: Scalars, loss: Loss) -> None:
    """Add a row for each range of link sequences, then one for each range of telemetry numbers."""
    row = common | {"kind": RowKind.LOSS.value, "reason": loss.reason.name.lower()}
    if loss.incarnation is not None:
        row["incarnation"] = loss.incarnation.hex()
    for first, last in loss.places:
        rows.add(row | {"first": first, "last": last})
    for first, last in loss.numbers:
        rows.add(row | {"first_number": first, "last_number": last})


def _common(origin: Origin) -> Scalars:
    return _NOTHING | {
        "kind": RowKind.QUARANTINE.value,
        "vault": origin.vault,
        "collector": origin.collector,
        "node": origin.node,
        "segment": origin.segment,
        "booleans_from": 0,
        "booleans_until": 0,
    }
