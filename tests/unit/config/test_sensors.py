"""`covey.config.sensors`: an entry is checked as strictly as a setting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from covey.adapters.state_folder import StateFolder
from covey.config.file import changed_text, parse, sensor_tables
from covey.config.kinds import PackagedOptions
from covey.config.sensors import KINDS, Hwmon, read_sensors
from covey.errors import ConfigurationError


def _folder(tmp_path: Path, text: str) -> StateFolder:
    (tmp_path / "config.toml").write_text(text)
    (tmp_path / "config.toml").chmod(0o600)
    return StateFolder.at(tmp_path)


def test_sensors_stand_beside_settings(tmp_path: Path) -> None:
    folder = _folder(
        tmp_path,
        'label = "shed"\n[[sensor]]\nname = "board"\nkind = "hwmon"\nchips = ["nct6775"]\n'
        '[[sensor]]\nname = "tide"\nkind = "tide-table"\nport = "Cuxhaven"\ninterval_seconds = 60\n[relay]\n',
    )
    board, tide = folder.configuration.sensors()
    assert (board.name, board.kind, board.interval_seconds) == ("board", "hwmon", 10.0)
    assert board.options == Hwmon(chips=("nct6775",))
    assert (tide.interval_seconds, tide.options) == (60.0, PackagedOptions({"port": "Cuxhaven"}))
    assert folder.configuration.config().label == "shed"


def test_a_setting_is_changed_beside_sensors() -> None:
    text = '[[sensor]]\nname = "board"\nkind = "hwmon"\n'
    changed = changed_text(changed_text(text, "label", "shed"), "telemetry.batch_seconds", 5.0)
    assert parse(changed, "x") == {"label": "shed", "telemetry.batch_seconds": 5.0}
    assert 'kind = "hwmon"' in changed


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"kind": "hwmon"}, "name must be"),
        ({"name": "Board", "kind": "hwmon"}, "name must be"),
        ({"name": "a"}, "kind must be one of"),
        ({"name": "a", "kind": "hwmon", "chip": []}, "chip is unknown"),
        ({"name": "a", "kind": "hwmon", "chips": "nct6775"}, "chips must be a list of texts"),
        ({"name": "a", "kind": "hwmon", "interval_seconds": 0}, "interval_seconds must be between 0.1 and 86400"),
        ({"name": "a", "kind": "hwmon", "interval_seconds": "often"}, "interval_seconds must be a number"),
        ({"name": "a", "kind": "mqtt"}, "topics must have an entry"),
        ({"name": "a", "kind": "mqtt", "topics": [{"path": "v"}]}, "topics 1: topic '' must be an MQTT filter"),
        ({"name": "a", "kind": "mqtt", "topics": [{"topic": "a/#/b"}]}, "must be an MQTT filter"),
        ({"name": "a", "kind": "mqtt", "topics": [{"topic": "a+"}]}, "must be an MQTT filter"),
        ({"name": "a", "kind": "mqtt", "topics": [{"topic": "a", "unt": "V"}]}, "did you mean"),
        ({"name": "a", "kind": "mqtt", "url": "http://a", "topics": [{"topic": "a"}]}, "url must be mqtt://"),
        *(
            ({"name": "a", "kind": "mqtt", "topics": topics}, said)
            for topics, said in (
                ([{"topic": "a/+", "path": "x"}, {"topic": "+/b", "path": "y"}], "a/+ and +/b overlap"),
                ([{"topic": "a/+", "path": "t"}, {"topic": "b/+", "path": "t"}], "may get the same name"),
                ([{"topic": "a/+", "path": "in.t"}, {"topic": "a/+", "path": "out.t"}], "may get the same name"),
                ([{"topic": "a/#", "path": "t"}, {"topic": "b/+", "path": "t"}], "may get the same name"),
                ([{"topic": "a", "path": "t"}, {"topic": "a", "path": "t"}], "may get the same name"),
                ([{"topic": "a/+"}, {"topic": "b", "name": "level"}], "may get the same name"),
            )
        ),
        ({"name": "a", "kind": "modbus"}, "url must be tcp://HOST:PORT or rtu:///dev/ttyUSB0"),
        ({"name": "a", "kind": "modbus", "url": "192.168.1.20"}, "url must be tcp://HOST:PORT"),
        ({"name": "a", "kind": "modbus", "url": "tcp://meter"}, "registers must have an entry"),
        *(
            ({"name": "a", "kind": "modbus", "url": "tcp://meter", "registers": registers}, said)
            for registers, said in (
                ([{"address": 0}], "registers 1: name is missing"),
                ([{"name": "b"}], "registers 1: address must be between 0 and 65535"),
                ([{"name": "b", "address": 400_001}], "address must be between 0 and 65535"),
                ([{"name": "b", "address": 65_535, "type": "int32"}], "ends after the last register"),
                ([{"name": "b", "address": 0, "type": "float"}], "type must be one of"),
                ([{"name": "b", "address": 0, "table": "coil", "type": "int16"}], "is a bool, not int16"),
                ([{"name": "b", "address": 0, "type": "bool", "scale": 2}], "a bool cannot have a scale"),
                ([{"name": "b", "address": 0, "adress": 1}], "did you mean 'address'?"),
                ([{"name": "b", "address": 0}, {"name": "b", "address": 1}], "two registers are named b"),
                ({"name": "b", "address": 0}, "registers must be at most 256 tables"),
            )
        ),
    ],
)
def test_a_mistake_is_reported(entry: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read_sensors([("x.toml", entry)])
    assert said in str(refused.value) + refused.value.hint
    assert refused.value.hint


def test_topics_that_another_one_covers_are_read_beside_it() -> None:
    topics = [{"topic": "a/+", "path": "x"}, {"topic": "a/#", "path": "y"}, {"topic": "b/+", "name": "why"}]
    assert read_sensors([("x.toml", {"name": "a", "kind": "mqtt", "topics": topics})])


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="two sensors are named a"):
        read_sensors([("x.toml", {"name": "a", "kind": "hwmon"}), ("y.toml", {"name": "a", "kind": "iio"})])


@pytest.mark.parametrize("text", ["sensor = 3", '[sensor]\nname = "a"\nkind = "hwmon"', "sensor = [1]"])
def test_a_malformed_table_of_sensors_is_refused(tmp_path: Path, text: str) -> None:
    folder = _folder(tmp_path, text)
    with pytest.raises(ConfigurationError):
        folder.configuration.sensors(), folder.configuration.config()


def test_a_file_that_others_write_names_no_program(tmp_path: Path) -> None:
    folder = _folder(tmp_path, '[[sensor]]\nname = "a"\nkind = "exec"\ncommand = ["/bin/true"]\n')
    (tmp_path / "config.toml").chmod(0o666)
    with pytest.raises(ConfigurationError, match="other users may write"):
        folder.configuration.sensors()


def test_every_example_of_the_page_is_one() -> None:
    page = (Path(__file__).parents[3] / "docs/how-to/sensors.md").read_text()
    examples = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    kinds = {
        entry.kind for text in examples for entry in read_sensors(("page", each) for each in sensor_tables(text, ""))
    }
    assert kinds == {*KINDS, "moon"}
