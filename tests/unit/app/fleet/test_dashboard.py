"""A device that several threads ask is opened once, and anew when a question has failed."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from covey.app.device.device import Device, find_state, open_device
from covey.app.fleet import dashboard
from covey.app.fleet.dashboard import KeptDevice
from covey.errors import LocalError, StorageError
from tests.command import Here


class _Opened:
    """Opens a device's state, and counts how often."""

    def __init__(self, here: Here) -> None:
        self.here, self.count = here, 0

    @contextmanager
    def __call__(self) -> Iterator[Device]:
        self.count += 1
        with open_device(find_state(str(self.here.state))) as device:
            yield device


@pytest.fixture
def opened(tmp_path: Path) -> _Opened:
    return _Opened(Here(tmp_path, "hub"))


def _groups(device: Device) -> int:
    return len(device.node.groups.joined())


def test_threads_ask_one_device_which_takes_up_what_others_write(opened: _Opened) -> None:
    kept = KeptDevice(opened)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: kept.run(_groups), range(8))) == [0] * 8
    opened.here.ok("group", "create")
    assert (kept.run(_groups), opened.count) == (1, 1)


def test_after_a_while_the_device_is_reopened_only_if_settings_or_state_changed(
    opened: _Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dashboard, "_LOOKED_S", 0.0)
    kept = KeptDevice(opened)
    assert [kept.run(_groups) for _ in range(3)] == [0] * 3
    assert opened.count == 1
    opened.here.ok("config", "set", "vault.location", "elsewhere")
    assert kept.run(lambda device: device.config.vault.location) == "elsewhere"
    assert (kept.run(_groups), opened.count) == (0, 2)
    state = opened.here.state / "state.sqlite"
    copied = state.with_suffix(".copy")
    copied.write_bytes(state.read_bytes())
    copied.replace(state)
    assert (kept.run(_groups), opened.count) == (0, 3)


def test_a_failure_reopens_the_device_but_a_callers_mistake_does_not(opened: _Opened) -> None:
    kept = KeptDevice(opened)

    def fails(error: Exception) -> None:
        def work(_: Device) -> None:
            raise error

        with pytest.raises(type(error)):
            kept.run(work)

    fails(LocalError("no such device"))
    assert (kept.run(_groups), opened.count) == (0, 1)
    fails(StorageError("the disk"))
    assert (kept.run(_groups), opened.count) == (0, 2)
