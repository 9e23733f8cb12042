"""Members between whom files go, and what they say of them."""

from __future__ import annotations

import random
from pathlib import Path

from covey.adapters.sqlite.content import ContentState
from covey.core.events import EnvelopeDropped
from covey.core.history.files import ContentReference, FileOffer
from covey.core.ids import DeviceKey, Incarnation, LinkSeq
from covey.core.link.link_keys import open_envelope
from covey.core.wire.envelope import seal
from covey.core.wire.message import Message, MessageType, read_message, write_message
from tests.content import opened, put, want
from tests.fleet import Device, Make, carry, found


class Members:
    """Members who have settled everything else, the first of whom may offer files."""

    def __init__(self, make: Make, folder: Path, *names: str) -> None:
        self.all = [make(name) for name in names]
        self.ann = self.all[0]
        self.group_id = found(*self.all)
        self._folder = folder
        for device in self.all:
            device.compares_on_contact_only()
        self.settle()

    def settle(self) -> None:
        """Carry what there is, and forget what happened."""
        carry(*self.all)
        for device in self.all:
            device.maintain()
        carry(*self.all)
        for device in self.all:
            device.events()

    def put(self, content: bytes, by: Device | None = None) -> FileOffer:
        """Let a member offer a file."""
        return put(by or self.ann, self.group_id, content, self._folder)

    def want(self, device: Device, reference: ContentReference, author: Device | None = None) -> None:
        """Let a member ask for a file."""
        want(device, self.group_id, reference, author or self.ann)

    def opened(self, device: Device, offer: FileOffer) -> bytes:
        """Return what a file holds, as a member opens it."""
        return opened(device, self.group_id, offer, self._folder)

    def state(self, device: Device, offer: FileOffer) -> ContentState | None:
        """Return what has become of a file."""
        kept = device.store.content.of(offer.content.hash)
        return None if kept is None else kept.state

    def wait(self, seconds: float) -> None:
        """Let time pass for all."""
        for device in self.all:
            device.wait(seconds)


def some_bytes(size: int) -> bytes:
    """Return content of a size."""
    return random.Random(size).randbytes(size)


def said(device: Device, to: Device, members: Members, kind: MessageType, body: bytes) -> None:
    """Let a member say something of files as no rule would have it."""
    message = write_message(
        device.identity, kind, to.key, members.group_id, Incarnation(b"incarnat"), 0, LinkSeq(0), 0, body
    )
    to.receive(seal(message, to.identity.noise_public, device.rng(32), device.rng(24)))


def codes(device: Device) -> list[str]:
    """Return why envelopes were dropped."""
    return [each.code for each in device.events() if isinstance(each, EnvelopeDropped)]


def sent_by(device: Device, members: Members) -> list[Message]:
    """Return what a member says of files now; nobody hears it."""
    by_key = {each.key: each for each in members.all}
    found = []
    for each in device.sends():
        to = by_key[each.recipient]
        message = read_message(open_envelope(each.envelope, to.identity, to.store.link_keys.find).message)
        if message.type in {MessageType.CONTENT_PULL, MessageType.CONTENT_PART}:
            found.append(message)
    return found


def asked_by(device: Device, members: Members) -> list[DeviceKey]:
    """Return whom a member asks for parts now."""
    return [each.recipient for each in sent_by(device, members) if each.type is MessageType.CONTENT_PULL]


def given_by(device: Device, members: Members) -> list[DeviceKey]:
    """Return to whom a member gives parts now."""
    return [each.recipient for each in sent_by(device, members) if each.type is MessageType.CONTENT_PART]
