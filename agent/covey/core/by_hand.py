"""What people do with messages by hand: carry envelopes where no relay does, give a quarantined one another try."""

from __future__ import annotations

from collections.abc import Iterator

from covey.core.link.records import Quarantined
from covey.core.now import Now
from covey.core.receiving import Receiving
from covey.core.routing.forwarding import board_member
from covey.core.telemetry.batch import split_number
from covey.core.wire.message import Acknowledgement, MessageType, read_message


class ByHand(Receiving):
    """Part of `Node`."""

    def carried(self, recipient: bytes, after: int) -> list[tuple[int, bytes]]:
        """Return the next (place, envelope) that waits for a recipient, for a carrier that is no relay.

        Nothing where the recipient may hear nothing, or is a board, which hears through its gateway only.
        """
        if self.membership.address(recipient) is None or board_member(self.membership, recipient) is not None:
            return []
        return self._sending.carried(recipient, after)

    def answers_for(self, device: bytes, now: Now) -> Iterator[bytes]:
        """Yield envelopes that tell a device what has come from it, and where what waits for it begins."""
        if self.membership.address(device) is None or board_member(self.membership, device) is not None:
            return
        for incarnation, received in self._records.received.links(device):
            durable = received.without(self._records.landing.unlanded(device, incarnation))
            body = Acknowledgement(incarnation, durable).to_wire()
            message = self._sending.unsequenced(device, MessageType.ACK, body, now)
            yield self._sending.seal(device, message).envelope
        yield from self._sending.resumptions(device, now)

    def release(self, quarantined: Quarantined, now: Now) -> bool:
        """Give a message that was set aside another try; return False where there is no room for it now.

        One of ours is queued anew, under new numbers; one that had come is dealt with again, by its type's rules.

        Raises:
            RemoteError: it breaks these still.
            LocalError: the outbox is full: then the caller rolls back.
        """
        message = read_message(quarantined.message, verify=False)
        if quarantined.recipient is not None:
            if message.type is MessageType.TELEMETRY:  # its number was told lost
                self._sending.queue_batch(message.recipient, message.group_id, split_number(message.body)[1], now)
            else:
                self._sending.queue(message.recipient, message.type, message.group_id, message.body, now)
            return True
        return self._handle(message, self._receiving.of(message.author, message.incarnation), None, now)
