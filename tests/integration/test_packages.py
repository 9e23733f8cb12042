"""`covey fleet --has`: a hub knows what its gateways have installed, and which of them say nothing."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

Make = Callable[[str], Gateway]

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(not Path("/var/lib/dpkg/status").exists(), reason="this machine has no dpkg"),
]


def test_a_hub_finds_packages_of_its_gateways(new_gateway: Make) -> None:
    hub, one, other = new_gateway("hub"), new_gateway("one"), new_gateway("other")
    hub.ok("group", "create", "--capability", "collector")
    hub.ok("config", "set", "vault.segment_seconds", "0.1")
    hub.start("collect", "--no-sensors")
    one.ok("config", "set", "sensors.packages", "true")
    for each in (one, other):
        hub.invite(each)
        each.start("run", "--no-sensors")
    query = ["dpkg-query", "--show", "--showformat", "${Version}", "dpkg"]
    version = subprocess.run(query, check=True, capture_output=True, text=True).stdout

    def found(text: str) -> list[tuple[str, str, str]]:
        return [(each["label"], each["name"], each["version"]) for each in hub.json("fleet", "--has", text)["packages"]]

    wait_until(lambda: found("dpkg") == [("one", "dpkg", version)], "the hub knows the packages")
    assert found(f"dpkg<={version}") == found("dpkg")
    assert found(f"dpkg<{version}") == []
    assert found("dpkg>=1:999") == []
    everything = hub.json("fleet", "--has", "*")
    assert everything["devices"] == 1
    assert set(everything["unknown"]) == {"hub", "other"}
    status = Path("/var/lib/dpkg/status").read_text(encoding="utf-8", errors="replace")
    assert len(everything["packages"]) == len(re.findall(r"^Status: \S+ \S+ installed$", status, re.MULTILINE))
    said = hub.ok("fleet", "--has", "dpkg")
    assert version in said
    assert "2 devices did not report packages" in said
    assert "is not NAME" in hub.fails("fleet", "--has", "<3", code=2)

    one.end()
    one.start("run", "--no-sensors")
    one.ok("publish", feed='{"n":"t","v":1}\n')
    wait_until(lambda: one.queued() == 0, "the agent is back")
    assert one.counters()["published_readings"] <= 64, "an unchanged list is not sent once more"
