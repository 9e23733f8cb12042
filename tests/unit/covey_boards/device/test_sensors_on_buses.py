"""Drivers of chips, against what the datasheets say that these answer; on boards, `hil/test_drivers.py`."""

from __future__ import annotations

import json
import re
import sys
import time
from types import SimpleNamespace
from typing import Any

import pytest

from covey_boards.device.opening import read_settings
from covey_boards.device.sampling import Sampling
from covey_boards.device.wiring import open_sensors
from hil.boards.firmware_files import DEVICE
from hil.on_board import chips_on_board as chips
from hil.on_board import driver_runner
from hil.on_board.firmware_simulation import Files

Reading = tuple[str, str, int, int]


@pytest.fixture(autouse=True)
def _board(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DEVICE))
    for name in ("machine", "dht", "onewire", "ds18x20"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(time, "sleep_ms", lambda _: None, raising=False)
    monkeypatch.setattr(time, "ticks_ms", lambda: 0, raising=False)
    monkeypatch.setattr(time, "ticks_diff", lambda late, early: late - early, raising=False)
    monkeypatch.setattr(chips, "thermometers", {})


def _start(held: dict[int, Any]) -> None:
    """Start a board with these chips: no driver is loaded, no bus is open."""
    for name in [name for name in sys.modules if name.startswith("driver_")]:
        del sys.modules[name]
    chips.install(held)


def _read(kind: str, held: dict[int, Any], **options: Any) -> list[Reading]:
    _start(held)
    [sensor], failed = open_sensors([[kind, options]])
    assert failed == []
    return list(sensor.read())


def _failure(kind: str, held: dict[int, Any], **options: Any) -> str:
    _start(held)
    opened, [failed] = open_sensors([[kind, options]])
    assert opened == []
    return str(failed)


def test_a_bme280_follows_boschs_example_and_formula() -> None:
    """BST-BMP280-DS001, section 3.12, has the first two; humidity by the formula with floats of BST-BME280-DS002."""
    readings = _read("bme280", {0x76: driver_runner.climate_chip(0x60)})
    assert readings[:2] == [("air/temperature", "Cel", 2, 2508), ("air/pressure", "Pa", 1, 1_006_532)]
    h1, (h2, h3, h4, h5, h6) = 75, (362, 0, 19 * 16 + 9, 3 * 16 + 2, 30)
    warm = 128_422 - 76_800.0
    wet = (0x7000 - (h4 * 64 + h5 / 16_384 * warm)) * (
        h2 / 65_536 * (1 + h6 / 67_108_864 * warm * (1 + h3 / 67_108_864 * warm))
    )
    wet *= 1 - h1 * wet / 524_288
    name, unit, scale, value = readings[2]
    assert (name, unit, scale) == ("air/humidity", "%RH", 2)
    assert value / 100 == pytest.approx(wet, abs=0.02)


def test_a_bmp280_has_no_humidity_and_another_chip_is_none() -> None:
    assert [name for name, *_ in _read("bme280", {0x77: driver_runner.climate_chip(0x58)}, address=0x77)] == [
        "air/temperature",
        "air/pressure",
    ]
    assert "chip 97" in _failure("bme280", {0x76: driver_runner.climate_chip(0x61)})


def test_an_unmeasured_bme280_gives_no_reading() -> None:
    chip = driver_runner.climate_chip(0x60)
    chip.content[0xF7] = b"\x80\x00\x00\x80\x00\x00\x80\x00"
    with pytest.raises(ValueError, match="has not measured"):
        _read("bme280", {0x76: chip})


@pytest.mark.parametrize(
    ("kind", "command", "percent"), [("sht3x", b"\x24\x00", 5000), ("sht4x", b"\xfd", 5650)], ids=["sht3x", "sht4x"]
)
def test_sensirions_words_become_degrees_and_per_cent(kind: str, command: bytes, percent: int) -> None:
    chip = chips.Sensirion({command: (26_214, 32_768)})
    assert _read(kind, {0x44: chip}) == [("air/temperature", "Cel", 2, 2500), ("air/humidity", "%RH", 2, percent)]
    assert chip.commands == [command]


def test_a_word_that_was_damaged_on_the_bus_is_no_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chips.crc8(b"\xbe\xef") == 0x92  # the datasheet's own example
    monkeypatch.setattr(chips, "crc8", lambda _: 0)
    with pytest.raises(ValueError, match="checksum"):
        _read("sht4x", {0x44: chips.Sensirion({b"\xfd": (26_214, 32_768)})})


def test_an_scd4x_is_read_when_it_has_something_and_goes_on_after_a_restart_of_its_board() -> None:
    answers = {b"\xe4\xb8": (0x8000,), b"\xec\x05": (612, 26_214, 32_768)}
    assert _read("scd4x", {0x62: chips.Sensirion(answers)}) == []
    answers[b"\xe4\xb8"] = (0x8006,)
    measuring = chips.Sensirion(answers, refused=(b"\x21\xb1",))
    assert _read("scd4x", {0x62: measuring})[0] == ("air/co2", "ppm", 0, 612)
    assert "OSError" in _failure("scd4x", {})


def test_an_ina219_measures_both_ways() -> None:
    chip = chips.Registers({0: b"\x39\x9f", 1: b"\xff\x38", 2: b"\x5d\xc2"})  # -2 mV, 12 V
    assert _read("ina219", {0x40: chip}) == [
        ("supply/voltage", "V", 3, 12_000),
        ("supply/current", "A", 6, -20_000),
        ("supply/power", "W", 6, -240_000),
    ]


def test_several_ds18b20_on_a_pin_have_their_numbers_as_names() -> None:
    other = b"\x10" + driver_runner.ROM[1:]
    chips.thermometers[22] = {driver_runner.ROM: 21.0625, other: -0.5}
    assert _read("ds18b20", {}, pin=22) == [
        ("water/10ff641e0f00001a", "Cel", 4, -5_000),
        ("water/28ff641e0f00001a", "Cel", 4, 210_625),
    ]
    assert "none on pin 23" in _failure("ds18b20", {}, pin=23)


def test_a_single_ds18b20_is_called_as_it_is_beside_another_one() -> None:
    chips.thermometers[22] = {driver_runner.ROM: 21.0625}
    assert [name for name, *_ in _read("ds18b20", {}, pin=22)] == ["water/28ff641e0f00001a"]


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (["bme280", {}], ["bme280", {"address": 0x77}], "air"),
        (["bme280", {}], ["sht4x", {}], "air"),
        (["bme280", {"address": 0x70}], ["bme280", {"address": 0x77}], "air"),  # the first is not there
        (["bme280", {"name": "a"}], ["pulses", {"pin": 14, "name": "a/temperature"}], "a"),
        (["counter", {}], ["counter", {}], "board:counter"),
    ],
)
def test_two_sensors_never_have_one_name(first: list[Any], second: list[Any], named: str) -> None:
    _start({address: driver_runner.climate_chip(0x60) for address in (0x76, 0x77)})
    _, alone = open_sensors([first])
    opened, failed = open_sensors([first, second])
    assert len(opened) == 1 - len(alone)
    assert f"another sensor is named {named}" in failed[-1]
    assert open_sensors([["bme280", {"name": "in"}], ["bme280", {"name": "out", "address": 0x77}]])[1] == []


def test_a_ds18b20_that_lost_its_power_says_85_degrees_and_is_not_believed() -> None:
    chips.thermometers[22] = held = {driver_runner.ROM: 20.0}
    _start({})
    [sensor], _ = open_sensors([["ds18b20", {"pin": 22}]])
    assert [value for *_, value in sensor.read()] == [200_000]
    held[driver_runner.ROM] = 85.0
    sensor.prepare()
    with pytest.raises(ValueError, match="water/28ff641e0f00001a has not measured"):
        list(sensor.read())
    for degrees in (83.5, 85.0):  # who comes close to it is there
        held[driver_runner.ROM] = degrees
        sensor.prepare()
        assert [value for *_, value in sensor.read()] == [degrees * 10_000]


def test_pulses_are_counted_once_and_through_the_end_of_small_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0]
    monkeypatch.setattr(time, "ticks_ms", lambda: now[0])
    _start({})
    [sensor], _ = open_sensors([["pulses", {"pin": 14, "name": "gas", "unit": "m3", "scale": 2, "factor": 5}]])
    contact = chips.pins[14].handler
    assert contact is not None
    for at_ms in (0, 3, 49, 50, 120):  # the second and third are one contact's bouncing
        now[0] = at_ms
        contact(None)
    assert sensor.read() == [("gas", "m3", 2, 15)]
    sensor._pulses = sensor._seen = 0x3FFFFFFF
    now[0] = 1_000
    contact(None)
    assert sensor.read() == [("gas", "m3", 2, 20)]


class _Settings:
    interval_us = 5_000_000
    samples = None


class _Slow:
    def __init__(self) -> None:
        self.begun = 0

    def prepare(self) -> None:
        self.begun += 1

    def read(self) -> list[Reading]:
        return [("slow", "", 0, self.begun)]


def test_a_slow_sensor_begins_a_second_before_all_are_read_at_the_same_interval() -> None:
    slow, failures = _Slow(), []
    sampling = Sampling([slow], _Settings, lambda *what: failures.append(what))
    sampled = []
    for now_us in range(0, 20_000_000, 250_000):
        sampling.sample(now_us)
        while sampling.readings:
            sampled.append(sampling.readings.pop()[3:])
    assert sampled == [(1, 1_000_000), (2, 6_000_000), (3, 11_000_000), (4, 16_000_000)]
    assert failures == []


def test_a_slow_sensor_that_cannot_begin_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    slow, other = _Slow(), _Slow()
    failures: list[tuple[str, Exception]] = []

    def broken() -> None:
        raise OSError(5)

    monkeypatch.setattr(slow, "prepare", broken)
    sampling = Sampling([slow, other], _Settings, lambda name, error: failures.append((name, error)))
    sampling.sample(0)
    sampling.sample(1_000_000)
    assert [reading[3] for reading in sampling.readings] == [0, 1]
    assert [name for name, _ in failures] == ["_Slow"]


def test_the_examples_on_the_boards_page_work(monkeypatch: pytest.MonkeyPatch) -> None:
    page = DEVICE.parents[1].joinpath("README.md").read_text()
    examples = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]
    assert len(examples) == 4
    kinds = set()
    _start({0x76: driver_runner.climate_chip(0x60)})
    chips.thermometers[22] = {driver_runner.ROM: 21.5}
    for example in examples:
        files = Files()
        files.write("covey.json", json.dumps(example).encode())
        assert read_settings(files) == (example, None)
        wanted = [entry for entry in example.get("sensors", []) if entry[0] not in {"temperature", "analog"}]
        opened, failed = open_sensors(wanted)
        assert (len(opened), failed) == (len(wanted), [])
        kinds |= {kind for kind, _ in wanted}
    assert kinds == {"bme280", "ds18b20", "pulses"}
    own: dict[str, Any] = {}
    [source] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(source, own)
    monkeypatch.setitem(sys.modules, "my_sensors", SimpleNamespace(SENSORS=own["SENSORS"]))
    [sensor], failed = open_sensors([["scd41", {"bus": 1}]])
    assert failed == []
    assert sensor.read()[0] == ("air/co2", "ppm", 0, 612)
