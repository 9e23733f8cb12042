"""What a node is told of its relays: which can be reached, what they took, what they have answered."""

from __future__ import annotations

from collections.abc import Iterator

from covey.core.link.receiver import ReceiveLinks
from covey.core.link.sender import Outgoing, Sending
from covey.core.membership.membership import Membership
from covey.core.now import Now
from covey.core.presence.heartbeat import Heartbeat, LastWill
from covey.core.routing.routes import Routing
from covey.core.wire.message import MessageType


class Reach:
    """Part of `Node`."""

    membership: Membership
    heartbeat: Heartbeat
    _receiving: ReceiveLinks
    _sending: Sending
    _routing: Routing

    def connected(self, now: Now) -> None:
        """Note that a relay can be reached, after a time without any."""
        self._sending.connected(now)
        self._receiving.connected()

    def connection_lost(self, relay: str | None = None) -> None:
        """Note that a relay cannot be reached any more, while others can; without a name, that none can."""
        self._sending.connection_lost(relay)

    def sent(self, outgoing: Outgoing, now: Now, relay: str = "") -> None:
        """Note that a relay took an envelope."""
        if outgoing.entry is not None and outgoing.entry.sends == 0:
            self.heartbeat.spoke(outgoing.recipient, now)
        self._sending.sent(outgoing, now, relay)

    def relayed(self, recipient: bytes, link_seq: int) -> None:
        """Note that a relay says it has stored an envelope."""
        self._sending.relayed(recipient, link_seq)

    def retries(self, recipient: bytes) -> int:
        """Return how often in a row a recipient has left the retry time without an answer."""
        return self._sending.retries(recipient)

    def last_will(self, now: Now) -> LastWill | None:
        """Return the will of the next connection, sealed; None where nobody is to have one."""
        return self.heartbeat.last_will(self.membership, now)

    def _beats(self, now: Now) -> Iterator[Outgoing]:
        for collector, body in self.heartbeat.due(self.membership, now):
            yield from self._routing.unsequenced(self.membership, collector, MessageType.PRESENCE, body, now)
