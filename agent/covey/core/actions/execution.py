"""Run the commands that operators give a device, one at a time (docs/protocol/history.md, "Commands").

1. A command is accepted once; another operation with its once-id, in any group, is refused.
2. At most `WAITING_COMMANDS` wait; a further one is refused. So is one that no longer counts at its turn, and a wave of
   an aborted release. While its release is paused a wave waits, and others have their turn.
3. A command is checked at its turn: refused are commands that the owner does not allow, sealed arguments that this
   device cannot open, invalid arguments, and missed deadlines. With a deadline and an unreliable clock it waits until
   the agent has run for `CLOCK_SETTLES_US`, and is refused then.
4. Its start is stored before its program starts. A command that had started when the agent crashed is `unknown` and
   does not start again, with two exceptions. If its owner says that running twice is as good as once, it runs again,
   `ACTION_TRIES` times at most. If it is meant to end the agent or the machine, and that has happened, it is done.
5. When a device begins to obey again, its records may be incomplete: commands that waited or had started become
   `unknown`.
6. An installation on trial has its own rules from its start (`installing.py`), and no longer blocks the queue: others
   start meanwhile, but none of the same action. A move to another group has its own rules as well (`moving.py`), and
   blocks nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.core.actions import results
from covey.core.actions.commands import NOTHING_HALTED, CommandRecord, GivenCommand, Halted, Moment
from covey.core.actions.definition import ActionDefinition, Ends, Invocation
from covey.core.actions.installing import ActionOwner, Installing
from covey.core.actions.moving import Moving
from covey.core.actions.results import CommandState, End, OrderResult
from covey.core.actions.secrets import redacted
from covey.core.crypto import NoiseKeys
from covey.core.ids import GroupId, OperationId
from covey.errors import ActionError, RemoteError
from covey.limits.actions import (
    ACTION_TRIES,
    MAXIMUM_ACTION_OUTPUT_BYTES,
    MAXIMUM_RESULT_WHY_BYTES,
    WAITING_COMMANDS,
)

if TYPE_CHECKING:
    from covey.core.records.orders import CommandRecords

NO_GROUPS: Mapping[GroupId, int] = {}
_LOST = "this device has lost its record of what ran; the action may have run, and is not repeated"
_FORGOTTEN = "all members that this device met had deleted the order's content before it arrived; nothing ran"
_WENT_DOWN = "the device stopped while the action ran; it may have run, and is not repeated"


@dataclass(frozen=True, slots=True)
class Begun:
    """A command whose beginning is stored, and what is to be run once that is durable."""

    record: CommandRecord
    invocation: Invocation


class Execution:
    """Takes commands, and says which one is next. Each method is one transaction of the caller's."""

    def __init__(
        self, records: CommandRecords, owner: ActionOwner, keys: NoiseKeys, installing: Installing, moving: Moving
    ) -> None:
        self._records = records
        self._owner = owner
        self._keys = keys
        self.installing = installing
        self.moving = moving

    def take(self, given: Iterable[GivenCommand], moment: Moment) -> list[CommandRecord]:
        """Take what is new (rules 1 and 2); return what is refused at once."""
        refused = []
        waiting = len(self._records.waiting())
        for command in given:
            if self._records.knows(command.operation):
                continue
            record = _taken(command, moment)
            end = None
            if self._records.used(command.once):
                why = "another operation with the same once-id was taken before"
                end = End(CommandState.REFUSED, results.REPEATED, why)
            elif waiting >= WAITING_COMMANDS:
                why = f"{WAITING_COMMANDS} commands wait on this device already"
                end = End(CommandState.REFUSED, results.QUEUE_FULL, why)
            self._records.add(record)
            if end is None:
                waiting += 1
            else:
                refused.append(self._end(record, end, moment))
        return refused

    def lose(self, given: Iterable[GivenCommand], moment: Moment) -> list[CommandRecord]:
        """Say of commands from before this device's records begin that nobody knows (rule 5); return them."""
        found = []
        for command in given:
            if not self._records.knows(command.operation):
                record = _taken(command, moment)
                self._records.add(record)
                found.append(self._end(record, End(CommandState.UNKNOWN, results.RECORDS_LOST, _LOST), moment))
        return found

    def refuse_forgotten(self, given: Iterable[GivenCommand], moment: Moment) -> list[CommandRecord]:
        """Refuse commands whose words were forgotten before they came here; return them."""
        found = []
        for command in given:
            if not self._records.knows(command.operation):
                record = _taken(command, moment)
                self._records.add(record)
                found.append(self._end(record, End(CommandState.REFUSED, results.FORGOTTEN, _FORGOTTEN), moment))
        return found

    def give_up(self, group_id: GroupId, moment: Moment) -> list[CommandRecord]:
        """Give up what waited or had begun in a group whose records may not be all (rule 5); return it."""
        waiting = [self._records.record(each) for each in self._records.waiting(group_id)]
        begun = [record for record in self._begun() if record.command.group_id == group_id]
        end = End(CommandState.UNKNOWN, results.RECORDS_LOST, _LOST)
        return [self._end(record, end, moment) for record in (*waiting, *begun) if record is not None]

    def recover(self, moment: Moment) -> list[CommandRecord]:
        """Deal with what had begun when the last process ended (rule 4); return what is final."""
        final = []
        self.installing.recover(moment)
        for record in self._begun():
            definition = self._definition(record.command)
            if definition is not None and _has_come_to_pass(definition.ends, record, moment):
                final.append(self._end(record, End(CommandState.DONE, exit=0), moment))
            elif definition is not None and definition.idempotent and record.tries < ACTION_TRIES:
                self._records.change(replace(record, state=CommandState.WAITING))
            else:
                end = End(CommandState.UNKNOWN, results.WENT_DOWN, _WENT_DOWN)
                final.append(self._end(record, end, moment))
        return final

    def heed(self, halted: Halted, moment: Moment) -> None:
        """Let running installations follow paused and aborted releases."""
        under_way = [self._records.record(each.operation) for each in self.installing.under_way()]
        found = {(each.command.group_id, each.command.once): each.command.operation for each in under_way if each}
        paused, aborted = (
            {operation for key, operation in found.items() if key in some} for some in (halted.paused, halted.aborted)
        )
        self.installing.heed(paused, aborted, moment)

    def begin(
        self,
        counting: Collection[OperationId],
        moment: Moment,
        halted: Halted = NOTHING_HALTED,
        joined: Mapping[GroupId, int] = NO_GROUPS,
    ) -> Begun | CommandRecord | None:
        """Start the next command, or return the result of one (rules 2 to 4). None: nothing can start now.

        `counting` are the commands that count for this device, `joined` the groups that it is in, and the
        version of each that let it in.
        """
        record = self._records.next_waiting({each.action for each in self.installing.under_way()}, halted.paused)
        if record is None:
            return None
        command = record.command
        try:
            if _awaits_clock(command, moment):
                return None
            _check_goes_on(command, halted)
            _check(command, moment, counts=command.operation in counting)
            definition = self._owner.action(command.action)
            invocation = definition.invocation(command.arguments, self._opened(command))
        except ActionError as error:
            if record.tries:
                return self._end(record, End(CommandState.UNKNOWN, results.WENT_DOWN, _WENT_DOWN), moment)
            return self._end(record, End(CommandState.REFUSED, error.code, str(error)), moment)
        begun = replace(
            record,
            state=CommandState.BEGUN,
            synchronised=record.synchronised and moment.synchronised,
            started_us=moment.wall_us,
            boot_id=moment.boot_id,
            tries=record.tries + 1,
        )
        if definition.moves or definition.trial_us is not None:
            return self._begin_apart(begun, definition, moment, joined)
        self._records.change(begun)
        return Begun(begun, invocation)

    def _begin_apart(
        self, begun: CommandRecord, definition: ActionDefinition, moment: Moment, joined: Mapping[GroupId, int]
    ) -> CommandRecord | None:
        """Begin an installation or a move (rule 6); return the result of a command that ends by it: this one, or an
        earlier one that it replaces.
        """
        if not definition.moves:
            self._records.change(begun)
            self.installing.begin(begun, moment)
            return None
        try:
            ended = self.moving.begin(begun, moment.wall_us, joined)
        except ActionError as error:
            refused = End(CommandState.REFUSED, error.code, str(error))
            return self._end(replace(begun, started_us=None), refused, moment)
        self._records.change(begun)
        return next((self.conclude(each.operation, each.end, moment) for each in ended), None)

    def conclude(self, operation: OperationId, end: End, moment: Moment) -> CommandRecord | None:
        """Keep how an installation or a move has ended; None: its group has been left."""
        record = self._records.record(operation)
        return None if record is None else self._end(record, end, moment)

    def end(self, begun: Begun, end: End, moment: Moment) -> CommandRecord:
        """Keep how a program has ended, or that it could not be started; its output without secrets."""
        record, output = begun.record, redacted(end.output, begun.invocation.secrets.values(), cut=end.cut)
        kept = output[:MAXIMUM_ACTION_OUTPUT_BYTES]
        end = replace(end, output=kept, cut=end.cut or len(kept) < len(output))
        if end.state is CommandState.REFUSED:
            if record.tries > 1:
                end = End(CommandState.UNKNOWN, results.WENT_DOWN, _WENT_DOWN)
            else:
                record = replace(record, started_us=None)
        return self._end(record, end, moment)

    def _opened(self, command: GivenCommand) -> Mapping[str, str]:
        if command.sealed is None:
            return {}
        try:
            return command.sealed.open(self._keys)
        except RemoteError as error:
            raise ActionError("its arguments are sealed for other devices", results.SEALED) from error

    def _begun(self) -> list[CommandRecord]:
        apart = {each.operation for each in self.installing.under_way()}
        apart |= {each.operation for each in self.moving.under_way()}
        return [record for record in self._records.begun() if record.command.operation not in apart]

    def _definition(self, command: GivenCommand) -> ActionDefinition | None:
        try:
            return self._owner.action(command.action)
        except ActionError:
            return None

    def _end(self, record: CommandRecord, end: End, moment: Moment) -> CommandRecord:
        result = OrderResult(
            record.command.operation,
            end.state,
            record.taken_us,
            moment.wall_us,
            record.started_us,
            record.synchronised and moment.synchronised,
            end.exit,
            end.output,
            end.cut,
            end.code,
            end.why.encode()[:MAXIMUM_RESULT_WHY_BYTES].decode(errors="ignore"),
        )
        command = replace(record.command, arguments={}, sealed=None)
        ended = replace(record, command=command, state=end.state, result=result)
        self._records.change(ended)
        return ended


def _taken(command: GivenCommand, moment: Moment) -> CommandRecord:
    return CommandRecord(command, CommandState.WAITING, moment.wall_us, moment.synchronised)


def _has_come_to_pass(ends: Ends, record: CommandRecord, moment: Moment) -> bool:
    return ends is Ends.AGENT or (ends is Ends.MACHINE and record.boot_id != moment.boot_id)


def _awaits_clock(command: GivenCommand, moment: Moment) -> bool:
    return command.deadline_us is not None and not (moment.synchronised or moment.settled)


def _check_goes_on(command: GivenCommand, halted: Halted) -> None:
    if (command.group_id, command.once) in halted.aborted:
        raise ActionError("its release was aborted before it started", results.WITHDRAWN)


def _check(command: GivenCommand, moment: Moment, *, counts: bool) -> None:
    if not counts:
        raise ActionError("its author is no longer an operator or no longer a member", results.REVOKED)
    if command.deadline_us is None:
        return
    if not moment.synchronised:
        raise ActionError("it has a deadline, and this device does not know the time", results.CLOCK)
    if moment.wall_us > command.deadline_us:
        raise ActionError("its deadline passed before it could start", results.LATE)
