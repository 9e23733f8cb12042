"""What a node does with an envelope that arrives: it checks the author and hands the message to its type's handler.

An envelope passes these steps in order, and the first failure ends it:

    1. size, shape, decryption; shape of the message; its author has tokens left (`link/rates.py`); its signature; it
       names this device as its recipient. The link key stands for a note's signature and recipient (`wire/note.py`);
    2. the author may speak: a member of the group named; for link messages any device with a known address; the inviter
       whose answer is awaited; or the bearer of an open invite (000.24);
    3. the link sequence is new (`link/receiver.py`), and the message belongs to the author's one incarnation
       (`link/imprints.py`);
    4. the type's own rules: its handler. An authentic message that breaks these is quarantined and acknowledged, so
       that the link continues.

Steps 1 and 2 are here. A message with a link sequence takes steps 3 and 4 in `sequenced.py`, any other in
`unsequenced.py`; both find the handler by the message's type.

An example. Ada has sent Ben blobs 1 to 3 over one link, and the relay delivers 1, 3, 3, a forged blob 4, then 2:

    envelope             ended by step     Ben then holds   Ada receives    cost (`limits/rate.py`)
    blob 1               none: accepted    1                "1"             news, paid by Ada
    blob 3               none: accepted    1, 3             "1, 3"          news, paid by Ada
    blob 3 again         3: a duplicate    1, 3             "1, 3" again    worthless, paid by Ada
    blob 4 by the relay  1: signature      1, 3             nothing         worthless, paid by all in common
    blob 2               none: accepted    1 to 3           "1 to 3"        news, paid by Ada

Ben answers the duplicate because the first answer may have been lost. He does not answer the forgery: only authentic
messages make this device send anything, and only Ada can spend Ada's tokens. Three other outcomes for blob 3:

    Ben's inbox is full    The handler reports it (`taken` is false): the number stays open, and Ada sends the blob
    again.
    Ada was removed        Step 2 ends it silently: Ada no longer learns anything of the group.
    Its type refuses it    Ben quarantines and acknowledges it; a resend would only be refused again.

A message that fails step 2 (docs/protocol/core.md, "The link", Receiving, 2) is not acknowledged: the sender sees
silence. Acknowledgements are accepted from any device,
because they free only messages queued for their author. They prove a rollback of this state only if their author may
speak here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.core.content.exchange import ContentExchange
from covey.core.crypto import Identity, NoiseKey
from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.group.messages import Bundle
from covey.core.ids import DeviceKey
from covey.core.link.costs import Traffic, kind_of
from covey.core.link.link_keys import SendingLinks, open_envelope
from covey.core.link.rates import ReceivingRates
from covey.core.link.receiver import ReceiveLinks
from covey.core.link.send_queue import SendQueue
from covey.core.mailbox.mailboxes import Mailboxes
from covey.core.membership.asking_back import AskingBack
from covey.core.membership.membership import Membership
from covey.core.membership.notices import came_before, leaves_what_was_lost, refuses_for_good
from covey.core.membership.public_joins import check_visit
from covey.core.membership.requests import may_invite
from covey.core.membership.unknown_groups import may_request, note_unknown
from covey.core.now import Now
from covey.core.pairing.invite import NO_INVITE, JoinRequest
from covey.core.pairing.pending import OpenInvite
from covey.core.receiving.outcome import UNFORESEEN, Delivery, Drops, Handler, HandlerOutcome, Reception, Seen
from covey.core.receiving.sequenced import SequencedMessages
from covey.core.receiving.unsequenced import UnsequencedMessages
from covey.core.routing.forwarding import Forward, check_forwarded
from covey.core.wire.message import NO_GROUP, Message, MessageType, read_message
from covey.core.wire.note import is_note, read_note
from covey.errors import InviteError, NotAMemberError, NotForUsError, RateError, RemoteError, UnknownGroupError
from covey.limits.rate import DEFECT_TOKENS, NEWS_TOKENS, THROTTLED_TOKENS, WORTHLESS_TOKENS

if TYPE_CHECKING:
    from covey.core.records import Records


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
    elif message.type is MessageType.INVITE_REQUEST:
        may_request(membership.groups, message)
    elif message.type in _OF_LINKS or not (message.link_seq or message.type in UNANSWERED):
        stranger = not membership.groups.hears(message.author)
        if stranger or (message.type in _OF_LINKS and message.group_id != NO_GROUP):
            raise NotAMemberError(f"a {message.type.name} by an unknown device")
    elif message.type in _OF_GROUPS:
        _check_member(membership, message)
    elif membership.groups.group(message.group_id).member(message.author) is None:
        of_former_member = message.type is MessageType.ORDER_RESULT  # its handler finds out whether it was one
        if not of_former_member or membership.groups.shares_nothing_with(message.author):
            raise NotAMemberError("the author is not a member of the group")
    return None


def _check_member(membership: Membership, message: Message) -> None:
    """Check that the author of a GROUP_MANIFEST, GROUP_PULL or REVOKE may speak of the group.

    Manifests may come from a member that we do not know of yet, if they themselves list it; from a device that leaves
    by them, as others may have told us of that before; and from one that passes its own removal on to us.

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
            if newest.group_id == message.group_id and (concerned or _passes_on(membership, message.author, newest)):
                return
    raise NotAMemberError("the author is not a member of the group")


def _passes_on(membership: Membership, author: DeviceKey, newest: GroupManifest) -> bool:
    """Say whether the author of a manifest that is held here is in another group of ours: else it would repeat it."""
    groups = membership.groups
    return not groups.shares_nothing_with(author) and groups.trust(newest.group_id).holds(newest.hash)


_PERHAPS_LATER = (RateError, UnknownGroupError, NotAMemberError)
"""What another group manifest, or a while, may mend."""


@dataclass(frozen=True, slots=True)
class _Opened:
    """An authentic message for us; `sealed_for` is the noise key that opened it, None for one that came by a link."""

    message: Message
    sealed_for: NoiseKey | None


class Receiver:
    """Opens envelopes, judges who speaks, and passes on what its author may say."""

    def __init__(
        self,
        identity: Identity,
        records: Records,
        drops: Drops,
        sequenced: SequencedMessages,
        unsequenced: UnsequencedMessages,
        *,
        rates: ReceivingRates,
        membership: Membership,
        asking_back: AskingBack,
        queue: SendQueue,
        links: ReceiveLinks,
        link_keys: SendingLinks,
        content: ContentExchange,
        mailboxes: Mailboxes,
        traffic: Traffic,
    ) -> None:
        self._identity = identity
        self._records = records
        self._drops = drops
        self._sequenced = sequenced
        self._unsequenced = unsequenced
        self._rates = rates
        self._membership = membership
        self._asking_back = asking_back
        self._queue = queue
        self._links = links
        self._link_keys = link_keys
        self._content = content
        self._mailboxes = mailboxes
        self._traffic = traffic

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handler of envelopes within messages, which come here again."""
        return {MessageType.FORWARD: self._forward}

    def receive(self, raw: bytes, now: Now) -> Seen | None:
        """Deal with one envelope from a relay; return its author, where that one wants an answer or was seen."""
        return self._receive(raw, None, now).seen

    def receive_from(self, carrier: DeviceKey, raw: bytes, now: Now) -> bool:
        """Deal with an envelope that a gateway brought; return False where there is no room for it."""
        return self._receive(raw, carrier, now).taken

    def receive_kept(self, raw: bytes, now: Now) -> bool:
        """Deal with an envelope that a mailbox has kept; return False where it is to be kept on."""
        reception = self._receive(raw, None, now, kept=True)
        return reception.taken and not reception.later

    def take_manifests(self, message: Message, body: bytes, now: Now) -> None:
        """Deal with a body of GROUP_MANIFEST as if the author of another message had sent it so.

        Raises:
            RemoteError: it breaks the rules of manifests.
        """
        self._sequenced.handle(replace(message, type=MessageType.GROUP_MANIFEST, body=body), now)

    def handle_set_aside(self, message: Message, now: Now) -> bool:
        """Deal with a message that was set aside by its kind's rules; return False where there is no room for it.

        Raises:
            RemoteError: it breaks them still.
        """
        return self._sequenced.handle(message, now).taken

    def set_aside(self, raw: bytes, now: Now) -> DeviceKey | None:
        """Quarantine the message of an envelope, and continue its link; return its author.

        For one that triggered a defect of ours. Messages about a link, or without authority, are dropped.
        """
        author = None
        try:
            message = self._open(raw, now).message
            author = message.author
            self._rates.spend(author, DEFECT_TOKENS, now.monotonic_us)
            authorise(self._membership, message, now.wall_us)
            if not (message.link_seq and self._sequenced.set_aside(message, now)):
                self._records.counters.count(f"dropped_{UNFORESEEN}")
        except RemoteError as error:
            self._drops.note(error, author)
        return author

    def _open(self, raw: bytes, now: Now) -> _Opened:
        """Open an envelope, and check that the message in it is its author's, and for us (step 1).

        Raises:
            RemoteError: it does not open, or is not.
        """
        opened = open_envelope(raw, self._identity, self._records.link_keys.find)

        def admit(author: DeviceKey) -> None:
            # Before the signature: verifying is the dearest step, and whoever floods would have it for nothing.
            if self._rates.exhausted(author, now.monotonic_us):
                raise RateError("the author sends too fast")

        if opened.author is not None and is_note(opened.message):
            admit(opened.author)
            return _Opened(read_note(opened.message, opened.author, self._identity.signing_public), None)
        message = read_message(opened.message, admit=admit)
        opened.check_author(message)
        if message.recipient != self._identity.signing_public:
            raise NotForUsError("the message names another recipient")
        return _Opened(message, opened.sealed_for)

    def _receive(self, raw: bytes, carrier: DeviceKey | None, now: Now, *, kept: bool = False) -> Reception:
        payer = None  # nobody, until a signature holds: else anybody could spend another device's tokens
        try:
            opened = self._open(raw, now)
            payer = opened.message.author
            if carrier is None and not kept:
                self._traffic.count_received(kind_of(opened.message.type), len(raw))
            reception = self._take(opened, carrier, now, kept=kept)
            tokens = NEWS_TOKENS if reception.useful else WORTHLESS_TOKENS
        except RemoteError as error:
            reception = Reception(later=isinstance(error, _PERHAPS_LATER))
            tokens = THROTTLED_TOKENS if isinstance(error, RateError) else WORTHLESS_TOKENS
            self._drops.note(error, payer)
        self._rates.spend(payer, tokens, now.monotonic_us)
        return reception

    def _take(self, opened: _Opened, carrier: DeviceKey | None, now: Now, *, kept: bool) -> Reception:
        """Deal with an authentic message.

        Raises:
            RemoteError: its author may not speak, or not so.
        """
        message = opened.message
        if carrier is not None:
            check_forwarded(self._membership.groups, message, carrier)
        if self._is_for_anybody(message):
            return self._unsequenced.receive(message, now, kept=kept)
        invite = self._authorised(message, now)
        self._link_keys.note_seen(message.author)
        self._queue.seen(message.author)
        self._content.seen(message.author, now)
        self._mailboxes.seen(message.author)
        if not message.link_seq:
            return self._unsequenced.receive(message, now, kept=kept)
        if carrier is not None:
            self._links.make_room(message.author, message.incarnation)
        link = self._links.of(message.author, message.incarnation)
        return self._sequenced.receive(Delivery(message, link, invite, opened.sealed_for), carrier, now)

    def _is_for_anybody(self, message: Message) -> bool:
        """Return whether a message is processed from any author."""
        if message.type is MessageType.ACK:
            return True  # it frees only what is queued for its author
        # A former member may not know that it is one, and is told by what comparing heads brings.
        return message.type is MessageType.HEADS and not self._membership.groups.hears(message.author)

    def _authorised(self, message: Message, now: Now) -> OpenInvite | None:
        """Return the invite that a joiner bears, None for all others who may speak, or are to be answered anyway.

        Raises:
            RemoteError: the author may not speak (step 2).
        """
        try:
            return authorise(self._membership, message, now.wall_us)
        except UnknownGroupError:
            if not leaves_what_was_lost(self._membership, message):
                # This state may have lost the group, and the author can give it back.
                self._queue.queue_all(self._asking_back.ask(message, now), (), now)
                note_unknown(self._membership, self._records, message, now)
                raise
        except NotAMemberError:
            if not came_before(self._records, message):  # else the answer to it was lost: it is given again
                raise
        except InviteError as error:
            if not refuses_for_good(self._membership, message):
                raise
            # The joiner is to hear that its invite is no more, so the message goes on; it is paid for as a drop is.
            self._drops.note(error, message.author)
            self._rates.spend(message.author, WORTHLESS_TOKENS, now.monotonic_us)
        return None

    def _forward(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        forward = Forward.from_wire(delivery.message.body)
        if forward.to != self._identity.signing_public:
            raise NotForUsError("the forwarded envelope is for another device")
        return HandlerOutcome(taken=self.receive_from(delivery.message.author, forward.envelope, now))
