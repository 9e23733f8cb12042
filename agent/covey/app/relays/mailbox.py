"""Mailbox commands: hand messages over, show stored messages, delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.app.loop.relay_loop import wait_until
from covey.app.relays.documents import HandedOver, InboxStatus, MailboxStatus
from covey.app.wording import count
from covey.core.group.device_labels import DeviceLabels
from covey.core.group.manifest import MAILBOX
from covey.core.ids import DeviceKey, Place, device_name
from covey.core.mailbox.pushing import mailboxes_of
from covey.errors import LocalError
from covey.limits.units import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covey.app.device.device import Device


EXPIRED, OF_FORMER = "dropped_mailbox_expired", "dropped_mailbox_of_former_members"
"""Counters of envelopes that a mailbox deleted although nobody had fetched them."""


def mailbox_status(device: Device) -> MailboxStatus:
    """Return what this device keeps for others as a mailbox."""
    labels, now_us = DeviceLabels(device.node.groups.joined()), device.clock.wall_us()
    inboxes = tuple(
        InboxStatus(
            device_name(each.device),
            labels.label(each.device),
            each.blobs,
            each.bytes,
            each.max_cursor,
            None if each.oldest_at_us is None else max(0, now_us - each.oldest_at_us) // 1_000_000,
        )
        for each in device.store.mailbox.all()
    )
    own = device.node.identity.signing_public
    members = [member for group in device.node.groups.joined() if (member := group.member(own)) is not None]
    return MailboxStatus(
        sum(MAILBOX in member.capabilities for member in members),
        sum(each.blobs for each in inboxes),
        sum(each.bytes for each in inboxes),
        device.config.mailbox.maximum_mib * MIB,
        device.store.mailbox.hook_count(),
        inboxes,
        device.store.counters.values().get(EXPIRED, 0),
        device.store.counters.values().get(OF_FORMER, 0),
    )


def dropped_text(status: MailboxStatus) -> str:
    """Return how many envelopes were deleted without being fetched, behind something else; empty where none were."""
    found = [(status.expired, "expired"), (status.of_former_members, "of former members")]
    return "".join(f"; deleted {count(number, 'envelope')} {why}" for number, why in found if number)


def kept_for(device: Device, named: str | None) -> list[DeviceKey]:
    """Return the devices for which this mailbox holds messages: by label or the beginning of a key.

    Raises:
        LocalError: nothing waits for such a device, or the name is ambiguous.
    """
    labels, inboxes = DeviceLabels(device.node.groups.joined()), [each.device for each in device.store.mailbox.all()]
    if named is None:
        return inboxes
    chosen = [each for each in inboxes if labels.label(each) == named]
    chosen = chosen or [each for each in inboxes if named and each.hex().startswith(named.lower())]
    if len(chosen) != 1:
        what = f"{len(chosen)} devices are called" if chosen else "no messages stored for"
        raise LocalError(f"{what} '{named[:64]}'", hint="'covey mailbox status' lists the devices with messages")
    return chosen


def delete_envelopes(device: Device, chosen: Sequence[DeviceKey]) -> int:
    """Delete stored envelopes of devices; return their number."""
    with device.store.transaction():
        return sum(device.store.mailbox.empty(each) for each in chosen)


def hand_over(device: Device, named: str | None, seconds: float) -> HandedOver:
    """Have all that waits go to mailboxes at once, for a recipient or for all, and wait until somebody has it durably.

    `named`: its label, or the beginning of its key. It is a mailbox that has it, or the recipient itself.

    Raises:
        LocalError: nobody is called so; or something waits, and no group names a mailbox for any of its recipients.
    """
    own, groups, routes = device.node.identity, device.node.groups, device.node.routes
    labels = DeviceLabels(groups.joined())

    def is_meant(key: DeviceKey) -> bool:
        if named is None:
            return True
        return bool(named) and (labels.label(key) == named or key.hex().startswith(named.lower()))

    if not any(is_meant(member.keys.signing_public) for group in groups.joined() for member in group.members):
        raise LocalError(f"no member is called '{named}'"[:100], hint="'covey group members' lists them")
    chosen = [each.recipient for each in device.store.outbox.queues() if each.queued and is_meant(each.recipient)]
    inboxes = [routes.inbox(groups, own, each) for each in chosen]
    if chosen and not any(mailboxes_of(groups.joined(), own.signing_public, each) for each in inboxes):
        raise LocalError(
            "no group of this device has a mailbox",
            hint="give a member that is always online the capability: covey group profile DEVICE --capability mailbox",
        )
    with device.store.transaction():
        places = {each: device.store.mailbox.hand_over(each) for each in chosen}
    device.node.refresh()
    left = _wait_handed_over(device, places, seconds)
    done = [each for each in places if each not in left]
    return HandedOver(tuple(map(device_name, done)), tuple(map(device_name, left)))


def _wait_handed_over(device: Device, places: dict[DeviceKey, Place], seconds: float) -> list[DeviceKey]:
    def open_ones() -> list[DeviceKey]:
        return [each for each, upto in places.items() if not device.store.mailbox.is_handed_over(each, upto)]

    wait_until(device, lambda: not open_ones(), seconds)
    return open_ones()
