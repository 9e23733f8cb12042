"""Telling mailboxes of removals at once: REVOKE_DEVICE with the signed manifest, until DEVICE_REVOKED comes (002.13).

The manifest goes to a mailbox as to every member, too, and is what counts: so nothing is lost where this is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from covey.core.group.messages import Bundle
from covey.core.ids import DeviceKey, GroupId
from covey.core.mailbox.messages import RevokeDevice
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.limits.mailbox import HELLO_US

_TRIES = 3


class Revoking:
    """The removals that this device has issued in this run, and which mailboxes have not confirmed yet."""

    def __init__(self, own: DeviceKey, groups: Groups) -> None:
        self._own = own
        self._groups = groups
        self._members: dict[GroupId, frozenset[DeviceKey]] = {}
        self._open: dict[tuple[DeviceKey, DeviceKey], tuple[GroupId, int, int]] = {}
        """By mailbox and device: the group, how often it was said, and when it is to be said next."""

    def follow(self, mailboxes: Collection[DeviceKey]) -> None:
        """Look at who is gone from groups by this device's own word."""
        for group in self._groups.joined():
            members = frozenset(each.keys.signing_public for each in group.members)
            before = self._members.get(group.group_id, members)
            self._members[group.group_id] = members
            if group.issuer == self._own:
                for device in before - members:
                    self._open.update(
                        {(mailbox, device): (group.group_id, 0, 0) for mailbox in mailboxes if mailbox in members}
                    )
        self._open = {pair: each for pair, each in self._open.items() if pair[0] in mailboxes}

    def due(self, is_open: Callable[[DeviceKey], bool], now: Now) -> Iterator[tuple[DeviceKey, GroupId, RevokeDevice]]:
        """Yield (mailbox, group, message) of what is to be said."""
        for (mailbox, device), (group_id, times, at_us) in list(self._open.items()):
            group = next((each for each in self._groups.joined() if each.group_id == group_id), None)
            if group is None or times >= _TRIES or group.member(device) is not None:
                del self._open[mailbox, device]
            elif now.monotonic_us >= at_us and is_open(mailbox):
                yield mailbox, group_id, RevokeDevice(device, Bundle((group.raw,)).to_wire())
                self._open[mailbox, device] = group_id, times + 1, now.monotonic_us + HELLO_US

    def done(self, mailbox: DeviceKey, device: DeviceKey) -> bool:
        """Note that a mailbox takes nothing of a device any more; return whether it was told."""
        return self._open.pop((mailbox, device), None) is not None
