"""A checkpoint is proposed on one device and signed by another one's agent, through a real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


def test_an_agent_signs_what_it_comes_to_itself(new_gateway: Callable[[str], Gateway]) -> None:  # accepts: 003.22
    kim, shed = new_gateway("kim"), new_gateway("shed")
    keys = ",".join(each.json("key", "show")["signing_key"] for each in (kim, shed))
    for each in (kim, shed):
        each.ok("config", "set", "operations.operators", keys)
    kim.ok("group", "create")
    kim.start("run", "--no-sensors")
    kim.invite(shed)
    shed.start("run", "--no-sensors")
    wait_until(lambda: len(shed.json("group", "members")) == 2, "the device is in")
    kim.ok("setting", "set", "app.mode", "eco")
    proposed = kim.json("history", "checkpoint")
    assert (proposed["code"], proposed["settings"]) == ("checkpoint_minority", 1)
    for each in (kim, shed):
        wait_until(lambda each=each: each.json("history", "checkpoint", "--list")[0]["counts"], "both have signed")
        who = f"{proposed['author']} {proposed['label']}"
        assert f"checkpoint {proposed['id'][:8]} by {who}: signed by 2 of 2" in each.ok("history", "verify")
