"""`covey.core.actions.execution`: a command has one effect, or it is said why it has none, whenever the power goes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from covey.adapters.sqlite.store import SqliteStore
from covey.core.actions import results
from covey.core.actions.commands import CommandRecord, GivenCommand, Halted, Moment
from covey.core.actions.definition import ActionDefinition, Ends, Integer, LimitedText
from covey.core.actions.execution import Begun, Execution
from covey.core.actions.installing import Installing
from covey.core.actions.moving import Moving
from covey.core.actions.results import CommandState, End
from covey.core.actions.secrets import SealedArguments, seal_arguments
from covey.core.crypto import NoiseKey, NoiseKeys
from covey.core.ids import DeviceKey, GroupId, Incarnation, OperationId
from covey.core.orders.selector import EVERYBODY
from covey.errors import ActionError
from covey.limits.actions import ACTION_TRIES, MAXIMUM_ACTION_OUTPUT_BYTES, WAITING_COMMANDS
from tests.fleet import open_store
from tests.staging import Unstaged

_NOW = Moment(1_000, True, b"boot one")
_KIM = DeviceKey(bytes([7]) * 32)
_GROUP = GroupId(bytes(32))
_DONE = End(CommandState.DONE, exit=0)
_KEYS, _OTHERS = NoiseKeys((NoiseKey.of(bytes([5]) * 32),)), NoiseKeys((NoiseKey.of(bytes([6]) * 32),))


class _Owner:
    """Lets operators have everything done that is defined, but `off`."""

    def __init__(self) -> None:
        self.allowed = {"blink", "dim", "again", "boot", "word"}
        self._actions = {
            "blink": ActionDefinition("blink", "blink", ("/bin/blink",)),
            "dim": ActionDefinition("dim", "dim", ("/bin/dim", "{to}"), {"to": Integer(0, 9)}, idempotent=True),
            "word": ActionDefinition(
                *("word", "set a word", ("/bin/word",), {"key": LimitedText(8, "abcdefghijklmnopqrstuvwxyz2")}),
                idempotent=True,
                stdin="{key}\n",
            ),
            "again": ActionDefinition("again", "begin anew", ("agent", "restart"), ends=Ends.AGENT),
            "boot": ActionDefinition("boot", "boot", ("/bin/boot",), ends=Ends.MACHINE),
        }

    def action(self, name: str) -> ActionDefinition:
        if name not in self.allowed:
            raise ActionError(f"{name} is not allowed", results.NOT_ALLOWED)
        return self._actions[name]

    defined = action


class Site:
    """One device's rules over its real tables."""

    def __init__(self, store: SqliteStore) -> None:
        self.tables, self.owner = store.commands, _Owner()
        self.installing = Installing(store.installations, self.owner, Unstaged())
        self.moving = Moving(store)
        self.execution = Execution(self.tables, self.owner, _KEYS, self.installing, self.moving)
        self.counting: set[OperationId] = set()

    def take(self, *commands: GivenCommand, moment: Moment = _NOW) -> list[CommandRecord]:
        self.counting |= {each.operation for each in commands}
        return self.execution.take(commands, moment)

    def begin(self, moment: Moment = _NOW) -> Begun:
        begun = self.execution.begin(self.counting, moment)
        assert isinstance(begun, Begun)
        return begun

    def refused(self, moment: Moment = _NOW) -> tuple[CommandState, str]:
        return _said(self.execution.begin(self.counting, moment))


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with closing(open_store(tmp_path / "state", Incarnation(bytes(8)))) as store:
        yield Site(store)


def _command(number: int = 0, action: str = "blink", **arguments: str) -> GivenCommand:
    once, operation = bytes([number % 256, number // 256]) * 8, OperationId(number.to_bytes(32, "big"))
    return GivenCommand(once, _GROUP, operation, _KIM, action, arguments)


def _hidden(action: str, recipient: NoiseKeys = _KEYS, number: int = 0, **hidden: str) -> GivenCommand:
    """Return a command with arguments that only a device with these keys can read."""
    command = _command(number, action)
    about = (_GROUP, _KIM, action, command.once, EVERYBODY)
    sealed = seal_arguments(hidden, [recipient.current.public], *about, random.Random(1).randbytes)
    return replace(command, sealed=SealedArguments.of(sealed, *about))


def _said(record: object) -> tuple[CommandState, str]:
    assert isinstance(record, CommandRecord)
    assert record.result is not None
    assert record.result.why or record.state is CommandState.DONE
    assert results.OrderResult.from_wire(record.result.to_wire()) == record.result
    return record.state, record.result.code


def test_commands_are_done_one_after_the_other_in_the_order_in_which_they_came(site: Site) -> None:
    assert site.take(_command(2), _command(1, "dim", to="3")) == []
    first = site.begin()
    assert first.invocation.argv == ("/bin/blink",)
    later = Moment(2_000, True)
    result = site.execution.end(first, End(CommandState.DONE, exit=3, output=b"oh"), later).result
    assert result is not None
    assert (result.exit, result.output, result.taken_us, result.started_us, result.ended_us) == (
        *(3, b"oh"),
        *(1_000, 1_000, 2_000),
    )
    second = site.begin()
    assert second.invocation.argv == ("/bin/dim", "3")
    site.execution.end(second, End(CommandState.STOPPED, results.TIME, "its time was up"), _NOW)
    assert site.execution.begin(site.counting, _NOW) is None
    assert site.tables.record(second.record.command.operation) is not None


@pytest.mark.parametrize("start", [True, False])
def test_times_are_as_good_as_the_worst_of_the_clocks(site: Site, start: bool) -> None:
    site.take(_command())
    begun = site.begin(Moment(1_000, start))
    result = site.execution.end(begun, _DONE, Moment(2_000, not start)).result
    assert result is not None
    assert not result.synchronised


def test_a_once_id_has_one_effect_in_whatever_operation_and_group(site: Site) -> None:
    site.take(_command())
    site.execution.end(site.begin(), _DONE, _NOW)
    assert site.take(_command()) == [], "it is known"
    site.tables.forget(_GROUP)
    other = replace(_command(), operation=OperationId(b"x" * 32), group_id=GroupId(b"y" * 32))
    [refused] = site.take(other)
    assert _said(refused) == (CommandState.REFUSED, results.REPEATED)
    assert site.execution.begin(site.counting, _NOW) is None


@pytest.mark.parametrize(
    ("command", "moment", "code"),
    [
        (_command(action="off"), _NOW, results.NOT_ALLOWED),
        (_command(action="dim", to="10"), _NOW, results.ARGUMENTS),
        (_command(action="dim", to="1; reboot"), _NOW, results.ARGUMENTS),
        (replace(_command(), deadline_us=999), _NOW, results.LATE),
        (replace(_command(), deadline_us=5_000), Moment(1_000, False), results.CLOCK),
        (_hidden("word", key="hunter2", recipient=_OTHERS), _NOW, results.SEALED),
        (replace(_hidden("word", key="hunter2"), sealed=SealedArguments(b"garbage", b"")), _NOW, results.SEALED),
        (replace(_hidden("word", key="hunter2"), arguments={"key": "a"}), _NOW, results.ARGUMENTS),
        (_hidden("word", key="HUNTER2"), _NOW, results.ARGUMENTS),
        (_hidden("word", other="hunter2"), _NOW, results.ARGUMENTS),
        (_hidden("dim", to="3"), _NOW, results.NOT_SECRET),
    ],
)
def test_a_refused_command_names_its_reason(site: Site, command: GivenCommand, moment: Moment, code: str) -> None:
    site.take(command, moment=moment)
    assert site.refused(moment) == (CommandState.REFUSED, code)
    assert site.execution.begin(site.counting, moment) is None


def test_a_command_without_a_deadline_needs_no_clock_and_one_at_its_deadline_is_done(site: Site) -> None:
    site.take(_command(1))
    site.execution.end(site.begin(Moment(1, False)), _DONE, _NOW)
    site.take(replace(_command(2), deadline_us=1_000))
    site.begin()


def test_a_clock_that_has_just_started_is_waited_for(site: Site) -> None:
    site.take(replace(_command(), deadline_us=5_000))
    assert site.execution.begin(site.counting, Moment(1_000, False, settled=False)) is None
    site.begin(Moment(1_000, True, settled=False))


def test_a_command_that_no_longer_counts_at_its_turn_is_not_executed(site: Site) -> None:
    site.take(_command())
    site.counting.clear()
    assert site.refused() == (CommandState.REFUSED, results.REVOKED)


def test_a_wave_waits_while_its_release_is_paused_and_others_have_their_turn(site: Site) -> None:
    wave, other = replace(_command(1), in_waves=True), _command(2, "again")
    site.take(wave, other)
    paused = Halted(paused=frozenset({(_GROUP, wave.once)}))
    begun = site.execution.begin(site.counting, _NOW, paused)
    assert isinstance(begun, Begun)
    assert begun.record.command == other
    site.execution.end(begun, _DONE, _NOW)
    assert site.execution.begin(site.counting, _NOW, paused) is None
    elsewhere = Halted(paused=frozenset({(GroupId(b"another group" + bytes(19)), wave.once)}))
    begun = site.execution.begin(site.counting, _NOW, elsewhere)
    assert isinstance(begun, Begun)
    assert begun.record.command == wave


def test_a_wave_of_an_aborted_release_is_refused_when_its_turn_comes(site: Site) -> None:
    wave = replace(_command(1), in_waves=True)
    site.take(wave)
    aborted = Halted(aborted=frozenset({(_GROUP, wave.once)}))
    refused = _said(site.execution.begin(site.counting, _NOW, aborted))
    assert refused == (CommandState.REFUSED, results.WITHDRAWN)


def test_results_of_waves_are_kept_for_later_operators(site: Site) -> None:
    wave, other = replace(_command(1), in_waves=True), _command(2)
    site.take(wave, other)
    for _ in range(2):
        site.tables.note_reported(site.execution.end(site.begin(), _DONE, _NOW))
    assert [each.command.operation for each in site.tables.waves(_GROUP)] == [wave.operation]


@pytest.mark.parametrize(
    ("action", "boot", "outcome"),
    [
        ("blink", b"boot one", (CommandState.UNKNOWN, results.WENT_DOWN)),
        ("blink", b"boot two", (CommandState.UNKNOWN, results.WENT_DOWN)),
        ("dim", b"boot one", None),
        ("again", b"boot one", (CommandState.DONE, "")),
        ("boot", b"boot one", (CommandState.UNKNOWN, results.WENT_DOWN)),
        ("boot", b"boot two", (CommandState.DONE, "")),
    ],
)
def test_after_a_crash_only_what_may_be_repeated_is(
    site: Site, action: str, boot: bytes, outcome: tuple[CommandState, str] | None
) -> None:
    site.take(_command(1, action, **({"to": "1"} if action == "dim" else {})))
    site.begin()
    site.execution = Execution(site.tables, site.owner, _KEYS, site.installing, site.moving)
    moment = Moment(2_000, True, boot)
    assert [_said(each) for each in site.execution.recover(moment)] == ([] if outcome is None else [outcome])
    assert isinstance(site.execution.begin(site.counting, moment), Begun) == (outcome is None)


def test_after_a_crash_a_forbidden_command_is_unknown_and_not_refused(site: Site) -> None:
    site.take(replace(_command(1, "dim", to="1"), deadline_us=1_500))
    site.begin()
    late = Moment(2_000, True)
    assert site.execution.recover(late) == []
    assert site.refused(late) == (CommandState.UNKNOWN, results.WENT_DOWN)
    site.take(_command(2, "dim", to="1"))
    site.begin()
    site.owner.allowed.clear()
    assert [_said(each) for each in site.execution.recover(_NOW)] == [(CommandState.UNKNOWN, results.WENT_DOWN)]


def test_an_action_that_crashes_the_machine_is_not_repeated_forever(site: Site) -> None:
    site.take(_command(1, "dim", to="1"))
    for _ in range(ACTION_TRIES):
        assert site.execution.recover(_NOW) == []
        site.begin()
    assert [_said(each) for each in site.execution.recover(_NOW)] == [(CommandState.UNKNOWN, results.WENT_DOWN)]


def test_an_action_that_cannot_start_was_not_done(site: Site) -> None:
    site.take(_command(1), _command(2, "dim", to="1"))
    not_started = End(CommandState.REFUSED, results.NOT_STARTED, "there is no such program")
    record = site.execution.end(site.begin(), not_started, _NOW)
    assert _said(record) == (CommandState.REFUSED, results.NOT_STARTED)
    site.begin()
    site.execution.recover(_NOW)
    record = site.execution.end(site.begin(), not_started, _NOW)
    assert _said(record) == (CommandState.UNKNOWN, results.WENT_DOWN), "it had begun before"


def test_commands_beyond_the_queue_are_refused(site: Site) -> None:
    refused = site.take(*(_command(number) for number in range(WAITING_COMMANDS + 2)))
    assert [_said(each) for each in refused] == [(CommandState.REFUSED, results.QUEUE_FULL)] * 2
    site.begin()


def test_a_command_forgotten_before_it_arrived_is_refused_once(site: Site) -> None:
    refused = site.execution.refuse_forgotten([_command(2, "forgotten")], _NOW)
    assert [_said(each) for each in refused] == [(CommandState.REFUSED, results.FORGOTTEN)]
    assert site.execution.refuse_forgotten([_command(2, "forgotten")], _NOW) == []
    assert site.take(_command(2)) == []
    assert site.tables.waiting() == []


def test_a_device_that_lost_records_repeats_no_command(site: Site) -> None:
    site.take(_command(1), _command(2, "dim", to="1"))
    site.begin()
    assert site.execution.give_up(GroupId(b"y" * 32), _NOW) == [], "of another group"
    lost = site.execution.give_up(_GROUP, _NOW)
    assert [_said(each) for each in lost] == [(CommandState.UNKNOWN, results.RECORDS_LOST)] * 2
    assert site.execution.begin(site.counting, _NOW) is None
    assert [_said(each) for each in site.execution.lose([_command(2), _command(3)], _NOW)] == [
        (CommandState.UNKNOWN, results.RECORDS_LOST)
    ]
    assert site.take(_command(3)) == []


def test_a_secret_is_opened_for_each_try_and_kept_nowhere(site: Site, tmp_path: Path) -> None:
    command = _hidden("word", key="hunter2")
    site.take(command)
    begun = site.begin()
    assert (begun.invocation.argv, begun.invocation.stdin) == (("/bin/word",), b"hunter2\n")
    assert "hunter2" not in repr((begun, command))
    assert site.tables.begun()[0].command == command
    site.execution = Execution(site.tables, site.owner, _KEYS, site.installing, site.moving)
    assert site.execution.recover(_NOW) == []
    assert site.begin().invocation.stdin == b"hunter2\n", "it may be repeated"
    site.execution.end(begun, replace(_DONE, output=b"no hunter2 here", exit=1), _NOW)
    kept = site.tables.record(command.operation)
    assert kept is not None
    assert kept.command.sealed is None, "what was sealed goes with the rest"
    assert kept.result is not None
    assert kept.result.output == b"no *** here"
    for file in tmp_path.iterdir():
        assert b"hunter2" not in file.read_bytes()


def test_an_ended_command_keeps_no_arguments(site: Site) -> None:
    waiting = [_hidden("word", number=number, key="hunter2") for number in range(WAITING_COMMANDS)]
    [refused] = site.take(*waiting, _hidden("word", number=WAITING_COMMANDS, key="hunter2"))
    assert (refused.command.sealed, refused.command.arguments) == (None, {})
    ended = site.execution.give_up(_GROUP, _NOW)
    assert [each.command.sealed for each in ended] == [None] * WAITING_COMMANDS


def test_a_device_that_has_wiped_the_key_before_its_turn_refuses(site: Site) -> None:
    site.take(_hidden("word", key="hunter2"))
    site.execution = Execution(site.tables, site.owner, _OTHERS, site.installing, site.moving)
    assert site.refused() == (CommandState.REFUSED, results.SEALED)


def test_redacted_output_stays_within_its_bound(site: Site) -> None:
    site.take(_hidden("word", key="a"))
    output = b"a" * MAXIMUM_ACTION_OUTPUT_BYTES
    result = site.execution.end(site.begin(), replace(_DONE, output=output), _NOW).result
    assert result is not None
    assert (len(result.output), result.cut, b"a" in result.output) == (MAXIMUM_ACTION_OUTPUT_BYTES, True, False)


def test_results_are_given_out_one_by_one_and_arguments_are_not_kept(site: Site) -> None:
    site.take(_command(1, "dim", to="1"), _command(2, "dim", to="2"))
    for _ in range(2):
        site.execution.end(site.begin(), _DONE, _NOW)
    first = site.tables.next_unreported()
    assert first is not None
    assert first.command.arguments == {}
    second = site.tables.next_unreported(first.command.operation)
    assert second is not None
    site.tables.note_reported(first)
    assert site.tables.next_unreported() == second
    site.tables.note_reported(second)
    assert site.tables.next_unreported() is None
