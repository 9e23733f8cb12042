"""The sensors of the machine that runs the tests."""

from __future__ import annotations

import json
import time
from pathlib import Path

import psutil
import pytest

from covey.adapters.sensors.host import MAXIMUM_SAMPLES, HostSensors
from covey.core.telemetry.reading import Reading
from covey.core.telemetry.senml import readings_from_json

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


def test_it_says_of_memory_disk_and_traffic_what_psutil_says(tmp_path: Path) -> None:
    found = {name: value for name, _, value in HostSensors(tmp_path).sample()}
    memory, disk, loads = psutil.virtual_memory(), psutil.disk_usage(str(tmp_path)), psutil.getloadavg()
    assert found["memory/available"] == pytest.approx(memory.available, rel=0.1)
    assert found["memory/use"] == pytest.approx((memory.total - memory.available) / memory.total, abs=0.1)
    assert found["disk/use"] == pytest.approx(disk.percent / 100, abs=0.01)
    assert found["disk/free"] == pytest.approx(disk.free, rel=0.1)
    assert found["load/15m"] == pytest.approx(loads[2], abs=0.5)
    received = {name: counters.bytes_recv for name, counters in psutil.net_io_counters(pernic=True).items()}
    for name in [name for name in received if f"net/{name}/received" in found]:
        assert found[f"net/{name}/received"] == pytest.approx(received[name], rel=0.1, abs=1_000_000)
