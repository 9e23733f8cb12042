"""`covey.app.history.forgetting`: what holds stays, and a command until nobody waits for what became of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from covey.app.device.device import find_state, open_device
from covey.core.actions.commands import CommandRecord, GivenCommand, Moment, ObeyedSince
from covey.core.actions.given import GroupCommands
from covey.core.actions.results import CommandState, OrderResult
from covey.core.history.orders import Obeying
from covey.core.ids import OperationId
from covey.core.orders.authority import Pins
from tests.command import Here


@pytest.fixture
def kim(tmp_path: Path) -> Here:
    """The only operator's device, which obeys as well, in a group of its own."""
    device = Here(tmp_path, "kim")
    device.ok("group", "create")
    device.ok("config", "set", "operations.operators", device.json("key", "show")["signing_key"])
    with open_device(find_state(str(device.state))) as opened, opened.store.transaction():
        said = opened.node.history.write(opened.pick_group(None).group_id, Obeying(), opened.now())
        opened.store.commands.note_obeyed(said.group_id, ObeyedSince(said.id, said.height, said.log.incarnation))
    return device


def _forgotten(kim: Here) -> int:
    kim.ok("history", "post", "the last of its log stays")
    kim.ok("history", "checkpoint")
    found: int = kim.json("history", "delete", "--keep", "0")["deleted"]
    return found


def _is_here(kim: Here, name: str) -> bool:
    return f'"id": "{name}"' in kim.ok("history", "log", "--json")


@pytest.mark.slow
def test_forgetting_keeps_values_in_force_and_drops_replaced_ones(kim: Here) -> None:
    token = [kim.json("setting", "set", "app.token", "--secret", feed=f"hunter{each}")["id"] for each in (1, 2)]
    mode = [kim.json("setting", "set", "app.mode", value)["id"] for value in ("eco", "full")]
    place = kim.json("setting", "set", "app.place", "roof", "--for", "label:kim")["id"]
    assert _forgotten(kim) >= 2
    assert [_is_here(kim, each) for each in (*token, *mode, place)] == [False, True, False, True, True]
    assert "which a checkpoint covers" in kim.fails("history", "show", mode[0], code=1)
    wanted = {each["key"]: (each["wanted"], each["sealed"]) for each in kim.json("setting", "diff")}
    assert wanted == {"app.mode": ("full", False), "app.place": ("roof", False), "app.token": (None, True)}
    assert [each["value"] for each in kim.json("setting", "history", "app.mode")] == ["full"]
    kim.ok("setting", "set", "app.mode", "off")
    assert _forgotten(kim) > 0
    assert not _is_here(kim, mode[1])
    assert kim.json("history", "verify")["complaints"] == []
    assert kim.json("history", "verify")["checkpoint"]["settings"] == 3


def _report(kim: Here, order: str) -> None:
    """Have the device take a command, be done with it, and hear of that."""
    with open_device(find_state(str(kim.state))) as opened, opened.store.transaction():
        group, own = opened.pick_group(None), opened.node.identity.signing_public
        command = GivenCommand(
            bytes.fromhex(order)[:16], group.group_id, OperationId(bytes.fromhex(order)), own, "blink"
        )
        result = OrderResult(command.operation, CommandState.DONE, 4, 7, 5, synchronised=True, exit=0)
        record = CommandRecord(command, CommandState.WAITING, 4, synchronised=True)
        opened.store.commands.add(record)
        opened.store.commands.note_reported(replace(record, state=CommandState.DONE, result=result))
        opened.node.order_results.keep(group.group_id, own, result, opened.now())


@pytest.mark.slow
def test_a_command_goes_when_nobody_waits_for_its_result(kim: Here) -> None:
    done, open_, late = (kim.json("order", "run", "blink", "--arg", f"n={n}")["id"] for n in range(3))
    dated = kim.json("order", "run", "blink", "--deadline", "1h")["id"]
    for each in (done, dated):
        _report(kim, each)
    _forgotten(kim)
    assert [_is_here(kim, each) for each in (done, open_, late, dated)] == [False, True, True, True]
    assert done not in {each["id"] for each in kim.json("order")}
    assert "which a checkpoint covers" in kim.fails("order", "show", done, code=1)
    _report(kim, late)
    _forgotten(kim)
    assert [_is_here(kim, each) for each in (open_, late)] == [True, False]


@pytest.mark.slow
def test_a_device_that_learns_of_a_deleted_command_reports_it(kim: Here) -> None:
    done = kim.json("order", "run", "blink")["id"]
    _report(kim, done)
    _forgotten(kim)
    with open_device(find_state(str(kim.state))) as opened:
        group, own = opened.pick_group(None), opened.node.identity.signing_public
        since, member = opened.store.commands.obeyed_since(group.group_id), group.member(own)
        assert since is not None
        assert member is not None
        commands = GroupCommands(
            opened.store.operations, opened.store.groups.manifest, group, Pins(frozenset({own})), ()
        )
        moment = Moment(opened.clock.wall_us(), synchronised=True)
        assert list(commands.new(member, since, opened.store.commands.knows, moment).forgotten) == [], "it was done"
        [unheard] = commands.new(member, since, lambda _: False, moment).forgotten
        assert (unheard.operation.hex(), unheard.author) == (done, own)
        other = commands.new(replace(member, capabilities=("board",)), since, lambda _: False, moment)
        assert list(other.forgotten) == [], "it is for no board"
        newer = ObeyedSince(OperationId(bytes(32)), 99, since.incarnation)
        assert list(commands.new(member, newer, lambda _: False, moment).forgotten) == [], "it came before it obeyed"
