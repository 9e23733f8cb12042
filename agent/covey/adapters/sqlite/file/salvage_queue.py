"""The outbox of a damaged database: each message proves by its own signature whose it is and where it belongs."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from covey.adapters.sqlite.link.outbox_growth import BYTES_OF_CLASS
from covey.adapters.sqlite.rows import LAST_PLACE, PLACE_BITS, check_digest, digest, written_ranges
from covey.core.crypto import Identity
from covey.core.ids import INCARNATION_BYTES, KEY_BYTES, DeviceKey, Incarnation, Place
from covey.core.link.incarnations import IncarnationSpan
from covey.core.link.queued import MessageClass
from covey.core.link.thinning import batches_of
from covey.core.wire.message import LossReason, read_message
from covey.core.wire.sequences import Range, read_range
from covey.errors import MalformedError

_FIRST = Place(1)


@dataclass(slots=True)
class _Recipient:
    """What is known of one recipient's queue."""

    id: int
    signing_public: DeviceKey
    next_place: Place = _FIRST
    acknowledged: int = 0
    queued: int | None = None
    present: IncarnationSpan | None = None
    held: int = 0
    spans: dict[Incarnation, IncarnationSpan] = field(default_factory=dict)


class Queue:
    """Collects peers and messages, and writes them into the new database."""

    def __init__(self, target: sqlite3.Connection, identity: Identity) -> None:
        self._target = target
        self._identity = identity
        self._recipients: dict[DeviceKey, _Recipient] = {}
        self._old_ids: dict[int, _Recipient] = {}
        self._stored_spans: dict[int, list[IncarnationSpan]] = {}
        self._incarnation: Incarnation | None = None
        self._queued_messages: int | None = None
        self._highest_seq = 0
        self._next_batch = 1
        self.messages = 0
        self.missing: int | None = None

    def take_totals(self, row: dict[str, Any]) -> bool:
        """Take what the device row says of the whole."""
        if len(row["incarnation"]) == INCARNATION_BYTES:
            self._incarnation, self._queued_messages = row["incarnation"], row["queued_messages"]
            self._next_batch = max(1, row["next_batch"])
        return True

    def take_peer(self, row: dict[str, Any]) -> bool:
        """Take a recipient's row."""
        key = DeviceKey(bytes(row["signing_public"]))
        if len(key) != KEY_BYTES or row["next_place"] < 1 or row["id"] in self._old_ids:
            raise MalformedError("not a recipient's row")
        recipient = self._of(key)
        recipient.next_place = row["next_place"]
        recipient.acknowledged = max(0, row["acknowledged"])
        recipient.queued = row["queued_messages"]
        if self._incarnation is not None:
            recipient.present = IncarnationSpan(self._incarnation, row["base"], recipient.next_place - 1)
        self._old_ids[row["id"]] = recipient
        return True

    def take_span(self, row: dict[str, Any]) -> bool:
        """Take the places of an ended incarnation, in which losses may be unreported."""
        span = IncarnationSpan(Incarnation(bytes(row["incarnation"])), row["base"], row["last"])
        self._stored_spans.setdefault(row["peer"], []).append(span)
        return True

    @property
    def highest_peer(self) -> int:
        """The highest number of a recipient's row so far."""
        return max(self._old_ids, default=0) + 64

    def to_seek(self) -> list[tuple[int, int]]:
        """Return (first key, last key) of where messages may be."""
        return [
            (number << PLACE_BITS, number << PLACE_BITS | recipient.next_place)
            for number, recipient in self._old_ids.items()
        ]

    def take_message(self, row: dict[str, Any]) -> bool:
        """Take a message that is ours and what was queued.

        Raises:
            CoveyError: it is not.
        """
        raw, place = bytes(row["message"]), row["place"]
        check_digest(row["digest"], place, row["seq"], row["class"], raw)
        kind = MessageClass(row["class"])
        message = read_message(raw)
        if message.author != self._identity.signing_public or not message.link_seq:
            raise MalformedError("not a message of this device")
        old = self._old_ids.get(row["peer"])
        if old is not None and old.signing_public != message.recipient:
            self._rename(old, message.recipient)
        recipient = self._of(message.recipient)
        base = place - message.link_seq
        known = recipient.spans.get(message.incarnation)
        if base < 0 or (known is not None and known.base != base):
            raise MalformedError("a message at the wrong position")
        last = max(place, known.last if known else 0)
        batches = batches_of(message)
        window_us = None if row["window"] is None else batches.window_us
        last_number = batches.numbers[-1][1] if batches.numbers else batches.number or 0
        self._next_batch = max(self._next_batch, 1 + last_number)
        self._target.execute(
            "INSERT INTO outbox (id, seq, class, size, queued_at, number, numbers, window, whole, expires, digest, "
            "message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                recipient.id << PLACE_BITS | place,
                *(row["seq"], kind, len(raw), max(0, row["queued_at"])),
                *(batches.number, written_ranges(batches.numbers), window_us, int(bool(row["whole"])), row["expires"]),
                digest(place, row["seq"], int(kind), raw),
                raw,
            ),
        )
        recipient.spans[message.incarnation] = IncarnationSpan(message.incarnation, base, last)
        recipient.next_place = max(recipient.next_place, place + 1)
        recipient.held += 1
        self._highest_seq = max(self._highest_seq, row["seq"])
        self.messages += 1
        return True

    def _rename(self, recipient: _Recipient, signing_public: DeviceKey) -> None:
        """Correct a recipient's row; only its messages can prove which device it is.

        Raises:
            MalformedError: other messages, or another row, disagree.
        """
        if recipient.held or signing_public in self._recipients:
            raise MalformedError("a message in another recipient's queue")
        del self._recipients[recipient.signing_public]
        recipient.signing_public = signing_public
        self._recipients[signing_public] = recipient

    def take_gone(self, row: dict[str, Any]) -> bool:
        """Take what was lost before and is still to be reported, of an incarnation that is known.

        Raises:
            MalformedError: it is not.
        """
        old = self._old_ids.get(row["peer"])
        spans = [*self._stored_spans.get(row["peer"], []), *([old.present] if old and old.present else [])]
        span = next((span for span in spans if span.base < row["first"] <= row["last"] <= span.last), None)
        if old is None or span is None:
            raise MalformedError("a loss record without a queue")
        old.spans.setdefault(span.incarnation, span)
        self._target.execute(
            "INSERT OR IGNORE INTO unreported_loss VALUES (?, ?, ?, ?, ?, ?)",
            (
                *(old.id, row["first"], row["last"], LossReason(row["reason"]), row["number"]),
                written_ranges(_ranges(row["numbers"])),
            ),
        )
        return True

    def _of(self, signing_public: DeviceKey) -> _Recipient:
        recipient = self._recipients.get(signing_public)
        if recipient is None:
            recipient = _Recipient(max((each.id for each in self._recipients.values()), default=0) + 1, signing_public)
            self._recipients[signing_public] = recipient
        return recipient

    def finish(self, peers_whole: bool) -> None:
        """Write recipients, their incarnations, totals, and what is known to be lost."""
        execute = self._target.execute
        for each in self._recipients.values():
            execute(
                "INSERT INTO peer (id, signing_public, next_place, queued_messages, acknowledged, base) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                (each.id, each.signing_public, each.next_place, each.held, each.acknowledged, each.next_place - 1),
            )
            for span in each.spans.values():
                last = each.next_place - 1 if span.incarnation == self._incarnation else span.last
                execute(
                    "INSERT INTO incarnation_span VALUES (?, ?, ?, ?)", (each.id, span.incarnation, span.base, last)
                )
        execute(
            "UPDATE device SET next_seq = max(next_seq, ?), next_batch = ?, "
            "queued_messages = (SELECT count(*) FROM outbox), "
            "queued_bytes = (SELECT coalesce(sum(size), 0) FROM outbox)",
            (self._highest_seq + 1, self._next_batch),
        )
        for kind, column in BYTES_OF_CLASS.items():
            total = "SELECT coalesce(sum(size), 0) FROM outbox WHERE class = ?"
            execute(f"UPDATE device SET {column} = ({total})", (kind,))  # noqa: S608 - our names
        known = [each.queued for each in self._recipients.values() if each.queued is not None]
        if peers_whole and self._incarnation is not None and sum(known) == self._queued_messages:
            self.missing = sum(self._note_losses(each, self._incarnation) for each in self._recipients.values())

    def _note_losses(self, recipient: _Recipient, incarnation: Incarnation) -> int:
        """Note the missing messages: the oldest were acknowledged, so these are the newest missing ones."""
        missing = (recipient.queued or 0) - recipient.held
        if missing <= 0 or recipient.present is None:
            return 0
        base, wanted = recipient.present.base, missing
        above, number_above = recipient.next_place, self._next_batch
        held = self._target.execute(
            "SELECT place, CASE WHEN numbers IS NULL THEN number END FROM outbox "
            "WHERE id BETWEEN ? AND ? ORDER BY id DESC",
            (recipient.id << PLACE_BITS, recipient.id << PLACE_BITS | LAST_PLACE),
        )
        for place, number in chain(held, [(0, None)]):
            first = max(place, base, above - 1 - wanted) + 1
            if first < above:
                beside = first - 1 == place and None not in {number, number_above}
                fits = beside and number_above - number == above - place  # its neighbours leave just so many
                self._note_loss(recipient, incarnation, first, above - 1, number + 1 if fits else None)
                wanted -= above - first
            if not wanted or place <= base:
                break
            above, number_above = place, number
        return missing

    def _note_loss(
        self, recipient: _Recipient, incarnation: Incarnation, first: int, last: int, number: int | None
    ) -> None:
        """Note lost places; `number` is the telemetry number of the first, where that is known."""
        assert recipient.present is not None
        self._target.execute(
            "INSERT OR IGNORE INTO unreported_loss VALUES (?, ?, ?, ?, ?, NULL)",
            (recipient.id, first, last, LossReason.DAMAGED, number),
        )
        self._target.execute(
            "INSERT OR IGNORE INTO incarnation_span VALUES (?, ?, ?, ?)",
            (recipient.id, incarnation, recipient.present.base, recipient.next_place - 1),
        )


def _ranges(stored: str | None) -> tuple[Range, ...]:
    """Return ranges of numbers from a damaged file.

    Raises:
        MalformedError: they are none.
    """
    try:
        found = [] if stored is None else json.loads(stored)
        return tuple([read_range(each) for each in found])
    except (TypeError, ValueError) as error:
        raise MalformedError("not ranges of numbers") from error
