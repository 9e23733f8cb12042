"""The send windows of all recipients, and whether the relay can be reached: the state of the network, not of the store.

A window changes only when relays accept or answer messages, with time, and after a commit (`after_commit.py`). So it
outlives a node whose transaction failed: a failing disk must not cause everything to be sent again at each attempt.

A window that has nothing to send is not looked at until something happens to it: an operator's device may wait for the
answers of 100,000 others, and each turn would look at all of them.

A board on a line of this device needs no relay: its line is connected or not, as a relay is for others.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from covey.core.ids import DeviceKey, Place
from covey.core.link.queued import Lane
from covey.core.link.send_window import InFlight, Jitter, Pace, SendLink
from covey.core.now import Now
from covey.core.wire.sequences import SequenceSet
from covey.limits.link import RETRY_US_MAX

_Key = tuple[DeviceKey, Lane]
_LANES = tuple(Lane)


@dataclass(slots=True)
class _Turns:
    """Windows that are served in turn: all of them, and those that may have something to send."""

    links: dict[_Key, SendLink] = field(default_factory=dict)
    ready: dict[_Key, SendLink] = field(default_factory=dict)


class Windows:
    """Up to five windows for each recipient that something waits for: one for each lane.

    Control messages go first, then alarms, then what is live. History and bulk take turns, over all recipients: a
    catch-up neither waits for all telemetry nor has telemetry wait for all of it.
    """

    def __init__(self) -> None:
        control, alarms, live, others = (_Turns() for _ in range(4))
        self._served_in_order = control, alarms, live, others
        self._by_lane = {
            Lane.CONTROL: control,
            Lane.ALARM: alarms,
            Lane.HISTORY: others,
            Lane.BULK: others,
            Lane.LIVE: live,
        }
        """In the order in which a recipient's windows are served."""
        self._turns = count()
        self._paces: dict[_Key, Pace] = {}
        """How fast each recipient answers in each lane, whether something waits for it or not."""
        self.is_connected = False
        """Whether the relay can be reached."""
        self._on_line: frozenset[DeviceKey] = frozenset()

    def queue_grew(self, recipient: DeviceKey) -> None:
        """Note that the store may hold more for a recipient than its windows were offered."""
        for lane in _LANES:
            if lane is not Lane.LIVE or self.backlog_upto(recipient) is not None:
                turns, key = self._by_lane[lane], (recipient, lane)
                link = turns.links.get(key)
                if link is None:
                    pace = self._paces.setdefault(key, Pace())
                    link = turns.links[key] = SendLink(recipient, lane, pace)
                    link.turn = next(self._turns)
                link.queue_grew()
                turns.ready[key] = link

    def backlog_upto(self, recipient: DeviceKey) -> Place | None:
        """After which place telemetry for a recipient is live; None: there is no backlog for it."""
        bulk = self._link(recipient, Lane.BULK)
        return None if bulk is None else bulk.backlog_upto

    def live(self, recipient: DeviceKey) -> Container[Place]:
        """Return the places of what is live in flight to a recipient."""
        return self._link(recipient, Lane.LIVE) or ()

    def serving(self, wanted: Callable[[DeviceKey], bool] = lambda _: True) -> Iterator[SendLink]:
        """Yield each window to a wanted recipient that may have something to send, those of control messages first,
        then alarms, then live ones; a `served` one comes last the next time, and a `settled` one not before something
        happens to it. An idle one is forgotten.
        """
        for turns in self._served_in_order:
            ready = [link for link in turns.ready.values() if wanted(link.recipient)]
            yield from self._busy(sorted(ready, key=lambda link: link.turn))

    def serving_one(self, recipient: DeviceKey) -> Iterator[SendLink]:
        """Yield the windows to one recipient; an idle one is forgotten."""
        yield from self._busy(self._of(recipient))

    def _busy(self, links: list[SendLink]) -> Iterator[SendLink]:
        for link in links:
            yield link
            if link.idle:
                turns, key = self._by_lane[link.lane], (link.recipient, link.lane)
                del turns.links[key]
                turns.ready.pop(key, None)
                link.pace.rest()

    def served(self, link: SendLink) -> None:
        """Let the others have their turn first."""
        links, key = self._by_lane[link.lane].links, (link.recipient, link.lane)
        links[key] = links.pop(key)
        link.turn = next(self._turns)

    def settled(self, link: SendLink) -> None:
        """Note that a window has nothing to send, and has read all that it has room for."""
        self._by_lane[link.lane].ready.pop((link.recipient, link.lane), None)

    def keep(self, is_peer: Callable[[DeviceKey], bool]) -> None:
        """Forget how fast devices answer that are no peers any more."""
        self._paces = {key: pace for key, pace in self._paces.items() if is_peer(key[0])}

    def clear(self) -> None:
        """Forget what is in flight: it may have to be signed again."""
        for turns in self._served_in_order:
            turns.links.clear()
            turns.ready.clear()

    def sent(self, recipient: DeviceKey, entry: InFlight, now: Now, relay: str) -> None:
        """Note that a relay took a message."""
        link = self._link(recipient, entry.lane)
        if link is not None:
            link.sent(entry, now.monotonic_us, relay)

    def relayed(self, recipient: DeviceKey, place: Place) -> None:
        """Note that a relay says it has stored a message."""
        for link in self._of(recipient):
            link.relayed(place)

    def acknowledged(self, recipient: DeviceKey, received: SequenceSet, now: Now) -> None:
        """Forget messages that their recipient has; the acknowledgement shows that it is online."""
        freed = [link.receive_acknowledgement(received, now.monotonic_us) for link in self._roused(self._of(recipient))]
        if any(freed):
            self.restart(recipient, now)

    def restart(self, recipient: DeviceKey, now: Now) -> None:
        """Note that a recipient is there: what it has left unanswered goes again at once."""
        for link in self._roused(self._of(recipient)):
            link.restart(now.monotonic_us)

    def seen(self, recipient: DeviceKey) -> None:
        """Note that a recipient is heard, whatever it says."""
        for link in self._of(recipient):
            link.seen()

    def speaks(self, recipient: DeviceKey, now: Now) -> None:
        """Note that a recipient speaks: what it has left unanswered is tried once."""
        for link in self._of(recipient):
            link.retry_now(now.monotonic_us)

    def withdrawn(self, recipient: DeviceKey, first: int, last: int) -> None:
        """Forget messages that the queue no longer holds."""
        for link in self._roused(self._of(recipient)):
            link.withdraw(first, last)

    def connected(self, now: Now) -> None:
        """Note that the relay can be reached."""
        self.is_connected = True
        for link in self._roused(self._by_relay()):
            link.connected(now.monotonic_us)

    def connection_lost(self, relay: str | None = None) -> None:
        """Note that a relay cannot be reached any more; without a name, that none can."""
        self.is_connected = self.is_connected and relay is not None
        for link in self._roused(self._by_relay()):
            link.connection_lost(relay)

    def on_line(self, boards: frozenset[DeviceKey], now: Now) -> list[DeviceKey]:
        """Note which boards lines of this device reach at the moment; return those that something waits for."""
        if boards != self._on_line:
            for link in self._roused(self._all()):
                if link.recipient in boards - self._on_line:
                    link.connected(now.monotonic_us)
                elif link.recipient in self._on_line - boards:
                    link.connection_lost()
            self._on_line = boards
        return [board for board in boards if self._of(board)]

    def in_flight(self) -> list[tuple[DeviceKey, SequenceSet]]:
        """Return each recipient with the places of the messages that a window of it holds."""
        return [(link.recipient, places) for link in self._all() if (places := link.places()).count()]

    def places_to(self, recipient: DeviceKey) -> SequenceSet:
        """Return the places of the messages that the windows to a recipient hold."""
        places = SequenceSet()
        for link in self._of(recipient):
            places = places.including(link.places().spans())
        return places

    def retries(self, recipient: DeviceKey, entry: InFlight | None) -> int:
        """Return how often in a row a recipient has left the retry time of a message's window without an answer."""
        link = None if entry is None else self._link(recipient, entry.lane)
        return 0 if link is None else link.retries

    def has_gone(self, recipient: DeviceKey, lane: Lane, place: Place) -> bool:
        """Say whether a relay has taken a queued message, as far as the windows remember."""
        link = self._link(recipient, lane)
        return link is not None and link.has_gone(place)

    def next_retry_us(self, recipient: DeviceKey, entry: InFlight) -> int | None:
        """Return when a message's window retries next; None where nothing is in flight."""
        link = self._link(recipient, entry.lane)
        return None if link is None else link.next_deadline()

    def silent(self, retries: int) -> set[DeviceKey]:
        """Return the recipients that have left so many retries in a row without an answer, in any lane."""
        return {link.recipient for link in self._all() if link.retries >= retries}

    @property
    def awaits_answer(self) -> bool:
        """Whether a recipient owes an answer and has not left a retry unanswered yet."""
        return any(link.awaits_answer for link in self._by_relay())

    def deadlines(self) -> list[int | None]:
        """Return when windows want to be called, in monotonic microseconds."""
        return [link.next_deadline() for link in self._reached()]

    def handle_deadline(self, now: Now, jitter: Jitter, longest_us: Mapping[DeviceKey, int]) -> None:
        """Begin the retries that are due; `longest_us` are the waits of recipients whose answer is wanted soon."""
        for link in self._reached():
            if link.is_due(now.monotonic_us):
                self._roused([link])
                link.handle_deadline(now.monotonic_us, jitter, longest_us.get(link.recipient, RETRY_US_MAX))

    def _roused(self, links: list[SendLink]) -> list[SendLink]:
        """Have windows served again to which something happens; return them."""
        for link in links:
            self._by_lane[link.lane].ready[link.recipient, link.lane] = link
        return links

    def _link(self, recipient: DeviceKey, lane: Lane) -> SendLink | None:
        return self._by_lane[lane].links.get((recipient, lane))

    def _of(self, recipient: DeviceKey) -> list[SendLink]:
        return [link for lane in self._by_lane if (link := self._link(recipient, lane)) is not None]

    def _by_relay(self) -> list[SendLink]:
        return [link for link in self._all() if link.recipient not in self._on_line]

    def _reached(self) -> list[SendLink]:
        if self.is_connected:
            return self._all()
        return [link for board in self._on_line for link in self._of(board)]

    def _all(self) -> list[SendLink]:
        return [link for turns in self._served_in_order for link in turns.links.values()]
