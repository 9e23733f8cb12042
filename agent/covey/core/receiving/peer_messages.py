"""Handlers of messages between two devices: blobs, link keys, file acknowledgements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from covey.core.content.exchange import ContentExchange
from covey.core.crypto import NONCE_BYTES
from covey.core.events import BlobArrived
from covey.core.link.link_keys import KeptKey, LinkKey
from covey.core.now import Now
from covey.core.receiving.outcome import Delivery, Handler, HandlerOutcome
from covey.core.wire.message import MessageType

if TYPE_CHECKING:
    from covey.core.records import Records


class PeerMessages:
    """Keeps what a peer gives."""

    def __init__(self, records: Records, content: ContentExchange, rng: Callable[[int], bytes]) -> None:
        self._records = records
        self._content = content
        self._rng = rng

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handlers by message type."""
        return {
            MessageType.BLOB: self._blob,
            MessageType.LINK: self._link_key,
            MessageType.CONTENT_ACK: self._file_is_there,
        }

    def _blob(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        message = delivery.message
        if not self._records.inbox.deliver(message, now.wall_us):
            return HandlerOutcome(taken=False)
        return HandlerOutcome(events=(BlobArrived(message.author, len(message.body)),))

    def _link_key(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        """Store a link key that came sealed; its author does not use any other (`link_keys.py`, rule 3)."""
        link = LinkKey.from_wire(delivery.message.author, delivery.message.body)
        if delivery.sealed_for is not None:
            kept = KeptKey.of(link, delivery.sealed_for, self._rng(NONCE_BYTES))
            self._records.link_keys.save(kept, now.wall_us)
        return HandlerOutcome()

    def _file_is_there(self, delivery: Delivery, _now: Now) -> HandlerOutcome:
        self._content.acknowledge(delivery.message)
        return HandlerOutcome()
