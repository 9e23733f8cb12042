"""Envelopes: a message sealed for its recipient's noise key, or written under a link key of this device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey, GroupId, Incarnation, LinkSeq, NoisePublic
from covey.core.link.link_keys import SendingLinks
from covey.core.link.named_keys import NamedKeys
from covey.core.link.queued import Lane
from covey.core.link.send_window import InFlight
from covey.core.now import Now
from covey.core.wire.envelope import seal
from covey.core.wire.message import NO_GROUP, MessageType, write_message
from covey.core.wire.note import NOTES, write_note
from covey.core.wire.topics import inbox_topic

if TYPE_CHECKING:
    from covey.core.records.link import IncarnationRecords


NOT_KEPT = -1
"""The lifetime of what costs less to lose than to have acknowledged by each side's relay (QoS 0)."""
_PASSING_BYTES = 48
"""Shorter notes are not kept. Longer acknowledgements name several messages, which would all go again."""


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One envelope for the relay. Tell `Node.sent` when the relay took it; an acknowledgement has no `entry`.

    `lifetime_s`: how long the relay may keep it for a recipient that is away; 0: as long as it likes; `NOT_KEPT`: it
    passes it on at once, or never.
    """

    topic: str
    envelope: bytes = field(repr=False)
    recipient: DeviceKey
    entry: InFlight | None
    lifetime_s: int = 0
    kind: MessageType | None = None
    """Of a message that has no `entry`, if it is known."""


class Sealer:
    """Makes envelopes. `address` gives a device's noise key, None for a device that nothing is sent to."""

    def __init__(
        self,
        identity: Identity,
        incarnations: IncarnationRecords,
        address: Callable[[DeviceKey], NoisePublic | None],
        rng: Callable[[int], bytes],
        link_keys: SendingLinks,
        named: NamedKeys,
    ) -> None:
        self._identity = identity
        self._incarnations = incarnations
        self._rng = rng
        self._link_keys = link_keys
        self._named = named
        self.address = address

    def seal(
        self, recipient: DeviceKey, message: bytes, entry: InFlight | None = None, address: NoisePublic | None = None
    ) -> Outgoing:
        """Return a message's envelope, for a device that has an address: the one given, or the one known."""
        address = address or self.address(recipient)
        assert address is not None
        envelope = seal(message, address, self._rng(32), self._rng(crypto.NONCE_BYTES))
        return Outgoing(inbox_topic(recipient), envelope, recipient, entry)

    def by_link(
        self, recipient: DeviceKey, message: bytes, address: NoisePublic, now: Now, entry: InFlight | None = None
    ) -> Outgoing:
        """Return a message's envelope under the recipient's link key, or sealed where there is none."""
        shortened = self._link_keys.shortened(recipient, message, now.monotonic_us)
        envelope = self._link_keys.seal(recipient, shortened, address, now.monotonic_us)
        if envelope is None:
            return self.seal(recipient, message, entry, address)
        if entry is not None:
            entry.tag = self._link_keys.tag(recipient)
        return Outgoing(inbox_topic(recipient), envelope, recipient, entry)

    def queued(self, recipient: DeviceKey, entry: InFlight, address: NoisePublic, now: Now) -> Outgoing:
        """Return a queued message's envelope (`link_keys.py`, rules 3 and 4; `named_keys.py`)."""
        if entry.sends:
            self._link_keys.fail(recipient, entry.tag)
            if entry.lane is Lane.CONTROL and entry.sends % 2:
                address = self._named.of(recipient, address, now.monotonic_us) or address
        elif not self._link_keys.is_link(recipient, entry.place):
            return self.by_link(recipient, entry.message, address, now, entry)
        return self.seal(recipient, entry.message, entry, address)

    def about_link(
        self,
        recipient: DeviceKey,
        kind: MessageType,
        body: bytes,
        address: NoisePublic,
        now: Now,
        incarnation: Incarnation | None = None,
        *,
        heads: GroupId = NO_GROUP,
    ) -> Outgoing:
        """Return an unsequenced message's envelope: a note under the recipient's link key, or signed and sealed."""
        if kind in NOTES:
            answered = kind is MessageType.ACK  # one that is lost is asked for again, and ends the link key
            note = write_note(kind, heads, body)
            envelope = self._link_keys.seal_note(recipient, note, address, now.monotonic_us, answered=answered)
            if envelope is not None:
                lifetime_s = NOT_KEPT if len(note) < _PASSING_BYTES else 0
                return Outgoing(inbox_topic(recipient), envelope, recipient, None, lifetime_s, kind)
        message = self.unsequenced(recipient, kind, body, now, incarnation, heads=heads)
        return replace(self.seal(recipient, message, address=address), kind=kind)

    def unsequenced(
        self,
        recipient: DeviceKey,
        kind: MessageType,
        body: bytes,
        now: Now,
        incarnation: Incarnation | None = None,
        *,
        heads: GroupId = NO_GROUP,
    ) -> bytes:
        """Return a signed message about a link, which no outbox keeps; `heads` is what it says of groups."""
        incarnation = incarnation or self._incarnations.present()
        return write_message(self._identity, kind, recipient, heads, incarnation, 0, LinkSeq(0), now.wall_us, body)
