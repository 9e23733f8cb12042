"""The receiving side of one link: deduplicate messages and decide when to acknowledge them.

A link is one author and one of its incarnations. Rules (docs/protocol/core.md, "The link"):

    1. A link sequence is accepted once. A second copy is a duplicate and causes another acknowledgement, because the
       first one may be lost.
    2. A blob's link sequence more than 10,000 beyond the contiguous run is refused, and so is any such sequence of a
       board's telemetry that a gateway forwards. Other messages may run further ahead: control messages and history,
       because they may enable this device to accept the rest; telemetry, because it overtakes a backlog. A sequence is
       also refused if it would make more ranges than a window can, so memory is bounded.
    3. An acknowledgement covers only what is durable here. Messages that a role still has to land (a collector's
       telemetry) are left out until `landed` is called.
    4. Acknowledgements are batched: for 200 ms, or 20 messages.
    5. A new process cannot know whether its predecessor's acknowledgements were sent. So on its first connection it
       repeats the acknowledgements of the links that were active last. It does the same when a relay returns after a
       while: senders that had no answer learn at once that this device is back.
    6. An author has a bounded number of incarnations, and none is ever forgotten. Boards are exempt, because each start
       begins one: of too many, all but the last are forgotten.
    7. Numbers that an author declares lost count as received. A resumption only continues existing ones: it answers an
       acknowledgement, whose holes it closes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, Incarnation, LinkSeq
from covey.core.link.after_commit import AfterCommit
from covey.core.now import Now
from covey.core.wire.sequences import Range, SequenceSet
from covey.errors import LimitError
from covey.limits.link import (
    ACKNOWLEDGE_DELAY_US,
    ACKNOWLEDGE_EVERY_MESSAGES,
    ACKNOWLEDGED_AT_START,
    INCARNATIONS,
    MAXIMUM_RECEIVED_RANGES,
    MAXIMUM_SEQUENCE_GAP,
    MAXIMUM_UNSUPPORTED,
    RETRY_US_MAX,
    RETURNED_US,
)

if TYPE_CHECKING:
    from covey.core.records import Records


def ready_in_order(
    entries: Iterable[tuple[int, DeviceKey, int, Incarnation, LinkSeq]],
    complete: Mapping[tuple[DeviceKey, Incarnation], int],
) -> list[int]:
    """Return the ids of an inbox's blobs that may be shown in their senders' orders.

    Entries are (id, author, seq, incarnation, link_seq); `complete` is up to where each link has everything. What one
    author sent goes by `seq`, which counts on through its incarnations; one that waits for what comes before it holds
    up the later ones. Those of different authors go in the order in which they became ready.
    """
    ready: list[tuple[int, int, int]] = []
    latest: dict[DeviceKey, int] = {}
    held: set[DeviceKey] = set()
    for identifier, author, seq, incarnation, link_seq in sorted(entries, key=lambda entry: (entry[1], entry[2])):
        if link_seq > complete[author, incarnation]:
            held.add(author)
        if author not in held:
            latest[author] = max(latest.get(author, 0), identifier)
            ready.append((latest[author], seq, identifier))
    return [identifier for _, _, identifier in sorted(ready)]


class Arrival(Enum):
    """What a link sequence is to its receiver."""

    NEW = "new"
    DUPLICATE = "duplicate"


class ReceiveLink:
    """The receiving side of one link."""

    def __init__(self, received: SequenceSet, unlanded: set[LinkSeq]) -> None:
        self.received = received
        self.unlanded = unlanded
        self.refused: dict[int, bytes] = {}
        """Imprints of rivals that were refused since the last acknowledgement (`imprints.py`)."""
        self.unsupported: set[LinkSeq] = set()
        """Numbers of messages set aside since then, as this build does not know what they need."""
        self._unacknowledged = 0
        self._to_name: set[LinkSeq] = set()
        self._deadline_us: int | None = None

    @property
    def idle(self) -> bool:
        """Say whether nothing here waits, so that the store's record of the link suffices."""
        return self._deadline_us is None and not self.unlanded

    def classify(self, link_seq: LinkSeq, *, overtakes: bool = False) -> Arrival:
        """Say whether a link sequence is new (rules 1 and 2); `overtakes`: however far ahead it is.

        Raises:
            LimitError: too far ahead, or beyond too many holes.
        """
        if link_seq in self.received:
            return Arrival.DUPLICATE
        if not overtakes and link_seq > self.received.upto + MAXIMUM_SEQUENCE_GAP:
            raise LimitError(f"link sequence {link_seq} is far beyond {self.received.upto}")
        if len(self.received.ranges) >= MAXIMUM_RECEIVED_RANGES and not self.received.continues(link_seq):
            raise LimitError(f"link sequence {link_seq} would make more than {MAXIMUM_RECEIVED_RANGES} gaps")
        return Arrival.NEW

    def take(self, link_seq: LinkSeq, *, lands_later: bool = False) -> None:
        """Note that a sequence is taken; `lands_later` keeps it out of acknowledgements until `landed`."""
        self.received = self.received.add(link_seq)
        if lands_later:
            self.unlanded.add(link_seq)

    def without(self, lost: Sequence[Range]) -> SequenceSet:
        """Return what counts as come once a loss record is taken (rule 7).

        Raises:
            LimitError: too many ranges would have to be remembered (rule 2).
        """
        received = self.received.including(lost)
        if len(received.ranges) > max(MAXIMUM_RECEIVED_RANGES, len(self.received.ranges)):
            raise LimitError(f"the loss record would make more than {MAXIMUM_RECEIVED_RANGES} ranges")
        return received

    def resume(self, resumed: Sequence[Range]) -> None:
        """Go on without what a resumption names, as far as it continues what came (rule 7)."""
        self.received = self.received.including([span for span in resumed if self.received.continues(span[0])])

    def landed(self, link_seqs: set[LinkSeq]) -> None:
        """Let acknowledgements cover what a role has landed (rule 3)."""
        self.unlanded -= link_seqs

    def refuse(self, link_seq: LinkSeq, imprint: bytes) -> None:
        """Note a rival of what has come; of too many, the sender hears when it sends them again."""
        if len(self.refused) < ACKNOWLEDGE_EVERY_MESSAGES:
            self.refused[link_seq] = imprint

    def cannot_use(self, link_seq: LinkSeq) -> None:
        """Have the next acknowledgement say that a message is set aside; of too many, it names some."""
        if len(self.unsupported) < MAXIMUM_UNSUPPORTED:
            self.unsupported.add(link_seq)

    def answer_soon(self, now_us: int, *link_seqs: LinkSeq) -> None:
        """Ask for an acknowledgement (rule 4) that names these numbers."""
        self._to_name.update(link_seqs)
        self._unacknowledged += 1
        soonest = now_us if self._unacknowledged >= ACKNOWLEDGE_EVERY_MESSAGES else now_us + ACKNOWLEDGE_DELAY_US
        self._deadline_us = soonest if self._deadline_us is None else min(self._deadline_us, soonest)

    def make_due(self, now_us: int) -> None:
        """Let an acknowledgement that was asked for wait no longer."""
        if self._deadline_us is not None:
            self._deadline_us = now_us

    def next_deadline(self) -> int | None:
        """Return when the acknowledgement is due."""
        return self._deadline_us

    def acknowledgement(self) -> SequenceSet:
        """Return what is durable here. Call `answered` once it has gone."""
        return self.received.without(self.unlanded) if self.unlanded else self.received

    def to_name(self, limit: int) -> list[LinkSeq]:
        """Return the lowest numbers that the next acknowledgement is to name; `answered` forgets all there are."""
        return sorted(self._to_name)[:limit]

    def answered(self) -> None:
        """Note that the acknowledgement has gone, or that nobody is there to have it."""
        self._unacknowledged = 0
        self._deadline_us = None
        self._to_name.clear()
        self.refused.clear()
        self.unsupported.clear()


@dataclass(slots=True)
class StartReport:
    """Whether the links' standing is to be acknowledged again (rule 5)."""

    due: bool = False
    begun: bool = False
    online_at_us: int = 0
    """When a relay was last known to be reached, in monotonic microseconds."""
    offline_us: int = 0
    """How long none was, before the present connection."""


class ReceiveLinks:
    """The receiving sides that wait for something; of the others the store remembers all there is."""

    def __init__(self, records: Records, report: StartReport, after_commit: AfterCommit) -> None:
        self._records = records
        self._links: dict[tuple[DeviceKey, Incarnation], ReceiveLink] = {}
        self._touched: dict[tuple[DeviceKey, Incarnation], ReceiveLink] = {}
        """Those that may have something to say, or to be dropped; the others wait for a role to land something."""
        self._report = report
        self._after_commit = after_commit

    def of(self, author: DeviceKey, incarnation: Incarnation) -> ReceiveLink:
        """Return a link as it stands.

        Raises:
            LimitError: it would be new, and its author has had too many (rule 6).
        """
        key = (author, incarnation)
        link = self._links.get(key)
        if link is None:
            received = self._records.received.of(author, incarnation)
            if received == SequenceSet() and self._records.received.count(author) >= INCARNATIONS:
                raise LimitError(f"this device already knows {INCARNATIONS} incarnations of the author, the maximum")
            link = self._links[key] = ReceiveLink(received, self._records.landing.unlanded(author, incarnation))
            self._touched[key] = link
            return link
        self._touched[key] = link
        received = self._records.received.of(author, incarnation)
        if received != link.received:  # another process has imported something
            link.received = received
            link.unlanded = self._records.landing.unlanded(author, incarnation)
        return link

    def make_room(self, board: DeviceKey, incarnation: Incarnation) -> None:
        """Make room for a board's incarnation (rule 6). What is repeated of one that is forgotten lands again; tables
        know it by its sequence."""
        if self._records.received.count(board) >= INCARNATIONS:
            self._records.received.forget(board, incarnation)

    def connected(self, now: Now) -> None:
        """Note that a relay can be reached: first, or after a while, links are to be acknowledged once more."""
        report = self._report
        report.offline_us = now.monotonic_us - report.online_at_us if report.begun else 0
        report.due |= not report.begun or report.offline_us >= RETURNED_US
        report.begun = True

    def online(self, now: Now) -> None:
        """Note that a relay is reached now."""
        self._report.online_at_us = now.monotonic_us

    @property
    def has_work(self) -> bool:
        """Say whether `reacknowledge` has something to do."""
        return self._report.due

    def reacknowledge(self, now: Now) -> None:
        """Where that is due, ask for acknowledgements of the links seen last (rule 5). Inside a transaction."""
        if not self._report.due:
            return
        since_us = now.wall_us - RETRY_US_MAX - self._report.offline_us
        for author, incarnation in self._records.presence.links_seen(since_us, ACKNOWLEDGED_AT_START):
            self.of(author, incarnation).answer_soon(now.monotonic_us)
        self._after_commit(self._reported)

    def _reported(self) -> None:
        self._report.due = False

    def make_due(self, now_us: int) -> None:
        """Let acknowledgements that wait for company go at once."""
        for link in self._touched.values():
            link.make_due(now_us)

    def deadlines(self) -> list[int | None]:
        """Return when each acknowledgement is due."""
        return [link.next_deadline() for link in self._touched.values()]

    def due(
        self, now_us: int, wanted: Callable[[DeviceKey], bool] = lambda _: True
    ) -> Iterator[tuple[DeviceKey, Incarnation, ReceiveLink]]:
        """Yield (author, incarnation, link) of the acknowledgements that are due; going on says that one has gone."""
        for key, link in list(self._touched.items()):
            deadline = link.next_deadline()
            if deadline is not None and now_us >= deadline and wanted(key[0]):
                yield *key, link
                link.answered()
            if link.next_deadline() is None:
                del self._touched[key]
            if link.idle:
                del self._links[key]
