"""The sensors of the machine that runs the tests."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from covey.adapters.sensors.host import MAXIMUM_SAMPLES, HostSensors
from covey.core.telemetry.senml import Reading, readings_from_json

REGISTERED = {"s", "count", "/", "B", "Cel"}  # primary units of RFC 8428 section 12.1 and RFC 8798


def test_this_machine_has_ten_readings_that_are_senml(tmp_path: Path) -> None:
    samples = HostSensors(tmp_path).sample()
    names = [name for name, _, _ in samples]
    assert 10 <= len(samples) <= MAXIMUM_SAMPLES
    assert len(set(names)) == len(names)
    for name, unit, value in samples:
        pack = json.dumps([{"n": name, "u": unit, "v": value}])
        assert readings_from_json(pack, None) == [Reading(name, unit, None, value)]
        assert unit in REGISTERED
    assert {"uptime", "load/1m", "memory/use", "memory/available", "disk/use", "disk/free"} <= set(names)


def test_shares_lie_between_nothing_and_all(tmp_path: Path) -> None:
    assert all(0 <= value <= 1 for _, unit, value in HostSensors(tmp_path).sample() if unit == "/")


def test_processor_use_is_that_since_the_sample_before(tmp_path: Path) -> None:
    sensors = HostSensors(tmp_path)
    assert "cpu/use" not in {name for name, _, _ in sensors.sample()}
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:  # this very loop is the load
        found = {name: value for name, _, value in sensors.sample()}
        if found.get("cpu/use", 0) > 0:
            return
    raise AssertionError("a busy loop went unnoticed for 10 s")


def test_counters_only_grow(tmp_path: Path) -> None:
    sensors = HostSensors(tmp_path)
    before = {name: value for name, unit, value in sensors.sample() if name.endswith(("/received", "/sent", "uptime"))}
    after = {name: value for name, _, value in sensors.sample()}
    assert all(after[name] >= value for name, value in before.items())


def test_a_sensor_that_fails_is_left_out_and_reported_until_it_recovers(tmp_path: Path) -> None:
    disk = tmp_path / "not yet mounted"
    sensors = HostSensors(disk)
    names = {name for name, _, _ in sensors.sample()}
    assert "disk/use" not in names
    assert "memory/use" in names
    assert sensors.failures["disk"].startswith("FileNotFoundError: ")
    disk.mkdir()
    assert "disk/use" in {name for name, _, _ in sensors.sample()}
    assert "disk" not in sensors.failures


@pytest.mark.processes
def test_psutil_is_loaded_only_by_sampling() -> None:
    program = (
        "import sys; from pathlib import Path; from covey.adapters.sensors.host import HostSensors; "
        "sensors = HostSensors(Path('/')); assert 'psutil' not in sys.modules; "
        "sensors.sample(); assert 'psutil' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=Path(__file__).parents[4])
