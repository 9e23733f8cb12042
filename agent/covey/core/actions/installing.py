"""Install something so that it stays only if it works (docs/protocol/history.md, "Commands", on trial).

An installer is an action whose program knows four words: `install`, which reads the file from its standard input,
`confirm`, `rollback` and `version`.

1. The start of a phase is stored before any of its work.
2. An installation that was running when the agent ended is rolled back, unless the installer says that it ends the
   agent or the machine, and that has happened: then the trial begins.
3. The trial lasts until a member has acknowledged a message sent since its start, for the installer's time at most;
   after that it is rolled back. Time is the monotonic clock of one boot: another boot restarts it, and after more than
   `TRIAL_STARTS` starts of the agent the installation is rolled back.
4. After the acknowledgement comes `confirm`: exit code 0 keeps the installation; `NOT_YET` repeats the question until
   the trial's time is over; any other code rolls back. An interrupted `confirm` is repeated.
5. A rollback is tried `ROLL_BACK_TRIES` times; then it is reported as failed.
6. At the end the installer states the device's version, which is reported. If that is the earlier version, and the
   agent or the machine has ended meanwhile as intended, the new one was not installed.
7. While its release is paused, the file is fetched but nothing changes. An abort before any change prevents the change;
   an abort during the trial rolls back; after the acknowledgement it has no effect.
8. Once its file is here, the owner's program `when` says whether this is the moment to install: `NOT_YET` repeats the
   question, for as long as it takes; any other failure ends the installation before any change. An installation that
   has begun does not ask again.
9. Each action has at most one installation in progress. One that has begun is completed even if its owner no longer
   allows it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from covey.core.actions.commands import CommandRecord, Moment
from covey.core.actions.definition import ActionDefinition, Ends, Invocation
from covey.core.actions.installation import Installation, InstallationPhase
from covey.core.actions.results import (
    NOT_FETCHED,
    NOT_ROLLED_BACK,
    NOT_STARTED,
    ROLLED_BACK,
    WITHDRAWN,
    CommandState,
    End,
)
from covey.core.ids import OperationId
from covey.errors import ActionError
from covey.limits.actions import (
    CONFIRM_REST_US,
    INSTALLER_FETCH_US,
    MAXIMUM_RESULT_WHY_BYTES,
    MAXIMUM_VERSION_CHARACTERS,
    MOMENT_REST_US,
    ROLL_BACK_REST_US,
    ROLL_BACK_TRIES,
    STAGING_REST_US,
    TRIAL_STARTS,
)

if TYPE_CHECKING:
    from covey.core.records.orders import InstallationRecords

NOT_YET = 75
"""The exit code of `confirm` and `when` that repeats the question later (EX_TEMPFAIL of sysexits.h)."""

_FETCH_KEPT_US = INSTALLER_FETCH_US // 2
_WHY_CHARACTERS = MAXIMUM_RESULT_WHY_BYTES // 2


class InstallerStep(Enum):
    """What is run of an installer: getting the file, or the program with a word."""

    FETCH = "fetch"
    WHEN = "when"
    """The owner's program that says whether this is the moment; it gets no word."""
    INSTALL = "install"
    CONFIRM = "confirm"
    ROLL_BACK = "rollback"
    VERSION = "version"


_STEPS = {
    InstallationPhase.CONFIRMING: InstallerStep.CONFIRM,
    InstallationPhase.ROLLING_BACK: InstallerStep.ROLL_BACK,
    InstallationPhase.ENDING: InstallerStep.VERSION,
}
"""What is run next in a phase after the file is here; on trial nothing is."""


class ActionOwner(Protocol):
    """The actions that the device's owner has defined, at the moment. A device has them, and simulated ones do."""

    def action(self, name: str) -> ActionDefinition:
        """Return an action that is allowed.

        Raises:
            ActionError: it is not, or is none.
        """

    def defined(self, name: str) -> ActionDefinition:
        """Return an action, allowed or not.

        Raises:
            ActionError: it is none.
        """


class Staging(Protocol):
    """Where files lie that are to be installed."""

    def fetch(self, installation: Installation) -> Invocation | None:
        """Return what asks for the file, or opens it where it is here; None while it is on its way.

        Raises:
            ActionError: it cannot be had.
        """

    def is_here(self, installation: Installation) -> bool:
        """Say whether the file has come, so that only opening it can fail."""

    def path(self, operation: OperationId) -> str:
        """Return the whole path where it lies then."""

    def keep_only(self, operations: Collection[OperationId]) -> None:
        """Delete the files of all other ones."""


@dataclass(frozen=True, slots=True)
class StepBegun:
    """A step whose phase is stored, and what is to be run once that is durable."""

    operation: OperationId
    step: InstallerStep
    invocation: Invocation


@dataclass(frozen=True, slots=True)
class Installed:
    """An installation that has ended, well or not."""

    operation: OperationId
    end: End


class Installing:
    """Says what is to be run next. Each method that changes something is one transaction of the caller's."""

    def __init__(self, records: InstallationRecords, owner: ActionOwner, staging: Staging) -> None:
        self._records = records
        self._owner = owner
        self._staging = staging
        self._staged: set[OperationId] = set()
        """Those whose file is there, and was opened by this process."""
        self._ready: set[OperationId] = set()
        """Those for which this is the moment."""
        self._asking: set[OperationId] = set()
        """Those whose file was not here when what asks for it was begun."""
        self._rests_until_us: dict[OperationId, int] = {}
        self._held: frozenset[OperationId] = frozenset()

    def begin(self, record: CommandRecord, moment: Moment) -> None:
        """Begin to install what a command names; it has the arguments of an installer."""
        command = record.command
        file, now_us = command.arguments["file"], moment.monotonic_us
        self._records.put(
            Installation(
                *(command.operation, command.group_id, command.author, command.action, file),
                *(InstallationPhase.FETCHING, moment.boot_id, now_us),
            )
        )

    def under_way(self) -> list[Installation]:
        """Return those that are, the oldest first."""
        return self._records.all()

    def sweep(self) -> None:
        """Delete the files of what has ended."""
        self._staging.keep_only({each.operation for each in self._records.all()})

    def recover(self, moment: Moment) -> None:
        """Deal with what was under way when the last process ended (rules 2 and 3)."""
        for each in self._records.all():
            if each.phase is InstallationPhase.INSTALLING:
                definition = self._definition(each)
                if definition is not None and _has_ended(definition.ends, each, moment):
                    self._enter(each, InstallationPhase.TRIAL, moment, tries=1)
                else:
                    self._fall_back(each, "the agent ended while it was being installed", moment)
            elif each.phase in {InstallationPhase.TRIAL, InstallationPhase.CONFIRMING} and each.tries == TRIAL_STARTS:
                self._fall_back(each, f"the agent has started {TRIAL_STARTS} times on trial", moment)
            elif each.phase is not InstallationPhase.ENDING:
                tries = each.tries + (each.phase in {InstallationPhase.TRIAL, InstallationPhase.CONFIRMING})
                since_us = each.since_us if each.boot_id == moment.boot_id else moment.monotonic_us
                self._records.put(replace(each, tries=tries, since_us=since_us, boot_id=moment.boot_id))

    def acknowledged(self, operation: OperationId) -> None:
        """Note that a member has acknowledged what was sent on trial."""
        for each in self._records.all():
            if each.operation == operation and each.phase is InstallationPhase.TRIAL:
                self._records.put(replace(each, phase=InstallationPhase.CONFIRMING))
                self._rests_until_us.pop(operation, None)

    def heed(self, paused: Collection[OperationId], aborted: Collection[OperationId], moment: Moment) -> None:
        """Heed whose releases are paused, and whose are aborted (rule 7), while no step of any runs."""
        self._held = frozenset(paused)
        for each in self._records.all() if aborted else ():
            if each.operation in aborted and each.phase is InstallationPhase.FETCHING:
                self._enter(
                    replace(each, code=WITHDRAWN, why="its release was aborted"), InstallationPhase.ENDING, moment
                )
            elif each.operation in aborted and each.phase is InstallationPhase.TRIAL:
                self._fall_back(each, "its release was aborted", moment)
        for each in self._records.all() if paused else ():
            if each.operation in paused and each.phase is InstallationPhase.FETCHING:
                self._keep_time(each, moment)

    def next_step(self, moment: Moment) -> StepBegun | Installed | None:
        """Begin what is next of any of them, or end one; None: there is nothing to be done now."""
        for each in self._records.all():
            rests_until_us = self._rests_until_us.get(each.operation, 0)
            found = None if moment.monotonic_us < rests_until_us else self._next_of(each, moment)
            if found is not None:
                return found
        return None

    def ended(self, begun: StepBegun, end: End, moment: Moment) -> Installed | None:
        """Keep how a step has ended; return what is final."""
        each = next(each for each in self._records.all() if each.operation == begun.operation)
        is_well = end.state is CommandState.DONE and not end.exit
        why = "" if is_well else _why(begun.step, end)
        match begun.step:
            case InstallerStep.FETCH | InstallerStep.WHEN:
                self._prepared(each, begun.step, end, why, moment)
            case InstallerStep.INSTALL if is_well:
                self._installed(each, begun.invocation, moment)
            case InstallerStep.CONFIRM if is_well:
                self._enter(each, InstallationPhase.ENDING, moment)
            case InstallerStep.CONFIRM if end.exit == NOT_YET and moment.monotonic_us < self._trial_ends_us(each):
                self._rest(each, CONFIRM_REST_US, moment)
            case InstallerStep.INSTALL | InstallerStep.CONFIRM:
                self._fall_back(each, why, moment, end.output)
            case InstallerStep.ROLL_BACK if is_well:
                self._enter(each, InstallationPhase.ENDING, moment)
            case InstallerStep.ROLL_BACK if each.tries < ROLL_BACK_TRIES:
                self._rest(each, ROLL_BACK_REST_US, moment)
            case InstallerStep.ROLL_BACK:
                self._enter(
                    replace(each, code=NOT_ROLLED_BACK, why=why, output=end.output), InstallationPhase.ENDING, moment
                )
            case _ if each.phase is InstallationPhase.FETCHING:
                self._records.put(replace(each, before=_version(end.output) if is_well else ""))
            case _:
                return self._conclude(each, _version(end.output) if is_well else "")
        return None

    # -- steps --------------------------------------------------------------------------------------------------------

    def _next_of(self, each: Installation, moment: Moment) -> StepBegun | Installed | None:
        definition = self._definition(each)
        if definition is None:
            changed = each.phase not in {InstallationPhase.FETCHING, InstallationPhase.ENDING}
            code = NOT_ROLLED_BACK if changed else each.code or NOT_FETCHED
            return self._conclude(replace(each, code=code, why=each.why or "its installer is no longer defined"), "")
        is_prepared = each.operation in self._staged and each.before is not None
        if each.operation in self._held and each.phase is InstallationPhase.FETCHING and is_prepared:
            return None
        if self._is_over(each, definition, moment):
            return None
        if each.phase is InstallationPhase.FETCHING:
            return self._prepare(each, definition, moment)
        if each.phase is InstallationPhase.ROLLING_BACK:
            self._records.put(replace(each, tries=each.tries + 1))
        step = _STEPS.get(each.phase)
        return None if step is None else self._begun(each, step, definition)

    def _prepare(self, each: Installation, definition: ActionDefinition, moment: Moment) -> StepBegun | None:
        """Return what is next before anything is changed, or the installing itself."""
        if each.operation not in self._staged:
            return self._fetch(each, moment)
        if each.before is None:
            return self._begun(each, InstallerStep.VERSION, definition)
        if definition.when and each.operation not in self._ready:
            return StepBegun(each.operation, InstallerStep.WHEN, definition.when_invocation(InstallerStep.WHEN.value))
        self._enter(replace(each, why=""), InstallationPhase.INSTALLING, moment)
        return self._begun(each, InstallerStep.INSTALL, definition)

    def _prepared(self, each: Installation, step: InstallerStep, end: End, why: str, moment: Moment) -> None:
        """Keep how fetching the file, or the question whether this is the moment, has ended."""
        fetches = step is InstallerStep.FETCH
        if not why:
            (self._staged if fetches else self._ready).add(each.operation)
        elif not fetches and end.exit == NOT_YET:
            self._put_off(each, end.output, moment)
        elif not (fetches and self._is_coming(each, moment)):
            code = NOT_FETCHED if fetches else NOT_STARTED
            self._enter(replace(each, code=code, why=why, output=end.output), InstallationPhase.ENDING, moment)

    def _is_over(self, each: Installation, definition: ActionDefinition, moment: Moment) -> bool:
        """Return whether a phase has taken too long; the next look then acts on it."""
        waited_us = moment.monotonic_us - each.since_us
        match each.phase:
            case InstallationPhase.FETCHING if waited_us >= INSTALLER_FETCH_US:
                self._enter(
                    replace(each, code=NOT_FETCHED, why="its file has not arrived"), InstallationPhase.ENDING, moment
                )
            case InstallationPhase.INSTALLING:  # it has ended well, and has not ended the agent or the machine
                self._fall_back(each, f"the {definition.ends.value} has not ended after it was installed", moment)
            case InstallationPhase.TRIAL if waited_us >= (definition.trial_us or 0):
                seconds = (definition.trial_us or 0) // 1_000_000
                self._fall_back(each, f"no member acknowledged anything within {seconds} s", moment)
            case InstallationPhase.ROLLING_BACK if (
                each.tries >= ROLL_BACK_TRIES
            ):  # the last one took the agent down with it
                self._enter(replace(each, code=NOT_ROLLED_BACK), InstallationPhase.ENDING, moment)
            case _:
                return False
        return True

    def _fetch(self, each: Installation, moment: Moment) -> StepBegun | None:
        """Return the step that fetches the file; None while it is awaited or cannot be had."""
        try:
            invocation = self._staging.fetch(each)
        except ActionError as error:
            self._enter(replace(each, code=NOT_FETCHED, why=str(error)), InstallationPhase.ENDING, moment)
            return None
        if invocation is None:
            self._rest(each, STAGING_REST_US, moment)
            return None
        if not self._staging.is_here(each):
            self._asking.add(each.operation)
        return StepBegun(each.operation, InstallerStep.FETCH, invocation)

    def _is_coming(self, each: Installation, moment: Moment) -> bool:
        """Return whether a file is on its way, or has arrived since it was requested and is opened next."""
        was_asked = each.operation in self._asking
        self._asking.discard(each.operation)
        try:
            coming = self._staging.fetch(each) is None
        except ActionError:
            return False
        if coming:
            self._rest(each, STAGING_REST_US, moment)
        return coming or (was_asked and self._staging.is_here(each))

    def _begun(self, each: Installation, step: InstallerStep, definition: ActionDefinition) -> StepBegun:
        invocation = definition.installer_invocation(step.value)
        if step is InstallerStep.INSTALL:
            invocation = replace(invocation, stdin_path=self._staging.path(each.operation), ends=definition.ends)
        return StepBegun(each.operation, step, invocation)

    def _installed(self, each: Installation, invocation: Invocation, moment: Moment) -> None:
        if invocation.ends is Ends.NOTHING:
            self._enter(each, InstallationPhase.TRIAL, moment)
        else:  # what follows is to be found out by the next agent
            self._rest(each, invocation.bounds.time_us, moment)

    def _put_off(self, each: Installation, output: bytes, moment: Moment) -> None:
        said = _last_line(output)
        if said != each.why:
            each = replace(each, why=said)
            self._records.put(each)
        self._keep_time(each, moment)
        self._rest(each, MOMENT_REST_US, moment)

    def _keep_time(self, each: Installation, moment: Moment) -> None:
        """Let a wait use up no time of the file's."""
        if moment.monotonic_us - each.since_us > _FETCH_KEPT_US:
            self._records.put(replace(each, since_us=moment.monotonic_us))

    def _fall_back(self, each: Installation, why: str, moment: Moment, output: bytes = b"") -> None:
        self._enter(replace(each, code=ROLLED_BACK, why=why, output=output), InstallationPhase.ROLLING_BACK, moment)

    def _enter(self, each: Installation, phase: InstallationPhase, moment: Moment, tries: int = 0) -> None:
        boot_id, since_us = moment.boot_id, moment.monotonic_us
        self._records.put(replace(each, phase=phase, tries=tries, boot_id=boot_id, since_us=since_us))
        self._rests_until_us.pop(each.operation, None)

    def _rest(self, each: Installation, rest_us: int, moment: Moment) -> None:
        self._rests_until_us[each.operation] = moment.monotonic_us + rest_us

    def _trial_ends_us(self, each: Installation) -> int:
        definition = self._definition(each)
        return each.since_us + ((definition and definition.trial_us) or 0)

    def _definition(self, each: Installation) -> ActionDefinition | None:
        try:
            definition = self._owner.defined(each.action)
        except ActionError:
            return None
        return None if definition.trial_us is None else definition

    def _conclude(self, each: Installation, version: str) -> Installed:
        self._records.remove(each.operation)
        self._staged.discard(each.operation)
        self._ready.discard(each.operation)
        self._rests_until_us.pop(each.operation, None)
        on = version or "a version that its installer does not name"
        definition = self._definition(each)
        if not each.code and version and version == each.before and definition and definition.ends is not Ends.NOTHING:
            each = replace(each, code=ROLLED_BACK, why=f"the {definition.ends.value} ended before it was installed")
        match each.code:
            case "":
                end = End(CommandState.DONE, why=f"on {on}", exit=0, output=version.encode())
            case code if code == ROLLED_BACK:
                end = End(CommandState.STOPPED, code, f"rolled back to {on}: {each.why}", output=each.output)
            case code if code == NOT_ROLLED_BACK:
                end = End(CommandState.STOPPED, code, f"not rolled back, on {on}: {each.why}", output=each.output)
            case code:
                end = End(CommandState.STOPPED, code, f"not installed, on {on}: {each.why}", output=each.output)
        return Installed(each.operation, end)


def _has_ended(ends: Ends, each: Installation, moment: Moment) -> bool:
    return ends is Ends.AGENT or (ends is Ends.MACHINE and each.boot_id != moment.boot_id)


def _why(step: InstallerStep, end: End) -> str:
    """Return why a step failed, in a line: how it ended, and its error or the last line it wrote."""
    how = end.why or f"{step.value} ended with {end.exit}"
    said = _last_line(end.output)
    return _printable(f"{how}: {said}" if said else how, _WHY_CHARACTERS)


def _last_line(output: bytes) -> str:
    """Return the last error that a program wrote, otherwise its last line."""
    lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
    return _printable("".join((errors or lines)[-1:]), _WHY_CHARACTERS)


def _version(output: bytes) -> str:
    lines = output.decode(errors="replace").splitlines()
    return _printable(lines[0].strip(), MAXIMUM_VERSION_CHARACTERS) if lines else ""


def _printable(text: str, maximum: int) -> str:
    return "".join(each if each.isprintable() else "?" for each in text[:maximum])
