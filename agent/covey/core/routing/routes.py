"""Where an envelope goes: to the relay, to a board of this device, or to the gateway that carries for a board."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, GroupId, Incarnation, NoisePublic
from covey.core.link.sealer import Outgoing, Sealer
from covey.core.link.windows import Windows
from covey.core.membership.groups import Groups
from covey.core.now import Now
from covey.core.routing.forwarding import BoardRoutes, Forward, board_member
from covey.core.wire.message import NO_GROUP, MessageType

if TYPE_CHECKING:
    from covey.core.records.link import CarrierRecords


def address(groups: Groups, records: CarrierRecords, device: DeviceKey) -> NoisePublic | None:
    """Return a device's noise key; None for who is not spoken to, and for a board to which no way is known yet."""
    if board_member(groups, device) is not None and records.of(device) is None:
        return None
    return groups.address(device)


def may_link(groups: Groups, device: DeviceKey) -> bool:
    """Say whether a link key may be given to a device: it shares a group with us, and is no board."""
    return not groups.shares_nothing_with(device) and board_member(groups, device) is None


class Routing:
    """What a node puts on its way."""

    def __init__(
        self, own: DeviceKey, records: CarrierRecords, sealer: Sealer, windows: Windows, routes: BoardRoutes
    ) -> None:
        self._own = own
        self._records = records
        self._sealer = sealer
        self._windows = windows
        self._routes = routes

    def unsequenced(
        self,
        groups: Groups,
        recipient: DeviceKey,
        kind: MessageType,
        body: bytes,
        now: Now,
        incarnation: Incarnation | None = None,
        *,
        heads: GroupId = NO_GROUP,
        sealed_for: NoisePublic | None = None,
    ) -> Iterator[Outgoing]:
        """Yield a message about a link; none to a device that was removed, or never let in: it hears nothing.

        It is `sealed_for` another key than the one known, if one is given.
        """
        answers = kind is MessageType.ACK
        known = groups.address_to_answer(recipient) if answers else groups.address(recipient)
        noise_public = sealed_for or known
        if noise_public is None:
            return
        if board_member(groups, recipient) is None:
            yield self._sealer.about_link(recipient, kind, body, noise_public, now, incarnation, heads=heads)
            return
        message = self._sealer.unsequenced(recipient, kind, body, now, incarnation, heads=heads)
        outgoing = self._sealer.seal(recipient, message, address=noise_public)
        for carrier in sorted(self._routes.carriers(recipient)):
            yield from self._forward(groups, outgoing, carrier, now)

    def of(self, groups: Groups, outgoing: Outgoing, now: Now) -> Iterator[Outgoing]:
        """Yield a message of a link; one for a board goes to who carries for it."""
        carrier = self._records.of(outgoing.recipient) if board_member(groups, outgoing.recipient) else None
        if carrier is None:
            yield outgoing
            return
        yield from self._forward(groups, outgoing, carrier, now)
        if carrier == self._own and outgoing.entry is not None:
            self._windows.sent(outgoing.recipient, outgoing.entry, now, "")

    def kept(self, groups: Groups, outgoing: Outgoing, now: Now) -> bytes | None:
        """Return a message of a link as a mailbox keeps it for who takes it; one for a board in a FORWARD."""
        if board_member(groups, outgoing.recipient) is None:
            return outgoing.envelope
        return next((each.envelope for each in self.of(groups, outgoing, now)), None)

    def _forward(self, groups: Groups, outgoing: Outgoing, carrier: DeviceKey, now: Now) -> Iterator[Outgoing]:
        """Hand an envelope to a board of this device, or yield the FORWARD in which another gateway gets it."""
        forward = Forward(outgoing.recipient, outgoing.envelope)
        if carrier == self._own:
            self._routes.keep(carrier, forward)
        elif board_member(groups, carrier) is None:
            for wrapped in self.unsequenced(groups, carrier, MessageType.FORWARD, forward.to_wire(), now):
                yield replace(wrapped, recipient=outgoing.recipient, entry=outgoing.entry)
