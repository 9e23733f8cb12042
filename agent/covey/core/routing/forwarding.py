"""Devices behind others: a board's envelopes travel inside messages of its gateway (docs/protocol/boards.md,
"Forwarding").

A FORWARD carries `[to, envelope]`: another device's envelope, sealed for device `to`. The author of the FORWARD vouches
for nothing in it and cannot open it. Rules:

    1. Towards the board's recipient a FORWARD is sequenced in the gateway's own outbox, so it is not lost. The
       recipient processes the envelope inside as if the relay had delivered it; an error there is counted, and affects
       neither the FORWARD nor its link. If there is no room for the envelope, the FORWARD is not accepted either.
    2. Inside is a board's message, of a type that boards write: no FORWARD, and nothing that changes a group.
    3. The device that delivered a board's latest new message is the way back to it, so a board may change its gateway.
       A repeated message changes no way, because anybody may have kept an old envelope. But its acknowledgement also
       goes to its deliverer, as a board that has moved may have nothing newer to send.
    4. Towards the board a FORWARD is unsequenced: the author of its content repeats it. The gateway keeps the newest
       few of each author for each board, until the board is awake. Envelopes in a mailbox for the gateway stay there
       while that board is not on its line, or as many wait for it.
    5. This device's own messages for a board on its line go down the line when the board is there and awake, and need
       no relay: to such a board the line is what relays are to others.
    6. What a board calls an alarm goes to its recipient as the gateway's own alarms do: ahead of other messages, and
       neither dropped nor thinned. The gateway cannot read it, so each board has `BOARD_ALARMS_SAVED` of them, and
       another one each `BOARD_ALARM_SECONDS`; they may use a share of the outbox's room for alarms. What exceeds that
       is an ordinary message.
    7. A board follows no manifests, and accepts messages only from its collector: acknowledgements, and blobs sent to
       it by name, which wait at the collector like for any other recipient until the board acknowledges them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core.crypto import Identity
from covey.core.group.manifest import COLLECTOR, GroupManifest, Member
from covey.core.ids import KEY_BYTES, DeviceKey
from covey.core.link.queued import MessageClass
from covey.core.link.rates import TokenBucket
from covey.core.membership.groups import Groups
from covey.core.wire import cbor
from covey.core.wire.message import Message, MessageType
from covey.errors import LocalError, MalformedError, NotAMemberError
from covey.limits.board import (
    BOARD_ALARM_SECONDS,
    BOARD_ALARM_SHARE,
    BOARD_ALARMS_SAVED,
    BOARD_ENVELOPES_WAITING,
    MAXIMUM_BOARD_MESSAGE_BYTES,
)
from covey.limits.message import MESSAGE_OVERHEAD_BYTES
from covey.limits.storage import OUTBOX_ALARM_SHARE

if TYPE_CHECKING:
    from covey.core.now import Now
    from covey.core.records.link import CarrierRecords, OutboxRecords

_OF_BOARDS = frozenset(
    {
        MessageType.BLOB,
        MessageType.LINK,
        MessageType.TELEMETRY,
        MessageType.SUMMARY,
        MessageType.LOSS,
        MessageType.ACK,
        MessageType.RESUME,
    }
)
KEPT_OF_ONE = 4
"""Envelopes of one author for one board: an acknowledgement does not push out a blob that came just before it."""
_FRAMING_BYTES = 64
"""Key, heads and array around an envelope."""


@dataclass(frozen=True, slots=True)
class Forward:
    """Somebody else's envelope, and the signing key of the device that it is for."""

    to: DeviceKey
    envelope: bytes = field(repr=False)

    def to_wire(self) -> bytes:
        """Return the body `[to, envelope]`."""
        return cbor.encode_growing([self.to, self.envelope])

    @classmethod
    def from_wire(cls, body: bytes) -> Forward:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                cbor.decode_growing(body, MAXIMUM_BOARD_MESSAGE_BYTES + _FRAMING_BYTES),
                "forward",
                cbor.octets(KEY_BYTES),
                cbor.octets_to(MAXIMUM_BOARD_MESSAGE_BYTES),
            )
        )


class BoardRoutes:
    """Who carries for which board, and what waits here for boards that hang on this device."""

    def __init__(self, records: CarrierRecords) -> None:
        self._records = records
        self._repeated: dict[DeviceKey, DeviceKey] = {}
        self._waiting: deque[tuple[DeviceKey, Forward]] = deque(maxlen=BOARD_ENVELOPES_WAITING)
        self._alarms: dict[DeviceKey, TokenBucket] = {}
        """Of each board of this device that has sent alarms: seconds that it has saved up (rule 6)."""
        self.on_line: frozenset[DeviceKey] = frozenset()
        """The boards that take what is handed down at the moment."""

    def brought(self, board: DeviceKey, carrier: DeviceKey, *, new: bool) -> None:
        """Note who brought a board's message (rule 3)."""
        if not new:
            self._repeated[board] = carrier
        elif self._records.of(board) != carrier:
            self._records.set(board, carrier)

    def carriers(self, board: DeviceKey) -> set[DeviceKey]:
        """Return the devices that an acknowledgement for a board goes to now."""
        carriers = {self._records.of(board), self._repeated.pop(board, None)}
        return {carrier for carrier in carriers if carrier is not None}

    def takes_alarm(self, board: DeviceKey, size: int, outbox: OutboxRecords, now: Now) -> bool:
        """Say whether what a board of ours calls an alarm may go as one, and count it if so (rule 6)."""
        room = outbox.maximum_bytes // OUTBOX_ALARM_SHARE // BOARD_ALARM_SHARE
        if outbox.bytes_by_class()[MessageClass.ALARM] + size + MESSAGE_OVERHEAD_BYTES > room:
            return False
        saved = self._alarms.setdefault(board, TokenBucket(1, BOARD_ALARMS_SAVED * BOARD_ALARM_SECONDS))
        if not saved.holds(BOARD_ALARM_SECONDS, now.monotonic_us):
            return False
        saved.spend(BOARD_ALARM_SECONDS, now.monotonic_us)
        return True

    def inbox(self, groups: Groups, own: Identity, device: DeviceKey) -> DeviceKey | None:
        """Return who takes what comes for a device: itself, or a board's gateway; None: nobody elsewhere."""
        if board_member(groups, device) is None:
            return device
        carrier = self._records.of(device)
        return None if carrier == own.signing_public else carrier

    def leads_here(self, board: DeviceKey, own: Identity) -> bool:
        """Say whether a board hangs on this device."""
        return self._records.of(board) == own.signing_public

    def may_keep(self, author: DeviceKey, board: DeviceKey) -> bool:
        """Say whether an envelope of an author would be handed down to a board now, and push nothing out (rule 4)."""
        room = len(self._waiting) < BOARD_ENVELOPES_WAITING
        return room and board in self.on_line and len(self._alike(author, board)) < KEPT_OF_ONE

    def _alike(self, author: DeviceKey, board: DeviceKey) -> list[tuple[DeviceKey, Forward]]:
        return [each for each in self._waiting if each[0] == author and each[1].to == board]

    def keep(self, author: DeviceKey, forward: Forward) -> None:
        """Keep an envelope for a board of ours (rule 4); of too many, the oldest goes."""
        alike = self._alike(author, forward.to)
        if len(alike) >= KEPT_OF_ONE:
            self._waiting.remove(alike[0])
        self._waiting.append((author, forward))

    def take(self, asleep: frozenset[DeviceKey] = frozenset()) -> list[Forward]:
        """Return, once, what came for our boards; what is for boards that sleep stays."""
        taken = [forward for _, forward in self._waiting if forward.to not in asleep]
        kept = [each for each in self._waiting if each[1].to in asleep]
        self._waiting.clear()
        self._waiting.extend(kept)
        return taken


def blob_recipients(group: GroupManifest, own: DeviceKey, to: DeviceKey | None) -> list[Member]:
    """Return who a blob goes to: everybody else but boards, or the one named; a board only from a collector (rule 7).

    Raises:
        LocalError: not to that one.
    """
    others = [member for member in group.members if member.keys.signing_public != own]
    if to is None:
        return [member for member in others if not member.is_board]
    named = [member for member in others if member.keys.signing_public == to]
    if not named:
        raise LocalError("that is not another member of the group", hint="'covey group members' lists them")
    sender = group.member(own)
    if named[0].is_board and (sender is None or COLLECTOR not in sender.capabilities):
        raise LocalError("a board accepts messages only from its collector", hint="send it from the collector")
    return named


def board_member(groups: Groups, device: DeviceKey) -> tuple[GroupManifest, Member] | None:
    """Return the first group that we share with a board, and its record there; None for what is no board."""
    return next(board_memberships(groups, device), None)


def board_memberships(groups: Groups, device: DeviceKey) -> Iterator[tuple[GroupManifest, Member]]:
    """Yield all groups that we share with a board, and its records there."""
    if groups.addresses.may_be_board(device):
        for group in groups.joined():
            member = group.member(device)
            if member is not None and member.is_board:
                yield group, member


def check_forward(groups: Groups, board: DeviceKey, recipient: DeviceKey, envelope: bytes) -> GroupManifest:
    """Return the group in which a board's envelope may be carried to a recipient.

    Raises:
        LocalError: it may not.
    """
    shared = [group for group, _ in board_memberships(groups, board)]
    if not shared:
        raise LocalError("this board is in no group of this device", hint="add it: covey mcu enrol")
    collected = (group for group in shared if (member := group.member(recipient)) and COLLECTOR in member.capabilities)
    found = next(collected, None)
    if found is None:
        raise LocalError(
            "the board sends to a device that is not a collector of its group",
            hint="make it choose again: covey mcu reset --unenrol",
        )
    if len(envelope) > MAXIMUM_BOARD_MESSAGE_BYTES:
        raise LocalError(f"a board's envelope must have at most {MAXIMUM_BOARD_MESSAGE_BYTES} bytes")
    return found


def check_forwarded(groups: Groups, message: Message, carrier: DeviceKey) -> None:
    """Check what an envelope inside a FORWARD held (rule 2).

    Raises:
        RemoteError: it does not belong there.
    """
    if message.type not in _OF_BOARDS:
        raise MalformedError(f"a {message.type.name} must not be forwarded")
    if board_member(groups, message.author) is None or board_member(groups, carrier) is not None:
        raise NotAMemberError("only gateways may forward, and only for boards")


def read_downward(groups: Groups, message: Message) -> Forward:
    """Return what an unsequenced FORWARD brings for a board of ours (rule 4).

    Raises:
        RemoteError: malformed, or its author shares no group with the board.
    """
    forward = Forward.from_wire(message.body)
    if all(group.member(message.author) is None for group, _ in board_memberships(groups, forward.to)):
        raise NotAMemberError("the envelope's author shares no group with the board")
    return forward
