"""Groups that this device is addressed in and does not hold, and devices that ask to be let into groups of this one.

1. A message in a group that this device does not hold is dropped unanswered. If its author shares another group with
   this device, the pair is noted for a person; nothing else happens by itself, so nobody learns from it what this
   device holds. Of a group that the person has declined, or that this device was in or asks to join, nothing is noted.
2. If the person agrees, this device asks that author for an invite (INVITE_REQUEST), once in `INVITE_REQUEST_US`.
3. A device takes a request for a group of its own, from a device that shares a group with it. If the group lists the
   device already, which then has lost it, or was added by its keys, an invitation is the answer, unless one is open, or
   it has used `MAXIMUM_GROUP_ASKS_OF_ONE` that still live. Otherwise a person decides: the request is noted and shown,
   and reported once an hour at most. One that the person has declined is neither, for as long as it is noted. If this
   device may not let the other one in, nothing happens; nor if the group is that of the person's own devices.
4. An invitation is answered by a person as any other (`requests.py`).

Notes are bounded by device, so that nobody uses up the room of others, and end after `GROUP_REQUEST_US`. Invitations
that answer members take no room of those that persons make.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.group.manifest import Mode, read_manifest
from covey.core.group.messages import Bundle
from covey.core.ids import DeviceKey
from covey.core.membership.groups import Groups
from covey.core.membership.invitations import check_may_let_in
from covey.core.membership.membership import Membership
from covey.core.membership.requests import may_invite
from covey.core.now import Now
from covey.core.pairing.pending import InviteWish, UnknownGroup
from covey.core.wire import cbor
from covey.core.wire.message import Message, MessageType
from covey.errors import LocalError, RemoteError
from covey.limits.pairing import GROUP_REQUEST_US, INVITE_REQUEST_US, MAXIMUM_GROUP_ASKS_OF_ONE

if TYPE_CHECKING:
    from covey.core.records import Records

_REQUEST_BYTES = 64

_TO_MEMBERS = frozenset(
    {
        MessageType.BLOB,
        MessageType.EPHEMERAL,
        MessageType.OPERATIONS,
        MessageType.HISTORY_PULL,
        MessageType.TELEMETRY,
        MessageType.SUMMARY,
        MessageType.SETTING_REPORT,
        MessageType.ORDER_RESULT,
    }
)
"""What a device says only to those whom it takes for members."""


def request_to_wire() -> bytes:
    """Return the body of an INVITE_REQUEST, whose group id says everything."""
    return cbor.encode_growing([])


def check_request(body: bytes) -> None:
    """Check the body of an INVITE_REQUEST.

    Raises:
        RemoteError: malformed or beyond a bound.
    """
    cbor.record(cbor.decode_growing(body, _REQUEST_BYTES), "invite request")


def note_unknown(membership: Membership, records: Records, message: Message, now: Now) -> None:
    """Note that a message names a group that this device does not hold (rule 1). Inside a transaction."""
    groups, group_id = membership.groups, message.group_id
    if groups.trust_of(group_id) is not None or groups.shares_nothing_with(message.author):
        return
    if membership.invitations.waits_for(group_id) or group_id in records.requests.declined():
        return
    if message.type in _TO_MEMBERS or _lists(message, groups.own):
        records.group_asks.note_unknown(group_id, message.author, now.wall_us)


def _lists(message: Message, own: DeviceKey) -> bool:
    """Say whether a message brings a manifest that lists this device."""
    if message.type is not MessageType.GROUP_MANIFEST:
        return False
    try:
        newest = [read_manifest(raw, verify=False) for raw in Bundle.from_wire(message.body).manifests[-1:]]
    except RemoteError:
        return False
    return any(each.group_id == message.group_id and each.member(own) is not None for each in newest)


def unknown_groups(groups: Groups, records: Records, now_us: int) -> list[UnknownGroup]:
    """Return the groups that a person may ask to be let into, the newest first."""
    settled = {group.group_id for group in groups.joined()} | records.requests.declined().keys()
    settled |= {each.group_id for each in records.joins.pending()}
    settled |= {each.group_id for each in records.requests.pending() if each.expires_at_us > now_us}
    return [
        each
        for each in records.group_asks.unknown(now_us - GROUP_REQUEST_US)
        if each.group_id not in settled and not groups.shares_nothing_with(each.author)
    ]


def invite_wishes(groups: Groups, records: Records, now_us: int) -> list[InviteWish]:
    """Return which devices ask to be let into which groups of this one, the newest first."""
    joined = {group.group_id: group for group in groups.joined()}
    return [
        each
        for each in records.group_asks.wishes(now_us - GROUP_REQUEST_US)
        if each.group_id in joined and joined[each.group_id].member(each.device) is None
    ]


def check_may_ask(unknown: UnknownGroup, now: Now) -> None:
    """Check that an author may be asked for an invite now (rule 2).

    Raises:
        LocalError: it was asked a short time ago.
    """
    waited_us = now.wall_us - unknown.asked_at_us
    if 0 <= waited_us < INVITE_REQUEST_US:
        minutes = (INVITE_REQUEST_US - waited_us) // 60_000_000 + 1
        raise LocalError(
            "that member was asked already", hint=f"its person has to answer; you can ask again in {minutes} min"
        )


def may_request(groups: Groups, message: Message) -> None:
    """Check that a device may ask to be let into a group (rule 3).

    Raises:
        UnknownGroupError: this device is not in the group.
        NotAMemberError: the author shares no group with this device.
    """
    groups.group(message.group_id)
    may_invite(groups, message.author)


def receive_request(groups: Groups, records: Records, message: Message, now: Now) -> bool | None:
    """Take a request; return True if an invitation is the answer, False if a person is to hear of it (rule 3).

    Raises:
        RemoteError: malformed.
    """
    check_request(message.body)
    group = groups.group(message.group_id)
    if group.member(message.author) is not None:
        live = [
            each
            for each in records.invites.all()
            if (each.group_id, each.bound_to) == (group.group_id, message.author) and each.expires_at_us > now.wall_us
        ]
        is_enough = len(live) >= MAXIMUM_GROUP_ASKS_OF_ONE or any(each.used_by is None for each in live)
        return None if is_enough else True
    if group.mode is Mode.PERSONAL:
        return None
    try:
        check_may_let_in(group, groups.own, message.author)
    except LocalError:
        return None
    return False if records.group_asks.note_wish(message.group_id, message.author, now.wall_us) else None
