"""The table of messages that wait for their recipients' acknowledgements.

A place in a recipient's queue is counted on through all incarnations (`incarnations.py`); less the `base` of its
incarnation it is the number on the wire, `link_seq`.
A row's key joins recipient and place in one number, so that a queue is one range of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext

from covey.adapters.sqlite.counters import Counters
from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.file.high_water import HighWater
from covey.adapters.sqlite.link.losses import Losses
from covey.adapters.sqlite.link.outbox_growth import BYTES_OF_CLASS, ERASED_CLASSES, OutboxGrowth
from covey.adapters.sqlite.link.quarantine import Quarantine
from covey.adapters.sqlite.rows import (
    LAST_PLACE,
    OLDEST,
    PLACE_BITS,
    check_digest,
    digest,
    extend,
    read_ranges,
    written_ranges,
)
from covey.core.ids import BatchNumber, DeviceKey, Incarnation, LinkSeq, Place
from covey.core.link.incarnations import Gone, IncarnationSpan
from covey.core.link.queued import NO_BATCHES, Batches, Lane, MessageClass, QueueSummary, TakenBack, Thinnable
from covey.core.wire.message import LossReason, Message, read_message
from covey.core.wire.sequences import Range, SequenceSet
from covey.errors import DiskFullError, OutboxFullError
from covey.limits.group import MAINTENANCE_US
from covey.limits.history import OWN_PAST_US
from covey.limits.link import (
    ACKNOWLEDGED_BYTES_KEPT,
    ACKNOWLEDGED_MESSAGES_KEPT,
    ACKNOWLEDGED_RUNS_KEPT,
    MAXIMUM_LOSS_RANGES,
)
from covey.limits.message import MESSAGE_OVERHEAD_BYTES
from covey.limits.storage import EXPIRED_AT_ONCE, OUTBOX_ALARM_SHARE, OUTBOX_BYTES, OUTBOX_DROP_SHARE

_LOOKED_AT_ONCE = 64
"""Messages in memory while a queue is looked through."""

_OF_CLASSES = "coalesce(sum(size) FILTER (WHERE class = {}), 0)"
_COUNTED = (
    "SELECT count(*), coalesce(sum(size), 0), "  # noqa: S608 - our names
    + ", ".join(_OF_CLASSES.format(int(kind)) for kind in BYTES_OF_CLASS)
    + " FROM outbox WHERE id BETWEEN ? AND ?"
)
"""Messages, bytes, and the bytes of each class."""

_FORGOTTEN = "UPDATE device SET queued_messages = queued_messages - ?, queued_bytes = queued_bytes - ?, " + ", ".join(  # noqa: S608
    f"{column} = {column} - ?" for column in BYTES_OF_CLASS.values()
)

_MAY_EXCEED = frozenset({MessageClass.CONTROL, MessageClass.HISTORY})
"""What is bounded by itself: one message of a recipient, or few."""

_GROW_OLDER = (
    "UPDATE device SET age = age + ? WHERE EXISTS (SELECT 1 FROM outbox WHERE expires IS NOT NULL) "
    "OR EXISTS (SELECT 1 FROM mailbox_blob) OR EXISTS (SELECT 1 FROM departure) OR EXISTS (SELECT 1 FROM revocation) "
    "OR EXISTS (SELECT 1 FROM own_log WHERE device.age < awaits_since + ?)"
)
"""Of what is measured by this state's age there has to be something."""

_INDEXED = {
    MessageClass.CONTROL: "INDEXED BY outbox_control WHERE id BETWEEN ? AND ? AND class = 0",
    MessageClass.HISTORY: "INDEXED BY outbox_history WHERE id BETWEEN ? AND ? AND class = 3",
    MessageClass.ALARM: "INDEXED BY outbox_alarm WHERE id BETWEEN ? AND ? AND class = 4",
}
"""The messages of a queue that an index finds behind any number of others. SQLite uses it for a literal class only."""

_OF_QUEUE = {
    lane: f"SELECT place, seq, class, message, digest FROM outbox {which} ORDER BY id LIMIT ?"  # noqa: S608 - our words
    for lane, which in {
        None: "WHERE id BETWEEN ? AND ?",
        Lane.CONTROL: _INDEXED[MessageClass.CONTROL],
        Lane.HISTORY: _INDEXED[MessageClass.HISTORY],
        Lane.BULK: "WHERE id BETWEEN ? AND ? AND class IN (1, 2)",
        Lane.ALARM: _INDEXED[MessageClass.ALARM],
        Lane.LIVE: "WHERE id BETWEEN ? AND ? AND class = 2",
    }.items()
}
"""The messages of a queue: all, or those of a lane."""

_NUMBERS = b"%d%d%d"
"""What a row's digest covers besides its message: place, sequence and class."""

_Lost = tuple[Place, BatchNumber | None, str | None]
"""A place whose message is lost, with its batch's number, or a summary's numbers."""


class Outbox:
    """One queue for each recipient, bounded together in bytes."""

    def __init__(
        self,
        database: Database,
        losses: Losses,
        quarantine: Quarantine,
        counters: Counters,
        high_water: HighWater,
        growth: OutboxGrowth,
        maximum_bytes: int = OUTBOX_BYTES,
    ) -> None:
        self._database = database
        self._losses = losses
        self._quarantine = quarantine
        self._counters = counters
        self._high_water = high_water
        self._maximum_bytes = maximum_bytes
        self._peers: dict[DeviceKey, int] = {}
        self._growth = growth

    # -- into it ------------------------------------------------------------------------------------------------------

    def allocate(self, recipient: DeviceKey) -> tuple[int, LinkSeq]:
        """Return the next (seq, link_seq) for a recipient, as they go on the wire."""
        seq, link_seq = self._growth.allocate(recipient)
        self._high_water.queue_grew(recipient)
        return seq, LinkSeq(link_seq)

    def allocate_number(self) -> BatchNumber:
        """Return the next telemetry number of this device."""
        query = "UPDATE device SET next_batch = next_batch + 1 RETURNING next_batch - 1"
        return BatchNumber(self._database.one(query))

    def queue(
        self,
        recipient: DeviceKey,
        seq: int,
        link_seq: LinkSeq,
        kind: MessageClass,
        message: bytes,
        now_us: int,
        batches: Batches = NO_BATCHES,
        *,
        beyond: bool = False,
    ) -> Place:
        """Append a signed message to the outbox; return its place. `batches` are those of telemetry.

        Raises:
            DiskFullError: the disk is full, or was a moment ago; control messages and history are tried.
            OutboxFullError: the outbox has reached its bound; these may exceed it, alarms by a share, and what goes
                `beyond`.
        """
        if self._database.lean and kind not in _MAY_EXCEED and not beyond:
            raise DiskFullError(
                "no room on the disk that holds the state", hint="free some space; queued messages are safe"
            )
        size = len(message)
        peer, base = self._growth.row(recipient)
        total = self._growth.bytes
        reserve = self._maximum_bytes // OUTBOX_ALARM_SHARE if kind is MessageClass.ALARM else 0
        if total + size > self._maximum_bytes + reserve and kind not in _MAY_EXCEED and not beyond:
            raise OutboxFullError(
                f"the outbox holds {total} of {self._maximum_bytes} bytes",
                hint="'covey status' shows the recipients of waiting messages; raise outbox.maximum_bytes if the "
                "disk has room",
            )
        self._growth.add(recipient, kind, size)
        place = base + link_seq
        row = (
            *(peer << PLACE_BITS | place, seq, kind, size, now_us),
            *(batches.number, written_ranges(batches.numbers), batches.window_us, batches.whole),
            *(digest(_NUMBERS % (place, seq, kind), message), message),
        )
        with self._database.leaving_no_copies() if self._growth.holds_of_groups else nullcontext():
            self._database.run(
                "INSERT INTO outbox (id, seq, class, size, queued_at, number, numbers, window, whole, digest, message) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                row,
            )
        return Place(place)

    def limit_lifetime(self, recipient: DeviceKey, place: Place, lifetime_us: int) -> None:
        """Let a message that was just queued expire when this state has aged by its lifetime, and not before.

        The age is counted every `MAINTENANCE_US`; what it may lack now is added.
        """
        key, _ = self._places(recipient, place, place)
        self._database.run(
            "UPDATE outbox SET expires = (SELECT age FROM device) + ? WHERE id = ?",
            (lifetime_us + MAINTENANCE_US, key),
        )

    # -- out of it ----------------------------------------------------------------------------------------------------

    def queued(
        self, recipient: DeviceKey, after: Place, limit: int, size: int, *, lane: Lane | None = None
    ) -> list[tuple[Place, bytes]]:
        rows: list[tuple[Place, bytes]] = []
        for place, seq, kind, message, stored in self._database.each(
            _OF_QUEUE[lane],
            (*self._places(recipient, after + 1), limit),
        ):
            check_digest(stored, _NUMBERS % (place, seq, kind), message)
            rows.append((place, message))
            size -= len(message)
            if size <= 0:
                break
        return rows

    def missing(self, recipient: DeviceKey, places: SequenceSet) -> list[Range]:
        query = "SELECT place FROM outbox WHERE id BETWEEN ? AND ?"
        held = [
            place for span in places.spans() for (place,) in self._database.each(query, self._places(recipient, *span))
        ]
        return places.without(held).spans()

    def make_room(self, recipient: DeviceKey, size: int) -> list[Range]:
        """Where `size` more bytes would not fit, forget the recipient's oldest telemetry; return the places."""
        missing = self.missing_bytes(size)
        if missing <= 0:
            return []
        wanted = max(missing + MESSAGE_OVERHEAD_BYTES, self._maximum_bytes // OUTBOX_DROP_SHARE)  # with a record of it
        lost: list[_Lost] = []
        freed = 0
        for row_size, *row in self._database.each(
            "SELECT size, place, number, numbers FROM outbox WHERE id BETWEEN ? AND ? AND class = ? AND NOT whole "
            "ORDER BY id",
            (*self._places(recipient), MessageClass.TELEMETRY),
        ):
            lost.append((row[0], row[1], row[2]))
            freed += row_size
            if freed >= wanted:
                break
        if freed < missing:
            return []
        places = self._losses.note(recipient, LossReason.OUTBOX_FULL, lost)
        for first, last in places:
            self._drop(recipient, first, last)
        self._counters.count("dropped_outbox_full", len(lost))
        return places

    def missing_bytes(self, size: int) -> int:
        return self._growth.total() + size - self._maximum_bytes

    @property
    def maximum_bytes(self) -> int:
        return self._maximum_bytes

    def thinnable(self, recipient: DeviceKey, window_us: int) -> Iterator[Thinnable]:
        after = 0
        query = (
            "SELECT place, message, expires - (SELECT age FROM device) FROM outbox "
            "WHERE id BETWEEN ? AND ? AND window = ? AND class = 2 AND NOT whole ORDER BY id LIMIT ?"
        )
        while rows := self._database.run(query, (*self._places(recipient, after + 1), window_us, _LOOKED_AT_ONCE)):
            yield from (Thinnable(Place(place), raw, lifetime_us) for place, raw, lifetime_us in rows)
            after = rows[-1][0]

    def grow_older(self, elapsed_us: int) -> None:
        """Add to this state's age: the time that agents have run on it, which no clock can set.

        It stands still while nothing is measured by it: so an agent with nothing to do writes nothing.
        """
        self._database.run(_GROW_OLDER, (elapsed_us, OWN_PAST_US))

    def expire(self) -> list[tuple[DeviceKey, list[Range]]]:
        rows = self._database.run(
            "SELECT signing_public, place, number, numbers FROM outbox JOIN peer ON peer.id = outbox.peer "
            "WHERE expires <= (SELECT age FROM device) ORDER BY expires LIMIT ?",
            (EXPIRED_AT_ONCE,),
        )
        lost: dict[DeviceKey, list[_Lost]] = {}
        for recipient, *row in rows:
            lost.setdefault(recipient, []).append((row[0], row[1], row[2]))
        expired: list[tuple[DeviceKey, list[Range]]] = []
        for recipient, places in lost.items():
            ranges = self._losses.note(recipient, LossReason.EXPIRED, sorted(places, key=lambda row: row[0]))
            for first, last in ranges:
                self._drop(recipient, first, last)
            expired.append((recipient, ranges))
        if rows:
            self._counters.count("expired_messages", len(rows))
        return expired

    def _drop(self, recipient: DeviceKey, first: int = 0, last: int = LAST_PLACE) -> int:
        self._growth.write()
        bounds = self._places(recipient, first, last)
        [(rows, size, *of_classes)] = self._database.run(_COUNTED, bounds)
        if rows:
            by_class = dict(zip(BYTES_OF_CLASS, of_classes, strict=True))
            of_groups = any(by_class.get(each) for each in ERASED_CLASSES)
            moves = not of_groups and self._database.one("SELECT control_bytes + history_bytes FROM device")
            copies = self._database.leaving_no_copies() if moves else nullcontext()
            with self._database.overwriting() if of_groups else copies:
                self._database.run("DELETE FROM outbox WHERE id BETWEEN ? AND ?", bounds)
            self._database.run(
                "UPDATE peer SET queued_messages = queued_messages - ? WHERE signing_public = ?", (rows, recipient)
            )
            self._database.run(_FORGOTTEN, (rows, size, *of_classes))
        return int(rows)

    def withdraw(
        self, recipient: DeviceKey, place: Place, code: str, now_us: int, reason: LossReason | None = None
    ) -> bool:
        found = self.queued(recipient, Place(place - 1), 1, 1)
        if not found or found[0][0] != place:
            return False
        self._quarantine.add(code, found[0][1], now_us, recipient, recipient)
        if reason is not None:
            key, _ = self._places(recipient, place, place)
            number, numbers = self._database.first("SELECT number, numbers FROM outbox WHERE id = ?", (key,))
            self._losses.note(recipient, reason, [(place, number, numbers)])
        self._drop(recipient, place, place)
        return True

    def withdraw_all(self, recipient: DeviceKey, which: Callable[[Message], bool] | None = None) -> list[Range]:
        """Delete what waits for a recipient, control messages and batches apart, or `which`; return its places."""
        lost = self._database.run(
            "SELECT place, number, numbers FROM outbox "
            "WHERE id BETWEEN ? AND ? AND class <> ? AND number IS NULL ORDER BY id",
            (*self._places(recipient), MessageClass.CONTROL),
        )
        if which is not None:
            lost = list(self._looked_through(recipient, which))
        places = self._losses.note(recipient, LossReason.WITHDRAWN, lost) if lost else []
        for first, last in places:
            self._drop(recipient, first, last)
        return places

    def _looked_through(self, recipient: DeviceKey, which: Callable[[Message], bool]) -> Iterator[_Lost]:
        query, after = (
            "SELECT place, number, numbers, message FROM outbox WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
            0,
        )
        while rows := self._database.run(query, (*self._places(recipient, after + 1), _LOOKED_AT_ONCE)):
            for place, number, numbers, raw in rows:
                if which(read_message(raw, verify=False)):
                    yield place, number, numbers
            after = rows[-1][0]

    def forget(self, recipient: DeviceKey, *, but_telemetry: bool = False) -> int:
        self._losses.forget(recipient)
        kept = self._places(recipient)
        self._database.run("DELETE FROM acknowledged_message WHERE id BETWEEN ? AND ?", kept)
        if not but_telemetry:
            return self._drop(recipient)
        ranges: list[Range] = []
        query = "SELECT place FROM outbox WHERE id BETWEEN ? AND ? AND number IS NULL ORDER BY id"
        for (place,) in self._database.run(query, self._places(recipient)):
            extend(ranges, place, place)
        return sum(self._drop(recipient, first, last) for first, last in ranges)

    def remove(self, recipient: DeviceKey, first: Place, last: Place) -> None:
        self._drop(recipient, first, last)

    def take_back(self, recipient: DeviceKey, place: Place) -> TakenBack | None:
        key, _ = self._places(recipient, place, place)
        query = "SELECT message, expires - (SELECT age FROM device), whole, class FROM outbox WHERE id = ?"
        row = self._database.first(query, (key,))
        if row is None:
            return None
        self._drop(recipient, place, place)
        lifetime_us = None if row[1] is None else max(0, row[1])
        return TakenBack(row[0], lifetime_us, bool(row[2]), row[3] == MessageClass.ALARM)

    def _places(self, recipient: DeviceKey, first: int = 0, last: int = LAST_PLACE) -> tuple[int, int]:
        base = self._peer(recipient) << PLACE_BITS
        return base + max(0, first), base + min(last, LAST_PLACE)

    def _peer(self, recipient: DeviceKey) -> int:
        """Return a recipient's number, which stays its own; 0 where nothing was ever queued for it.

        What an open transaction has read may be rolled back, and the number be another recipient's then.
        """
        known = self._peers.get(recipient)
        if known is None:
            row = self._database.first("SELECT id FROM peer WHERE signing_public = ?", (recipient,))
            known = row[0] if row else 0
            if row and not self._database.within:
                self._peers[recipient] = known
        return known

    def free(self, recipient: DeviceKey, received: SequenceSet) -> int:
        freed = 0
        for first, last in ((0, received.upto), *received.ranges):
            self._remember_acknowledged(recipient, first, last)
            freed += self._drop(recipient, first, last)
        if freed:
            self._database.run(
                "UPDATE peer SET acknowledged = acknowledged + ? WHERE signing_public = ?", (freed, recipient)
            )
        return freed

    def _remember_acknowledged(self, recipient: DeviceKey, first: int, last: int) -> None:
        """Note which telemetry leaves its queue as acknowledged."""
        self._growth.write()
        runs: list[tuple[int, int, int, str | None]] = []
        self._keep_acknowledged(recipient, first, last)
        query = "SELECT place, number, numbers FROM outbox WHERE id BETWEEN ? AND ? AND number IS NOT NULL ORDER BY id"
        for place, number, numbers in self._database.run(query, self._places(recipient, first, last)):
            follows = runs and place == runs[-1][1] + 1 and number - place == runs[-1][2] - runs[-1][0]
            if follows and numbers is None and runs[-1][3] is None:
                runs[-1] = (runs[-1][0], place, runs[-1][2], None)
            else:
                runs.append((place, place, number, numbers))
        if not runs:
            return
        peer = self._peer(recipient)
        for begin, end, number, numbers in runs:
            extended = self._database.first(
                "UPDATE acknowledged_run SET last = ? WHERE peer = ? AND last = ? AND number - first = ? "
                "AND numbers IS NULL AND ? IS NULL RETURNING 1",
                (end, peer, begin - 1, number - begin, numbers),
            )
            if extended is None:
                self._database.run(
                    "INSERT OR REPLACE INTO acknowledged_run VALUES (?, ?, ?, ?, ?)",
                    (peer, begin, end, number, numbers),
                )
        self._database.run(
            "DELETE FROM acknowledged_run WHERE peer = ?1 AND first <= "
            "(SELECT first FROM acknowledged_run WHERE peer = ?1 ORDER BY first DESC LIMIT 1 OFFSET ?2)",
            (peer, ACKNOWLEDGED_RUNS_KEPT),
        )

    def _keep_acknowledged(self, recipient: DeviceKey, first: int, last: int) -> None:
        """Keep the newest telemetry that leaves its queue, unless room is short."""
        if self._database.lean or 2 * self._growth.total() > self._maximum_bytes:
            return
        begin, end = self._places(recipient, first, last)
        self._database.run(
            "INSERT OR REPLACE INTO acknowledged_message SELECT id, message FROM outbox "
            "WHERE id BETWEEN ? AND ? AND number IS NOT NULL AND size <= ? ORDER BY id DESC LIMIT ?",
            (begin, end, ACKNOWLEDGED_BYTES_KEPT, ACKNOWLEDGED_MESSAGES_KEPT),
        )
        of_peer = self._places(recipient)
        self._database.run(
            "DELETE FROM acknowledged_message WHERE id BETWEEN ?1 AND (SELECT id FROM acknowledged_message "
            "WHERE id BETWEEN ?1 AND ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)",
            (*of_peer, ACKNOWLEDGED_MESSAGES_KEPT),
        )

    def take_acknowledged(self, recipient: DeviceKey, first: Place, last: Place) -> list[TakenBack]:
        peer, bounds = self._peer(recipient), self._places(recipient, first, last)
        rows = self._database.run(
            "SELECT id, message FROM acknowledged_message WHERE id BETWEEN ? AND ? ORDER BY id", bounds
        )
        for key, _ in rows:
            place = key & LAST_PLACE
            [(begin, end, number)] = self._database.run(
                "DELETE FROM acknowledged_run WHERE peer = ?1 AND first <= ?2 AND last >= ?2 "
                "RETURNING first, last, number",
                (peer, place),
            ) or [(place, place, 0)]
            for piece, upto in ((begin, place - 1), (place + 1, end)):
                if piece <= upto:
                    self._database.run(
                        "INSERT INTO acknowledged_run VALUES (?, ?, ?, ?, NULL)",
                        (peer, piece, upto, number + piece - begin),
                    )
        self._database.run("DELETE FROM acknowledged_message WHERE id BETWEEN ? AND ?", bounds)
        return [TakenBack(message, None) for _, message in rows]

    def lacking(self, recipient: DeviceKey, incarnation: Incarnation) -> list[Range]:
        query = "SELECT first, last FROM recipient_hole WHERE recipient = ? AND incarnation = ? ORDER BY first"
        return self._database.run(query, (recipient, incarnation))

    def set_lacking(self, recipient: DeviceKey, incarnation: Incarnation, ranges: list[Range]) -> None:
        which = recipient, incarnation
        self._database.run("DELETE FROM recipient_hole WHERE recipient = ? AND incarnation = ?", which)
        self._database.run_each(
            "INSERT INTO recipient_hole VALUES (?, ?, ?, ?)", [(*which, *each) for each in ranges[:MAXIMUM_LOSS_RANGES]]
        )

    def lost_by_recipient(self, recipient: DeviceKey, first: Place, last: Place) -> int:
        peer = self._peer(recipient)
        rows = self._database.run(
            "SELECT max(first, ?2), min(last, ?3), number + max(first, ?2) - first, numbers "
            "FROM acknowledged_run AS run "
            "WHERE peer = ?1 AND first <= ?3 AND last >= ?2 AND NOT EXISTS (SELECT 1 FROM unreported_loss AS loss "
            "WHERE loss.peer = ?1 AND loss.first <= min(run.last, ?3) AND loss.last >= max(run.first, ?2)) "
            "ORDER BY first",
            (peer, first, last),
        )
        reason = LossReason.RECIPIENT_LOST
        runs = [
            Gone(Place(begin), Place(end), reason, BatchNumber(number), read_ranges(numbers))
            for begin, end, number, numbers in rows
        ]
        self._losses.note_runs(recipient, runs)
        return sum(run.last - run.first + 1 for run in runs)

    def let_go(self, recipient: DeviceKey, span: IncarnationSpan, received: SequenceSet) -> list[Range]:
        query = "SELECT place FROM outbox WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1"
        gone: list[Range] = []
        for first, last in (*received.holes(), (received.highest() + 1, span.last - span.base)):
            held = self._database.first(query, self._places(recipient, span.base + first))
            if first <= last and (held is None or held[0] - span.base > first):
                gone.append((first, last if held is None else min(last, held[0] - span.base - 1)))
        return gone

    # -- what people and machines ask ---------------------------------------------------------------------------------

    def recipients(self) -> list[DeviceKey]:
        self._growth.write()
        return [row[0] for row in self._database.run("SELECT signing_public FROM peer WHERE queued_messages > 0")]

    def queues(self, *, waiting: bool = False) -> list[QueueSummary]:
        """Return what waits for each recipient, and since when; or only recipients with waiting messages."""
        self._growth.write()
        where = "WHERE queued_messages > 0" if waiting else ""
        statement = f"SELECT signing_public, queued_messages, acknowledged, ({OLDEST}) FROM peer {where} ORDER BY id"  # noqa: S608
        return [QueueSummary(*row) for row in self._database.run(statement)]

    def waiting(self, recipient: DeviceKey, limit: int) -> list[tuple[Place, int, int, int]]:
        """Return the oldest (place, class, bytes, queued_at_us) of a recipient."""
        return self._database.run(
            "SELECT place, class, size, queued_at FROM outbox WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?",
            (*self._places(recipient), limit),
        )

    def totals(self) -> tuple[int, int]:
        """Return (messages, bytes) of the outbox."""
        self._growth.write()
        [(messages, size)] = self._database.run("SELECT queued_messages, queued_bytes FROM device")
        return messages, size

    def bytes_by_class(self) -> dict[MessageClass, int]:
        """Return the outbox's bytes of each class."""
        self._growth.write()
        [row] = self._database.run(f"SELECT {', '.join(BYTES_OF_CLASS.values())} FROM device")  # noqa: S608 - our names
        return dict(zip(MessageClass, row, strict=True))

    def waiting_bytes(self, recipient: DeviceKey, kind: MessageClass) -> int:
        query = f"SELECT coalesce(sum(size), 0) FROM outbox {_INDEXED[kind]}"  # noqa: S608 - our words
        [(size,)] = self._database.run(query, self._places(recipient))
        return int(size)

    def messages(self, recipient: DeviceKey, kind: MessageClass) -> Iterator[bytes]:
        query = f"SELECT message FROM outbox {_INDEXED[kind]}"  # noqa: S608 - our words
        return (raw for (raw,) in self._database.each(query, self._places(recipient)))

    def is_queued_between(self, recipient: DeviceKey, kind: MessageClass, first_us: int, last_us: int) -> bool:
        query = f"SELECT 1 FROM outbox {_INDEXED[kind]} AND queued_at BETWEEN ? AND ? LIMIT 1"  # noqa: S608 - our words
        return bool(self._database.run(query, (*self._places(recipient), first_us, last_us)))

    def control_messages(self, recipient: DeviceKey) -> list[tuple[Place, bytes]]:
        query = f"SELECT place, message FROM outbox {_INDEXED[MessageClass.CONTROL]} ORDER BY id"  # noqa: S608 - our words
        return self._database.run(query, self._places(recipient))

    def holds_submissions(self, recipient: DeviceKey) -> bool:
        query = "SELECT 1 FROM outbox WHERE id BETWEEN ? AND ? AND class IN (1, 2, 4) LIMIT 1"
        return bool(self._database.run(query, self._places(recipient)))

    def recipients_of_batches(self) -> set[DeviceKey]:
        self._growth.write()
        query = "SELECT signing_public FROM peer WHERE queued_messages > 0 AND holds_batches"
        return {row[0] for row in self._database.run(query)}

    def holds_no_batches(self, recipient: DeviceKey) -> None:
        self._growth.write()
        self._database.run("UPDATE peer SET holds_batches = 0 WHERE signing_public = ?", (recipient,))
