"""A person's laptop and phone: linked, then what one joins and leaves the other does, through a real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from covey.client import Client
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


@pytest.mark.slow
def test_the_phone_joins_and_leaves_the_groups_of_the_laptop(
    new_gateway: Callable[[str], Gateway],
) -> None:  # accepts: 003.12, 003.51, 003.54, 003.61
    laptop, phone = new_gateway("laptop"), new_gateway("phone")
    laptop.ok("own", "create")
    for each in (laptop, phone):
        each.ok("config", "set", "api.socket", "api.sock")
    laptop.start("run", "--no-sensors")
    uri = laptop.json("own", "link", "--yes", "--no-wait")["uri"]
    phone.ok("own", "link", "-", feed=uri)
    phone.start("run", "--no-sensors")
    assert {each["label"] for each in phone.json("own", "devices")} == {"laptop", "phone"}
    fleet = laptop.json("group", "create")["group_id"]
    wait_until(
        lambda: [each["group_id"] for each in phone.json("own", "groups") if each["member"]] == [fleet], "joined"
    )
    here, there = (Client(each.state / "api.sock") for each in (laptop, phone))
    here.set_preference("theme", "dark", fleet)
    event = next(there.events("0", types=["preference"], follow_s=60))
    assert (event.data["about"], event.data["key"], event.data["value"]) == (fleet, "theme", "dark")
    assert there.own()["preferences"] == [{"group_id": fleet, "key": "theme", "value": "dark"}]
    assert {each["label"] for each in there.own()["devices"]} == {"laptop", "phone"}
    phone.ok("group", "leave", "--yes")
    wait_until(lambda: not any(each["member"] for each in laptop.json("own", "groups")), "the laptop has left")
    left = (each.data["group"]["state"] for each in here.events("0", types=["own_group"], follow_s=60))
    assert next(each for each in left if each != "held") in {"left", "erased"}
