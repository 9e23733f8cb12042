"""A person's laptop and phone: linked, then what one joins and leaves the other does, through a real broker."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


@pytest.mark.slow
def test_what_the_laptop_joins_and_leaves_the_phone_does(
    new_gateway: Callable[[str], Gateway],
) -> None:  # accepts: 003.12, 003.51, 003.54
    laptop, phone = new_gateway("laptop"), new_gateway("phone")
    laptop.ok("own", "create")
    laptop.start("run", "--no-sensors")
    uri = laptop.json("own", "link", "--yes", "--no-wait")["uri"]
    phone.ok("own", "link", "-", feed=uri)
    phone.start("run", "--no-sensors")
    assert {each["label"] for each in phone.json("own", "devices")} == {"laptop", "phone"}
    fleet = laptop.json("group", "create")["group_id"]
    wait_until(
        lambda: [each["group_id"] for each in phone.json("own", "groups") if each["member"]] == [fleet], "joined"
    )
    laptop.ok("own", "preference", "theme", "dark", "--group", fleet)
    wait_until(lambda: [each["value"] for each in phone.json("own", "preference")] == ["dark"], "the preference came")
    phone.ok("group", "leave", "--yes")
    wait_until(lambda: not any(each["member"] for each in laptop.json("own", "groups")), "the laptop has left")
