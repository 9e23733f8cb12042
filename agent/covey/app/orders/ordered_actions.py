"""The role that runs commands given by operators (docs/protocol/history.md, "Commands").

A program starts only after the commit that records its start, and its result is stored before it is reported. Nothing
here waits for a program: a turn looks and continues. `Trials` asks members to acknowledge an update that is on trial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.core.actions.commands import NOTHING_HALTED, CommandRecord, Halted, Moment, ObeyedSince
from covey.core.actions.definition import Ends
from covey.core.actions.execution import Begun, Execution
from covey.core.actions.installation import Installation, InstallationPhase
from covey.core.actions.installing import Installed, Installing, StepBegun
from covey.core.actions.moving import Moved, Obeyed
from covey.core.actions.reporting import hearers
from covey.core.actions.results import AGENT_ENDED, TIME, WENT_DOWN, CommandState, End, as_remembered, in_words
from covey.core.group.device_labels import DeviceLabels
from covey.core.group.manifest import GroupManifest
from covey.core.history.orders import Obeying
from covey.core.ids import DeviceKey, GroupId, OperationId, Place
from covey.core.node import Node
from covey.core.now import Now
from covey.errors import ActionError, LocalError, StorageError
from covey.limits.actions import CLOCK_SETTLES_US, MOVE_REST_US
from covey.limits.board import BOARD_GONE_US
from covey.ports import Clock, ProgramEnd, Programs, Report, RunningProgram, Transactions

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.orders.pinned_commands import OrderedGroup, PinnedCommands
    from covey.core.records.orders import CommandRecords


class Trials:
    """What this process has sent since something is on trial."""

    def __init__(self, store: Transactions, installing: Installing) -> None:
        self._store = store
        self._installing = installing
        self._sent: dict[OperationId, dict[DeviceKey, Place]] = {}

    def look(self, node: Node, now: Now) -> bool:
        """Send what is to be acknowledged, and note that it was; return whether anything is being installed."""
        under_way = self._installing.under_way()
        on_trial = [each for each in under_way if each.phase is InstallationPhase.TRIAL]
        for each in on_trial:
            sent, group = self._sent.get(each.operation, {}), _group_of(node, each)
            is_alone = group is not None and node.probes.have_nobody(group)
            if is_alone or node.probes.are_acknowledged(sent):
                with self._store.transaction():
                    self._installing.acknowledged(each.operation)
            elif group is not None and not node.probes.wait(sent):
                with suppress(LocalError), self._store.transaction():
                    self._sent[each.operation] = node.probes.send(group, each.author, now)
        self._sent = {each.operation: self._sent.get(each.operation, {}) for each in on_trial}
        return bool(under_way)


def _group_of(node: Node, installation: Installation) -> GroupManifest | None:
    return next((each for each in node.groups.joined() if each.group_id == installation.group_id), None)


_LOOK_US = 60_000_000
"""Interval between looks without news: operators change with the manifest."""
_RUNNING_US = 200_000
"""Between two looks at a program that runs, at most, and at a command that waits."""
_BEGUN_US = 10_000
"""Until the first look at a program that has begun: a short one is not held up by who waits for its end."""
_OF_ITS_AGE = 8
"""A program is looked at again after this part of the time that it has run: so it seems an eighth longer at most."""
_RETRY_US = 1_000_000
"""Until a result is queued that did not fit into the outbox."""


@dataclass(slots=True)
class _Running:
    begun: Begun | StepBegun
    program: RunningProgram | None
    """None where it could not be started."""
    started_us: int
    end: End | None = None
    """How it has ended, until that is stored: there may be no room for it yet."""

    def rest_us(self, now: Now) -> int:
        """Return in how many microseconds to look at it."""
        return min(max((now.monotonic_us - self.started_us) // _OF_ITS_AGE, _BEGUN_US), _RUNNING_US)


class OrderedActions:
    """Does them, one at a time."""

    def __init__(
        self,
        store: SqliteStore,
        records: CommandRecords,
        execution: Execution,
        commands: PinnedCommands,
        programs: Programs,
        clock: Clock,
        report: Report,
        label: Callable[[], str],
        pins: Callable[[], bool],
    ) -> None:
        """`label` returns what this device calls itself; `pins` whether it may learn operators."""
        self._store = store
        self._records = records
        self._execution = execution
        self._commands = commands
        self._programs = programs
        self._clock = clock
        self._report = report
        self._label = label
        self._pins = pins
        self._installing = execution.installing
        self._moving = execution.moving
        self._move_at_us = 0
        self._trials = Trials(store, execution.installing)
        self._running: _Running | None = None
        self._counting: frozenset[OperationId] = frozenset()
        self._halted = NOTHING_HALTED
        self._operators: dict[GroupId, frozenset[DeviceKey]] = {}
        self._judged: dict[GroupId, tuple[object, ObeyedSince]] = {}
        """By which judgement of a group's commands what it says was taken."""
        self._started_us: int | None = None
        self._seen: tuple[int, int] | None = None
        self._look_at_us = self._lacked_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:
        """Do what is due; return when to be called next, in monotonic microseconds."""
        moment = self._moment(now)
        if self._seen is None:
            self._keep(node, lambda: self._execution.recover(moment))
            self._installing.sweep()
        seen = (id(node), node.history.generation)
        if seen != self._seen or now.monotonic_us >= self._look_at_us:
            self._look(node, now, moment)
            self._seen, self._look_at_us = seen, now.monotonic_us + _LOOK_US
        rest_us = self._advance(node, now, moment)
        if self._trials.look(node, now):
            rest_us = min(rest_us or _RETRY_US, _RETRY_US)
        if now.monotonic_us >= self._move_at_us:
            self._move_at_us = now.monotonic_us + MOVE_REST_US
            self._move(node, now, moment)
        reported = self._report_results(node, now)
        if now.monotonic_us >= self._lacked_at_us:
            self._lacked_at_us = now.monotonic_us + _LOOK_US
            self._queue_lacked(node, now)
        if rest_us is not None:
            return now.monotonic_us + rest_us
        due_us = min(self._look_at_us, self._move_at_us) if self._moving.under_way() else self._look_at_us
        return due_us if reported else min(due_us, now.monotonic_us + _RETRY_US)

    def stop(self, node: Node, now: Now) -> None:
        """End the running program, unless it has ended by itself, and store its result."""
        if self._running is None:
            return
        running, self._running = self._running, None
        kept = _looked(running, now)
        if kept is None:
            kept = _stopped(running)
            if isinstance(running.begun, StepBegun) or running.begun.invocation.ends is not Ends.NOTHING:
                return  # it may have ended this very agent: the next one finds it begun, and what has come to pass
        if _is_found_out_later(running, kept):
            return
        self._keep_end(node, running.begun, kept, self._moment(now))
        self._report_results(node, now)

    def _moment(self, now: Now) -> Moment:
        self._started_us = now.monotonic_us if self._started_us is None else self._started_us
        settled = now.monotonic_us >= self._started_us + CLOCK_SETTLES_US
        return Moment(now.wall_us, self._clock.synchronised(), self._clock.boot_id(), settled, now.monotonic_us)

    def _keep(self, node: Node, work: Callable[[], Iterable[CommandRecord]]) -> None:
        """Run a storing step in its own transaction, and log final results."""
        with self._store.transaction():
            final = list(work())
            self._count(final)
        self._report_final(node, final)

    def _count(self, final: Iterable[CommandRecord]) -> None:
        for record in final:
            if record.result is not None:
                self._store.counters.count(f"commands_{in_words(record.result)}")

    def _report_final(self, node: Node, final: Iterable[CommandRecord]) -> None:
        for record in final:
            result = record.result
            if result is not None:
                ended = result.why or f"exit code {result.exit}"
                self._report("notice", f"{record.command.action}, ordered by {_author(node, record)}: {ended}")

    # -- taking -------------------------------------------------------------------------------------------------------

    def _look(self, node: Node, now: Now, moment: Moment) -> None:
        counting: set[OperationId] = set()
        paused: set[tuple[GroupId, bytes]] = set()
        aborted: set[tuple[GroupId, bytes]] = set()
        for ordered in self._commands.groups(node):
            counting.update(ordered.counting)
            paused |= ordered.halted.paused
            aborted |= ordered.halted.aborted
            self._notify_operators(node, ordered, now)
            since = self._obeyed_since(node, ordered.group, now, moment)
            if since is not None:
                self._take(node, ordered, since, moment)
        self._counting, self._halted = frozenset(counting), Halted(frozenset(paused), frozenset(aborted))

    def _notify_operators(self, node: Node, ordered: OrderedGroup, now: Now) -> None:
        """Queue results of waves for present operators; without room, a later start does."""
        group, operators = ordered.group, ordered.operators
        if self._operators.get(group.group_id) == operators:
            return
        self._operators[group.group_id] = operators
        with suppress(LocalError), self._store.transaction():
            for record in self._records.waves(group.group_id):
                node.results.queue(group, record, operators, now)

    def _take(self, node: Node, ordered: OrderedGroup, since: ObeyedSince, moment: Moment) -> None:
        judged = (ordered.judgement, since)
        if self._judged.get(ordered.group.group_id) != judged:
            new = ordered.new(since, self._records, moment)
            execution = self._execution
            self._keep(
                node,
                lambda: [
                    *execution.take(new.given, moment),
                    *execution.lose(new.lost, moment),
                    *execution.refuse_forgotten(new.forgotten, moment),
                ],
            )
            self._judged[ordered.group.group_id] = judged

    def _obeyed_since(self, node: Node, group: GroupManifest, now: Now, moment: Moment) -> ObeyedSince | None:
        """Return from where on this device obeys in a group, beginning with its records; None: not yet."""
        incarnation = self._commands.incarnation()
        since = self._records.obeyed_since(group.group_id)
        if since is not None and since.incarnation == incarnation:
            return since
        if self._running is not None or node.history.awaits_past(group.group_id):
            return None
        try:
            with self._store.transaction():
                final = self._execution.give_up(group.group_id, moment)
                self._count(final)
                operation = node.history.write(group.group_id, Obeying(), now)
                since = ObeyedSince(operation.id, operation.height, incarnation)
                self._records.note_obeyed(group.group_id, since)
        except LocalError as error:
            node.discard()
            self._report("warning", f"this device obeys no operator in group {group.group_id.hex()[:8]} yet: {error}")
            return None
        self._report_final(node, final)
        return since

    # -- doing --------------------------------------------------------------------------------------------------------

    def _advance(self, node: Node, now: Now, moment: Moment) -> int | None:
        """Check the running program, or start the next one; return in how many microseconds to look again."""
        if self._running is not None:
            running, end = self._running, _looked(self._running, now)
            if end is None:
                return running.rest_us(now)
            self._running = None
            if not _is_found_out_later(running, end):
                try:
                    self._keep_end(node, running.begun, end, moment)
                except StorageError:
                    self._running = running  # there is no room for its end yet: the next turn keeps it
                    raise
            return _RUNNING_US
        if not (self._records.waiting() or self._installing.under_way()):
            return None
        following: list[Begun | StepBegun | Installed | CommandRecord | None] = []

        def begin() -> Iterable[CommandRecord]:
            self._execution.heed(self._halted, moment)
            step = self._installing.next_step(moment)
            joined = {each.group_id: _listed_since(each, node) for each in node.groups.joined()}
            following.append(step or self._execution.begin(self._counting, moment, self._halted, joined))
            return self._final(following, moment)

        self._keep(node, begin)
        [begun] = following
        if isinstance(begun, Begun | StepBegun):  # and that is durable now
            self._running = self._start(node, begun, now)
            return self._running.rest_us(now)
        return _RETRY_US if begun is None else _RUNNING_US

    def _keep_end(self, node: Node, begun: Begun | StepBegun, end: End, moment: Moment) -> None:
        def ended() -> Iterable[CommandRecord]:
            if isinstance(begun, Begun):
                return [self._execution.end(begun, end, moment)]
            return self._final([self._installing.ended(begun, end, moment)], moment)

        self._keep(node, ended)
        if isinstance(begun, StepBegun):
            self._installing.sweep()

    def _final(self, found: Iterable[object], moment: Moment) -> list[CommandRecord]:
        """Return the commands that are final; an ended installation finishes its command."""
        final = []
        for each in found:
            record = self._execution.conclude(each.operation, each.end, moment) if isinstance(each, Installed) else each
            if isinstance(record, CommandRecord):
                final.append(record)
        return final

    def _start(self, node: Node, begun: Begun | StepBegun, now: Now) -> _Running:
        if isinstance(begun, Begun):
            self._report("notice", f"running {begun.invocation.action}, ordered by {_author(node, begun.record)}")
        else:
            self._report("notice", f"{begun.invocation.action}: {begun.step.value}")
        try:
            return _Running(begun, self._programs.start(begun.invocation, now.monotonic_us), now.monotonic_us)
        except ActionError as error:
            return _Running(begun, None, now.monotonic_us, _refused(error))

    def _move(self, node: Node, now: Now, moment: Moment) -> None:
        """Take the next steps of moves to other groups; without room in the outbox, a later look does."""
        under_way = self._moving.under_way()
        waits = {each.operation for each in under_way if node.history.awaits_past(each.source)}
        counting = self._counting | waits
        boards = _boards_here(self._store, now) if under_way else ()
        obeyed = Obeyed(counting, self._operators, self._pins(), node.history.is_known, self._halted.paused, boards)
        ended: list[Moved] = []
        final: list[CommandRecord] = []
        try:
            with self._store.transaction():
                ended += self._moving.turn(node.groups, node.actions, obeyed, self._label(), now)
                concluded = [self._execution.conclude(each.operation, each.end, moment) for each in ended]
                final += [each for each in concluded if each is not None]
                self._count(final)
        except LocalError as error:
            node.discard()
            self._report("warning", f"a move to another group waits: {error}")
            return
        self._report_final(node, final)

    # -- reporting ----------------------------------------------------------------------------------------------------

    def _report_results(self, node: Node, now: Now) -> bool:
        while (record := self._records.next_unreported()) is not None:
            kept = None if record.result is None else as_remembered(record.result)
            try:
                with self._store.transaction():
                    self._queue(node, record, now)
                    self._records.note_reported(replace(record, result=kept))
            except LocalError:  # the outbox is full
                return False
        return True

    def _queue_lacked(self, node: Node, now: Now) -> None:
        """Queue results that some recipients lack; without room, the next look does."""
        joined = {group.group_id: group for group in node.groups.joined()}
        with suppress(LocalError), self._store.transaction():
            node.results.queue_lacked(joined.get, self._records.record, self._operators, now)

    def _queue(self, node: Node, record: CommandRecord, now: Now) -> None:
        group_id = record.command.group_id
        for each in node.groups.joined():
            if each.group_id == group_id:
                node.results.queue(each, record, self._operators.get(group_id, frozenset()), now)
        for each in node.groups.removed_from():
            if each.group_id == group_id:
                hearing = hearers(each, record.command.author, self._commands.operators(node, each))
                shared = [key for key in hearing if not node.groups.shares_nothing_with(key)]
                node.results.queue_of_former_member(each, record, shared, now)


def _listed_since(group: GroupManifest, node: Node) -> int:
    listed = group.member(node.identity.signing_public)
    assert listed is not None, "this device is in the group"
    return listed.since


def _is_found_out_later(running: _Running, end: End) -> bool:
    """Return whether the end is unknown because it may be ending this agent: the next one finds out."""
    is_known = isinstance(running.begun, StepBegun) or end.state is not CommandState.UNKNOWN
    return not is_known and running.begun.invocation.ends is not Ends.NOTHING


def _boards_here(store: SqliteStore, now: Now) -> frozenset[DeviceKey]:
    """Return the boards on this device's ports, without those that have been silent for long."""
    since_us = now.wall_us - BOARD_GONE_US
    return frozenset(
        each.keys.signing_public for each in store.boards.all() if each.up or each.changed_at_us > since_us
    )


def _looked(running: _Running, now: Now) -> End | None:
    """Return how a program has ended, if it has; it is not asked again after that."""
    if running.end is None and running.program is not None:
        try:
            end = running.program.look(now.monotonic_us)
            running.end = None if end is None else _end(running.begun, end)
        except ActionError as error:
            running.end = _refused(error)
    return running.end


def _stopped(running: _Running) -> End:
    assert running.program is not None, "else it has ended already"
    try:
        end = running.program.stop()
    except ActionError as error:
        return _refused(error)
    if end.code is None:
        return _end(running.begun, end)
    why = "the agent stopped, and stopped the action"
    return End(CommandState.STOPPED, AGENT_ENDED, why, output=end.output, cut=end.cut)


def _refused(error: ActionError) -> End:
    return End(CommandState.REFUSED, error.code, str(error))


def _end(begun: Begun | StepBegun, end: ProgramEnd) -> End:
    if end.timed_out:
        seconds = begun.invocation.bounds.time_us // 1_000_000
        why = f"stopped after {seconds} s, the limit that this device's owner set"
        return End(CommandState.STOPPED, TIME, why, output=end.output, cut=end.cut)
    if end.code is None:
        why = "the helper of the agent stopped meanwhile; the action may have run, and is not repeated"
        return End(CommandState.UNKNOWN, WENT_DOWN, why, output=end.output, cut=end.cut)
    return End(CommandState.DONE, exit=end.code, output=end.output, cut=end.cut)


def _author(node: Node, record: CommandRecord) -> str:
    return DeviceLabels(node.groups.joined()).named(record.command.author)
