"""`covey fleet` of a device that reads no vault: groups, orders, and what has become of one device."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.app.device import find_state, open_device
from covey.core.actions.results import CommandState, OrderResult
from covey.core.history.orders import ONCE_BYTES, CommandOrder
from covey.core.ids import Incarnation, LinkSeq, key_text
from covey.core.orders.selector import EVERYBODY
from covey.core.wire.message import Loss, LossReason, MessageType, read_message, write_message
from covey.core.wire.sequences import SequenceSet
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


def test_orders_and_groups_stand_beside_the_devices(hub: Here) -> None:
    found = hub.json("fleet")
    [group] = found["groups"]
    assert (group["title"], group["members"], group["here"]) == ("Orchard", 2, 1)
    assert (found["orders"], found["invitations"]) == ([], [])
    given = hub.json("setting", "set", "telemetry.batch_seconds", "20", "--for", "all")["id"]
    [order] = hub.json("fleet")["orders"]
    assert (order["id"], order["what"], order["signed"], order["needed"]) == (
        *(given, "telemetry.batch_seconds = 20 for all"),
        *(1, 1),
    )
    assert "telemetry.batch_seconds = 20 for all" in hub.ok("fleet")


def test_a_device_has_a_story(hub: Here) -> None:
    with open_device(find_state(str(hub.state))) as opened, opened.store.transaction():
        group = opened.pick_group(None)
        order = CommandOrder(EVERYBODY, "restart-pump", {"number": "3"}, bytes(ONCE_BYTES), None)
        written = opened.node.history.write(group.group_id, order, opened.now())
        result = OrderResult(written.id, CommandState.DONE, 4, 7, 5, exit=3, why="the pump\x1b[2J hangs")
        opened.node.order_results.keep(group.group_id, LEE.signing_public, result, opened.now())
    story = [each["what"] for each in hub.json("fleet", "lee")["story"]]
    assert story[-1].startswith("let into Orchard by ")
    assert any(each.endswith("done with 3: the pump\N{REPLACEMENT CHARACTER}[2J hangs") for each in story), story
    assert "let into Orchard by" in hub.ok("fleet", "lee")
    own = next(each["key"] for each in hub.json("fleet")["devices"] if each["presence"] == "itself")
    assert "wrote a profile: Orchard" in [each["what"] for each in hub.json("fleet", own)["story"]]


def test_where_readings_are_is_shown(hub: Here) -> None:
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
    assert "missing   3 messages on the way, which later ones have overtaken" in shown
    assert "landing   1 message not in the vault yet" in shown
