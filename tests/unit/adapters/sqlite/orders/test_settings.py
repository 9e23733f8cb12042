"""The tables of settings: what operators gave this device."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.settings.ordered import HeldValue, OrderedSetting
from covey.core.settings.states import SettingState
from tests.fleet import Device

_AUTHOR = DeviceKey(bytes(32))
_SECRET = "hush " * 1_000


def _given(value: str) -> OrderedSetting:
    held = HeldValue(value, _AUTHOR, secret=True)
    state = SettingState.HANDED_OVER
    return OrderedSetting("app.token", GroupId(bytes(32)), OperationId(bytes(32)), _AUTHOR, state, held)


@pytest.mark.parametrize("length", [12, 900, 5_000])
@pytest.mark.parametrize("overtaken", [True, False])
def test_a_replaced_secret_leaves_nothing_in_the_file(tmp_path: Path, length: int, overtaken: bool) -> None:
    ben = Device("ben", tmp_path)
    settings = ben.store.ordered_settings
    with ben.store.transaction():
        settings.put(_given(_SECRET[:length]), 1)
    with ben.store.transaction():
        if overtaken:
            settings.put(_given("another one"), 2)
        else:
            settings.forget("app.token", 2)
    ben.stop()
    assert b"hush" not in ben.path.read_bytes()
