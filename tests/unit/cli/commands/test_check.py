"""`covey check`: what it says of a device whose state is not what others hold."""

from __future__ import annotations

import json
from pathlib import Path

from covey.app.device.device import find_state, open_device
from tests.command import Here


def _group(device: Here) -> tuple[str, str]:
    findings = json.loads(device.covey("check", "--offline", "--json").stdout)["findings"]
    [found] = [each for each in findings if each["check"] == "group"]
    return found["line"], found["hint"]


def test_check_suggests_an_invite_for_messages_of_an_unknown_group(tmp_path: Path) -> None:  # accepts: 003.82
    here = Here(tmp_path, "here")
    assert _group(here) == ("this device is in no group", "covey group create, or covey join")
    with open_device(find_state(str(here.state))) as device, device.store.transaction():
        device.store.counters.count("dropped_unknown_group")
    text, hint = _group(here)
    assert "members of one send to it (1 message dropped)" in text
    assert "covey invite" in hint
