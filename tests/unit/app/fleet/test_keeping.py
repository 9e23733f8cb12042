"""`FleetKeeper`: what it keeps of a large fleet is what a look of one's own finds, and nobody else waits for it."""

from __future__ import annotations

import stat
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from covey.app.device.device import Device, open_device
from covey.app.fleet import keeping
from covey.app.fleet.dashboard import Dashboard
from covey.app.fleet.documents import Fleet
from covey.app.fleet.fleet import FleetView
from covey.app.fleet.keeping import FleetKeeper
from covey.app.fleet.kept_fleet import KeptFleet, KeptLook, since_boot_s
from covey.errors import StorageError
from tests.collected_fleet import CollectedFleet
from tests.waiting import GUARD_S

_COUNT = 30
pytestmark = pytest.mark.slow


@pytest.fixture
def fleet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CollectedFleet:
    """A fleet that counts as large."""
    monkeypatch.setattr(keeping, "FLEET_KEPT_DEVICES", _COUNT)
    return CollectedFleet(tmp_path, _COUNT, rounds=1)


@pytest.fixture
def device(fleet: CollectedFleet) -> Iterator[Device]:
    with open_device(fleet.folder) as opened:
        yield opened


def _turn(keeper: FleetKeeper, device: Device) -> None:
    keeper.turn(device.node, device.now())


def _complete(keeper: FleetKeeper, device: Device, kept: KeptFleet) -> KeptLook:
    """Let the keeper work until a look that begins now is complete."""
    guard_s, began_s = time.monotonic() + GUARD_S, since_boot_s()
    while time.monotonic() < guard_s:
        _turn(keeper, device)
        found = kept.look()
        if found is not None and found.fleet.is_read and found.began_s >= began_s:
            return found
    raise AssertionError("no complete look")


def _at(fleet: Fleet, at_us: int) -> Fleet:
    return replace(fleet, at_us=at_us)


def test_what_is_kept_is_what_a_look_of_its_own_finds(fleet: CollectedFleet, device: Device) -> None:
    keeper, kept = FleetKeeper(device), KeptFleet(fleet.folder)
    found, own = _complete(keeper, device, kept), FleetView()
    assert _at(found.fleet, 0) == _at(own.look(device, None, keeping.SINCE_US), 0)
    assert list(found.view.devices(values=True)) == list(own.devices(values=True))
    assert stat.S_IMODE(fleet.folder.fleet_table.stat().st_mode) == 0o600
    landed_us = fleet.land_one(7, "level", 4.5)
    key = fleet.authors[7].identity.signing_public
    values = _complete(keeper, device, kept).view.values_of(key)
    assert ("level", 4.5, landed_us) in {(each.name, each.value, each.at_us) for each in values}
    keeper.stop(device.node, device.now())


def test_a_small_fleet_is_not_kept(fleet: CollectedFleet, device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "FLEET_KEPT_DEVICES", _COUNT + 2)
    keeper = FleetKeeper(device)
    assert keeper.turn(device.node, device.now()) is None
    assert KeptFleet(fleet.folder).look() is None
    assert not fleet.folder.fleet_table.exists()


def test_nothing_is_left_when_the_agent_ends(fleet: CollectedFleet, device: Device) -> None:
    keeper, kept = FleetKeeper(device), KeptFleet(fleet.folder)
    _complete(keeper, device, kept)
    keeper.stop(device.node, device.now())
    assert kept.look() is None
    assert not {each for each in fleet.folder.names() if each.startswith("fleet.sqlite")}


def test_what_an_agent_left_that_lost_power_is_not_believed(fleet: CollectedFleet, device: Device) -> None:
    fleet.folder.fleet_table.write_bytes(b"torn")
    keeper, kept = FleetKeeper(device), KeptFleet(fleet.folder)
    assert kept.look() is None
    assert _complete(keeper, device, kept).fleet.summary.startswith("28 online, 2 silent")
    keeper.stop(device.node, device.now())


def test_readers_follow_the_table_of_the_next_agent(fleet: CollectedFleet, device: Device) -> None:
    first, kept = FleetKeeper(device), KeptFleet(fleet.folder)
    before = _complete(first, device, kept)
    first.stop(device.node, device.now())
    second = FleetKeeper(device)
    after = _complete(second, device, kept)
    assert before.view is not after.view
    assert len(after.view.keys) == _COUNT + 1
    second.stop(device.node, device.now())


def test_one_process_keeps_the_table(fleet: CollectedFleet, device: Device) -> None:
    first, second, kept = FleetKeeper(device), FleetKeeper(device), KeptFleet(fleet.folder)
    found = _complete(first, device, kept)
    _turn(second, device)
    second.stop(device.node, device.now())
    assert kept.look() is found
    first.stop(device.node, device.now())


def test_a_turn_makes_few_rows_and_an_incomplete_look_says_so(
    fleet: CollectedFleet, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.app.fleet.fleet._AT_ONCE", 10)
    monkeypatch.setattr("covey.adapters.sqlite.fleet_table._AT_ONCE", 10)
    monkeypatch.setattr(keeping, "_ROWS", 10)
    keeper, kept = FleetKeeper(device), KeptFleet(fleet.folder)
    _turn(keeper, device)
    found = kept.look()
    assert found is not None
    assert (found.fleet.is_read, found.view.table.has_stale()) == (False, True)
    assert kept.fresh(0.0) is None
    assert len(list(_complete(keeper, device, kept).view.devices(values=False))) == _COUNT + 1
    keeper.stop(device.node, device.now())


def test_a_vault_that_cannot_be_read_is_reported_once_and_tried_again(
    fleet: CollectedFleet, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def fails(*_: object) -> None:
        raise StorageError("no vault")

    monkeypatch.setattr(keeping, "report", lambda _, line: said.append(line))
    keeper, kept = FleetKeeper(device), KeptFleet(fleet.folder)
    with monkeypatch.context() as patched:
        patched.setattr("covey.app.fleet.fleet.vault_of", fails)
        for _ in range(3):
            _turn(keeper, device)
            monkeypatch.setattr(keeper, "_retry_us", 0)
    assert said == ["the fleet was not looked at: no vault"]
    assert kept.look() is None
    assert _complete(keeper, device, kept).fleet.is_read
    keeper.stop(device.node, device.now())


def test_a_caller_gets_a_look_that_began_after_its_question(fleet: CollectedFleet, device: Device) -> None:
    keeper, kept = FleetKeeper(device), KeptFleet(fleet.folder)
    _complete(keeper, device, kept)
    key = fleet.authors[3].identity.signing_public
    landed_us = fleet.land_one(3, "level", 1.0)
    with ThreadPoolExecutor(1) as threads:
        asked = threads.submit(kept.fresh, GUARD_S)
        while not asked.done():
            _turn(keeper, device)
        found = asked.result()
    assert found is not None
    assert landed_us in {each.at_us for each in found.view.values_of(key)}
    keeper.stop(device.node, device.now())


def test_the_page_of_a_kept_fleet_opens_no_device(fleet: CollectedFleet, device: Device) -> None:
    def opened() -> AbstractContextManager[Device]:
        raise AssertionError("the page opened the device")

    keeper, kept = FleetKeeper(device), KeptFleet(fleet.folder)
    _complete(keeper, device, kept)
    dashboard = Dashboard(opened, None, keeping.SINCE_US, 0.1, kept=kept)
    shown = dashboard.overview({"find": fleet.label(4)})
    assert (shown["all"], shown["matching"], shown["is_read"]) == (_COUNT + 1, 1, True)
    looks = (each for each in dashboard.overviews({"find": fleet.label(4)}) if each is not None)
    before = next(looks)["devices"][0]["newest_at_us"]
    landed_us = fleet.land_one(4, "level", 1.0)
    _complete(keeper, device, kept)
    assert next(looks)["devices"][0]["newest_at_us"] == landed_us > before
    keeper.stop(device.node, device.now())


def test_a_page_whose_agent_has_ended_looks_by_itself(fleet: CollectedFleet, device: Device) -> None:
    keeper, kept = FleetKeeper(device), KeptFleet(fleet.folder)
    _complete(keeper, device, kept)
    dashboard = Dashboard(lambda: open_device(fleet.folder), None, keeping.SINCE_US, 0.1, kept=kept)
    assert dashboard.overview({})["is_read"]
    keeper.stop(device.node, device.now())
    looks = (each for each in dashboard.overviews({}) if each is not None)
    assert next(each for each in looks if each["is_read"])["all"] == _COUNT + 1
