"""One order for three groups: through a real broker, with two devices of its operator, of which the first is lost."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker

_GREET = """
summary = "say something"
argv = ["/bin/echo", "hello"]
"""


def _linked(new_gateway: Callable[[str], Gateway]) -> tuple[Gateway, Gateway]:
    """Return an operator's laptop and phone, both running."""
    laptop, phone = new_gateway("laptop"), new_gateway("phone")
    laptop.ok("own", "create")
    laptop.start("run", "--no-sensors")
    phone.ok("own", "link", "-", feed=laptop.json("own", "link", "--yes", "--no-wait")["uri"])
    phone.start("run", "--no-sensors")
    operators = ",".join(each.json("key", "show")["signing_key"] for each in (laptop, phone))
    for each in (laptop, phone):
        each.ok("config", "set", "operations.operators", operators)
    return laptop, phone


def _pump(laptop: Gateway, pump: Gateway, group: str, operators: str) -> None:
    """Let a gateway into a group; it runs, and obeys the operators."""
    folder = pump.state / "operations.d"
    folder.mkdir(mode=0o700)
    (folder / "greet.toml").write_text(_GREET)
    pump.ok("config", "set", "operations.operators", operators)
    pump.ok("config", "set", "operations.commands", "greet")
    laptop.invite(pump, "--group", group, "--capability", "pump")
    pump.start("run", "--no-sensors")
    said = "history", "log", "--type", "obeying", "--group", group
    wait_until(lambda: bool(laptop.ok(*said)), "the laptop knows that it obeys")


@pytest.mark.slow
def test_another_device_of_the_operator_sees_the_plan_through(new_gateway: Callable[[str], Gateway]) -> None:
    laptop, phone = _linked(new_gateway)
    operators = laptop.json("config", "get", "operations.operators")["value"]
    operators = ",".join(operators) if isinstance(operators, list) else operators
    pumps = [new_gateway(name) for name in ("shed", "barn", "roof")]
    groups = [laptop.json("group", "create")["group_id"] for _ in pumps]
    for pump, group in zip(pumps, groups, strict=True):
        _pump(laptop, pump, group, operators)
    wait_until(lambda: sum(each["member"] for each in phone.json("own", "groups")) == len(groups), "the phone joined")
    asleep = pumps[-1]
    asleep.end()

    given = laptop.json("order", "run", "greet", "--fleet", "--for", "capability:pump")
    assert sorted(given["groups"]) == sorted(groups)
    plan = given["id"][:8]
    wait_until(lambda: [each["id"][:8] for each in phone.json("order", "list")] == [plan], "the phone has the plan")
    wait_until(lambda: phone.json("order", "show", plan)["missing"] == [], "and each of its orders")
    laptop.end(signal.SIGKILL)

    wait_until(lambda: phone.json("order", "show", plan)["outcomes"].get("done") == 2, "two have reported to the phone")
    asleep.start("run", "--no-sensors")
    seen = phone.covey("order", "show", plan, "--wait", "--timeout", "120")
    assert (seen.returncode, "3 done" in seen.stdout) == (0, True), (seen.stdout, seen.stderr)
