"""A group, a device of which is stolen; and what devices say to each other of heads, one thing at a time."""

from __future__ import annotations

from dataclasses import replace

from covey.core.ids import DeviceKey, GroupId, Incarnation, LinkSeq, inbox_name
from covey.core.link.sealer import Outgoing
from covey.core.wire.envelope import seal
from covey.core.wire.heads import GroupHead, HeadsReport
from covey.core.wire.message import Acknowledgement, MessageType, read_message, write_message
from covey.core.wire.sequences import SequenceSet
from tests.fleet import Device, Make, carry, found


def meet(*devices: Device, seconds: int = 120) -> list[Outgoing]:
    """Let these alone hear each other for a while; return what went. What is for others is lost."""
    went = []
    by_key = {inbox_name(device.key): device for device in devices}
    for _ in range(seconds):
        for device in devices:
            device.wait(1)
            device.maintain()
        for outgoing in [each for device in devices for each in device.sends()]:
            went.append(outgoing)
            receiver = by_key.get(outgoing.topic.rpartition("/")[2])
            if receiver is not None:
                receiver.receive(outgoing.envelope)
    return went


def remove(remover: Device, target: Device, group_id: GroupId) -> None:
    """Let an admin remove a member."""
    with remover.store.transaction():
        remover.node.actions.change(group_id, lambda draft, epoch: draft.removing(target.key, epoch), remover.now)


def rename(device: Device, group_id: GroupId, label: str) -> None:
    """Let a member change its label."""
    own = device.node.groups.group(group_id).member(device.key)
    assert own is not None
    renamed = replace(own, label=label)
    with device.store.transaction():
        device.node.actions.change(group_id, lambda draft, _: draft.changing(renamed), device.now)


def members_of(device: Device, group_id: GroupId) -> set[DeviceKey]:
    """Return who is in a group by what a device holds."""
    return {each.keys.signing_public for each in device.node.groups.group(group_id).members}


def say(author: Device, to: Device, kind: MessageType, body: bytes, heads: GroupId) -> None:
    """Let one device hear a message of another."""
    message = write_message(
        author.identity, kind, to.key, heads, Incarnation(b"incarnat"), 0, LinkSeq(0), author.now.wall_us, body
    )
    to.receive(seal(message, to.identity.noise_public, author.rng(32), author.rng(24)))


def acknowledge(author: Device, to: Device, heads: GroupId) -> None:
    """Let one device hear an acknowledgement, with another device's digest of heads."""
    body = Acknowledgement(Incarnation(b"unknown!"), SequenceSet()).to_wire()
    say(author, to, MessageType.ACK, body, heads)


def report(author: Device, to: Device, *heads: GroupHead, asks: bool = False) -> None:
    """Let one device hear a report of heads."""
    say(author, to, MessageType.HEADS, HeadsReport(asks, heads).to_wire(), GroupId(b"other heads".ljust(32, b"\1")))


def queued(device: Device, recipient: Device) -> list[MessageType]:
    """Return what control messages of a device wait for another one."""
    return [read_message(raw).type for _, raw in device.store.outbox.control_messages(recipient.key)]


class Stolen:
    """A device of ann's group is stolen; ann removes it, ben hears of that, sam sleeps, and ann's machine breaks."""

    def __init__(self, make: Make, **of_sam: int) -> None:
        self.ann, self.ben, self.mal = make("ann"), make("ben", collects=True), make("mal")
        self.sam = make("sam", **of_sam)
        self.group_id = found(self.ann, self.ben, self.mal, self.sam)
        remove(self.ann, self.mal, self.group_id)
        carry(self.ann, self.ben)
        for device in (self.ben, self.sam, self.mal):
            device.compares_on_contact_only()
        assert self.mal.key in members_of(self.sam, self.group_id)

    def check_sam_knows(self) -> None:
        """Check that the sleeper believes in the stolen device no more, and has the new secret."""
        assert members_of(self.sam, self.group_id) == {self.ann.key, self.ben.key, self.sam.key}
        ours = self.sam.node.groups.secret(self.group_id)
        assert ours is not None
        assert ours == self.ben.node.groups.secret(self.group_id)
