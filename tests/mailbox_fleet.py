"""Members of a group of which some are mailboxes, over real stores and a wire that tests may cut or forge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from covey.core.events import EnvelopeDropped
from covey.core.group.manifest import MAILBOX, Member
from covey.core.ids import GroupId, Incarnation, LinkSeq, inbox_name
from covey.core.link.link_keys import open_envelope
from covey.core.link.sealer import Outgoing
from covey.core.mailbox.messages import MailboxMessage, Push, read_mailbox_message
from covey.core.mailbox.service import MailboxService
from covey.core.wire.envelope import seal
from covey.core.wire.message import MessageType, read_message, write_message
from covey.limits.units import MIB
from tests.fleet import Device

MAXIMUM_BYTES = 1_024 * MIB


def dropped_codes(device: Device) -> list[str]:
    """Return why a device has dropped envelopes since it was last asked."""
    return [each.code for each in device.events() if isinstance(each, EnvelopeDropped)]


def group_with_mailboxes(first: Device, mailboxes: Iterable[Device], others: Iterable[Device]) -> GroupId:
    """Give devices a group, some as its mailboxes, as if they had joined it long ago."""
    now, membership = first.now, first.node.membership
    members = [Member(each.identity.keys, capabilities=(MAILBOX,)) for each in mailboxes]
    members += [Member(each.identity.keys) for each in others]
    with first.store.transaction():
        group_id = membership.create(first.name, (), now.wall_us).group_id
        for member in members:
            membership.change(group_id, lambda draft, _, member=member: draft.adding(member), now.wall_us)
    current, secret = membership.groups.group(group_id), membership.groups.secret(group_id)
    assert secret is not None
    for other in (*mailboxes, *others):
        with other.store.transaction():
            for _, _, raw in first.store.groups.manifests():
                other.store.groups.save_manifest(group_id, current.hash, current.version, raw, 0)
            other.store.groups.save_secret(group_id, current.epoch_id, secret, 0)
        other.node.refresh()
    for device in (first, *mailboxes, *others):
        device.compares_on_contact_only()
    return group_id


def say(author: Device, to: Device, said: MailboxMessage | bytes, group_id: GroupId) -> None:
    """Let a member of a group say something that no rule would have it say."""
    message = write_message(
        author.identity,
        MessageType.MAILBOX,
        to.key,
        group_id,
        author.store.incarnations.present() or Incarnation(b"incarnat"),
        0,
        LinkSeq(0),
        author.now.wall_us,
        said if isinstance(said, bytes) else said.to_wire(),
    )
    to.receive(seal(message, to.identity.noise_public, author.rng(32), author.rng(24)))


class MailboxFleet:
    """`ann` and `ben` write and read, `post` keeps; further names are further members."""

    def __init__(self, folder: Path, *names: str, mailboxes: tuple[str, ...] = ("post",)) -> None:
        made = {name: Device(name, folder) for name in ("ann", "ben", *names, *mailboxes)}
        self.devices = made
        self.ann, self.ben, self.post = made["ann"], made["ben"], made[mailboxes[0]]
        self.mailboxes = [made[name] for name in mailboxes]
        others = [made[name] for name in ("ben", *names)]
        self.group_id = group_with_mailboxes(self.ann, self.mailboxes, others)
        self.asleep: set[str] = set()
        for mailbox in self.mailboxes:
            self.serve(mailbox)

    def serve(self, mailbox: Device, maximum_bytes: int = MAXIMUM_BYTES) -> MailboxService:
        """Let a device be a mailbox, as its role does in each turn."""
        exchange = mailbox.node.mailboxes.exchange
        assert exchange is not None
        return exchange.serve(maximum_bytes)

    def fill(self, recipient: Device, count: int, sender: Device | None = None, first: int = 0) -> None:
        """Put blobs into an inbox without a wire between."""
        with self.post.store.transaction():
            for number in range(first, first + count):
                push = Push(number.to_bytes(16), b"x", 0, recipient.key)
                self.post.store.mailbox.put((sender or self.ann).key, push, 10**12, 0, 2**40, 2)

    def carry(self, keep: Callable[[Outgoing], bool] = lambda _: True) -> int:
        """Carry what there is between who is awake, until nobody has any; `keep` says what the relay does not lose."""
        awake = {inbox_name(each.key): each for each in self.devices.values() if each.name not in self.asleep}
        count = 0
        while True:
            moving = []
            for device in awake.values():
                device.node.make_acknowledgements_due(device.now)
                moving += device.sends()
            for outgoing in moving:
                receiver = awake.get(outgoing.topic.rpartition("/")[2])
                if receiver is not None and keep(outgoing):
                    receiver.receive(outgoing.envelope)
            count += len(moving)
            if not moving:
                return count

    def wait(self, seconds: float) -> None:
        """Let time pass for all, and what is due be written."""
        for device in self.devices.values():
            device.wait(seconds)
            device.maintain()

    def hand_over(self, sender: Device, recipient: Device) -> None:
        """Have all that waits for a recipient go to mailboxes at once."""
        last = sender.store.outbox.queues()
        assert any(each.recipient == recipient.key for each in last)
        with sender.store.transaction():
            sender.store.mailbox.hand_over(recipient.key)
        sender.node.refresh()

    def opened(self, outgoing: Outgoing) -> MailboxMessage | None:
        """Return what an envelope says to or of a mailbox; None for others."""
        receiver = next(each for each in self.devices.values() if outgoing.topic.endswith(inbox_name(each.key)))
        raw = open_envelope(outgoing.envelope, receiver.identity, receiver.store.link_keys.find).message
        message = read_message(raw)
        return read_mailbox_message(message.body) if message.type is MessageType.MAILBOX else None

    def say(self, author: Device, to: Device, said: MailboxMessage | bytes, group_id: GroupId | None = None) -> None:
        """Let a member say something that no rule would have it say."""
        say(author, to, said, group_id or self.group_id)

    def answers(self, device: Device, *, to: Device | None = None) -> list[MailboxMessage]:
        """Return what a device says of mailboxes now; nobody hears it."""
        found = [self.opened(each) for each in device.sends() if to is None or each.recipient == to.key]
        return [each for each in found if each is not None]
