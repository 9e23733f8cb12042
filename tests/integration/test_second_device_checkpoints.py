"""The second implementation of a device signs a real agent's checkpoint, and has its own signed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from covey.core.ids import key_text
from tests.integration.gateway import Gateway
from tests.integration.second import Second
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


def test_it_and_an_agent_sign_what_both_come_to(new_gateway: Callable[[str], Gateway], second: Second) -> None:
    kim = new_gateway("kim")
    key = kim.json("key", "show")["signing_key"]
    kim.ok("config", "set", "operations.operators", f"{key},{key_text('sign', bytes.fromhex(second.key))}")
    kim.ok("group", "create")
    kim.ok("setting", "set", "app.mode", "eco")
    kim.ok("group", "profile", "--title", "Pumps")
    kim.start("run", "--no-sensors")
    operators = ("--operator", key, "--operator", second.key, "--commands")
    second.start("--invite", kim.ok("invite", "--no-wait").strip(), *operators)
    wait_until(lambda: second.said("operations"), "it has the history")
    kim.ok("history", "checkpoint")
    wait_until(lambda: second.said("signed"), "it signs what it comes to itself")
    wait_until(lambda: _newest(kim)["counts"], "so the checkpoint counts")
    kim.ok("setting", "set", "app.mode", "fast")
    second.do("checkpoint")
    wait_until(lambda: second.said("checkpoint"), "it proposes one")
    [said] = second.said("checkpoint")
    wait_until(lambda: _newest(kim)["id"] == said["id"] and _newest(kim)["counts"], "the agent signs it")


def _newest(gateway: Gateway) -> dict[str, object]:
    found: dict[str, object] = gateway.json("history", "checkpoint", "--list")[0]
    return found
