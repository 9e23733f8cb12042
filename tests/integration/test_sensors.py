"""Sensors of the configuration, from `[[sensor]]` to a collector's vault, and who is told when one fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from covey.core.telemetry.names import NO_READING_YET
from tests.integration.gateway import Gateway
from tests.integration.landed import landed
from tests.modbus_line import meter, modbus_rtu, modbus_tcp
from tests.open_broker import OpenBroker
from tests.waiting import wait_until

_KITCHEN = "home/kitchen/temperature"
_OFTEN = "interval_seconds = 1"  # as often as the bus allows


def add_sensor(gateway: Gateway, *lines: str) -> None:
    """Write an entry into a gateway's configuration."""
    fragments = gateway.state / "conf.d"
    fragments.mkdir(exist_ok=True, mode=0o700)
    fragment = fragments / f"{len(list(fragments.iterdir()))}.toml"
    fragment.write_text("\n".join(("[[sensor]]", *lines)) + "\n")
    fragment.chmod(0o600)


def thermometers(folder: Path, **readings: str) -> Path:
    """Write what the kernel shows of thermometers on a 1-Wire bus."""
    for serial, text in readings.items():
        device = folder / serial.replace("_", "-")
        device.mkdir(parents=True, exist_ok=True)
        (device / "temperature").write_text(text)
    return folder


@pytest.mark.broker
def test_a_sensor_measures_fails_and_measures_again(new_gateway: Callable[[str], Gateway], tmp_path: Path) -> None:
    bus = thermometers(tmp_path / "w1", **{"28_0316a2795e1f": "21437", "28_0416b3845aff": "-1250"})
    one = new_gateway("one")
    one.ok("group", "create", "--capability", "collector")
    one.ok("config", "set", "telemetry.batch_seconds", "0.5")
    add_sensor(one, 'name = "boiler"', 'kind = "w1"', f'folder = "{bus}"', _OFTEN)
    add_sensor(one, 'name = "gone"', 'kind = "hwmon"', f'folder = "{tmp_path / "none"}"', _OFTEN)
    assert "2 sensors configured correctly" in one.covey("check", "--offline").stdout
    one.start("collect", "--no-sensors")

    def states() -> dict[str, str]:
        return {each["name"]: each["state"] for each in one.json("sensor", "list")}

    wait_until(lambda: states()["boiler"] == "up")
    wait_until(lambda: "is the driver loaded?" in states()["gone"])
    wait_until(lambda: one.counters().get("published_readings", 0) >= 4)
    (bus / "28-0416b3845aff/temperature").write_text("")
    wait_until(lambda: "28-0416b3845aff/temperature: the thermometer does not answer" in states()["boiler"])
    assert "2 sensors not measuring: boiler, gone" in one.json("status")["troubles"]
    assert "covey sensor try boiler" in one.covey("check", "--offline").stdout
    assert 'covey_sensor_up{sensor="boiler"} 0' in one.ok("metrics")
    thermometers(bus, **{"28_0416b3845aff": "-1000"})
    wait_until(lambda: states()["boiler"] == "up")
    assert 'covey_sensor_up{sensor="boiler"} 1' in one.ok("metrics")
    one.end()


@pytest.mark.broker
def test_meters_are_read_by_tcp_and_serial_line_and_a_silent_one_stops_none(
    new_gateway: Callable[[str], Gateway],
) -> None:
    one = new_gateway("one")
    one.ok("group", "create", "--capability", "collector")
    for key in ("telemetry.batch_seconds", "vault.segment_seconds"):
        one.ok("config", "set", key, "0.5")
    voltage = '{ name = "voltage", address = 0, scale = 0.1, unit = "V" }'
    with modbus_tcp(meter()) as tcp, modbus_rtu(meter(5)) as rtu:
        modbus = ('kind = "modbus"', _OFTEN, "timeout_seconds = 1")
        add_sensor(one, 'name = "house"', *modbus, f'url = "{tcp}"', f"registers = [{voltage}]")
        silent = '{ name = "energy", address = 10, type = "uint32", unit_id = 9 }'
        add_sensor(one, 'name = "barn"', *modbus, f'url = "{rtu}"', "unit_id = 5", f"registers = [{silent}, {voltage}]")
        (record,) = one.json("sensor", "try", "house")
        assert (record["n"], record["u"], record["v"]) == ("house/voltage", "V", 230.5)
        one.start("collect", "--no-sensors")
        why = {"house": "up", "barn": "device 9: does not answer"}
        wait_until(lambda: {each["name"]: each["state"] for each in one.json("sensor", "list")} == why)
        assert "1 sensor not measuring: barn" in one.json("status")["troubles"]
        assert "device 9: does not answer" in one.covey("check", "--offline").stdout
        assert 'covey_sensor_up{sensor="barn"} 0' in one.ok("metrics")
        wanted = {"house/voltage", "barn/voltage"}
        wait_until(lambda: {name for name, _, _, value in landed(one) if value == 230.5} == wanted)
        one.end()


@pytest.mark.broker
def test_the_output_of_a_program_is_stored_once(new_gateway: Callable[[str], Gateway], tmp_path: Path) -> None:
    program = tmp_path / "counts.py"
    program.write_text(
        'import time\nfor n in range(3000):\n    print(\'{"n":"level","v":%d}\' % n, flush=True)\ntime.sleep(600)\n'
    )
    one = new_gateway("one")
    one.ok("group", "create", "--capability", "collector")
    one.ok("config", "set", "telemetry.batch_seconds", "0.5")
    one.ok("config", "set", "vault.segment_seconds", "0.5")
    command = json.dumps([sys.executable, "-I", "-S", str(program)])
    add_sensor(one, 'name = "tide"', 'kind = "exec"', f"command = {command}")
    one.start("collect", "--no-sensors")
    wait_until(lambda: one.counters().get("published_readings", 0) >= 3000)
    one.end()
    one.ok("vault", "push")
    readings = landed(one)
    assert set(readings.values()) == {1}
    assert sorted(value for _, _, _, value in readings) == list(range(3000))
    assert {name for name, _, _, _ in readings} == {"tide/level"}


def test_a_sensor_is_tried_without_an_agent(tmp_path: Path) -> None:
    alone = Gateway(tmp_path, "alone")
    bus = thermometers(tmp_path / "w1", **{"28_0316a2795e1f": "21437"})
    assert "no sensors are configured" in alone.ok("sensor", "list")
    add_sensor(alone, 'name = "boiler"', 'kind = "w1"', f'folder = "{bus}"', 'devices = ["28-0316a2795e1f"]')
    (record,) = alone.json("sensor", "try", "boiler")
    assert record.pop("t") > 1_700_000_000
    assert record == {"n": "boiler/temperature", "u": "Cel", "v": 21.437}
    assert alone.ok("sensor", "try", "boiler").splitlines()[1].split() == ["boiler/temperature", "21.437", "Cel"]
    assert "known: boiler" in alone.fails("sensor", "try", "shed", code=1)
    (bus / "28-0316a2795e1f/temperature").unlink()
    assert "is not there" in alone.fails("sensor", "try", "boiler", code=1)
    add_sensor(alone, 'name = "boiler"', 'kind = "w1"')
    assert "two sensors are named boiler" in alone.fails("config", "check", code=78)
    assert json.loads(alone.covey("check", "--offline", "--json").stdout)["healthy"] is False


@pytest.mark.broker
def test_messages_at_the_broker_are_stored_after_the_agent_is_killed(
    new_gateway: Callable[[str], Gateway], tmp_path: Path
) -> None:
    one = new_gateway("one")
    one.ok("group", "create", "--capability", "collector")
    one.ok("config", "set", "telemetry.batch_seconds", "0.5")
    one.ok("config", "set", "vault.segment_seconds", "0.5")
    home = tmp_path / "home"
    home.mkdir()
    with OpenBroker(home) as broker:
        topics = '[{ topic = "zigbee2mqtt/+", path = "temperature", unit = "Cel" }]'
        add_sensor(
            one, 'name = "home"', 'kind = "mqtt"', f'url = "mqtt://127.0.0.1:{broker.port}"', f"topics = {topics}"
        )

        def published() -> int:
            return one.counters().get("published_readings", 0)

        for kill in range(3):
            one.start("collect", "--no-sensors")
            wait_until(lambda: one.json("sensor", "list")[0]["state"] in {"up", NO_READING_YET})
            before, first = published(), 100 * kill
            broker.publish("zigbee2mqtt/kitchen", *(f'{{"temperature":{first + each}}}' for each in range(50)))
            wait_until(lambda before=before: published() > before)
            one.kill()
            broker.publish("zigbee2mqtt/kitchen", *(f'{{"temperature":{first + 50 + each}}}' for each in range(50)))
        one.start("collect", "--no-sensors")
        wait_until(lambda: {value for name, _, _, value in landed(one) if name == _KITCHEN} == set(range(300)))
        broker.publish("zigbee2mqtt/kitchen", '{"temperature":300}')
        wait_until(lambda: any(value == 300 for _, _, _, value in landed(one)))
        one.end()
    values = [value for (name, _, _, value), count in landed(one).items() for _ in range(count) if name == _KITCHEN]
    assert sorted(values) == list(range(301))
