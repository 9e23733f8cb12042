"""The tables of a collector: messages on their way into the vault, and the segment that is being written.

What a transaction lands is written at its end, all together, or as soon as something asks.
"""

from __future__ import annotations

from covey.adapters.sqlite.database import Database
from covey.adapters.sqlite.rows import digest
from covey.core.group.manifest import GroupManifest
from covey.core.history.operation import Operation, operation_id
from covey.core.ids import DeviceKey, GroupId, Incarnation, LinkSeq, Place
from covey.core.link.rates import TokenBucket
from covey.core.vault.landing import LandedMessage, LandingPlan
from covey.core.wire.message import Message
from covey.core.wire.sequences import Range
from covey.limits.rate import RATED_AUTHORS
from covey.limits.storage import (
    LANDED_SPANS_KEPT,
    LANDING_BYTES,
    LANDING_SHARE_BYTES,
    SCARCE_BYTES,
    SCARCE_BYTES_PER_SECOND,
    SMALLEST_MESSAGE_BYTES,
)

_INSERT = (
    "INSERT INTO landing (author, incarnation, link_seq, received_at, size, message, recipient, place, digest) "
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_NO_INCARNATION = Incarnation(bytes(8))


class Landing:
    """Received messages for the vault, in order of arrival, bounded in bytes.

    1. Once it is half full, an author may add only what fits its guaranteed share, or one message: so while the vault
       refuses writes, no author excludes another.
    2. While `scarce` (the vault's disk is nearly full), each author's rate is limited. The rest stays with its sender,
       and the remaining room is for all.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.scarce = False
        """Whether the vault has little room left (rule 2)."""
        self._allowances: dict[DeviceKey, TokenBucket] = {}
        """What authors may still land while it has."""
        self.held_back: dict[DeviceKey, int] = {}
        """Whose messages exceeded its share or allowance, and when last, by the wall clock."""
        self._unwritten: list[tuple[object, ...]] = []
        self._of_link: dict[tuple[DeviceKey, Incarnation], set[LinkSeq]] = {}
        """Of what is not written yet, the link sequences of each link."""
        self._bytes: int | None = None
        """How much waits, once the open transaction has asked."""
        self._waiting: set[tuple[DeviceKey, Incarnation]] | None = None
        """The links of which something may wait in the table, as far as that is known."""
        database.remember(self._forget, self._flush)
        database.remember_longer(self._forget_waiting)

    def _forget(self) -> None:
        self._unwritten.clear()
        self._of_link.clear()
        self._bytes = None

    def _forget_waiting(self) -> None:
        self._waiting = None

    def _flush(self) -> None:
        if self._unwritten:
            self._database.run_each(_INSERT, self._unwritten)
            if self._waiting is not None:
                self._waiting.update(self._of_link)
            self._database.run("UPDATE device SET landing_bytes = ?", (self._bytes,))
            self._unwritten.clear()
            self._of_link.clear()

    def land(self, message: Message, now_us: int) -> bool:
        return self._land(message.author, message.incarnation, message.raw, message.link_seq, now_us)

    def land_queued(self, recipient: DeviceKey, place: Place, message: Message, now_us: int) -> bool:
        """Keep a copy of what waits for a recipient, for this device's own node; False as for `land`."""
        self._flush()
        if self._database.first("SELECT 1 FROM landing WHERE recipient = ? AND place = ?", (recipient, place)):
            return True
        return self._land(message.author, message.incarnation, message.raw, LinkSeq(0), now_us, recipient, place)

    def land_order(self, operation: Operation, received_at_us: int, arrival: int) -> bool:
        """Keep an operation, and that its group's orders have been kept up to it; False as for `land`."""
        log = operation.log
        if not self._land(log.author, log.incarnation, operation.raw, LinkSeq(0), received_at_us):
            return False
        self._database.run("INSERT OR REPLACE INTO landed_orders VALUES (?, ?)", (operation.group_id, arrival))
        return True

    def land_manifest(self, manifest: GroupManifest, record: bytes, landed_at_us: int) -> bool:
        """Keep a manifest's record, unless it is the last one of its group that was kept; False as for `land`."""
        return self._land_once((manifest.group_id, 0, manifest.hash), manifest.issuer, record, landed_at_us)

    def land_profile(self, group_id: GroupId, profile: bytes, author: DeviceKey, landed_at_us: int) -> bool:
        """Keep a profile, an operation, in the same way."""
        return self._land_once((group_id, 1, operation_id(profile)), author, profile, landed_at_us)

    def _land_once(self, what: tuple[GroupId, int, bytes], author: DeviceKey, raw: bytes, now_us: int) -> bool:
        query = "SELECT 1 FROM landed_membership WHERE (group_id, kind, hash) = (?, ?, ?)"
        if self._database.first(query, what):
            return True
        if not self._land(author, _NO_INCARNATION, raw, LinkSeq(0), now_us):
            return False
        self._database.run("INSERT OR REPLACE INTO landed_membership VALUES (?, ?, ?)", what)
        return True

    def orders_upto(self, group_id: GroupId) -> int:
        """Return the arrival of the last order of a group that was kept, 0 where none was."""
        row = self._database.first("SELECT arrival FROM landed_orders WHERE group_id = ?", (group_id,))
        return row[0] if row else 0

    def _land(
        self,
        author: DeviceKey,
        incarnation: Incarnation,
        raw: bytes,
        link_seq: LinkSeq,
        now_us: int,
        recipient: DeviceKey | None = None,
        place: Place | None = None,
    ) -> bool:
        waiting = self.size() + len(raw)
        if self._database.lean or waiting > LANDING_BYTES:
            return False
        crowded = waiting > LANDING_BYTES // 2 and not self._is_within_share(author, len(raw))
        if crowded or (self.scarce and not self._is_allowed(author, len(raw), now_us)):
            self._hold_back(author, now_us)
            return False
        link = author, incarnation
        self._bytes = waiting
        self._of_link.setdefault(link, set()).add(link_seq)
        self._unwritten.append(
            (*link, link_seq, now_us, len(raw), raw, recipient, place, digest(*link, link_seq or place, raw))
        )
        if not self._database.within:
            self._flush()
            self._bytes = None
        return True

    def _hold_back(self, author: DeviceKey, now_us: int) -> None:
        self.held_back.pop(author, None)
        self.held_back[author] = now_us
        if len(self.held_back) > RATED_AUTHORS:
            del self.held_back[next(iter(self.held_back))]

    def _is_within_share(self, author: DeviceKey, more: int) -> bool:
        """Return whether an author may add to a landing that is half full (rule 1)."""
        self._flush()
        held = self._database.one(
            "SELECT coalesce(sum(size), 0) FROM (SELECT size FROM landing WHERE author = ? LIMIT ?)",
            *(author, LANDING_SHARE_BYTES // SMALLEST_MESSAGE_BYTES),
        )
        return held == 0 or held + more <= LANDING_SHARE_BYTES

    def _is_allowed(self, author: DeviceKey, more: int, now_us: int) -> bool:
        """Spend an author's allowance on a nearly full disk (rule 2)."""
        bucket = self._allowances.pop(author, None) or TokenBucket(SCARCE_BYTES_PER_SECOND, SCARCE_BYTES)
        self._allowances[author] = bucket  # the one that was heard last
        if len(self._allowances) > RATED_AUTHORS:
            del self._allowances[next(iter(self._allowances))]
        if bucket.wait_us(now_us):
            return False
        bucket.spend(more, now_us)
        return True

    def unlanded(self, author: DeviceKey, incarnation: Incarnation) -> set[LinkSeq]:
        link = author, incarnation
        if self._waiting is None or not self._database.holds():
            links = self._database.run("SELECT DISTINCT author, incarnation FROM landing WHERE link_seq > 0")
            self._waiting = {(DeviceKey(row[0]), Incarnation(row[1])) for row in links}
        query = "SELECT link_seq FROM landing WHERE author = ? AND incarnation = ? AND link_seq > 0"
        written = {row[0] for row in self._database.run(query, link)} if link in self._waiting else set[LinkSeq]()
        return written | self._of_link.get(link, set()) - {LinkSeq(0)}

    def of_author(self, author: DeviceKey) -> tuple[int, int, int | None]:
        """Return how many messages of an author wait for the vault, their bytes, and when the oldest came."""
        self._flush()
        query = "SELECT count(*), coalesce(sum(size), 0), min(received_at) FROM landing WHERE author = ?"
        row = self._database.first(query, (author,))
        return row[0], row[1], row[2]

    def came_until(self, author: DeviceKey | None, until_us: int) -> int:
        """Return how many messages wait for the vault that came until a moment: of an author, or of all."""
        self._flush()
        if author is None:
            return int(self._database.one("SELECT count(*) FROM landing WHERE received_at <= ?", until_us))
        query = "SELECT count(*) FROM landing WHERE author = ? AND received_at <= ?"
        row = self._database.first(query, (author, until_us))
        return int(row[0])

    def plan(self) -> LandingPlan | None:
        """Return the segment that is being written."""
        row = self._database.first("SELECT number, incarnation, last_id, created_at, nonce FROM landing_plan")
        return LandingPlan(*row) if row else None

    def begin(self, plan: LandingPlan) -> None:
        """Fix what the next segment holds, before any of it is written."""
        self._database.run(
            "INSERT INTO landing_plan VALUES (1, ?, ?, ?, ?, ?)",
            (plan.number, plan.incarnation, plan.last_id, plan.created_at_us, plan.nonce),
        )

    def size(self) -> int:
        """Return how much waits for the vault."""
        if self._bytes is not None:
            return self._bytes
        waiting = self._database.one("SELECT landing_bytes FROM device")
        if self._database.within:
            self._bytes = waiting
        return waiting

    def waiting(self, maximum_bytes: int, maximum_records: int) -> tuple[int, int, int] | None:
        """Return (last id, bytes, newest arrival) of what fits the next segment, or None where nothing waits."""
        self._flush()
        last = total = newest = 0
        rows = self._database.run("SELECT id, size, received_at FROM landing ORDER BY id LIMIT ?", (maximum_records,))
        for identifier, size, received_at in rows:
            if total and total + size > maximum_bytes:
                break
            total += size
            last, newest = identifier, max(newest, received_at)
        return (last, total, newest) if rows else None

    def until(self, last_id: int) -> list[LandedMessage]:
        """Return the messages of a plan, in order of arrival."""
        self._flush()
        return [
            LandedMessage(*row)
            for row in self._database.run(
                "SELECT author, incarnation, link_seq, received_at, message, recipient, place FROM landing "
                "WHERE id <= ? ORDER BY id",
                (last_id,),
            )
        ]

    def manifest_floor(self) -> int:
        """Return the highest `manifest_seq` that this device has published."""
        return self._database.one("SELECT manifest_floor FROM device")

    def finish(self, plan: LandingPlan, manifest_seq: int) -> None:
        """Forget a plan and its messages: they are in the vault, listed by that manifest."""
        self._flush()
        self._bytes = self._waiting = None
        self._note_spans(plan)
        size = self._database.one("SELECT coalesce(sum(size), 0) FROM landing WHERE id <= ?", plan.last_id)
        self._database.run("DELETE FROM landing WHERE id <= ?", (plan.last_id,))
        self._database.run("UPDATE device SET landing_bytes = landing_bytes - ?", (size,))
        self.note_manifest(manifest_seq)
        self._database.run("DELETE FROM landing_plan WHERE number = ?", (plan.number,))

    def note_manifest(self, manifest_seq: int) -> None:
        """Remember that a vault manifest was published."""
        self._database.run("UPDATE device SET manifest_floor = max(manifest_floor, ?)", (manifest_seq,))

    def keep_manifest(self, sealed: bytes) -> None:
        """Keep a copy of a vault manifest that is whole in the vault."""
        self._database.run("INSERT OR REPLACE INTO kept_manifest VALUES (1, ?)", (sealed,))

    def kept_manifest(self) -> bytes | None:
        """Return the copy that was kept last."""
        rows = [*self._database.run("SELECT sealed FROM kept_manifest")]
        return rows[0][0] if rows else None

    def _note_spans(self, plan: LandingPlan) -> None:
        """Remember over which links the messages of a segment came."""
        rows = self._database.run(
            "SELECT author, incarnation, min(link_seq), max(link_seq) FROM (SELECT author, incarnation, link_seq, "
            "link_seq - row_number() OVER (PARTITION BY author, incarnation ORDER BY link_seq) AS run FROM landing "
            "WHERE id <= ? AND link_seq > 0) GROUP BY author, incarnation, run",
            (plan.last_id,),
        )
        self._database.run_each(
            "INSERT OR REPLACE INTO landed_span VALUES (?, ?, ?, ?, ?)", [(plan.number, *row) for row in rows]
        )
        self._database.run(
            "DELETE FROM landed_span WHERE number <= "
            "(SELECT number FROM landed_span ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (LANDED_SPANS_KEPT,),
        )

    def spans_after(self, number: int) -> tuple[dict[tuple[DeviceKey, Incarnation], list[Range]], bool]:
        """Return over which links the messages of the segments after a number came, and whether that is all of them."""
        oldest = self._database.one("SELECT min(number) FROM landed_span")
        is_full = self._database.one("SELECT count(*) FROM landed_span") > LANDED_SPANS_KEPT // 2
        rows = self._database.run(
            "SELECT author, incarnation, first, last FROM landed_span WHERE number > ? ORDER BY number", (number,)
        )
        found: dict[tuple[DeviceKey, Incarnation], list[Range]] = {}
        for author, incarnation, first, last in rows:
            found.setdefault((DeviceKey(author), Incarnation(incarnation)), []).append((first, last))
        return found, not is_full or (oldest is not None and oldest <= number + 1)

    def spans_of(self, first: int, last: int) -> dict[tuple[DeviceKey, Incarnation], list[Range]]:
        """Return over which links the messages of the segments `first` to `last` came, as far as that is known."""
        rows = self._database.run(
            "SELECT author, incarnation, first, last FROM landed_span WHERE number BETWEEN ? AND ? "
            "ORDER BY author, incarnation, first",
            (first, last),
        )
        found: dict[tuple[DeviceKey, Incarnation], list[Range]] = {}
        for author, incarnation, begin, end in rows:
            found.setdefault((DeviceKey(author), Incarnation(incarnation)), []).append((begin, end))
        return found

    def reland_orders(self) -> None:
        """Let orders, manifests and profiles land once more: a vault has lost some."""
        for table in ("landed_orders", "landed_membership"):
            self._database.run(f"DELETE FROM {table}")  # noqa: S608

    def replan(self) -> None:
        """Drop the plan and keep its messages; orders, manifests and profiles land once more."""
        self._database.run("DELETE FROM landing_plan")
        self.reland_orders()

    def forget_spans_after(self, number: int) -> None:
        """Forget over which links the messages of the segments after a number came: others have taken their places."""
        self._database.run("DELETE FROM landed_span WHERE number > ?", (number,))
