"""Move this device from one group to another, as operators order (docs/protocol/history.md, "Moving to another group").

1. The order is a command in the old group. It counts as any other command, and only if the device's owner lets
   operators run `move-group`. It names the new group.
2. The device asks the operators that it obeys in the old group, one an hour, for an invitation to the new one: first
   the author of the order. It accepts the invitation by itself if it comes from one of them, and asks the next one
   after an hour if that operator has not let it in. No other invitation is accepted, nor one to a group that the owner
   has declined.
3. It takes part in at most `MAXIMUM_GROUP_MOVES` moves at a time, and enters no group by itself once it is in
   `JOINED_UNASKED`, or while it has boards in the old one; a board that has been silent for `BOARD_GONE_US` is gone.
4. In the new group it obeys the operators that it obeys in the old one at that moment, and no device else. If the
   configuration names operators, it does not learn any.
5. Once it is a member and the new group has a collector, readings go there. What waits for the collector of the old
   group still goes to that one.
6. When nothing of it waits any more, and a member has its entries of the old group's history, the device reports that
   the command is done. Before that, for `MOVED_LEAVES_US` at most, it ends the other orders of the old group that it
   may begin, and delivers their results and its reports to recipients that are in none of its other groups. Those that
   are accept results after it has left, too (`received.py`, rule 4). If operators have set something in the old group,
   it also awaits the history of the new one, which has what they set there instead: where all have deleted its
   beginning a newcomer waits for minutes, and its own values may cut it off. An operator then removes it from the old
   group; if no operator does so for `MOVED_LEAVES_US`, it leaves by itself. Where a removal takes votes of admins, it
   leaves after `LAST_WORDS_US`.
7. If the order no longer counts before the device is in the new group, or the device is removed from the old group
   before, the move ends. After that, it is completed.
8. A later order for the same old group replaces an earlier one, until the device has accepted an invitation to the new
   group. After that the device refuses: readings may wait in the new group, and it can be moved from there. It also
   refuses to return to a group while it is still a member there: the removal that completes the first move would
   remove it again. A device that was let in again since the order to leave has left, and its move is forgotten.

Each step is stored before anything depends on it, and may be repeated, so a power cut at any moment loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.core.actions.commands import CommandRecord
from covey.core.actions.moves import GroupMove, MovePhase
from covey.core.actions.results import (
    ARGUMENTS,
    NOT_ALLOWED,
    NOT_STARTED,
    QUEUE_FULL,
    REVOKED,
    WITHDRAWN,
    CommandState,
    End,
)
from covey.core.ids import GROUP_ID_BYTES, DeviceKey, GroupId, OperationId, Place
from covey.core.link.queued import Lane
from covey.core.membership.requests import unanswered
from covey.core.membership.voting import VOTING_MODES
from covey.core.pairing.pending import UnknownGroup
from covey.core.wire.message import MessageType, read_message
from covey.errors import ActionError
from covey.limits.actions import MAXIMUM_GROUP_MOVES, MOVED_LEAVES_US
from covey.limits.history import GRAPH_WAIT_US
from covey.limits.pairing import INVITE_REQUEST_US
from covey.limits.personal import JOINED_UNASKED, LAST_WORDS_US
from covey.limits.units import KIB

if TYPE_CHECKING:
    from covey.core.group.manifest import GroupManifest
    from covey.core.membership.actions import GroupActions
    from covey.core.membership.groups import Groups
    from covey.core.now import Now
    from covey.core.pairing.pending import GroupRequest
    from covey.core.records import Records

_DELIVERED = (Lane.ALARM, Lane.BULK)
"""What is still delivered in the old group before the device may go: readings, and blobs."""
_REPORTS = (MessageType.ORDER_RESULT, MessageType.SETTING_REPORT)
_LOOKED_AT = 64
_LOOKED_AT_BYTES = 256 * KIB


@dataclass(frozen=True, slots=True)
class Moved:
    """The result of a move, good or bad: how its command has ended."""

    operation: OperationId
    end: End


@dataclass(frozen=True, slots=True)
class Obeyed:
    """The orders that this device obeys: the commands that count, and the operators of each group.

    `paused` are releases, by group and once-id. `pins`: whether the operators of the old group become those of the new
    one (rule 4). `is_known` says whether a member of a group has what this device has written to its history. `boards`
    are those on this device's ports.
    """

    counting: Collection[OperationId]
    operators: Mapping[GroupId, Collection[DeviceKey]]
    pins: bool
    is_known: Callable[[GroupId], bool]
    paused: Collection[tuple[GroupId, bytes]] = ()
    boards: Collection[DeviceKey] = ()


class Moving:
    """The rules, over what is stored. Each method that changes something is one transaction of the caller's."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._moves = records.group_moves

    def begin(self, record: CommandRecord, now_us: int, joined: Mapping[GroupId, int]) -> list[Moved]:
        """Begin what a command orders (rules 3 and 8); return the moves that it ends.

        `joined`: this device's groups, and the version of each that let it in.

        Raises:
            ActionError: it names no other group, too many moves are under way, or this device has left for another one.
        """
        command, target = record.command, _target(record)
        if target == command.group_id:
            raise ActionError("this device is in that group already", ARGUMENTS)
        entered = {*joined, *(each.group_id for each in self._records.joins.pending())}
        for each in self._moves.all():
            if each.source == command.group_id and each.target != target and each.target in entered:
                name = each.target.hex()[:8]
                raise ActionError(f"this device is moving to group {name}: move it from there", NOT_STARTED)
            if each.source == target and target in joined and not self._has_returned(each, joined[target]):
                raise ActionError(f"this device has not left group {target.hex()[:8]} yet", NOT_STARTED)
        under_way = self.under_way()
        earlier = [each for each in under_way if each.source == command.group_id]
        if not earlier and len(under_way) >= MAXIMUM_GROUP_MOVES:
            raise ActionError(f"this device already moves between {len(under_way)} groups", QUEUE_FULL)
        self._moves.remove(target)  # a device may go back: readings for that group are no longer sent on
        self._moves.put(
            GroupMove(command.group_id, target, command.operation, command.author, MovePhase.JOINING, now_us)
        )
        why = "a later order moves this device to another group"
        return [Moved(each.operation, End(CommandState.STOPPED, WITHDRAWN, why)) for each in earlier]

    def under_way(self) -> list[GroupMove]:
        """Return the moves that have not ended, by group."""
        return [each for each in self._moves.all() if each.phase is not MovePhase.MOVED]

    def turn(self, groups: Groups, actions: GroupActions, obeyed: Obeyed, label: str, now: Now) -> list[Moved]:
        """Take the next steps of every move; return those that have ended. `label` is what this device calls itself.

        Raises:
            LocalError: the outbox is full: the caller rolls back.
        """
        ended: list[Moved] = []
        for each in self._moves.all():
            listed = groups.group(each.source).member(groups.own) if groups.is_in(each.source) else None
            if listed is not None and self._has_returned(each, listed.since):
                self._moves.remove(each.source)
            elif each.phase is MovePhase.JOINING:
                ended += self._join(each, groups, actions, obeyed, label, now)
            elif each.phase is MovePhase.DRAINING:
                ended += self._drain(each, groups, obeyed, now)
            elif listed is not None and self._may_leave(each, groups, now):
                actions.leave(each.source, now)
        return ended

    def _may_leave(self, move: GroupMove, groups: Groups, now: Now) -> bool:
        """Say whether a device that has moved leaves the old group by itself (rule 6)."""
        is_due = now.wall_us - move.since_us >= _rest_us(groups.group(move.source))
        return is_due and len(groups.joined()) > 1

    def _has_returned(self, move: GroupMove, since: int) -> bool:
        """Say whether a version of the old group let this device in again after it had moved (rule 8)."""
        order = self._records.operations.held(move.source, move.operation)
        return move.phase is MovePhase.MOVED and (order is None or since > order.manifest_version)

    def _join(
        self, move: GroupMove, groups: Groups, actions: GroupActions, obeyed: Obeyed, label: str, now: Now
    ) -> Iterator[Moved]:
        source, target = move.source, move.target
        if groups.is_in(target):
            collects = groups.collector_of(target) is not None
            if collects or not groups.is_in(source) or groups.collector_of(source) is None:
                draining = replace(move, phase=MovePhase.DRAINING, since_us=now.wall_us)
                self._moves.put(draining)
                yield from self._drain(draining, groups, obeyed, now)
            return
        end = self._objection(move, groups, obeyed)
        if end is not None:
            self._moves.remove(source)
            yield Moved(move.operation, end)
            return
        operators = _present(groups, source, obeyed)
        invitation = self._invitation(move, groups, operators, now)
        if invitation is not None:
            if obeyed.pins:
                self._records.invited_operators.pin(target, operators, invitation.inviter.signing_public, now.wall_us)
            self._moves.put(replace(move, asks=move.asks + 1, asked_at_us=now.wall_us))
            actions.accept_request(invitation, label, now)
        else:
            self._ask(move, actions, operators, now)

    def _objection(self, move: GroupMove, groups: Groups, obeyed: Obeyed) -> End | None:
        """Return why a move ends before the device is in the new group (rules 2, 3 and 7)."""
        if not groups.is_in(move.source) or move.operation not in obeyed.counting:
            why = "the order was withdrawn, or this device removed, before it was in the other group"
            return End(CommandState.STOPPED, REVOKED, why)
        if move.target in self._records.requests.declined():
            return End(CommandState.STOPPED, NOT_ALLOWED, "this device's owner has declined that group")
        boards = {each.keys.signing_public for each in groups.group(move.source).members if each.is_board}
        if not boards.isdisjoint(obeyed.boards):
            why = "this device has boards in the old group, which cannot move with it"
            return End(CommandState.STOPPED, NOT_STARTED, why)
        pending = {each.group_id for each in self._records.joins.pending()} - {move.target}
        if len(groups) + len(pending) >= JOINED_UNASKED:
            why = f"this device is in {len(groups)} groups, and enters no further one by itself"
            return End(CommandState.STOPPED, NOT_STARTED, why)
        return None

    def _invitation(
        self, move: GroupMove, groups: Groups, operators: Collection[DeviceKey], now: Now
    ) -> GroupRequest | None:
        """Return an operator's invitation to the new group (rule 2)."""
        for each in unanswered(groups, self._records.requests, now.wall_us):
            if each.group_id == move.target and each.inviter.signing_public in operators:
                return each
        return None

    def _ask(self, move: GroupMove, actions: GroupActions, operators: Collection[DeviceKey], now: Now) -> None:
        """Ask the next operator for an invitation, unless one was asked within the hour (rule 2)."""
        pending = self._records.joins.pending()
        joining = {each.inviter.signing_public for each in pending if each.group_id == move.target}
        in_turn = sorted(set(operators) - joining, key=lambda each: (each != move.author, each))
        if not in_turn or (move.asks and 0 <= now.wall_us - move.asked_at_us < INVITE_REQUEST_US):
            return
        operator = in_turn[move.asks % len(in_turn)]
        self._moves.put(replace(move, asks=move.asks + 1, asked_at_us=now.wall_us))
        if not self._is_asked(operator, move.target):
            actions.request_invite(UnknownGroup(move.target, operator, now.wall_us, 0), now)

    def _is_asked(self, operator: DeviceKey, target: GroupId) -> bool:
        """Return whether a request still waits for an operator."""
        waiting = (read_message(raw, verify=False) for _, raw in self._records.outbox.control_messages(operator))
        return any((each.type, each.group_id) == (MessageType.INVITE_REQUEST, target) for each in waiting)

    def _drain(self, move: GroupMove, groups: Groups, obeyed: Obeyed, now: Now) -> Iterator[Moved]:
        """End a move once nothing of this device waits in the old group (rule 6)."""
        if groups.is_in(move.source) and (
            self._waits(groups, move.source)
            or not obeyed.is_known(move.source)
            or (now.wall_us - move.since_us < MOVED_LEAVES_US and self._owes(move, groups, obeyed))
            or self._awaits_settings(move, groups.own, now)
        ):
            return
        self._moves.put(replace(move, phase=MovePhase.MOVED, since_us=now.wall_us))
        yield Moved(move.operation, End(CommandState.DONE, why=f"in group {move.target.hex()[:8]}", exit=0))

    def _waits(self, groups: Groups, source: GroupId) -> bool:
        members = groups.group(source)
        recipients = [each for each in self._records.outbox.recipients() if members.member(each) is not None]
        waiting = (message for each in recipients for lane in _DELIVERED for message in self._queued(each, lane))
        return any(read_message(each, verify=False).group_id == source for each in waiting)

    def _owes(self, move: GroupMove, groups: Groups, obeyed: Obeyed) -> bool:
        """Say whether an order of the old group is under way, or a report waits for a device that shares no other."""
        commands, source = self._records.commands, move.source
        if commands.next_unreported() is not None:
            return True
        moves = {each.operation for each in self.under_way()}
        if any(each.command.group_id == source and each.command.operation not in moves for each in commands.begun()):
            return True
        waiting = filter(None, map(commands.record, commands.waiting(source)))
        if any((source, each.command.once) not in obeyed.paused for each in waiting):
            return True
        members, others = groups.group(source), [each for each in groups.joined() if each.group_id != source]
        for each in self._records.outbox.recipients():
            if members.member(each) is None or any(other.member(each) for other in others):
                continue
            messages = (read_message(raw, verify=False) for _, raw in self._records.outbox.control_messages(each))
            if any(message.type in _REPORTS and message.group_id == source for message in messages):
                return True
        return False

    def _awaits_settings(self, move: GroupMove, own: DeviceKey, now: Now) -> bool:
        """Say whether operators set something in the old group, and the new group's history has yet to come."""
        if all(each.group_id != move.source for each in self._records.ordered_settings.all()):
            return False
        if self._records.catching_up.offer_wait(move.target) is not None:
            return now.wall_us - move.since_us < MOVED_LEAVES_US
        has_begun = not self._records.operations.authors(move.target) <= {own}
        return not has_begun and now.wall_us - move.since_us < GRAPH_WAIT_US

    def _queued(self, recipient: DeviceKey, lane: Lane) -> Iterator[bytes]:
        """Yield the messages of a lane, a few at a time: there may be any number."""
        after = Place(0)
        while found := self._records.outbox.queued(recipient, after, _LOOKED_AT, _LOOKED_AT_BYTES, lane=lane):
            yield from (message for _, message in found)
            after = found[-1][0]


def _rest_us(source: GroupManifest) -> int:
    """Return how long a device that has moved waits in a group for an operator to remove it."""
    return LAST_WORDS_US if source.mode in VOTING_MODES else MOVED_LEAVES_US


def _present(groups: Groups, source: GroupId, obeyed: Obeyed) -> list[DeviceKey]:
    """Return the operators of a group that are in it, but this device."""
    members = groups.group(source)
    found = obeyed.operators.get(source, ())
    return [each for each in found if members.member(each) is not None and each != groups.own]


def _target(record: CommandRecord) -> GroupId:
    try:
        target = bytes.fromhex(record.command.arguments.get("group", ""))
    except ValueError:
        target = b""
    if len(target) != GROUP_ID_BYTES:
        raise ActionError(f"group must be a group's id, {2 * GROUP_ID_BYTES} hexadecimal digits", ARGUMENTS)
    return GroupId(target)
