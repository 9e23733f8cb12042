"""A unit test stands where its module stands: what `core/link/sender.py` does, `core/link/test_sender.py` shows."""

from __future__ import annotations

from pathlib import Path

from tests.meta.source_tree import ROOT, sources

_UNIT = ROOT / "tests" / "unit"

_PACKAGES = {
    "": "agent/covey",
    "covey_ingest": "spark_ingest/covey_ingest",
    "covey_boards": "firmware_bridge/covey_boards",
}
"""Where the tests' rooms have their sources."""

_ROOMS_TESTED_ELSEWHERE = {
    "agent/covey/adapters/broker": "a real broker and its files: tests/integration/test_broker_*.py",
    "agent/covey/app/agent": "whole agents: tests/integration/test_systemd.py, test_settings.py, test_shells.py",
    "agent/covey/core/records": "interfaces alone: nothing in them runs",
    "agent/covey/limits": "numbers: tests/meta/test_limits.py",
}


def _room(package: Path, folder: Path) -> Path:
    """Return where the tests of a folder of sources stand."""
    name = next(name for name, where in _PACKAGES.items() if ROOT / where == package)
    return _UNIT / name / folder.relative_to(package)


def _rooms() -> dict[Path, Path]:
    """Return the room of tests of each folder that holds modules."""
    return {
        _room(ROOT / package, source.path.parent): source.path.parent
        for package in _PACKAGES.values()
        for source in sources(package)
        if source.path.name != "__init__.py"
    }


def _tested(test: Path, folder: Path) -> bool:
    """Say whether a test is named for a module or package of a folder, or for an aspect: `test_sender_retries`."""
    words = test.stem.removeprefix("test_").split("_")
    names = ["_".join(words[:count]) for count in range(len(words), 0, -1)]
    return any((folder / f"{name}.py").is_file() or (folder / name).is_dir() for name in names)


def test_each_unit_test_has_its_module() -> None:
    rooms = _rooms()
    tests = sorted(_UNIT.rglob("test_*.py"))
    assert len(tests) > 50
    strays = [test for test in tests if test.parent not in rooms or not _tested(test, rooms[test.parent])]
    assert not [str(stray.relative_to(ROOT)) for stray in strays]


def test_each_room_of_sources_has_tests() -> None:
    untested = {str(folder.relative_to(ROOT)) for room, folder in _rooms().items() if not any(room.glob("test_*.py"))}
    assert untested == set(_ROOMS_TESTED_ELSEWHERE)
