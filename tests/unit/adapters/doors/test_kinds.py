"""`covey.adapters.doors.kinds`: an entry's kind may be one that an installed package brings."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.doors.kinds import open_door
from covey.config.doors import KINDS, read_doors
from covey.errors import ConfigurationError

_PACKAGE = '''
from dataclasses import dataclass
from covey.config.doors import DoorKind
from covey.config.tables import option

@dataclass(frozen=True, slots=True)
class Settings:
    """Readings to nowhere."""

    url: str = option("", "where to", "void://here")
    depth: int = option(1, "how deep", 2, "", 1, 9)

class Void:
    def __init__(self, opening):
        self.name, self.depth = opening.name, opening.options.depth
    def note_devices(self, devices): pass
    def send(self, batch): return {}
    def idle(self): pass
    def close(self): pass

KIND = DoorKind(Settings, Void, "Void", ("void",))
'''


@pytest.fixture(autouse=True)
def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = tmp_path / "covey_door_void-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: covey-door-void\nVersion: 1.0\n")
    kinds = "void = covey_door_void:KIND\nwrong = covey_door_void:Void\n"
    (about / "entry_points.txt").write_text(f"[covey.doors]\n{kinds}")
    (tmp_path / "covey_door_void.py").write_text(_PACKAGE)
    monkeypatch.syspath_prepend(str(tmp_path))


def test_a_package_brings_a_kind(tmp_path: Path) -> None:
    (entry,) = read_doors([("x", {"name": "away", "kind": "void", "url": "void://here", "depth": 3})])
    door = open_door(entry, tmp_path)
    assert (getattr(door, "name", ""), getattr(door, "depth", 0)) == ("away", 3)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"url": "void://here", "depth": 10}, "door away: depth must be between 1 and 9"),
        ({"url": "http://here"}, "url must begin with void://"),
        ({}, "url is missing"),
        ({"url": "void://here", "deep": 1}, "deep is unknown"),
    ],
)
def test_its_settings_are_checked_as_ours_are(tmp_path: Path, keys: dict[str, object], said: str) -> None:
    (entry,) = read_doors([("x", {"name": "away", "kind": "void", **keys})])
    with pytest.raises(ConfigurationError, match=said):
        open_door(entry, tmp_path)


def test_an_unknown_door_kind_is_refused(tmp_path: Path) -> None:
    (entry,) = read_doors([("x", {"name": "away", "kind": "wrong"})])
    with pytest.raises(TypeError, match="is not a DoorKind"):
        open_door(entry, tmp_path)
    with pytest.raises(ConfigurationError, match="kind must be one of webhook, home-assistant, otlp, or one of an"):
        read_doors([("x", {"name": "away", "kind": "tides"})])
    assert set(KINDS) == {"webhook", "home-assistant", "otlp"}
