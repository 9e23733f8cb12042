"""What runs here and behind us is told at a start, when it changes, and each 50 minutes."""

from __future__ import annotations

import platform
import re
from dataclasses import replace

from covey.adapters.sensors.firmware import Firmware
from covey.core.crypto import DeviceKeys
from covey.core.ids import DeviceKey, NoisePublic
from covey.ports import AttachedBoard

KEY = DeviceKey(bytes(range(32)))


def test_firmware_versions_are_reported_once_and_again_within_the_hour() -> None:
    board = AttachedBoard("/dev/ttyACM0", DeviceKeys(KEY, NoisePublic(bytes(32))), "covey-board 1", True, True, 0, {})
    boards, seconds = [board], [50.0]
    firmware = Firmware(lambda: boards, lambda: seconds[0])
    (own, of_board) = firmware.sample()
    assert own[:2] == ("firmware", "")
    assert re.fullmatch(r"covey \d+\.\d+[^;]*; [^;]+; \S+ \S+", own[2])
    assert own[2].split("; ")[1] == platform.freedesktop_os_release()["PRETTY_NAME"]
    assert of_board == (f"board/{KEY.hex()}/firmware", "", "covey-board 1")
    seconds[0] += 2_900
    assert firmware.sample() == []
    boards[:] = [replace(board, software="covey-board 2")]
    assert [text for *_, text in firmware.sample()] == ["covey-board 2"]
    boards[:] = [replace(board, up=False)]
    seconds[0] += 3_000
    assert firmware.sample() == [own]
