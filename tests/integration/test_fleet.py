"""`covey fleet`: what a person sees of the fleet on its collector, and on a device that reads no vault."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.gateway import Gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


def test_the_fleet_on_one_screen(new_gateway: Callable[[str], Gateway], tmp_path: Path) -> None:
    """Also where the vault's place was said to the collector alone."""
    collector, device = new_gateway("hub"), new_gateway("orchard")
    for each in (collector, device):
        each.ok("config", "set", "label", each.name)
        each.ok("config", "set", "presence.interval_seconds", "1")
    assert collector.json("fleet")["summary"] == "no other device yet"
    assert "  - here: this device is in no group: covey join CODE, or covey group create\n" in collector.ok("fleet")
    collector.ok("group", "create", "--capability", "collector")
    collector.ok("config", "set", "vault.segment_seconds", "0.1")
    assert collector.json("fleet")["summary"] == "no other device yet (add one: covey invite)"
    collector.start("collect", "--no-sensors", "--vault", str(tmp_path / "elsewhere"))
    collector.invite(device)
    joined = collector.json("fleet")
    assert joined["summary"].startswith("0 online, 1 never seen running"), "it was heard when it joined"
    device.start("run", "--no-sensors")
    now = int(time.time())
    readings = f'{{"n":"soil","u":"%RH","t":{now - 60},"v":31.5}}\n{{"n":"soil","u":"%RH","t":{now - 5},"v":30.25}}\n'
    device.ok("publish", "--wait", "300", feed=readings)
    summary = "1 online, nothing lost"
    wait_until(lambda: collector.json("fleet")["summary"] == summary, "the device is seen to be there")

    fleet = collector.json("fleet")
    own, other = sorted(fleet["devices"], key=lambda each: each["presence"] != "itself")
    assert (own["label"], other["label"], other["presence"]) == ("hub", "orchard", "online")
    (soil,) = other["values"]
    assert (soil["name"], soil["unit"], soil["value"], soil["at_us"]) == ("soil", "%RH", 30.25, (now - 5) * 1_000_000)
    assert soil["clock"] == "asserted"
    shown = collector.ok("fleet", "orchard")
    assert "30.25 % RH" in shown
    assert "online for" in shown
    assert collector.json("fleet", other["key"][:12])["values"][0]["value"] == 30.25
    assert "no device matches 'field'" in collector.fails("fleet", "field", code=1)

    assert str(tmp_path / "elsewhere") in collector.covey("check", "--offline").stdout
    assert "no last values" in device.ok("fleet")
    assert device.json("fleet")["reads_vault"] is False

    device.kill()
    wait_until(lambda: "1 gone" in collector.ok("fleet"), "the broker has published its will")
    lines = collector.ok("fleet").splitlines()
    assert re.fullmatch("0 online, 1 gone since [0-9]{2}:[0-9]{2}, nothing lost", lines[0])
    assert any("! orchard" in line and "is gone: " in line for line in lines)
    assert "exclude each other" in collector.fails("fleet", "--watch", "--json", code=2)
