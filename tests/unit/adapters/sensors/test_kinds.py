"""`covey.adapters.sensors.kinds`: an entry's kind may be one that an installed package brings."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from covey.adapters.clock import SystemClock
from covey.adapters.sensors.kinds import open_sensor
from covey.config.sensors import read_sensors
from covey.errors import ConfigurationError, SensorError
from covey.ports import Sensor

_EXAMPLE = Path(__file__).parents[4] / "docs/examples/covey-sensor-moon"


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the example's package be there, as an installer leaves it."""
    project = tomllib.loads((_EXAMPLE / "pyproject.toml").read_text())["project"]
    about = tmp_path / "covey_sensor_moon-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    ((kind, where),) = project["entry-points"]["covey.sensors"].items()
    (about / "entry_points.txt").write_text(f"[covey.sensors]\n{kind} = {where}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(_EXAMPLE))


def _opened(entry: Mapping[str, object]) -> Sensor:
    (found,) = read_sensors([("config.toml", entry)])
    return open_sensor(found, SystemClock())


def test_a_package_brings_a_kind() -> None:
    with closing(_opened({"name": "sky", "kind": "moon", "unit": "/"})) as sensor:
        (reading,) = sensor.read().readings
    assert (reading.name, reading.unit) == ("lit", "/")
    assert isinstance(reading.value, float)
    assert 0 <= reading.value <= 1


def test_it_checks_its_own_keys() -> None:
    with pytest.raises(ConfigurationError, match="sensor sky: unit must be one of"):
        _opened({"name": "sky", "kind": "moon", "unit": "m"})


def test_a_kind_that_nobody_brings_is_none() -> None:
    with pytest.raises(SensorError, match=r"kind tides is unknown; known: exec, .*hwmon, .*moon") as refused:
        _opened({"name": "sea", "kind": "tides"})
    assert "install" in refused.value.hint
