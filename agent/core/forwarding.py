"""Devices behind others: a board's envelopes travel inside messages of its gateway (docs/protocol.md, "Forwarding").

A FORWARD carries `[to, envelope]`: the envelope of somebody else, sealed for device `to`. Its author vouches for
nothing in it and can open nothing of it. Rules:

    1. Towards the board's recipient a FORWARD is sequenced in the gateway's own outbox, and so is not lost. The
       recipient deals with the envelope inside exactly as if the relay had brought it; what fails there is counted,
       and disturbs neither the FORWARD nor its link. Where there is no room for it, there is none for the FORWARD.
    2. A FORWARD inside a FORWARD is refused.
    3. Whoever brought an authentic message of a member with the capability `board` is the way back to it from then on:
       the last one holds, so that a board may change its gateway. No other device's way can be taken so.
    4. Towards the board a FORWARD is unsequenced, like the acknowledgements that it carries: the board asks again.
    5. Nobody queues anything for a board: it follows no manifests and takes no blobs.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from agent.core import wire
from agent.core.group_manifest import GroupManifest
from agent.core.ids import KEY_BYTES
from agent.core.limits import BOARD_ENVELOPES_WAITING, MAXIMUM_BOARD_MESSAGE_BYTES
from agent.core.membership import Membership
from agent.core.records import Records
from agent.errors import LocalError


@dataclass(frozen=True, slots=True)
class Forward:
    """Somebody else's envelope, and the signing key of the device that it is for."""

    to: bytes
    envelope: bytes = field(repr=False)

    def to_wire(self) -> bytes:
        """Return the body `[to, envelope]`."""
        return wire.encode([self.to, self.envelope])

    @classmethod
    def from_wire(cls, body: bytes) -> Forward:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *wire.record(
                wire.decode(body, MAXIMUM_BOARD_MESSAGE_BYTES + 64),
                "forward",
                wire.octets(KEY_BYTES),
                wire.octets_to(MAXIMUM_BOARD_MESSAGE_BYTES),
            )
        )


class Routes:
    """Who carries for which board, and what waits here for boards that hang on this device."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._waiting: deque[Forward] = deque(maxlen=BOARD_ENVELOPES_WAITING)

    def learn(self, membership: Membership, author: bytes, carrier: bytes) -> None:
        """Note who brought an authentic message (rule 3)."""
        if is_board(membership, author) and self._records.carrier(author) != carrier:
            self._records.set_carrier(author, carrier)

    def carrier(self, device: bytes) -> bytes | None:
        """Return the device that carries for this one; None where the relay does."""
        return self._records.carrier(device)

    def keep(self, forward: Forward) -> None:
        """Keep an envelope for a board of ours; the oldest go, as their senders tell the same again."""
        self._waiting.append(forward)

    def take(self) -> list[Forward]:
        """Return, once, what came for our boards."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


def is_board(membership: Membership, device: bytes) -> bool:
    """Say whether a group that we are in lists a device as a board."""
    return any((member := group.member(device)) is not None and member.is_board for group in membership.groups())


def group_of(membership: Membership, board: bytes) -> GroupManifest | None:
    """Return the group that we share with a board."""
    for group in membership.groups():
        member = group.member(board)
        if member is not None and member.is_board:
            return group
    return None


def check_forward(membership: Membership, board: bytes, recipient: bytes, envelope: bytes) -> GroupManifest:
    """Return the group in which a board's envelope may be carried to a recipient.

    Raises:
        LocalError: it may not.
    """
    group = group_of(membership, board)
    if group is None:
        raise LocalError("this board is in no group of ours", hint="covey mcu enrol")
    if group.member(recipient) is None:
        raise LocalError("the board's recipient is not in its group", hint="enrol the board anew")
    if len(envelope) > MAXIMUM_BOARD_MESSAGE_BYTES:
        raise LocalError(f"a board's envelope has at most {MAXIMUM_BOARD_MESSAGE_BYTES} bytes")
    return group
