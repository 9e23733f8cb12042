"""`covey.adapters.sensors.hwmon`, `iio` and `one_wire`: what the kernel shows as files, in units of SenML."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.sensors.hwmon import open_hwmon
from covey.adapters.sensors.iio import open_iio
from covey.adapters.sensors.one_wire import open_one_wire
from covey.config.sensors import Hwmon, Iio, OneWire
from covey.errors import SensorError
from covey.ports import Measurement


def tree(folder: Path, files: dict[str, str]) -> str:
    """Write files of a kernel, and return where."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"{text}\n")
    return str(folder)


def _values(measured: Measurement) -> dict[str, tuple[float, str]]:
    return {each.name: (pytest.approx(each.value), each.unit) for each in measured.readings}


def test_hardware_monitors(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        {
            "hwmon0/name": "coretemp",
            "hwmon0/temp1_input": "48500",
            "hwmon0/temp1_label": "Package id 0",
            "hwmon0/temp1_max": "100000",
            "hwmon1/name": "nct6775",
            "hwmon1/in0_input": "1020",
            "hwmon1/fan2_input": "1187",
            "hwmon1/power1_input": "12500000",
            "hwmon2/name": "coretemp",
            "hwmon2/temp1_input": "51000",
        },
    )
    assert _values(open_hwmon(Hwmon(folder=folder)).read()) == {
        "coretemp/Package_id_0": (48.5, "Cel"),
        "coretemp:2/temp1": (51.0, "Cel"),
        "nct6775/in0": (1.02, "V"),
        "nct6775/fan2": (1187.0, "1/min"),
        "nct6775/power1": (12.5, "W"),
    }
    only = open_hwmon(Hwmon(chips=("nct6775",), folder=folder)).read()
    assert {each.name.split("/")[0] for each in only.readings} == {"nct6775"}
    assert only.failure == ""


def test_industrial_io(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        {
            "iio:device0/name": "bme280",
            "iio:device0/in_temp_input": "21340",
            "iio:device0/in_temp_raw": "999",
            "iio:device0/in_pressure_input": "101.325",
            "iio:device0/in_humidityrelative_input": "40213",
            "iio:device1/name": "ads1015",
            "iio:device1/in_voltage0_raw": "1000",
            "iio:device1/in_voltage0_scale": "3",
            "iio:device1/in_voltage1_raw": "100",
            "iio:device1/in_voltage0-voltage1_raw": "10",
            "iio:device1/in_voltage_scale": "2",
            "iio:device1/in_voltage_offset": "-20",
            "iio:device2/name": "mpu6050",
            "iio:device2/in_accel_x_raw": "16384",
            "iio:device2/in_accel_scale": "0.000598",
            "trigger0/name": "bme280-dev0",
        },
    )
    assert _values(open_iio(Iio(folder=folder)).read()) == {
        "bme280/temp": (21.34, "Cel"),
        "bme280/pressure": (101_325.0, "Pa"),
        "bme280/humidityrelative": (40.213, "%RH"),
        "ads1015/voltage0": (2.94, "V"),
        "ads1015/voltage1": (0.16, "V"),
        "ads1015/voltage0-voltage1": (-0.02, "V"),
        "mpu6050/accel_x": (9.797632, "m/s2"),
    }


def test_thermometers_on_one_wire(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        {
            "28-0316a2795e1f/temperature": "21437",
            "28-0416b3845aff/temperature": "-1250",
            "w1_bus_master1/w1_master_slave_count": "2",
        },
    )
    assert _values(open_one_wire(OneWire(folder=folder)).read()) == {
        "28-0316a2795e1f/temperature": (21.437, "Cel"),
        "28-0416b3845aff/temperature": (-1.25, "Cel"),
    }
    alone = open_one_wire(OneWire(devices=("28-0416b3845aff",), folder=folder))
    assert _values(alone.read()) == {"temperature": (-1.25, "Cel")}


def test_one_that_fails_stops_no_other_and_is_told(tmp_path: Path) -> None:
    folder = tree(tmp_path, {"28-0316a2795e1f/temperature": "21437", "28-0416b3845aff/temperature": ""})
    measured = open_one_wire(OneWire(folder=folder)).read()
    assert _values(measured) == {"28-0316a2795e1f/temperature": (21.437, "Cel")}
    assert measured.failure == "28-0416b3845aff/temperature: the thermometer does not answer"
    both = open_one_wire(OneWire(devices=("28-0316a2795e1f", "28-00000000000"), folder=folder)).read()
    assert both.failure == "28-00000000000: is not there"


def test_nothing_to_read_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(SensorError, match="is the driver loaded"):
        open_one_wire(OneWire(folder=str(tmp_path / "none"))).read()
    with pytest.raises(SensorError, match="no chip to read"):
        open_hwmon(Hwmon(folder=str(tmp_path))).read()
    with pytest.raises(SensorError, match="nct6775: is not there"):
        open_hwmon(Hwmon(chips=("nct6775",), folder=str(tmp_path))).read()
