"""Which device may send what: the second of a node's rules (docs/protocol/core.md, "The link", Receiving, 2).

A message that fails here is not acknowledged: the sender sees silence. Acknowledgements are accepted from any device,
because they free only messages queued for their author. They prove a rollback of this state only if their author may
speak here.
"""

from __future__ import annotations

from covey.core.group.manifest import read_manifest
from covey.core.group.messages import Bundle
from covey.core.membership.membership import Membership
from covey.core.membership.public_joins import check_visit
from covey.core.membership.requests import may_invite
from covey.core.pairing.invite import NO_INVITE, JoinRequest
from covey.core.pairing.pending import OpenInvite
from covey.core.wire.message import NO_GROUP, Message, MessageType
from covey.errors import NotAMemberError, UnknownGroupError

_OF_LINKS = frozenset({MessageType.LOSS, MessageType.LINK})
UNANSWERED = frozenset({MessageType.EPHEMERAL, MessageType.CONTENT_PULL, MessageType.CONTENT_PART, MessageType.MAILBOX})
"""What is said in a group, and has no place in a link."""
_OF_GROUPS = frozenset({MessageType.GROUP_MANIFEST, MessageType.GROUP_PULL, MessageType.REVOKE})


def authorise(membership: Membership, message: Message, now_us: int) -> OpenInvite | None:
    """Return the invite that a joiner bears, None for everybody else who may speak.

    Raises:
        RemoteError: the author may not speak.
    """
    if message.type is MessageType.JOIN:
        request = JoinRequest.from_wire(message.body)
        if request.secret == NO_INVITE:
            check_visit(membership.groups.group(message.group_id), message.author, request)
            return None
        return membership.invitations.find(message, now_us)
    if message.newer and message.group_id == NO_GROUP:
        if not membership.groups.hears(message.author):
            raise NotAMemberError("a message of an unknown type by a stranger")
    elif message.type is MessageType.GROUP_INVITE:
        may_invite(membership.groups, message.author)
    elif message.type in _OF_LINKS or not (message.link_seq or message.type in UNANSWERED):
        stranger = not membership.groups.hears(message.author)
        if stranger or (message.type in _OF_LINKS and message.group_id != NO_GROUP):
            raise NotAMemberError(f"a {message.type.name} by an unknown device")
    elif message.type in _OF_GROUPS:
        _check_member(membership, message)
    elif membership.groups.group(message.group_id).member(message.author) is None:
        raise NotAMemberError("the author is not a member of the group")
    return None


def _check_member(membership: Membership, message: Message) -> None:
    """Check that the author of a GROUP_MANIFEST, GROUP_PULL or REVOKE may speak of the group.

    Manifests may come from a member that we do not know of yet, if they themselves list it; and from who leaves by
    them, as others may have told us of that before.

    Raises:
        RemoteError: it may not.
    """
    of_manifests = message.type is MessageType.GROUP_MANIFEST
    if of_manifests and membership.invitations.awaited(message.group_id, message.author):
        return
    current = membership.groups.trust(message.group_id).current
    if current is None:
        raise UnknownGroupError("this device does not hold the group")
    if current.member(message.author) is not None:
        return
    if of_manifests:
        for raw in Bundle.from_wire(message.body).manifests[-1:]:
            newest = read_manifest(raw)
            concerned = newest.member(message.author) is not None or newest.issuer == message.author
            if newest.group_id == message.group_id and concerned:
                return
    raise NotAMemberError("the author is not a member of the group")
