"""Who may say what: the second of a node's rules (docs/protocol.md, "The link", Receiving, 2).

What fails here is not acknowledged: it is silence to the sender. An acknowledgement is heard from anybody, as it frees
nothing but what is queued for its author.
"""

from __future__ import annotations

from covey.core.membership.membership import Membership
from covey.core.membership.records import OpenInvite
from covey.core.membership.requests import may_invite
from covey.core.wire.message import NO_GROUP, Message, MessageType
from covey.errors import NotAMemberError

_OF_LINKS = frozenset({MessageType.LOSS, MessageType.LINK})
_OF_GROUPS = frozenset({MessageType.GROUP_MANIFEST, MessageType.GROUP_PULL, MessageType.REVOKE})


def authorise(membership: Membership, message: Message, now_us: int) -> OpenInvite | None:
    """Return the invite that a joiner bears, None for everybody else who may speak.

    Raises:
        RemoteError: the author may not speak.
    """
    if message.type is MessageType.JOIN:
        return membership.invitations.find(message, now_us)
    if message.type is MessageType.GROUP_INVITE:
        may_invite(membership, message.author)
    elif message.type in _OF_LINKS or not message.link_seq:
        stranger = not membership.hears(message.author)
        if stranger or (message.type in _OF_LINKS and message.group_id != NO_GROUP):
            raise NotAMemberError(f"a {message.type.name} by a stranger")
    elif message.type in _OF_GROUPS:
        membership.authorise(message)
    elif membership.group(message.group_id).member(message.author) is None:
        raise NotAMemberError("the author is not a member of the group")
    return None
