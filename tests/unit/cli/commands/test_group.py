"""`covey group operators` and `covey order` as an operator uses them."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from covey.adapters.state_folder import StateFolder
from covey.app.device.device import find_state, open_device
from covey.core.crypto import Identity
from covey.core.history.body import OperationBody
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.orders import Approval, SettingOrder
from covey.core.ids import DeviceKey, Incarnation, OperationId, device_name, key_text
from covey.core.orders.selector import EVERYBODY
from tests.command import Here
from tests.fleet import identity

LEE = identity("lee")


@pytest.fixture
def kim(tmp_path: Path) -> Here:
    """An operator's device, in a group with Lee's."""
    device = Here(tmp_path, "kim")
    device.ok("group", "create")
    keys = [key_text("sign", LEE.signing_public), key_text("noise", LEE.noise_public)]
    device.ok("group", "add", *keys, "--label", "lee")
    device.ok("config", "set", "operations.operators", _own_key(device))
    return device


def _own_key(device: Here) -> str:
    key: str = device.json("key", "show")["signing_key"]
    return key


def _said_by(device: Here, author: Identity, body: OperationBody, now_us: int = 0) -> str:
    """Have a device hold what a member says after all that it holds; return its id."""
    with open_device(find_state(str(device.state))) as opened:
        group, operations = opened.pick_group(None), opened.store.operations
        heads = tuple(operations.heads(group.group_id))
        held = [operations.held(group.group_id, each) for each in heads]
        height = 1 + max((each.height for each in held if each is not None), default=0)
        log = Log(author.signing_public, Incarnation(height.to_bytes(8)))
        made = Operation(group.group_id, log, 1, None, heads, height, group.hash, 0, int(body.kind), body.to_wire())
        signed = sign_operation(made, author)
        with opened.store.transaction():
            operations.add(signed, group.version, now_us)
    return signed.id.hex()


def _listed(device: Here) -> list[tuple[str, bool, bool]]:
    found: list[dict[str, Any]] = device.json("group", "operators")
    return sorted((each["label"], each["pinned"], each["member"]) for each in found)


@pytest.mark.slow
def test_operators_are_added_and_removed(kim: Here) -> None:
    assert _listed(kim) == [("kim", True, True)]
    added = kim.json("group", "add-operator", "lee", "--label", "Lee, workshop")
    assert (added["counts"], added["needed"], added["kind"]) == (True, 1, "operator")
    assert _listed(kim) == [("Lee, workshop", False, True), ("kim", True, True)]
    assert re.search("added by [0-9a-f]{8} kim, ", kim.ok("group", "operators"))
    assert "is already an operator" in kim.fails("group", "add-operator", "lee", code=1)
    assert "is removed" in kim.ok("group", "remove-operator", "lee"), "by the label of the member as well"
    kim.ok("group", "add-operator", "lee", "--label", "Lee, workshop")
    kim.ok("group", "remove", "lee", "--yes")
    assert "not a member: its orders are ignored" in kim.ok("group", "operators")
    assert "is removed" in kim.ok("group", "remove-operator", "Lee, workshop")
    assert _listed(kim) == [("kim", True, True)]
    assert "no operator matches 'lee'" in kim.fails("group", "remove-operator", "lee", code=1)


@pytest.mark.slow
def test_status_says_who_may_order_this_device(kim: Here) -> None:
    kim.ok("group", "add-operator", "lee")
    name = kim.json("status")["device"]
    lee = {"device": LEE.signing_public.hex()[:8], "label": "lee", "member": True}
    reported = kim.json("status")["operators"]
    assert reported["threshold"] == 1
    assert sorted(reported["obeyed"], key=lambda each: each["label"]) == [
        {"device": name, "label": "kim", "member": True},
        lee,
    ]
    kim.ok("config", "set", "operations.threshold", "2")
    kim.ok("group", "remove", "lee", "--yes")
    assert f"orders   obeys {name} kim; 2 must approve each order" in kim.ok("status")
    kim.ok("config", "set", "operations.operators", "none")
    assert "orders   obeys no operator" in kim.ok("status")
    assert kim.json("group", "operators") == []


def test_operators_that_are_no_keys_leave_the_status_readable(kim: Here) -> None:
    assert "covey-sign-" in kim.fails("config", "set", "operations.operators", "kim", code=78)
    StateFolder.at(kim.state).configuration.change({"operations.operators": ("kim",)})  # as an editor may write it
    assert "covey-sign-" in kim.fails("config", "check", code=78)
    status = kim.json("status")
    assert status["operators"]["obeyed"] == []
    assert any("operations.operators" in each for each in status["troubles"])


def test_operators_are_listed_with_where_they_come_from(kim: Here) -> None:
    kim.ok("group", "add-operator", "lee")
    found = {each["label"]: (each["origin"], each["by"]) for each in kim.json("group", "operators")}
    name = kim.json("status")["device"]
    assert found == {"kim": ("configuration", ""), "lee": ("operator", name)}


def _checked(device: Here) -> tuple[str, str]:
    done = device.covey("check", "--offline", "--json")
    [found] = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "operators"]
    return found["level"], found["line"].split(": ", 1)[-1]


@pytest.mark.slow
def test_check_says_who_is_obeyed(kim: Here) -> None:
    assert _checked(kim) == ("ok", "1 operator (kim)")
    kim.ok("group", "add-operator", "lee")
    assert _checked(kim) == ("ok", "2 operators (kim, lee)")
    kim.ok("config", "set", "operations.threshold", "3")
    assert _checked(kim) == ("warning", "1 operator, and an order needs 3")
    kim.ok("config", "unset", "operations.operators")
    assert _checked(kim) == ("skipped", "this device obeys no operator")


@pytest.mark.slow
def test_an_operator_that_no_device_pinned_is_ignored(kim: Here) -> None:
    kim.ok("config", "unset", "operations.operators")
    assert "this device obeys no operator" in kim.ok("group", "operators")
    assert "this device is not an operator" in kim.fails("group", "add-operator", "lee", code=1)
    assert "no orders" in kim.ok("order")
    by_lee = _said_by(kim, LEE, SettingOrder(EVERYBODY, "app.mode", "eco"))
    assert kim.json("order") == []
    assert "this device is not an operator" in kim.fails("order", "approve", by_lee[:8], code=1)


@pytest.mark.slow
def test_an_order_counts_once_enough_operators_agree(kim: Here) -> None:
    pinned = f"{_own_key(kim)},{key_text('sign', LEE.signing_public)}"
    kim.ok("config", "set", "operations.operators", pinned)
    kim.ok("config", "set", "operations.threshold", "2")
    first = kim.json("setting", "set", "app.mode", "eco")["id"]
    assert "not in force, signed by 1 of 2" in kim.ok("order")
    assert "has already signed" in kim.fails("order", "approve", first[:8], code=1)
    assert kim.json("setting", "diff") == []
    _said_by(kim, LEE, Approval(OperationId(bytes.fromhex(first))))
    assert [(each["id"], len(each["signers"]), each["counts"]) for each in kim.json("order")] == [(first, 2, True)]
    assert [each["wanted"] for each in kim.json("setting", "diff", "--for", "label:kim")] == ["eco"]
    by_lee = _said_by(kim, LEE, SettingOrder(EVERYBODY, "app.mode", "turbo"))
    assert ": in force" in kim.ok("order", "approve", by_lee[:8])
    assert [each["wanted"] for each in kim.json("setting", "diff", "--for", "label:kim")] == ["turbo"]


@pytest.mark.slow
def test_only_what_operators_say_is_approved(kim: Here) -> None:
    note = kim.json("history", "post", "pump 3 rattles")["id"]
    by_stranger = _said_by(kim, LEE, SettingOrder(EVERYBODY, "app.mode", "eco"))
    for each in (note, by_stranger):
        assert "is not an operator's order" in kim.fails("order", "approve", each[:8], code=1)
    assert DeviceKey(LEE.signing_public).hex() not in kim.ok("order", "--json")


def test_adding_needs_as_many_as_an_order(kim: Here) -> None:
    kim.ok("config", "set", "operations.threshold", "2")
    said = kim.ok("group", "add-operator", "lee")
    assert "1 more operator must approve it: covey order approve" in said
    assert _listed(kim) == [("kim", True, True)]


def _attempts(device: Here) -> tuple[str, str]:
    done = device.covey("check", "--offline", "--json")
    [found] = [each for each in json.loads(done.stdout)["findings"] if each["check"] == "attempts"]
    return found["level"], found["line"]


@pytest.mark.slow
def test_orders_by_no_operator_are_reported(kim: Here) -> None:
    assert "no refused orders" in kim.ok("order", "refused")
    assert _attempts(kim)[0] == "ok"
    _said_by(kim, LEE, SettingOrder(EVERYBODY, "app.mode", "eco"))
    last = _said_by(kim, LEE, SettingOrder(EVERYBODY, "app.mode", "turbo"))
    [refused] = kim.json("order", "refused")
    assert (refused["label"], refused["code"], refused["count"], refused["last"]) == ("lee", "not_an_operator", 2, last)
    assert "not an operator here" in kim.ok("order", "refused")
    assert _attempts(kim)[0] == "ok", "they came long ago: in 1970"
    now_us = time.time_ns() // 1_000
    _said_by(kim, LEE, SettingOrder(EVERYBODY, "app.mode", "off"), now_us - 600_000_000)
    level, line = _attempts(kim)
    assert level == "warning"
    assert f"3 orders by {device_name(LEE.signing_public)} lee refused" in line
    assert "refused since 1970-01-01: not an operator here" in line
    _said_by(kim, LEE, SettingOrder(EVERYBODY, "app.mode", "on"), now_us)
    assert kim.json("order", "refused")[0]["count"] == 3, "what has just come may yet come to count"
    kim.ok("group", "add-operator", "lee")
    assert kim.json("order", "refused") == []
    kim.ok("config", "set", "operations.operators", "none")
    assert _attempts(kim)[0] == "skipped"
