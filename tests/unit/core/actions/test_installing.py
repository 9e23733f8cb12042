"""`covey.core.actions.installing`: wherever the power goes, a device ends on the old or the new, and says on which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from covey.adapters.sqlite.store import SqliteStore
from covey.core.actions import results
from covey.core.actions.commands import NOTHING_HALTED, CommandRecord, GivenCommand, Halted, Moment
from covey.core.actions.definition import INSTALLER_ARGUMENTS, ActionDefinition, Ends
from covey.core.actions.execution import Execution
from covey.core.actions.installation import Installation, InstallationPhase
from covey.core.actions.installing import NOT_YET, Installed, InstallerStep, Installing, StepBegun
from covey.core.actions.moving import Moving
from covey.core.actions.results import CommandState, End, OrderResult
from covey.core.crypto import NoiseKey, NoiseKeys
from covey.core.ids import DeviceKey, GroupId, Incarnation, OperationId
from covey.errors import ActionError
from covey.limits.actions import (
    CONFIRM_REST_US,
    INSTALLER_FETCH_US,
    MOMENT_REST_US,
    ROLL_BACK_REST_US,
    ROLL_BACK_TRIES,
    TRIAL_STARTS,
)
from tests.fleet import open_store
from tests.staging import Staged

_TRIAL_US = 600_000_000
_KIM, _GROUP = DeviceKey(bytes([7]) * 32), GroupId(bytes(32))
_OPERATION = OperationId(b"o" * 32)
_FILE = "f" * 64
_KEYS = NoiseKeys((NoiseKey.of(bytes([5]) * 32),))


class PowerCutError(Exception):
    """The power went."""


class Machine:
    """A device with one program, installed by an installer that keeps to its contract, through all of its processes.

    `cut` is called before each commit, after each, and within each program; it may raise `PowerCutError`.
    """

    def __init__(self, store: SqliteStore, ends: Ends = Ends.NOTHING) -> None:
        self.store = store
        self.version, self.kept = "old", ""
        self.is_good = self.is_connected = True
        self.fails: dict[InstallerStep, int] = {}
        self.run: list[InstallerStep] = []
        self.cut: Callable[[], None] = lambda: None
        self.staging = Staged()
        self.now_us, self.boot = 1_000_000, 1
        self.allowed = self.is_defined = True
        self.definition = ActionDefinition(
            "pump", "pump", ("/bin/pump",), INSTALLER_ARGUMENTS, ends=ends, trial_us=_TRIAL_US
        )
        self.ended: CommandRecord | None = None
        self.halted = NOTHING_HALTED
        self.begin()

    # -- its owner ----------------------------------------------------------------------------------------------------

    def action(self, name: str) -> ActionDefinition:
        if not self.allowed:
            raise ActionError("not allowed", results.NOT_ALLOWED)
        return self.defined(name)

    def defined(self, name: str) -> ActionDefinition:
        if not self.is_defined:
            raise ActionError(f"{name} is not defined", results.NOT_DEFINED)
        return self.definition

    # -- processes of the agent ---------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.installing = Installing(self.store.installations, self, self.staging)
        self.execution = Execution(self.store.commands, self, _KEYS, self.installing, Moving(self.store))

    def moment(self) -> Moment:
        return Moment(self.now_us, True, bytes([self.boot]), monotonic_us=self.now_us)

    def restart(self, *, boots: bool = True) -> None:
        """Begin another process, in another boot whose clock begins at 0, or in the same one."""
        if boots:
            self.boot, self.now_us = self.boot + 1, 0
        self.begin()
        with self.store.transaction():
            self.execution.recover(self.moment())

    def order(self, number: int = 0) -> None:
        arguments = {"group": _GROUP.hex(), "file": _FILE}
        operation = OperationId(bytes([number]) * 32) if number else _OPERATION
        command = GivenCommand(bytes([number]) * 16, _GROUP, operation, _KIM, "pump", arguments)
        with self.store.transaction():
            self.execution.take([command], self.moment())

    def turn(self) -> StepBegun | None:
        """Do what a turn of the agent does, with a program that ends at once."""
        self.cut()
        with self.store.transaction():
            self.execution.heed(self.halted, self.moment())
            found = self.installing.next_step(self.moment()) or self.execution.begin([_OPERATION], self.moment())
            self._final(found)
        self.cut()
        if isinstance(found, StepBegun):
            end = self._program(found)
            self.cut()
            with self.store.transaction():
                self._final(self.installing.ended(found, end, self.moment()))
            self.cut()
        elif self.is_connected and self.phase() is InstallationPhase.TRIAL:
            with self.store.transaction():
                self.installing.acknowledged(_OPERATION)
            self.cut()
        return found if isinstance(found, StepBegun) else None

    def _final(self, found: object) -> None:
        if isinstance(found, Installed):
            found = self.execution.conclude(found.operation, found.end, self.moment())
        if isinstance(found, CommandRecord) and found.command.operation == _OPERATION:
            self.ended = found

    def _program(self, begun: StepBegun) -> End:
        """Run the installer, as its contract lays down: each change at once, and what is repeated changes nothing."""
        self.run.append(begun.step)
        if begun.step in self.fails:
            return End(CommandState.DONE, exit=self.fails[begun.step], output=b"no\n")
        match begun.step:
            case InstallerStep.INSTALL:
                assert begun.invocation.stdin_path == self.staging.path(_OPERATION)
                self.kept = self.kept or self.version
                self.cut()
                self.version = "half" if self.definition.ends is Ends.NOTHING else self.version
                self.cut()
                self.version = "new"
            case InstallerStep.CONFIRM if self.is_good and not self.kept:
                pass  # it was confirmed before, or nothing was changed
            case InstallerStep.CONFIRM if self.is_good and self.version == "new":
                self.kept = ""
                self.cut()
            case InstallerStep.CONFIRM:
                return End(CommandState.DONE, exit=1, output=b"it does not pump\n")
            case InstallerStep.ROLL_BACK if self.kept:
                self.version = self.kept
                self.cut()
                self.kept = ""
            case _:
                pass
        output = f"{self.version} 1.0\n".encode() if begun.step is InstallerStep.VERSION else b""
        return End(CommandState.DONE, exit=0, output=output)

    def settle(self) -> OrderResult:
        """Go on until the command has ended."""
        for _ in range(60):
            if self.ended is not None:
                assert self.ended.result is not None
                assert OrderResult.from_wire(self.ended.result.to_wire()) == self.ended.result
                return self.ended.result
            self.turn()
            self.now_us += 30_000_000
        raise AssertionError(self.store.installations.all())

    def phase(self) -> InstallationPhase | None:
        return next((each.phase for each in self.store.installations.all()), None)

    def go_on_until(self, phase: InstallationPhase) -> None:
        while self.phase() is not phase:
            self.turn()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(open_store(tmp_path / "state", Incarnation(bytes(8)))) as store:
        yield store


@pytest.fixture
def machine(store: SqliteStore) -> Machine:
    machine = Machine(store)
    machine.order()
    return machine


def test_a_good_update_is_confirmed_and_says_which_version_it_is(machine: Machine) -> None:
    result = machine.settle()
    assert (result.state, result.exit, result.why, result.output) == (CommandState.DONE, 0, "on new 1.0", b"new 1.0")
    assert machine.run == [
        *(InstallerStep.FETCH, InstallerStep.VERSION, InstallerStep.INSTALL),
        *(InstallerStep.CONFIRM, InstallerStep.VERSION),
    ]
    machine.installing.sweep()
    assert (machine.staging.kept, machine.store.installations.all()) == (set(), [])


def test_a_failed_confirmation_rolls_back(machine: Machine) -> None:
    machine.is_good = False
    result = machine.settle()
    assert (result.state, result.code, machine.version) == (CommandState.STOPPED, results.ROLLED_BACK, "old")
    assert result.why == "rolled back to old 1.0: confirm ended with 1: it does not pump"


def test_an_unacknowledged_release_rolls_back(machine: Machine) -> None:
    machine.is_connected = False
    machine.go_on_until(InstallationPhase.TRIAL)
    machine.now_us += _TRIAL_US - 1
    machine.turn()
    assert machine.phase() is InstallationPhase.TRIAL
    machine.now_us += 1
    result = machine.settle()
    assert (result.code, machine.version) == (results.ROLLED_BACK, "old")
    assert "no member acknowledged anything within 600 s" in result.why
    assert InstallerStep.CONFIRM not in machine.run


@pytest.mark.parametrize("step", [InstallerStep.INSTALL, InstallerStep.CONFIRM])
def test_an_installer_that_fails_falls_back(machine: Machine, step: InstallerStep) -> None:
    machine.fails[step] = 3
    result = machine.settle()
    assert (result.code, machine.version) == (results.ROLLED_BACK, "old")
    assert f"{step.value} ended with 3: no" in result.why


def test_confirm_may_say_that_it_is_not_well_yet_until_the_time_is_over(machine: Machine) -> None:
    machine.fails[InstallerStep.CONFIRM] = NOT_YET
    machine.go_on_until(InstallationPhase.CONFIRMING)
    machine.turn()
    assert machine.turn() is None, "there is a pause"
    machine.now_us += CONFIRM_REST_US
    machine.turn()
    assert machine.run.count(InstallerStep.CONFIRM) == 2
    machine.restart(boots=False)
    machine.fails.clear()
    assert machine.settle().why == "on new 1.0"


def test_a_machine_that_is_never_healthy_rolls_back(machine: Machine) -> None:
    machine.fails[InstallerStep.CONFIRM] = NOT_YET
    result = machine.settle()
    assert (result.code, machine.version) == (results.ROLLED_BACK, "old")


_PUMPS_RELEASE = frozenset({(_GROUP, bytes(16))})


def test_while_its_release_is_paused_its_file_comes_and_nothing_is_changed(machine: Machine) -> None:
    machine.halted = Halted(paused=_PUMPS_RELEASE)
    for _ in range(6):
        machine.turn()
    assert machine.run == [InstallerStep.FETCH, InstallerStep.VERSION]
    machine.now_us += 2 * INSTALLER_FETCH_US
    assert machine.turn() is None, "a pause uses up no time"
    machine.halted = NOTHING_HALTED
    assert machine.settle().why == "on new 1.0"


def _put_off(machine: Machine) -> None:
    """Let the owner's program say that this is not the moment."""
    machine.definition = replace(machine.definition, when=("/bin/is-idle",))
    machine.fails[InstallerStep.WHEN] = NOT_YET
    for _ in range(60):
        if InstallerStep.WHEN in machine.run:
            return
        machine.turn()
    raise AssertionError(machine.run)


def test_the_device_chooses_its_moment(machine: Machine) -> None:
    _put_off(machine)
    assert machine.run == [InstallerStep.FETCH, InstallerStep.VERSION, InstallerStep.WHEN]
    assert machine.turn() is None, "it rests"
    assert machine.store.installations.all()[0].why == "no", "what the program waits for is kept"
    for _ in range(16):
        machine.now_us += INSTALLER_FETCH_US // 4
        machine.turn()
    assert machine.phase() is InstallationPhase.FETCHING, "waiting for the moment has no limit"
    machine.fails.clear()
    machine.run.clear()
    machine.now_us += MOMENT_REST_US
    assert machine.settle().why == "on new 1.0"
    assert machine.run.count(InstallerStep.WHEN) == 1


def test_a_device_that_waits_for_its_moment_obeys_an_abort(machine: Machine) -> None:
    _put_off(machine)
    machine.halted = Halted(aborted=_PUMPS_RELEASE)
    result = machine.settle()
    assert (result.code, machine.version) == (results.WITHDRAWN, "old")


def test_after_a_restart_it_asks_again_for_the_moment(machine: Machine) -> None:
    _put_off(machine)
    machine.restart()
    machine.fails.clear()
    machine.run.clear()
    assert machine.settle().why == "on new 1.0"
    assert InstallerStep.WHEN in machine.run


def test_a_failing_when_program_ends_the_installation_before_any_change(machine: Machine) -> None:
    machine.definition = replace(machine.definition, when=("/bin/is-idle",))
    machine.fails[InstallerStep.WHEN] = 3
    result = machine.settle()
    assert (result.state, result.code, machine.version) == (CommandState.STOPPED, results.NOT_STARTED, "old")
    assert result.why == "not installed, on old 1.0: when ended with 3: no"
    assert InstallerStep.INSTALL not in machine.run


def test_an_aborted_release_is_not_installed(machine: Machine) -> None:
    machine.go_on_until(InstallationPhase.FETCHING)
    machine.halted = Halted(aborted=_PUMPS_RELEASE)
    result = machine.settle()
    assert (result.state, result.code, machine.version) == (CommandState.STOPPED, results.WITHDRAWN, "old")
    assert result.why == "not installed, on old 1.0: its release was aborted"
    assert InstallerStep.INSTALL not in machine.run


def test_an_abort_on_trial_rolls_back(machine: Machine) -> None:
    machine.is_connected = False
    machine.go_on_until(InstallationPhase.TRIAL)
    machine.halted = Halted(aborted=_PUMPS_RELEASE)
    result = machine.settle()
    assert (result.code, machine.version) == (results.ROLLED_BACK, "old")
    assert result.why == "rolled back to old 1.0: its release was aborted"


def test_an_abort_after_acknowledgement_changes_nothing(machine: Machine) -> None:
    machine.go_on_until(InstallationPhase.CONFIRMING)
    machine.halted = Halted(aborted=_PUMPS_RELEASE)
    assert machine.settle().why == "on new 1.0"


def test_falling_back_is_tried_some_times_and_reported_if_it_fails(machine: Machine) -> None:
    machine.is_good, machine.fails[InstallerStep.ROLL_BACK] = False, 4
    result = machine.settle()
    assert (result.state, result.code) == (CommandState.STOPPED, results.NOT_ROLLED_BACK)
    assert result.why == "not rolled back, on new 1.0: rollback ended with 4: no"
    assert machine.run.count(InstallerStep.ROLL_BACK) == ROLL_BACK_TRIES
    assert ROLL_BACK_REST_US <= 30_000_000, "settle waits for so long between two turns"


def test_a_file_that_cannot_be_had_changes_nothing(machine: Machine) -> None:
    machine.staging.missing = True
    result = machine.settle()
    assert (result.code, machine.run) == (results.NOT_FETCHED, [InstallerStep.VERSION])
    assert result.why.startswith("not installed, on old 1.0: ")


def test_a_file_that_comes_late_is_waited_for_and_one_that_never_comes_is_not(machine: Machine) -> None:
    machine.staging.coming = True
    for _ in range(5):
        machine.turn()
        machine.now_us += INSTALLER_FETCH_US // 10
    assert machine.run == []
    machine.staging.coming = False
    assert machine.settle().why == "on new 1.0"


def test_one_that_never_comes_is_given_up(machine: Machine) -> None:
    machine.staging.coming = True
    machine.turn()
    machine.turn()
    machine.now_us += INSTALLER_FETCH_US
    result = machine.settle()
    assert (result.code, machine.version) == (results.NOT_FETCHED, "old")


def test_a_fetch_that_fails_while_the_file_is_on_its_way_is_none(machine: Machine) -> None:
    machine.fails[InstallerStep.FETCH] = 1
    machine.turn()
    machine.turn()
    assert (machine.run, machine.phase()) == ([InstallerStep.FETCH], InstallationPhase.ENDING), "it is not on its way"


class _Late(Staged):
    """The file comes while what asks for it ends, having waited in vain."""

    asked = 0

    def is_here(self, installation: Installation) -> bool:
        del installation
        self.asked += 1
        return self.asked > 1


def test_a_file_that_comes_while_the_fetch_of_it_fails_is_opened_next(machine: Machine) -> None:
    machine.staging = _Late()
    machine.begin()
    machine.fails[InstallerStep.FETCH] = 1
    for _ in range(2):
        machine.turn()
    assert machine.phase() is InstallationPhase.FETCHING
    machine.fails.clear()
    assert machine.settle().state is CommandState.DONE
    assert machine.run[:3] == [InstallerStep.FETCH, InstallerStep.FETCH, InstallerStep.VERSION]


def test_a_local_file_that_cannot_be_opened_is_tried_once_more(machine: Machine) -> None:
    machine.staging = _Late()
    machine.begin()
    machine.fails[InstallerStep.FETCH] = 1
    assert machine.settle().code == results.NOT_FETCHED
    assert machine.run == [InstallerStep.FETCH] * 2 + [InstallerStep.VERSION]


@pytest.mark.slow
@pytest.mark.parametrize("is_good", [True, False])
@pytest.mark.parametrize("boots", [True, False])
@pytest.mark.parametrize("ends", list(Ends))
def test_after_a_power_cut_the_device_is_on_the_old_or_the_new_version_and_says_which(
    tmp_path: Path, is_good: bool, boots: bool, ends: Ends
) -> None:
    points, reached = 0, True
    while reached:
        points += 1
        with closing(open_store(tmp_path / f"state-{points}", Incarnation(bytes(8)))) as store:
            machine = Machine(store, ends)
            machine.is_good = is_good
            machine.order()
            reached = _cut_at(machine, points, boots=boots)
            result = machine.settle()
            assert (machine.version, machine.kept) in {("old", ""), ("new", "")}
            assert f"{machine.version} 1.0" in result.why
            expected = (CommandState.DONE, "new") if result.code == "" else (CommandState.STOPPED, "old")
            assert (result.state, machine.version) == expected
            assert is_good or machine.version == "old"
            assert store.installations.all() == []
    assert points > 15, "there are that many moments to lose the power in"


def _cut_at(machine: Machine, point: int, *, boots: bool) -> bool:
    """Have the power go at one of the moments of an installation; say whether there are so many."""
    left = point

    def cut() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise PowerCutError

    machine.cut = cut
    try:
        while machine.ended is None:
            machine.turn()
            awaits_end = machine.phase() is InstallationPhase.INSTALLING
            machine.now_us += 10_000_000
            if awaits_end:  # what the installer said it would end, ends
                machine.restart(boots=machine.definition.ends is Ends.MACHINE)
    except PowerCutError:
        machine.restart(boots=boots)
    machine.cut = lambda: None
    return left <= 0


@pytest.mark.parametrize(("ends", "boots"), [(Ends.AGENT, False), (Ends.AGENT, True), (Ends.MACHINE, True)])
def test_an_update_that_ends_the_agent_is_on_trial_in_the_next(store: SqliteStore, ends: Ends, boots: bool) -> None:
    machine = Machine(store, ends)
    machine.order()
    machine.go_on_until(InstallationPhase.INSTALLING)
    assert machine.turn() is None, "the old agent asks nobody for a sign"
    machine.restart(boots=boots)
    assert machine.phase() is InstallationPhase.TRIAL
    assert machine.settle().why == "on new 1.0"


def test_an_update_that_should_have_ended_the_agent_rolls_back(store: SqliteStore) -> None:
    machine = Machine(store, Ends.MACHINE)
    machine.order()
    result = machine.settle()
    assert (result.code, machine.version) == (results.ROLLED_BACK, "old")
    assert "the machine has not ended after it was installed" in result.why


def test_an_agent_that_ends_over_and_over_on_trial_falls_back(machine: Machine) -> None:
    machine.is_connected = False
    machine.go_on_until(InstallationPhase.TRIAL)
    for _ in range(TRIAL_STARTS):
        machine.restart()
    assert machine.phase() is InstallationPhase.TRIAL
    machine.restart()
    assert machine.phase() is InstallationPhase.ROLLING_BACK
    result = machine.settle()
    assert (result.code, machine.version) == (results.ROLLED_BACK, "old")


def test_another_boot_begins_the_time_once_more_and_another_process_does_not(machine: Machine) -> None:
    machine.is_connected = False
    machine.go_on_until(InstallationPhase.TRIAL)
    machine.now_us += _TRIAL_US - 1
    machine.restart()
    machine.turn()
    machine.now_us += _TRIAL_US - 1
    machine.turn()
    assert machine.phase() is InstallationPhase.TRIAL
    machine.restart(boots=False)
    machine.now_us += 1
    machine.turn()
    assert machine.phase() is InstallationPhase.ROLLING_BACK
    assert machine.settle().code == results.ROLLED_BACK


def test_others_are_done_meanwhile_but_none_of_the_same_installer(machine: Machine) -> None:
    machine.is_connected = False
    machine.go_on_until(InstallationPhase.TRIAL)
    machine.order(9)
    assert machine.turn() is None
    assert [each.operation for each in machine.store.installations.all()] == [_OPERATION]
    assert machine.store.commands.waiting() == [OperationId(bytes([9]) * 32)], "it has its turn afterwards"
    other = replace(machine.definition, name="blink", arguments={}, trial_us=None)
    machine.definition = other
    command = GivenCommand(b"b" * 16, _GROUP, OperationId(b"b" * 32), _KIM, "blink")
    with machine.store.transaction():
        machine.execution.take([command], machine.moment())
        begun = machine.execution.begin([command.operation], machine.moment())
    assert begun is not None


def test_a_started_installation_finishes_after_its_owner_forbids_it(machine: Machine) -> None:
    machine.is_good = False
    machine.go_on_until(InstallationPhase.TRIAL)
    machine.allowed = False
    assert machine.settle().code == results.ROLLED_BACK


def test_without_its_definition_nothing_falls_back_and_that_is_reported(machine: Machine) -> None:
    machine.go_on_until(InstallationPhase.TRIAL)
    machine.is_defined = False
    result = machine.settle()
    assert (result.code, machine.version) == (results.NOT_ROLLED_BACK, "new")
    assert "its installer is no longer defined" in result.why


def test_a_device_that_has_left_the_group_falls_back_all_the_same(machine: Machine) -> None:
    machine.is_connected = False
    machine.go_on_until(InstallationPhase.TRIAL)
    machine.store.commands.forget(_GROUP)
    machine.now_us += _TRIAL_US
    for _ in range(6):
        machine.turn()
        machine.now_us += 30_000_000
    assert (machine.version, machine.ended, machine.store.installations.all()) == ("old", None, [])
