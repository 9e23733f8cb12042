"""The send windows of all recipients, and whether the relay can be reached: what the network did, not the store.

A window changes only by what relays took and answered, by time, and by what was committed (`after_commit.py`). So it
outlives a node whose transaction failed: a disk that refuses must not have everything sent again at each attempt.
"""

from __future__ import annotations

from collections.abc import Iterator

from covey.core.ids import DeviceKey, Place
from covey.core.link.send_window import InFlight, Jitter, SendLink
from covey.core.now import Now
from covey.core.wire.sequences import SequenceSet


class Windows:
    """One window for each recipient that something waits for."""

    def __init__(self) -> None:
        self._links: dict[DeviceKey, SendLink] = {}
        self.incarnation = b""
        """The incarnation that what is in flight was signed in."""
        self.is_connected = False
        """Whether the relay can be reached."""

    def of(self, recipient: DeviceKey) -> SendLink:
        """Return a recipient's window; an empty one where there was none."""
        link = self._links.get(recipient)
        if link is None:
            link = self._links[recipient] = SendLink(recipient)
        return link

    def serving(self) -> Iterator[SendLink]:
        """Yield each window; one that was `served` meanwhile comes last the next time, an idle one is forgotten."""
        for link in list(self._links.values()):
            yield link
            if link.idle:
                del self._links[link.recipient]

    def served(self, recipient: DeviceKey) -> None:
        """Let the others have their turn first."""
        self._links[recipient] = self._links.pop(recipient)

    def clear(self) -> None:
        """Forget what is in flight: it may have to be signed again."""
        self._links.clear()

    def sent(self, recipient: DeviceKey, entry: InFlight, now: Now, relay: str) -> None:
        """Note that a relay took a message."""
        link = self._links.get(recipient)
        if link is not None:
            link.sent(entry, now.monotonic_us, relay)

    def relayed(self, recipient: DeviceKey, place: Place) -> None:
        """Note that a relay says it has stored a message."""
        link = self._links.get(recipient)
        if link is not None:
            link.relayed(place)

    def acknowledged(self, recipient: DeviceKey, received: SequenceSet, now: Now) -> None:
        """Forget messages that their recipient has."""
        link = self._links.get(recipient)
        if link is not None:
            link.receive_acknowledgement(received, now.monotonic_us)

    def withdrawn(self, recipient: DeviceKey, first: int, last: int) -> None:
        """Forget messages that the queue no longer holds."""
        link = self._links.get(recipient)
        if link is not None:
            link.withdraw(first, last)

    def connected(self, now: Now) -> None:
        """Note that the relay can be reached."""
        self.is_connected = True
        for link in self._links.values():
            link.connected(now.monotonic_us)

    def connection_lost(self, relay: str | None = None) -> None:
        """Note that a relay cannot be reached any more; without a name, that none can."""
        self.is_connected = self.is_connected and relay is not None
        for link in self._links.values():
            link.connection_lost(relay)

    def retries(self, recipient: DeviceKey) -> int:
        """Return how often in a row a recipient has left the retry time without an answer."""
        link = self._links.get(recipient)
        return 0 if link is None else link.retries

    def deadlines(self) -> list[int | None]:
        """Return when windows want to be called, in monotonic microseconds."""
        return [link.next_deadline() for link in self._links.values()]

    def handle_deadline(self, now: Now, jitter: Jitter) -> None:
        """Begin the retries that are due."""
        if self.is_connected:
            for link in self._links.values():
                link.handle_deadline(now.monotonic_us, jitter)
