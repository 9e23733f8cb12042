"""An operator has two devices and its own do something, through a real broker, and sees what became of it on each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_GREET = """
summary = "say something"
argv = ["/bin/sh", "-c", 'echo "hello $1"; exit "$2"', "sh", "{name}", "{code}"]
[arguments.name]
text = 40
characters = "abcdefghijklmnopqrstuvwxyz $();`|>"
[arguments.code]
integer = [0, 9]
"""


def _joined(new_gateway: Callable[[str], Gateway], **allowed: str) -> list[Gateway]:
    """Return devices that run and obey the first of them, each in what its owner allows."""
    fleet = [new_gateway(name) for name in allowed]
    kim, *others = fleet
    key = kim.json("key", "show")["signing_key"]
    for each, actions in zip(fleet, allowed.values(), strict=True):
        folder = each.state / "operations.d"
        folder.mkdir(mode=0o700)
        (folder / "greet.toml").write_text(_GREET)
        each.ok("config", "set", "operations.operators", key)
        each.ok("config", "set", "operations.commands", actions)
    kim.ok("group", "create")
    kim.start("run", "--no-sensors")
    for each in others:
        kim.invite(each)
        each.start("run", "--no-sensors")
    said = "history", "log", "--type", "obeying"
    wait_until(lambda: kim.ok(*said).count("\n") == len(fleet), "all obey, as the operator knows")
    return fleet


def test_an_operator_orders_and_sees_what_became_of_it_everywhere(new_gateway: Callable[[str], Gateway]) -> None:
    kim, shed, _ = _joined(new_gateway, kim="greet", shed="greet", barn="read-now")
    words = "lee; $(reboot) `x` | > y"
    done = kim.covey("order", "run", "greet", "--arg", f"name={words}", "--arg", "code=0", "--wait", "--timeout", "300")
    assert done.returncode == 1, "one of them may not"
    assert "2 done, 1 refused" in done.stdout
    assert "waiting" in done.stderr, "how far it was, on lines of its own"
    [order] = [each["id"] for each in kim.json("order")]
    assert kim.ok("order", "show", order[:8], "--output", "shed") == f"hello {words}\n"
    by_label: dict[str, dict[str, Any]] = {
        each["label"]: each for each in kim.json("order", "show", order[:8])["devices"]
    }
    assert (by_label["kim"]["outcome"], by_label["kim"]["exit"]) == ("done", 0)
    assert (by_label["barn"]["outcome"], by_label["barn"]["code"]) == ("refused", "action_not_allowed")

    words_to_shed = ("--for", "label:shed", "--arg", "name=x", "--wait", "--timeout", "300")
    assert kim.covey("order", "run", "greet", *words_to_shed, "--arg", "code=0").returncode == 0
    assert kim.covey("order", "run", "greet", *words_to_shed, "--arg", "code=4").returncode == 1
    shed.end()
    given = kim.covey("order", "run", "greet", "--for", "label:shed", "--arg", "name=x", "--arg", "code=0", "--json")
    assert given.returncode == 0
    last = kim.json("order")[-1]["id"]
    assert kim.covey("order", "show", last[:8], "--wait", "--timeout", "1").returncode == 124
    shed.start("run", "--no-sensors")
    assert kim.covey("order", "show", last[:8], "--wait", "--timeout", "300").returncode == 0
    assert "not an operator" in shed.fails("order", "run", "greet", code=1)


def test_a_stick_carries_an_order_there_and_its_result_back(new_gateway: Callable[[str], Gateway]) -> None:
    kim, shed = _joined(new_gateway, kim="greet", shed="greet")
    kim.end()
    stick = str(kim.state.parent / "stick")
    kim.ok("order", "run", "greet", "--for", "label:shed", "--arg", "name=x", "--arg", "code=0")
    [order] = [each["id"] for each in kim.json("order")]
    kim.ok("history", "export", f"{stick}.history")
    shed.ok("history", "import", f"{stick}.history")

    def done() -> bool:
        shed.ok("message", "export", stick)
        kim.ok("message", "import", stick)
        return "1 done" in kim.ok("order", "show", order[:8])

    wait_until(done, "a stick has brought the result")
    assert kim.ok("order", "show", order[:8], "--output", "shed") == "hello x\n"
