"""Handlers of sequenced messages, by subject; `landing.py` has those of messages that a collector lands.

GroupMessages     a group's membership, and JOIN requests
HistoryMessages   operations of a group's history
OrderMessages     reports about orders
PeerMessages      between two devices: blobs, link keys, file acknowledgements
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from covey.core.actions.received import ReceivedResults
from covey.core.actions.results import OrderResult
from covey.core.checkpoints.newcomers import Newcomers
from covey.core.content.exchange import ContentExchange
from covey.core.crypto import NONCE_BYTES
from covey.core.events import BlobArrived, EnvelopeDropped, Event, HistoryForked, HistoryGrew
from covey.core.group.messages import Bundle, GroupSend
from covey.core.history.heads import HeadsExchange
from covey.core.history.history import History, Taken
from covey.core.history.messages import HistoryPull
from covey.core.ids import DeviceKey, GroupId
from covey.core.link.link_keys import KeptKey, LinkKey
from covey.core.link.send_queue import SendQueue
from covey.core.membership.asking_back import AskingBack
from covey.core.membership.events import InvitationState, InviteRequested, JoinRefused, VoteCast
from covey.core.membership.joining import Joining
from covey.core.membership.maintenance import GroupMaintenance
from covey.core.membership.membership import Membership
from covey.core.membership.notices import is_refusal, leaves_what_was_lost
from covey.core.membership.past import Past
from covey.core.membership.requests import invite_member, receive_group_invite
from covey.core.membership.unknown_groups import receive_request
from covey.core.membership.voting import own_votes, receive_vote
from covey.core.now import Now
from covey.core.pairing.invite import NO_INVITE, JoinRequest
from covey.core.pairing.pending import OpenInvite
from covey.core.pairing.preview import GroupDescription
from covey.core.receiving.outcome import Delivery, Handler, HandlerOutcome
from covey.core.settings.reporting import SettingReporting
from covey.core.wire.message import Message, MessageType, read_message
from covey.core.wire.sequences import SequenceSet
from covey.errors import AheadError, LocalError, RemoteError
from covey.limits.message import MAXIMUM_COUNTER

if TYPE_CHECKING:
    from covey.core.records import Records
    from covey.core.records.link import CounterRecords


_Take = Callable[[Message, Now], HandlerOutcome]


class GroupMessages:
    """Applies what members say of their groups."""

    def __init__(
        self,
        own: DeviceKey,
        membership: Membership,
        joining: Joining,
        maintenance: GroupMaintenance,
        past: Past,
        asking_back: AskingBack,
        records: Records,
        queue: SendQueue,
        heads: HeadsExchange,
        decide: Callable[[VoteCast, Now], None],
    ) -> None:
        """`decide` hears of each vote that counts."""
        self._own = own
        self._decide = decide
        self._membership = membership
        self._joining = joining
        self._groups = membership.groups
        self._maintenance = maintenance
        self._past = past
        self._asking_back = asking_back
        self._records = records
        self._queue = queue
        self._heads = heads
        self._votes_seen = -1
        """The groups' generation in which it was looked whether votes that are kept decide."""
        self._tried: dict[GroupId, bytes | None] = dict.fromkeys(records.ahead.groups())
        """Groups in which something waits, and the manifest under which it was tried last."""

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handlers by message type."""
        return {
            MessageType.JOIN: self._join,
            MessageType.GROUP_MANIFEST: self._manifest,
            MessageType.GROUP_PULL: self._pull,
            MessageType.GROUP_INVITE: self._invite,
            MessageType.INVITE_REQUEST: self._invite_request,
            MessageType.GROUP_VOTE: self._vote,
            MessageType.REVOKE: self._revoke,
        }

    def _join(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        if JoinRequest.from_wire(delivery.message.body).secret == NO_INVITE:
            sends = self._joining.receive_visit(delivery.message, now.wall_us)
            if sends is None:
                return HandlerOutcome(taken=False)
            self._queue.restart(delivery.message.author, now)
            return HandlerOutcome(sends=tuple(sends))
        if delivery.invite is None:
            return HandlerOutcome(sends=tuple(self._maintenance.refuse_join(delivery.message)))
        if delivery.invite.prepared_for is not None and self._gathers(delivery.message, delivery.invite, now):
            return HandlerOutcome()
        sends = self._joining.admit(delivery.message, delivery.invite, now.wall_us)
        self._queue.restart(delivery.message.author, now)
        return HandlerOutcome(sends=tuple(sends))

    def _gathers(self, message: Message, invite: OpenInvite, now: Now) -> bool:
        known = self._groups.group(message.group_id).member(message.author)
        return known is None and self._maintenance.gathering().take(message, invite, now)

    def _manifest(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        message = delivery.message
        if self._membership.lets_wait(message, now.wall_us):
            return HandlerOutcome(taken=False)
        if leaves_what_was_lost(self._membership, message):
            return HandlerOutcome()
        if is_refusal(self._membership, message):
            return HandlerOutcome(events=(JoinRefused(message.group_id, message.author),))
        self._past.take(message.group_id, Bundle.from_wire(message.body).manifests, now)
        sends = self._membership.receive_manifests(message, now.wall_us)
        sends += self._maintenance.ask(self._groups, message.group_id, message.author, now)
        if not any((each.recipient, each.type) == (message.author, MessageType.GROUP_PULL) for each in sends):
            sends += self._heads.ask_on(message.group_id, message.author)
        sends += self._asking_back.answer(message, now)
        return HandlerOutcome(sends=tuple(sends))

    def _pull(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        return HandlerOutcome(sends=tuple(self._maintenance.answer_pull(self._groups, delivery.message, now)))

    def _invite(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        requests = self._records.requests
        known = {(each.group_id, each.inviter.signing_public) for each in requests.pending()}
        invited = receive_group_invite(self._groups, requests, delivery.message, now.wall_us)
        if invited is None:
            return HandlerOutcome()
        if (invited.group_id, invited.inviter) in known:
            return HandlerOutcome()
        events, state = self._membership.events, InvitationState.RECEIVED
        events.invitation(invited.group_id, invited.inviter, state, now.wall_us)
        return HandlerOutcome(events=(invited,))

    def _invite_request(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        message = delivery.message
        answers = receive_request(self._groups, self._records, message, now)
        if answers is None:
            return HandlerOutcome()
        if not answers:
            return HandlerOutcome(events=(InviteRequested(message.group_id, message.author),))
        try:
            body = invite_member(
                *(self._groups, self._joining, message.group_id, message.author, (), GroupDescription(), now.wall_us),
                may_be_member=True,
            ).to_wire()
        except LocalError:  # too many invites are open, or it is a board
            return HandlerOutcome()
        invite = GroupSend(message.author, MessageType.GROUP_INVITE, message.group_id, body)
        return HandlerOutcome(sends=(invite,))

    def _vote(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        return self._now_or_later(self._take_vote, delivery.message, now)

    def _revoke(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        return self._now_or_later(self._take_revoke, delivery.message, now)

    # -- what is ahead of the manifests held --------------------------------------------------------------------------

    def _now_or_later(self, take: _Take, message: Message, now: Now) -> HandlerOutcome:
        """Accept a message, or keep it until its missing manifest arrives, which its author is asked for."""
        try:
            return take(message, now)
        except AheadError:
            if not self._records.ahead.keep(message):
                return HandlerOutcome(taken=False)
            group_id = message.group_id
            self._tried[group_id] = self._held().get(group_id, b"")
            asks = self._maintenance.ask(self._groups, group_id, message.author, now, behind=True)
            return HandlerOutcome(sends=tuple(asks))

    def _held(self) -> dict[GroupId, bytes]:
        return {group.group_id: group.raw for group in self._groups.joined()}

    @property
    def has_work(self) -> bool:
        """Say whether something waits in a group that has changed since, or votes that are kept may decide since."""
        if self._votes_seen != self._groups.generation:
            return True
        if not self._tried:
            return False
        held = self._held()
        return any(held.get(group_id, b"") != tried for group_id, tried in self._tried.items())

    def take_what_waited(self, now: Now) -> HandlerOutcome:
        """Take what waited for a manifest that has come; what turns out to break a rule is dropped.

        Of votes that are kept, those decide that have become enough: an admin went, or one who has voted is back.
        """
        sends: list[GroupSend] = []
        events: list[Event] = []
        takes = {MessageType.GROUP_VOTE: self._take_vote, MessageType.REVOKE: self._take_revoke}
        for group_id in list(self._tried):
            for number, raw in self._records.ahead.of_group(group_id):
                message = read_message(raw, verify=False)
                try:
                    outcome = takes[message.type](message, now)
                except AheadError:
                    continue
                except RemoteError as error:
                    self._records.counters.count(f"dropped_{error.code}")
                else:
                    sends += outcome.sends
                    events += outcome.events
                self._records.ahead.drop(number)
        held = self._held()
        self._tried = {group_id: held.get(group_id, b"") for group_id in self._records.ahead.groups()}
        self._votes_seen = self._groups.generation
        for cast in own_votes(self._groups, self._records.votes, self._own):
            self._decide(cast, now)
        return HandlerOutcome(sends=tuple(sends), events=tuple(events))

    def _take_vote(self, message: Message, now: Now) -> HandlerOutcome:
        known = message.body in self._records.votes.of_group(message.group_id)
        cast = receive_vote(self._groups, self._records.votes, message)
        if not known:
            self._membership.events.vote(cast, now.wall_us)
        self._decide(cast, now)
        return HandlerOutcome(events=(cast,))

    def _take_revoke(self, message: Message, now: Now) -> HandlerOutcome:
        author = message.author
        sends = self._membership.receive_revoke(message, now.wall_us)
        if self._groups.shares_nothing_with(author):  # it knows, and may be gone before it answers
            self._queue.free(author, SequenceSet(MAXIMUM_COUNTER), now)
        else:
            self._queue.withdraw_of_group(author, message.group_id, now)
        return HandlerOutcome(sends=tuple(sends))


class HistoryMessages:
    """Applies what members say in their groups."""

    def __init__(
        self,
        history: History,
        membership: Membership,
        maintenance: GroupMaintenance,
        counters: CounterRecords,
        newcomers: Newcomers,
    ) -> None:
        self._history = history
        self._membership = membership
        self._maintenance = maintenance
        self._counters = counters
        self._newcomers = newcomers

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handlers by message type."""
        return {
            MessageType.OPERATIONS: self._operations,
            MessageType.HISTORY_PULL: self._pull,
            MessageType.HISTORY_GRAPH: self._graph,
        }

    def _operations(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        """Accept operations. One that breaks a rule is dropped alone and reported; the rest is processed."""
        message = delivery.message
        taken, sends = self._history.receive(message, now)
        if taken.accepted:
            self._newcomers.progressed(message.group_id)
        return self._outcome(message, taken, sends, now)

    def _graph(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        """Accept the places of forgotten operations, and what accompanies them."""
        return self._outcome(delivery.message, *self._newcomers.receive(delivery.message, now), now)

    def _outcome(self, message: Message, taken: Taken, sends: list[GroupSend], now: Now) -> HandlerOutcome:
        if taken.missing_manifest is not None:
            sends += self._maintenance.ask(self._membership.groups, message.group_id, message.author, now, behind=True)
        events: list[Event] = []
        if taken.accepted:
            events.append(HistoryGrew(message.group_id, message.author, len(taken.accepted)))
        events += [HistoryForked(message.group_id, author) for author in sorted(taken.forks)]
        for error in taken.refused:
            self._counters.count(f"dropped_operation_{error.code}")
            events.append(EnvelopeDropped(error.code, str(error), message.author))
        return HandlerOutcome(sends=tuple(sends), events=tuple(events))

    def _pull(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        message, exchange = delivery.message, self._history.exchange
        pull = HistoryPull.from_wire(message.body)  # once: of a group of 1,000 it takes milliseconds
        sends = exchange.answering.answer(message, pull) or self._newcomers.answer(message)
        return HandlerOutcome(sends=(*sends, *exchange.asking.ask_back(message, pull, now)))


class OrderMessages:
    """Keeps what members report."""

    def __init__(self, settings: SettingReporting, results: ReceivedResults) -> None:
        self._settings = settings
        self._results = results

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handlers by message type."""
        return {MessageType.SETTING_REPORT: self._report, MessageType.ORDER_RESULT: self._result}

    def _report(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        self._settings.receive(delivery.message, now)
        return HandlerOutcome()

    def _result(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        message = delivery.message
        result = OrderResult.from_wire(message.body)
        return HandlerOutcome(taken=self._results.keep(message.group_id, message.author, result, now))


class PeerMessages:
    """Keeps what a peer gives."""

    def __init__(self, records: Records, content: ContentExchange, rng: Callable[[int], bytes]) -> None:
        self._records = records
        self._content = content
        self._rng = rng

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handlers by message type."""
        return {
            MessageType.BLOB: self._blob,
            MessageType.LINK: self._link_key,
            MessageType.CONTENT_ACK: self._file_is_there,
        }

    def _blob(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        message = delivery.message
        if not self._records.inbox.deliver(message, now.wall_us):
            return HandlerOutcome(taken=False)
        return HandlerOutcome(events=(BlobArrived(message.author, len(message.body)),))

    def _link_key(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        """Store a link key that came sealed; its author does not use any other (`link_keys.py`, rule 3)."""
        link = LinkKey.from_wire(delivery.message.author, delivery.message.body)
        if delivery.sealed_for is not None:
            kept = KeptKey.of(link, delivery.message.recipient, delivery.sealed_for, self._rng(NONCE_BYTES))
            self._records.link_keys.save(kept, now.wall_us)
        return HandlerOutcome()

    def _file_is_there(self, delivery: Delivery, _now: Now) -> HandlerOutcome:
        self._content.acknowledge(delivery.message)
        return HandlerOutcome()
