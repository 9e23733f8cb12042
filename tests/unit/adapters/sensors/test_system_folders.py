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


def linked(folder: Path, real: dict[str, str], files: dict[str, str]) -> str:
    """Write devices where a kernel has them, and a folder of links to them; return that folder."""
    tree(folder / "devices", {f"{real[name.partition('/')[0]]}/{name}": text for name, text in files.items()})
    (folder / "class").mkdir(exist_ok=True)
    for old in (folder / "class").iterdir():
        old.unlink()
    for name, where in real.items():
        (folder / "class" / name).symlink_to(folder / "devices" / where / name)
    return str(folder / "class")


def test_hardware_monitors(tmp_path: Path) -> None:
    folder = linked(
        tmp_path,
        {
            "hwmon0": "platform/coretemp.0/hwmon",
            "hwmon1": "platform/nct6775.656/hwmon",
            "hwmon2": "platform/coretemp.1/hwmon",
            "hwmon3": "pci0000:00/0000:00:1d.0/0000:02:00.0/nvme/nvme0",
            "hwmon4": "virtual/thermal/thermal_zone0",
        },
        {
            "hwmon0/name": "coretemp",
            "hwmon0/temp1_input": "48500",
            "hwmon0/temp1_label": "Package id 0",
            "hwmon0/temp1_max": "100000",
            "hwmon1/name": "nct6775",
            "hwmon1/in0_input": "1020",
            "hwmon1/fan2_input": "1187",
            "hwmon1/fan2_label": "CPU",
            "hwmon1/temp2_input": "31000",
            "hwmon1/temp2_label": "CPU",
            "hwmon1/power1_input": "12500000",
            "hwmon2/name": "coretemp",
            "hwmon2/temp1_input": "51000",
            "hwmon3/name": "nvme",
            "hwmon3/temp1_input": "38000",
            "hwmon4/name": "acpitz",
            "hwmon4/temp1_input": "27800",
        },
    )
    assert _values(open_hwmon(Hwmon(folder=folder)).read()) == {
        "coretemp/coretemp.0/temp1:Package_x20_id_x20_0": (48.5, "Cel"),
        "coretemp/coretemp.1/temp1": (51.0, "Cel"),
        "nct6775/nct6775.656/in0": (1.02, "V"),
        "nct6775/nct6775.656/fan2:CPU": (1187.0, "1/min"),
        "nct6775/nct6775.656/temp2:CPU": (31.0, "Cel"),
        "nct6775/nct6775.656/power1": (12.5, "W"),
        "nvme/0000:02:00.0/temp1": (38.0, "Cel"),
        "acpitz/thermal_zone0/temp1": (27.8, "Cel"),
    }
    only = open_hwmon(Hwmon(chips=("nct6775", "coretemp/coretemp.1"), folder=folder)).read()
    assert {each.name.rpartition("/")[0] for each in only.readings} == {"nct6775/nct6775.656", "coretemp/coretemp.1"}
    assert only.failure == ""


def test_a_chip_keeps_its_name_whatever_else_is_there_and_in_which_order(tmp_path: Path) -> None:
    """The kernel's numbers follow from the order in which drivers were loaded."""
    here, there = "i2c-1/1-0076", "i2c-3/3-0076"
    files = {"iio:device0/name": "bme280", "iio:device0/in_temp_input": "21000"}
    both = {**files, "iio:device1/name": "bme280", "iio:device1/in_temp_input": "4000"}
    seen = []
    for real, wanted in (
        ({"iio:device0": here, "iio:device1": there}, both),
        ({"iio:device0": there}, {**files, "iio:device0/in_temp_input": "4000"}),
        (
            {"iio:device0": there, "iio:device1": here},
            {**both, "iio:device0/in_temp_input": "4000", "iio:device1/in_temp_input": "21000"},
        ),
    ):
        seen.append(_values(open_iio(Iio(folder=linked(tmp_path, real, wanted))).read()))
    whole = {"bme280/1-0076/temp": (21.0, "Cel"), "bme280/3-0076/temp": (4.0, "Cel")}
    assert seen == [whole, {"bme280/3-0076/temp": (4.0, "Cel")}, whole]


def test_devices_that_nothing_tells_apart_are_not_read(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        {
            **{f"hwmon{n}/name": "coretemp" for n in (0, 1)},
            **{f"hwmon{n}/temp1_input": "48500" for n in (0, 1)},
            "hwmon2/name": "nct6775",
            "hwmon2/in0_input": "1020",
        },
    )
    measured = open_hwmon(Hwmon(folder=folder)).read()
    assert _values(measured) == {"nct6775/in0": (1.02, "V")}
    assert measured.failure == "2 devices are called coretemp, and nothing tells them apart"


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
            "iio:device3/name": "ad7192",
            "iio:device3/in_voltage0-voltage1_raw": "8388608",
            "iio:device3/in_voltage2-voltage3_raw": "8388618",
            "iio:device3/in_voltage2-voltage3_scale": "1000",
            "iio:device3/in_voltage-voltage_scale": "0.000298023",
            "iio:device3/in_voltage-voltage_offset": "-8388608",
            "iio:device3/in_voltage_scale": "500",
            "iio:device3/in_scale": "700",
            "iio:device4/name": "max1363",
            "iio:device4/in_voltage0_raw": "7",
            "iio:device4/scale": "2",
            "trigger0/name": "bme280-dev0",
        },
    )
    assert _values(open_iio(Iio(folder=folder)).read()) == {
        "bme280/temp": (21.34, "Cel"),
        "bme280/pressure": (101_325.0, "Pa"),
        "bme280/humidityrelative": (40.213, "%RH"),
        "ads1015/voltage0": (2.94, "V"),
        "ads1015/voltage1": (0.16, "V"),
        "ads1015/voltage0-voltage1_raw": (10, ""),  # nobody says what a count of the difference is worth
        "mpu6050/accel_x": (9.797632, "m/s2"),
        "ad7192/voltage0-voltage1": (0.0, "V"),
        "ad7192/voltage2-voltage3": (10.0, "V"),
        "max1363/voltage0": (0.014, "V"),
    }


def test_a_scale_that_cannot_be_read_is_a_failure_and_not_another_scale(tmp_path: Path) -> None:
    folder = tree(
        tmp_path,
        {
            "iio:device0/name": "ads1015",
            "iio:device0/in_voltage0_raw": "1000",
            "iio:device0/in_voltage1_raw": "100",
            "iio:device0/in_voltage_scale": "2",
        },
    )
    (tmp_path / "iio:device0/in_voltage0_scale").mkdir()  # reading it is an error
    measured = open_iio(Iio(folder=folder)).read()
    assert _values(measured) == {"ads1015/voltage1": (0.2, "V")}
    assert measured.failure.startswith("ads1015/voltage0: ")


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


def test_a_failing_thermometer_is_reported_and_stops_no_other(tmp_path: Path) -> None:
    folder = tree(tmp_path, {"28-0316a2795e1f/temperature": "21437", "28-0416b3845aff/temperature": ""})
    measured = open_one_wire(OneWire(folder=folder)).read()
    assert _values(measured) == {"28-0316a2795e1f/temperature": (21.437, "Cel")}
    assert measured.failure == "28-0416b3845aff/temperature: the thermometer does not answer"
    both = open_one_wire(OneWire(devices=("28-0316a2795e1f", "28-00000000000"), folder=folder)).read()
    assert both.failure == "28-00000000000: is not there"


def test_nothing_to_read_is_a_failure(tmp_path: Path) -> None:
    with pytest.raises(SensorError, match="is the driver loaded"):
        open_one_wire(OneWire(folder=str(tmp_path / "none"))).read()
    with pytest.raises(SensorError, match="no readable chip"):
        open_hwmon(Hwmon(folder=str(tmp_path))).read()
    with pytest.raises(SensorError, match="nct6775: is not there"):
        open_hwmon(Hwmon(chips=("nct6775",), folder=str(tmp_path))).read()
