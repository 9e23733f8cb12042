"""`covey.adapters.sensors.modbus`: a real server of pymodbus is asked, by TCP and by RTU on a serial line."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing

import pytest

from covey.adapters.clock import SystemClock
from covey.adapters.sensors.modbus import ModbusSensor, open_modbus
from covey.config.sensors import Modbus, Register
from covey.errors import SensorError
from tests.modbus_line import meter, modbus_rtu, modbus_tcp

pytestmark = pytest.mark.slow

Line = Callable[..., AbstractContextManager[str]]

_METER = (
    Register("voltage", 0, scale=0.1, unit="V"),
    Register("current", 1, type="int16", scale=0.01, unit="A"),
    Register("energy", 10, type="uint32", unit="Wh"),
    Register("counter", 12, type="uint64"),
    Register("alarm", 20, type="bool", bit=3),
    Register("well", 20, type="bool", bit=2),
    Register("power", 52, table="input", type="float32", unit="W"),
    Register("temperature", 54, table="input", type="float32", unit="Cel"),
    Register("humidity", 56, table="input", type="float32", unit="%RH"),
    Register("relay", 3, table="coil"),
    Register("door", 4, table="discrete"),
)


def _sensor(url: str, *registers: Register, **options: object) -> ModbusSensor:
    return open_modbus(Modbus(url, registers=registers, timeout_seconds=1.0, **options), SystemClock())  # type: ignore[arg-type]


def _why(sensor: ModbusSensor) -> str:
    try:
        return sensor.read().failure
    except SensorError as error:
        return str(error)


@pytest.mark.parametrize("line", [modbus_tcp, modbus_rtu])
def test_all_that_a_meter_has_is_read(line: Line) -> None:
    with line(meter()) as url, closing(_sensor(url, *_METER)) as sensor:
        for _look in range(2):
            measured = sensor.read()
            assert not measured.failure
            assert {each.name: (each.value, each.unit) for each in measured.readings} == {
                "voltage": (230.5, "V"),
                "current": (-2.0, "A"),
                "energy": (100_000, "Wh"),
                "counter": (2**60 + 1, ""),
                "alarm": (True, ""),
                "well": (False, ""),
                "power": (1250.5, "W"),
                "temperature": (21.3, "Cel"),
                "relay": (True, ""),
                "door": (False, ""),
            }


@pytest.mark.parametrize("line", [modbus_tcp, modbus_rtu])
def test_a_device_without_an_answer_is_reported_and_delays_no_other(line: Line) -> None:
    here, away = Register("here", 0), Register("away", 0, unit_id=9)
    registers = away, here, Register("second", 0, unit_id=2)
    with line(meter(), meter(2)) as url, closing(_sensor(url, *registers)) as sensor:
        for _look in range(2):
            measured = sensor.read()
            assert {each.name for each in measured.readings} == {"here", "second"}
            assert measured.failure == "device 9: does not answer"


def test_a_refused_register_is_reported_by_name() -> None:
    registers = (Register("voltage", 0), Register("wrong", 40_001), Register("next", 2))
    with modbus_tcp(meter()) as url, closing(_sensor(url, *registers)) as sensor:
        for _look in range(2):  # the second time neighbours are asked for alone
            measured = sensor.read()
            assert [each.name for each in measured.readings] == ["voltage"]
            assert "(holding 2): it has nothing there: is the address counted from 0?" in measured.failure


def test_a_line_that_is_away_fails_and_comes_back() -> None:
    with modbus_tcp(meter()) as url:
        port = int(url.rpartition(":")[2])
        sensor = _sensor(url, Register("voltage", 0))
        assert sensor.read().readings
    with closing(sensor):
        while not (why := _why(sensor)).startswith("tcp"):
            assert why == "device 1: does not answer"  # what was under way
        with modbus_tcp(meter(), port=port):
            assert sensor.read().readings


def test_a_port_that_is_not_there_is_a_failure_with_a_hint() -> None:
    sensor = _sensor("rtu:///dev/covey-none", Register("voltage", 0))
    with closing(sensor), pytest.raises(SensorError, match="rtu:///dev/covey-none cannot be reached") as failed:
        sensor.read()
    assert "dialout" in failed.value.hint
