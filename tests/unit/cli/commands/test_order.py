"""`covey order run` and `covey order show ID` as an operator uses them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.clock import SystemClock
from covey.app.device.device import find_state, open_device
from covey.core.actions.commands import CommandRecord, GivenCommand
from covey.core.actions.results import LATE, TIME, CommandState, OrderResult, as_remembered
from covey.core.actions.secrets import SealedArguments
from covey.core.crypto import Identity
from covey.core.history.operation import Log, Operation, read_operation, sign_operation
from covey.core.history.orders import CommandOrder, Obeying
from covey.core.ids import DeviceKey, Incarnation, OperationId, device_name, key_text
from covey.core.orders.selector import EVERYBODY
from covey.core.presence.status import Presence, State, peer_presence
from covey.limits.orders import MAXIMUM_ARGUMENT_BYTES, MAXIMUM_ARGUMENTS
from tests.command import Here
from tests.fleet import identity

LEE, MAX = identity("lee"), identity("max")
_DAY_US = 86_400_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Here:
    device = Here(tmp_path_factory.mktemp("made"), "kim")
    device.ok("group", "create")
    for name, keys in (("lee", LEE), ("max", MAX)):
        words = [key_text("sign", keys.signing_public), key_text("noise", keys.noise_public)]
        device.ok("group", "add", *words, "--label", name)
    device.ok("config", "set", "operations.operators", device.json("key", "show")["signing_key"])
    for author in (None, LEE, MAX):
        _obeys(device, author)
    return device


@pytest.fixture
def kim(tmp_path: Path, made: Here) -> Here:
    """An operator's device, in a group with Lee's and Max's; all three obey."""
    return made.copied(tmp_path)


def _obeys(kim: Here, author: Identity | None) -> None:
    """Have an operator's device hold the word of a device that it obeys, or its own."""
    if author is not None:
        _says(kim, author, Obeying())
        return
    with open_device(find_state(str(kim.state))) as opened, opened.store.transaction():
        opened.node.history.write(opened.pick_group(None).group_id, Obeying(), opened.now())


def _says(kim: Here, author: Identity, body: Obeying | CommandOrder) -> str:
    """Have an operator's device hold what another one has said, after all that is here; return its id."""
    with open_device(find_state(str(kim.state))) as opened, opened.store.transaction():
        group = opened.pick_group(None)
        heads = tuple(opened.store.operations.heads(group.group_id))
        height = 1 + max(held.height for each in heads if (held := opened.store.operations.held(group.group_id, each)))
        log = Log(author.signing_public, Incarnation(bytes([body.kind] * 8)))
        made = Operation(group.group_id, log, 1, None, heads, height, group.hash, 0, int(body.kind), body.to_wire())
        operation = sign_operation(made, author)
        opened.store.operations.add(operation, group.version, 0)
        return operation.id.hex()


def _order(kim: Here, name: str) -> CommandOrder:
    """Return what devices read of a command."""
    with open_device(find_state(str(kim.state))) as opened:
        raw = opened.store.operations.raw(opened.pick_group(None).group_id, OperationId(bytes.fromhex(name)))
        assert raw is not None
        return CommandOrder.from_wire(read_operation(raw, verify=False).body)


def _report(kim: Here, device: DeviceKey | None, order: str, make: Callable[[OperationId], OrderResult]) -> None:
    """Have an operator's device receive a result of a device, or its own."""
    with open_device(find_state(str(kim.state))) as opened, opened.store.transaction():
        group, result = opened.pick_group(None), make(OperationId(bytes.fromhex(order)))
        author = device or opened.node.identity.signing_public
        opened.node.order_results.keep(group.group_id, author, result, opened.now())


def _done(order: OperationId, output: bytes = b"", code: int = 0) -> OrderResult:
    return OrderResult(
        order, CommandState.DONE, 4_000_000, 7_500_000, 5_000_000, synchronised=True, exit=code, output=output
    )


def _refused(order: OperationId) -> OrderResult:
    return OrderResult(order, CommandState.REFUSED, 4, 4, code=LATE, why="its deadline\x1b[2J had passed")


def _stopped(order: OperationId) -> OrderResult:
    return OrderResult(
        order,
        CommandState.STOPPED,
        4,
        7,
        5,
        code=TIME,
        why="it ran for longer than 60 s, " + "and this sentence " * 8 + "ends here",
    )


def _unknown(order: OperationId) -> OrderResult:
    return OrderResult(order, CommandState.UNKNOWN, 4, 7, 5, code="action_went_down", why="")


@pytest.mark.slow
def test_a_command_is_given_and_what_became_of_it_is_shown(kim: Here) -> None:
    given = kim.json("order", "run", "restart-pump", "--arg", "number=3", "--arg", "why=it=hangs", "--deadline", "1h")
    assert (given["devices"], given["counts"], given["kind"]) == (3, True, "command")
    order = _order(kim, given["id"])
    assert (order.action, order.arguments) == ("restart-pump", {"number": "3", "why": "it=hangs"})
    assert order.deadline_us is not None
    assert order.deadline_us - given["made_at_us"] == pytest.approx(3_600_000_000, abs=5_000_000)
    short = given["id"][:8]
    assert "3 waiting" in kim.ok("order", "show", short)
    _report(kim, None, given["id"], lambda order: _done(order, b"pump 3 runs\n"))
    _report(kim, LEE.signing_public, given["id"], lambda order: _done(order, b"no such pump\n", 4))
    shown = kim.ok("order", "show", short)
    assert "1 done, 1 failed, 1 waiting" in shown
    assert "restart-pump why=it=hangs number=3 for all" in shown
    assert "2.5 s" in shown
    assert kim.ok("order", "show", short, "--output", "lee") == "no such pump\n"
    assert "has not reported" in kim.fails("order", "show", short, "--output", "max", code=1)
    [listed] = kim.json("order")
    assert listed["outcomes"] == {"done": 1, "failed": 1, "waiting": 1}
    assert "1 done, 1 failed, 1 waiting" in kim.ok("order", "list")


def _outcomes(kim: Here, order: str) -> dict[str, int]:
    found: dict[str, Any] = kim.json("order", "show", order[:8])
    outcomes: dict[str, int] = found["outcomes"]
    return outcomes


@pytest.mark.slow
def test_every_outcome_of_a_command_is_reported(kim: Here) -> None:
    given = kim.json("order", "run", "restart-pump")["id"]
    for device, make in ((None, _unknown), (LEE.signing_public, _refused), (MAX.signing_public, _stopped)):
        _report(kim, device, given, make)
    assert _outcomes(kim, given) == {"unknown": 1, "refused": 1, "failed": 1}
    shown = kim.ok("order", "show", given[:8])
    assert "its deadline\N{REPLACEMENT CHARACTER}[2J had passed" in shown
    assert "action_went_down" in shown
    assert "ends here" in shown, "a reason is a sentence, and is not cut"
    assert "(clock not synchronised)" in shown


@pytest.mark.slow
def test_a_deadline_by_a_clock_that_nothing_sets_is_warned_of(kim: Here) -> None:
    given = kim.covey("order", "run", "restart-pump", "--deadline", "1h")
    assert given.code == 0
    assert ("but this device's clock is not synchronised" in given.stderr) is not SystemClock().synchronised()
    assert kim.covey("order", "run", "restart-pump").stderr == ""


@pytest.mark.slow
def test_waiting_ends_with_what_became_of_it(kim: Here) -> None:
    given = kim.json("order", "run", "restart-pump", "--for", device_name(LEE.signing_public))["id"]
    ended = kim.covey("order", "show", given[:8], "--wait", "--timeout", "0")
    assert (ended.code, "1 waiting" in ended.stdout) == (124, True)
    assert f"restart-pump for {device_name(LEE.signing_public)} lee\n" in ended.stdout
    _report(kim, LEE.signing_public, given, _done)
    ended = kim.covey("order", "show", given[:8], "--wait")
    assert (ended.code, ended.stderr) == (0, "1 done\n")
    other = kim.json("order", "run", "restart-pump", "--for", "label:lee")["id"]
    _report(kim, LEE.signing_public, other, _refused)
    assert kim.covey("order", "show", other[:8], "--wait", "--json").code == 1
    assert kim.covey("order", "run", "restart-pump", "--for", "label:max", "--wait", "--timeout", "0").code == 124


@pytest.mark.slow
def test_sleeping_targets_are_distinguished_from_awaited_ones(kim: Here) -> None:
    given = kim.json("order", "run", "restart-pump")["id"]
    with open_device(find_state(str(kim.state))) as opened, opened.store.transaction():
        now_us = opened.clock.wall_us()
        lee = peer_presence(Presence(2, State.HERE, 60, (1,)), now_us - 9 * _DAY_US, now_us - 3 * _DAY_US)
        max_ = peer_presence(Presence(2, State.HERE, 60, (1,)), now_us, now_us)
        opened.store.presence.note(LEE.signing_public, lee)
        opened.store.presence.note(MAX.signing_public, max_)
    assert _outcomes(kim, given) == {"asleep": 1, "waiting": 2}
    [away] = [each for each in kim.json("order", "show", given[:8])["devices"] if each["outcome"] == "asleep"]
    assert (away["label"], away["away_since_us"]) == ("lee", now_us - 3 * _DAY_US)
    assert "1 asleep since " in kim.ok("order", "show", given[:8])


@pytest.mark.slow
def test_an_output_is_shown_without_its_effects(kim: Here) -> None:
    given = kim.json("order", "run", "journal", "--for", "label:lee")["id"]
    hostile = b"\x1b]0;owned\x07first\r\n\tsecond \xe2\x80\xae\xff\n\n"
    _report(kim, LEE.signing_public, given, lambda order: _done(order, hostile))
    assert kim.ok("order", "show", given[:8], "--output", "lee") == (
        "\\x1b]0;owned\\x07first\\r\n\tsecond \\u202e\\xff\n\n"
    )
    found = kim.json("order", "show", given[:8], "--output", device_name(LEE.signing_public)[:6])
    assert b64decode(found["output"]) == hostile


@pytest.mark.slow
def test_an_output_that_has_gone_says_so(kim: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    orders = [kim.json("order", "run", "journal", "--for", "label:lee")["id"] for _ in range(3)]
    monkeypatch.setattr("covey.core.actions.received.RESULT_OUTPUT_BYTES_OF_ONE", 100)
    monkeypatch.setattr("covey.core.actions.received.MAXIMUM_ACTION_OUTPUT_BYTES", 100)
    for each in orders:
        _report(kim, LEE.signing_public, each, lambda order: _done(order, bytes(50)))
    assert "60 B" not in kim.ok("order", "show", orders[0][:8])
    assert "50 B, deleted" in kim.ok("order", "show", orders[0][:8])
    assert "was deleted to make room" in kim.fails("order", "show", orders[0][:8], "--output", "lee", code=1)
    assert "gone" not in kim.ok("order", "show", orders[2][:8])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("restart-pump", "--for", "label:nobody"), 2, "no device of the group has the label"),
        (("restart-pump", "--for", "ffffffff"), 2, "is not a device of the group"),
        (("rm -rf /",), 2, "lower-case letters and digits"),
        (("a" * 99,), 2, "every device would refuse that"),
        (("restart-pump", "--arg", "number"), 2, "is not name=value"),
        (("restart-pump", "--arg", "number=1", "--arg", "number=2"), 2, "is given twice"),
        (("restart-pump", "--arg", "a=" + "b" * (MAXIMUM_ARGUMENT_BYTES + 1)), 2, "every device would refuse that"),
        (("restart-pump", "--arg", "$(reboot)=x"), 2, "lower-case letters and digits"),
        (("restart-pump", *(f"--arg=a{n}=1" for n in range(MAXIMUM_ARGUMENTS + 1))), 2, "more than 16 arguments"),
        (("restart-pump", "--deadline", "0"), 2, "out of bounds"),
        (("restart-pump", "--deadline", "900w"), 2, "out of bounds"),
        (("restart-pump", "--deadline", "soon"), 2, "is not a quantity"),
    ],
)
def test_a_mistake_is_reported_before_anything_is_ordered(
    kim: Here, words: tuple[str, ...], code: int, said: str
) -> None:
    assert said in kim.fails("order", "run", *words, code=code)
    assert kim.json("order") == []


@pytest.mark.slow
def test_a_secret_is_given_by_stdin_or_a_file_and_never_shown(kim: Here, tmp_path: Path) -> None:
    file = tmp_path / "pin"
    file.write_text("pin 4711\n")
    words = ("--arg", "ssid=barn", "--secret", "key", "--secret", "user", "--secret-from", f"pin={file}")
    given = kim.json("order", "run", "set-wifi", *words, feed="hunter2\nmax of kim\n")
    order = _order(kim, given["id"])
    assert order.arguments == {"ssid": "barn"}
    shown = [
        kim.ok("history", "log"),
        kim.ok("history", "log", "--json"),
        kim.ok("history", "show", given["id"]),
        kim.ok("history", "show", given["id"], "--json"),
        kim.ok("order"),
        kim.ok("order", "show", given["id"][:8]),
        kim.ok("order", "show", given["id"][:8], "--json"),
        str(given) + repr(order),
    ]
    assert "set-wifi ssid=barn (and sealed arguments) for all" in shown[5]
    state = b"".join(each.read_bytes() for each in (tmp_path / "kim").rglob("*") if each.is_file())
    for secret in ("hunter2", "max of kim", "pin 4711"):
        assert not any(secret in each for each in shown)
        assert secret.encode() not in state
    with open_device(find_state(str(kim.state))) as opened:
        group, keys = opened.pick_group(None), opened.node.identity
        about = (group.group_id, keys.signing_public, order.action, order.once, order.selector)
        arguments = SealedArguments.of(order.sealed or b"", *about).open(keys.noise)
    assert arguments == {"key": "hunter2", "user": "max of kim", "pin": "pin 4711"}
    assert SealedArguments.of(order.sealed or b"", *about).open(LEE.noise) == arguments


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "feed", "said"),
    [
        (("--secret", "key=hunter2"), "hunter2", "process list"),
        (("--secret", "key", "--secret", "key"), "hunter2", "given twice"),
        (("--secret", "key", "--secret-from", "key=/nowhere"), "hunter2", "given twice"),
        (("--secret-from", "key=/nowhere"), "", "/nowhere cannot be read"),
        (("--secret-from", "key"), "", "is not name=value"),
        (("--secret", "key", "--arg", "key=a"), "hunter2", "key is given both openly and as a secret"),
        (("--secret", "key", "--secret", "pin"), "hunter2", "stdin has 1 lines for 2 secrets"),
        (("--secret", "key"), "hunter2\nhunter2\n", "stdin has 2 lines for 1 secrets"),
        (("--secret", "key"), "", "stdin is empty"),
        (("--secret", "key", "--secret", "pin"), "hunter2\n\n", "a secret must not be empty"),
        (("--secret", "A key"), "hunter2", "every device would refuse these secrets: a name must be"),
        (("--secret", "key"), "hunter2" * 200, "every device would refuse these secrets: text longer"),
        (tuple(f"--secret=a{n}" for n in range(16)), "\n".join(["hunter2" * 146] * 16), "all secrets together"),
    ],
)
def test_a_mistake_with_a_secret_does_not_show_it(kim: Here, words: tuple[str, ...], feed: str, said: str) -> None:
    printed = kim.fails("order", "run", "set-wifi", *words, code=2, feed=feed)
    assert said in printed
    assert "hunter2" not in printed
    assert kim.json("order") == []


@pytest.mark.slow
def test_a_device_that_is_not_an_operator_cannot_give_orders(kim: Here) -> None:
    kim.ok("config", "unset", "operations.operators")
    said = kim.fails("order", "run", "restart-pump", code=1)
    assert "this device is not an operator" in said
    assert "hint: on this device and on those that should obey it: covey config set operations.operators" in said


@pytest.mark.slow
def test_more_operators_may_have_to_agree(kim: Here) -> None:
    kim.ok("config", "set", "operations.threshold", "2")
    said = kim.ok("order", "run", "restart-pump")
    assert "for 3 devices: 1 more operator must approve" in said
    assert "covey order approve" in said
    said = kim.ok("setting", "set", "app.mode", "eco")
    assert "for 3 devices: 1 more operator must approve it: covey order approve" in said


@pytest.mark.slow
def test_an_order_that_is_not_a_command_is_shown_with_its_kind(kim: Here) -> None:
    order = kim.json("setting", "set", "app.mode", "eco")["id"]
    assert "app.mode = eco for all" in kim.ok("order", "show", order[:8])
    assert kim.json("order", "show", order[:8])["kind"] == "setting"
    assert "is not a command" in kim.fails("order", "show", order[:8], "--wait", code=2)
    assert "no operation's id begins" in kim.fails("order", "show", "ffffffff", code=1)
    note = kim.json("history", "post", "pump 3 rattles")["id"]
    assert "is not an operator's order" in kim.fails("order", "show", note[:8], code=1)


@pytest.mark.slow
def test_no_command_waits_for_a_device_that_did_not_announce_to_obey(kim: Here) -> None:
    new = identity("new")
    keys = [key_text("sign", new.signing_public), key_text("noise", new.noise_public)]
    kim.ok("group", "add", *keys, "--label", "new")
    assert "none of 1 device is known to allow orders" in kim.fails(
        "order", "run", "restart-pump", "--for", "label:new", code=1
    )
    said = kim.ok(
        "order", "run", "restart-pump", "--for", f"{device_name(new.signing_public)},{device_name(LEE.signing_public)}"
    )
    assert "for 2 devices, 1 of which allow no orders" in said
    [given] = [each["id"] for each in kim.json("order")]
    _obeys(kim, new)
    assert _outcomes(kim, given) == {"waiting": 1, "excluded": 1}, "what it says later bears on later commands"
    _report(kim, LEE.signing_public, given, _done)
    assert kim.covey("order", "show", given[:8], "--wait").code == 3, "one of the two did nothing"
    assert "1 done, 1 excluded" in kim.ok("order")
    later = kim.json("order", "run", "restart-pump", "--for", "label:new")
    assert (later["devices"], later["obeying"]) == (1, 1)


def _obeys_lee_alone(kim: Here) -> None:
    """Have Kim's device be no operator any more."""
    kim.ok("config", "set", "operations.operators", key_text("sign", LEE.signing_public))


def _ordered_by_lee(kim: Here) -> str:
    """Have Lee, whom Kim's owner has pinned as well, give a command; return its id."""
    pinned = [kim.json("key", "show")["signing_key"], key_text("sign", LEE.signing_public)]
    kim.ok("config", "set", "operations.operators", ",".join(pinned))
    return _says(kim, LEE, CommandOrder(EVERYBODY, "restart-pump", {}, bytes(16)))


@pytest.mark.slow
def test_a_member_learns_who_receives_the_results_and_every_operator_does(kim: Here) -> None:
    given = _ordered_by_lee(kim)
    assert _outcomes(kim, given) == {"waiting": 3}, "another operator's device can continue"
    _obeys_lee_alone(kim)
    who = f"{LEE.signing_public.hex()[:8]} lee (its sender)"
    shown = kim.ok("order", "show", given[:8])
    assert "3 elsewhere" in shown
    assert f"results go to {who}\n" in shown
    found = kim.json("order", "show", given[:8])
    assert (found["outcomes"], found["hearers"]) == ({"elsewhere": 3}, [LEE.signing_public.hex()])
    assert f"results go to {who}" in kim.fails("order", "show", given[:8], "--wait", code=1), "nothing would ever come"
    assert "does not report its result to this device" in kim.fails(
        "order", "show", given[:8], "--output", "max", code=1
    )


@pytest.mark.slow
def test_a_device_shows_its_own_results_even_if_others_receive_them(kim: Here) -> None:
    given = OperationId(bytes.fromhex(_ordered_by_lee(kim)))
    _obeys_lee_alone(kim)
    with open_device(find_state(str(kim.state))) as device, device.store.transaction():
        place = device.pick_group(None).group_id, given, LEE.signing_public
        record = CommandRecord(GivenCommand(bytes(16), *place, "restart-pump", {}), CommandState.WAITING, 4, True)
        device.store.commands.add(record)
    assert _outcomes(kim, given.hex()) == {"waiting": 1, "elsewhere": 2}
    with open_device(find_state(str(kim.state))) as device, device.store.transaction():
        result = as_remembered(_done(given, b"pump 3 runs"))
        device.store.commands.note_reported(replace(record, state=result.state, result=result))
    assert _outcomes(kim, given.hex()) == {"done": 1, "elsewhere": 2}
    assert "on the device that gave the order" in kim.fails("order", "show", given.hex()[:8], "--output", "kim", code=1)


@pytest.mark.slow
def test_a_collector_receives_results_of_other_operators_orders(kim: Here) -> None:
    given = _ordered_by_lee(kim)
    _obeys_lee_alone(kim)
    kim.ok("group", "profile", device_name(MAX.signing_public), "--capability", "collector")
    assert "lee (its sender) and 1 collector\n" in kim.ok("order", "show", given[:8])
    kim.ok("group", "profile", "--capability", "collector")
    _report(kim, LEE.signing_public, given, _done)
    assert _outcomes(kim, given) == {"done": 1, "waiting": 2}
    kim.ok("group", "profile", "--capability", "")
    assert _outcomes(kim, given) == {"done": 1, "elsewhere": 2}, "what had come stays, and no more comes"
    assert "1 done, 2 elsewhere" in kim.ok("order")


@pytest.mark.slow
def test_results_go_to_nobody_where_who_ordered_has_left(kim: Here) -> None:
    given = _ordered_by_lee(kim)
    _obeys_lee_alone(kim)
    kim.ok("group", "remove", device_name(LEE.signing_public), "--yes")
    assert "results go to no device: its sender is no longer a member" in kim.ok("order", "show", given[:8])
