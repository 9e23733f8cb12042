"""The handlers of messages that speak of a group's membership, and of the JOIN that asks to be let in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from covey.core.link.send_queue import SendQueue
from covey.core.membership.maintenance import GroupMaintenance
from covey.core.membership.membership import Membership
from covey.core.membership.records import RequestRecords, VoteRecords
from covey.core.membership.requests import receive_group_invite
from covey.core.membership.voting import receive_vote
from covey.core.now import Now
from covey.core.outcome import Delivery, Handler, HandlerOutcome
from covey.core.wire.message import MessageType
from covey.core.wire.sequences import SequenceSet
from covey.limits.message import MAXIMUM_COUNTER


class GroupMessageRecords(Protocol):
    """What these handlers keep."""

    @property
    def votes(self) -> VoteRecords:
        """Votes that have not decided anything yet."""

    @property
    def requests(self) -> RequestRecords:
        """Invitations to further groups."""


class GroupMessages:
    """Applies what members say of their groups."""

    def __init__(
        self, membership: Membership, maintenance: GroupMaintenance, records: GroupMessageRecords, queue: SendQueue
    ) -> None:
        self._membership = membership
        self._maintenance = maintenance
        self._records = records
        self._queue = queue

    def handlers(self) -> Mapping[MessageType, Handler]:
        """Return the handlers by message type."""
        return {
            MessageType.JOIN: self._join,
            MessageType.GROUP_MANIFEST: self._manifest,
            MessageType.GROUP_PULL: self._pull,
            MessageType.GROUP_INVITE: self._invite,
            MessageType.GROUP_VOTE: self._vote,
            MessageType.REVOKE: self._revoke,
        }

    def _join(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        if delivery.invite is None:
            return HandlerOutcome()
        return HandlerOutcome(sends=tuple(self._membership.admit(delivery.message, delivery.invite, now.wall_us)))

    def _manifest(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        message = delivery.message
        sends = self._membership.receive_manifests(message, now.wall_us)
        sends += self._maintenance.ask(self._membership, message.group_id, message.author, now)
        return HandlerOutcome(sends=tuple(sends))

    def _pull(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        return HandlerOutcome(sends=tuple(self._maintenance.answer_pull(self._membership, delivery.message, now)))

    def _invite(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        invited = receive_group_invite(self._membership, self._records.requests, delivery.message, now.wall_us)
        return HandlerOutcome(events=() if invited is None else (invited,))

    def _vote(self, delivery: Delivery, _now: Now) -> HandlerOutcome:
        return HandlerOutcome(events=(receive_vote(self._membership, self._records.votes, delivery.message),))

    def _revoke(self, delivery: Delivery, now: Now) -> HandlerOutcome:
        author = delivery.message.author
        sends = self._membership.receive_revoke(delivery.message, now.wall_us)
        if self._membership.shares_nothing_with(author):  # it knows, and may be gone before it answers
            self._queue.free(author, SequenceSet(MAXIMUM_COUNTER), now)
        return HandlerOutcome(sends=tuple(sends))
