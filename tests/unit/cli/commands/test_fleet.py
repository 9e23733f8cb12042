"""`covey fleet` of a device that reads no vault: groups, orders, and what has become of one device."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from covey.app.device.device import find_state, open_device
from covey.app.fleet import page_actions, silences
from covey.cli.commands import fleet as cmd_fleet
from covey.core.actions.results import ROLLED_BACK, CommandState, OrderResult
from covey.core.history.orders import ONCE_BYTES, CommandOrder, Obeying
from covey.core.ids import DeviceKey, Incarnation, LinkSeq, key_text
from covey.core.link.budget import Budget
from covey.core.link.reported_cost import ReportedCost
from covey.core.orders.selector import EVERYBODY
from covey.core.presence.status import PeerPresence, State
from covey.core.wire.message import Loss, LossReason, MessageType, read_message, write_message
from covey.core.wire.sequences import SequenceSet
from covey.errors import LocalError
from tests.command import Here
from tests.fleet import identity

LEE = identity("lee")


@pytest.fixture
def hub(tmp_path: Path) -> Here:
    """An operator's device in a group with Lee's, which has a title."""
    device = Here(tmp_path, "hub")
    device.ok("group", "create")
    keys = [key_text("sign", LEE.signing_public), key_text("noise", LEE.noise_public)]
    device.ok("group", "add", *keys, "--label", "lee")
    device.ok("group", "profile", "--title", "Orchard")
    device.ok("config", "set", "operations.operators", device.json("key", "show")["signing_key"])
    return device


@pytest.mark.slow
def test_orders_and_groups_stand_beside_the_devices(hub: Here) -> None:
    found = hub.json("fleet")
    [group] = found["groups"]
    assert (group["title"], group["members"], group["online"]) == ("Orchard", 2, 1)
    assert (found["orders"], found["invitations"]) == ([], [])
    given = hub.json("setting", "set", "telemetry.batch_seconds", "20", "--for", "all")["id"]
    [order] = hub.json("fleet")["orders"]
    assert (order["id"], order["what"], order["signed"], order["needed"]) == (
        *(given, "telemetry.batch_seconds = 20 for all"),
        *(1, 1),
    )
    assert order["outcomes"] == {"waiting": 2}
    [row] = [line for line in hub.ok("fleet").splitlines() if given[:8] in line]
    assert "in force  2 waiting  telemetry.batch_seconds = 20 for all" in row


@pytest.mark.slow
def test_a_device_has_a_story(hub: Here) -> None:
    with open_device(find_state(str(hub.state))) as opened, opened.store.transaction():
        group = opened.pick_group(None)
        order = CommandOrder(EVERYBODY, "restart-pump", {"number": "3"}, bytes(ONCE_BYTES), None)
        written = opened.node.history.write(group.group_id, order, opened.now())
        result = OrderResult(written.id, CommandState.DONE, 4, 7, 5, exit=3, why="the pump\x1b[2J hangs")
        opened.node.order_results.keep(group.group_id, LEE.signing_public, result, opened.now())
        opened.node.history.write(group.group_id, Obeying(), opened.now())
    story = [each["what"] for each in hub.json("fleet", "lee")["story"]]
    assert story[-1].startswith("added to Orchard by ")
    assert any(each.endswith("done with 3: the pump\N{REPLACEMENT CHARACTER}[2J hangs") for each in story), story
    assert "added to Orchard by" in hub.ok("fleet", "lee")
    own = next(each["key"] for each in hub.json("fleet")["devices"] if each["presence"] == "itself")
    story = [each["what"] for each in hub.json("fleet", own)["story"]]
    assert {"wrote a profile: Orchard", "obeys commands from here on"} <= {*story}, story


@pytest.mark.slow
def test_the_cost_of_a_link_is_shown(hub: Here) -> None:
    assert hub.json("fleet", "lee")["cost"] is None
    assert "no other device reports a budget" in hub.covey("check", "--offline").stdout
    with open_device(find_state(str(hub.state))) as opened, opened.store.transaction():
        now_us = opened.now().wall_us
        cost = ReportedCost(10_000, 2_999_999, None, Budget(3_000_000, monthly=True))
        presence = PeerPresence(1, State.HERE, 300, (0,), now_us, now_us, cost, now_us)
        opened.store.presence.note(LEE.signing_public, presence)
    found = hub.json("fleet", "lee")["cost"]
    assert (found["today_bytes"], found["month_bytes"], found["budget_bytes"]) == (10_000, 2_999_999, 3_000_000)
    assert "budget 3 MB/month (used up); reported" in hub.ok("fleet", "lee")
    shown = hub.ok("fleet", "--only", "budget")
    assert "2.9 MiB of 3 MB/month, used up" in shown
    assert "has used up the budget of its link, 3 MB/month: messages wait" in shown
    assert "lee" in hub.covey("check", "--offline").stdout.partition("budgets")[2].partition("\n")[0]
    [member] = hub.json("status")["members"]
    assert member["cost"]["outlook"] == "used up"
    metrics = hub.ok("metrics")
    assert f'covey_device_link_budget_bytes{{device="{member["device"]}",period="month"}} 3000000' in metrics
    assert f'covey_device_link_today_bytes{{device="{member["device"]}"}} 10000' in metrics


@pytest.mark.slow
def test_the_place_of_readings_is_shown(hub: Here) -> None:
    assert hub.json("fleet", "lee")["custody"] == {
        "missing": 0,
        "landing": 0,
        "landing_bytes": 0,
        "landing_since_us": None,
    }
    loss = Loss(LossReason.EXPIRED, ((1, 2),)).to_wire()
    with open_device(find_state(str(hub.state))) as opened, opened.store.transaction():
        incarnation = Incarnation(bytes(8))
        opened.store.received.set(LEE.signing_public, incarnation, SequenceSet(3, ((6, 7), (9, 9))))
        group = opened.pick_group(None).group_id
        own = opened.node.identity.signing_public
        raw = write_message(LEE, MessageType.LOSS, own, group, incarnation, 9, LinkSeq(9), 5, loss)
        assert opened.store.landing.land(read_message(raw), 1_000_000)
    shown = hub.ok("fleet", "lee")
    assert "missing   3 messages in transit: later ones arrived first" in shown
    assert "storing   1 message not in the vault yet" in shown


@pytest.mark.slow
def test_a_device_that_went_back_is_shown_until_the_action_ends_well(hub: Here) -> None:
    with open_device(find_state(str(hub.state))) as opened, opened.store.transaction():
        group = opened.pick_group(None)
        orders = [
            opened.node.history.write(
                group.group_id, CommandOrder(EVERYBODY, "update", {}, bytes([n]) * ONCE_BYTES, None), opened.now()
            )
            for n in (1, 2)
        ]
        back = OrderResult(orders[0].id, CommandState.STOPPED, 4, 7, 5, code=ROLLED_BACK, why="no sign of life\x1b[2J")
        opened.node.order_results.keep(group.group_id, LEE.signing_public, back, opened.now())
    found = hub.json("fleet")
    [rollback] = found["rollbacks"]
    assert (rollback["label"], rollback["action"], rollback["back"]) == ("lee", "update", True)
    [trouble] = [each for each in found["troubles"] if "rolled back" in each["what"]]
    assert trouble["hint"] == f"covey order show {orders[0].id.hex()[:8]}"
    assert "\x1b" not in hub.ok("fleet")
    with open_device(find_state(str(hub.state))) as opened, opened.store.transaction():
        well = OrderResult(orders[1].id, CommandState.DONE, 8, 9, 8, exit=0)
        opened.node.order_results.keep(group.group_id, LEE.signing_public, well, opened.now())
    assert hub.json("fleet")["rollbacks"] == []


@pytest.mark.slow
def test_the_fleet_lists_a_board_under_its_gateway_with_the_reason_why_messages_wait(hub: Here) -> None:
    [lee] = [each for each in hub.json("fleet")["devices"] if each["label"] == "lee"]
    own = next(each["key"] for each in hub.json("fleet")["devices"] if each["presence"] == "itself")
    assert (lee["gateway"], lee["missing"], lee["version"]) == ("", 0, "")
    hub.ok("history", "post", "hello")
    with open_device(find_state(str(hub.state))) as opened, opened.store.transaction():
        opened.store.carriers.set(DeviceKey(bytes.fromhex(own)), LEE.signing_public)
        opened.store.received.set(LEE.signing_public, Incarnation(bytes(8)), SequenceSet(3, ((6, 7), (9, 9))))
    found = hub.json("fleet")
    [lee] = [each for each in found["devices"] if each["label"] == "lee"]
    assert (lee["missing"], lee["waits_because"]) == (3, "no relay connection")
    assert next(each for each in found["devices"] if each["key"] == own)["gateway"] == lee["key"]
    shown = hub.ok("fleet", "lee")
    assert "boards    " in shown
    assert ": no relay connection" in shown
    assert [each["kind"] for each in hub.json("fleet", "lee")["outbox"]]
    assert f"behind    {lee['device']} lee" in hub.ok("fleet", own[:12])


@pytest.mark.slow
def test_of_a_large_fleet_the_first_devices_stand_there_and_the_others_are_counted(
    hub: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "more:" not in hub.ok("fleet")
    monkeypatch.setattr(cmd_fleet, "_DEVICES", 1)
    shown = hub.ok("fleet")
    assert "unknown" in shown, "who is not well stands first"
    assert "  this device  " not in shown
    assert "and 1 more: --only offline lists those that are offline, --limit N lists more\n" in shown
    assert "  this device  " in hub.ok("fleet", "--limit", "2")
    assert "and 2 more:" in hub.ok("fleet", "--limit", "0")
    assert [each["label"] for each in hub.json("fleet", "--find", "LE")["devices"]] == ["lee"]
    assert hub.json("fleet", "--find", "nobody", "--limit", "5")["devices"] == []
    assert len(hub.json("fleet", "--limit", "1")["devices"]) == 1
    assert len(hub.json("fleet")["devices"]) == 2
    for kind, listed in (("online", "itself"), ("offline", "unknown"), ("lost", "")):
        shown = hub.ok("fleet", "--only", kind)
        assert "more:" not in shown
        cells = {"itself": "  this device  ", "unknown": "  unknown  "}
        assert [name for name, cell in cells.items() if cell in shown] == [listed] * bool(listed)
        assert [each["presence"] for each in hub.json("fleet", "--only", kind)["devices"]] == [listed] * bool(listed)
    assert "cannot be used with one device" in hub.fails("fleet", "lee", "--limit", "1", code=2)
    assert "--limit must be 0 or more" in hub.fails("fleet", "--limit", "-1", code=2)


@pytest.mark.slow
def test_of_several_groups_each_is_counted_those_first_that_are_not_well(
    hub: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "members" not in hub.ok("fleet")
    hub.ok("group", "create")
    lines = [re.split(r" {2,}", each) for each in hub.ok("fleet").splitlines()]
    counted = lines[lines.index([*cmd_fleet._GROUPS_HEAD]) + 1 :][:2]
    assert ["Orchard", "2", "1", "0", "0", "1", "none"] in counted
    monkeypatch.setattr(cmd_fleet, "_GROUPS", 1)
    assert "and 1 more groups: --json shows all\n" in hub.ok("fleet")


@pytest.mark.slow
def test_a_plan_for_several_groups_is_one_row(hub: Here) -> None:
    first = hub.json("fleet")["groups"][0]["group_id"]
    hub.ok("own", "create")
    hub.ok("group", "create")
    plan = hub.json("setting", "set", "telemetry.batch_seconds", "20", "--for", "all", "--fleet")["id"]
    hub.ok("setting", "set", "telemetry.batch_seconds", "30", "--for", "lee", "--group", first)
    newest, order = hub.json("fleet")["orders"]
    assert newest["groups"] == [first]
    assert (order["id"], len(order["groups"]), order["outcomes"]) == (plan, 2, {"waiting": 1, "replaced": 1})


@pytest.mark.slow
def test_what_is_urgent_comes_first_and_is_marked(hub: Here) -> None:
    found = hub.json("fleet")["troubles"]
    assert found[0]["severity"] == "urgent"
    assert found[0]["what"] == "this device: the agent is not running"
    assert " !! this device: the agent is not running: covey check" in hub.ok("fleet")


@pytest.mark.slow
def test_the_page_removes_a_device_from_all_groups_with_the_rights_of_the_command(hub: Here) -> None:
    with open_device(find_state(str(hub.state))) as opened:
        own = opened.node.identity.signing_public
        for query in ({}, {"device": "00"}, {"device": own.hex()}, {"device": bytes(32).hex()}):
            with pytest.raises(LocalError):
                page_actions.remove(opened, query)
        page_actions.silence(opened, {"device": LEE.signing_public.hex(), "hours": "4"})
        assert [*silences.silenced(opened)] == [LEE.signing_public.hex()]
        page_actions.silence(opened, {"device": LEE.signing_public.hex(), "hours": "0"})
        assert not silences.silenced(opened)
        found = page_actions.remove(opened, {"device": LEE.signing_public.hex()})
        assert [opened.pick_group(each).member(LEE.signing_public) for each in found["groups"]] == [None]
        for action in (page_actions.abort, page_actions.resume, page_actions.pause, page_actions.approve):
            with pytest.raises(LocalError):
                action(opened, {"release": "00" * 16, "order": "00" * 32})
