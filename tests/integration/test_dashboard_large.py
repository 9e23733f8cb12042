"""The page of a fleet that does not fit into one list: groups at a glance, and windows of devices, in a browser."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import Browser, expect

from covey.adapters.sqlite.fleet_table import Wanted
from covey.app.checks.status import own_condition
from covey.app.device.device import open_device
from covey.app.fleet.dashboard import Dashboard
from covey.app.fleet.devices import shown_device
from covey.app.fleet.fleet import FleetView, vault_of
from covey.app.fleet.page import serve_page
from covey.app.fleet.troubles import troubles_of
from covey.app.telemetry.newest_readings import NewestReadings
from tests.browser import is_readable
from tests.collected_fleet import CollectedFleet

pytestmark = pytest.mark.processes

_COUNT = 1_100
_DAY_US = 86_400_000_000


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> CollectedFleet:
    return CollectedFleet(tmp_path_factory.mktemp("fleet"), _COUNT, rounds=1)


def test_groups_at_a_glance_and_windows_of_devices(browser: Browser, fleet: CollectedFleet) -> None:
    served = serve_page(fleet.folder, "127.0.0.1:0", (None, None), None, None, _DAY_US, 0.2, lambda _: None)
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    try:
        page.goto(served.link)
        expect(page.locator("#shown")).to_have_text("1,101 of 1,101 devices, showing 1 to 200")
        expect(page.locator("#devices tr")).to_have_count(200)
        expect(page.locator("#troubles")).to_contain_text("this device: the agent is not running")
        expect(page.locator("#troubles")).to_contain_text("55 devices not seen, because this device itself is offline")
        is_readable(page)
        tiles = page.get_by_role("list", name="At a glance").get_by_role("button")
        expect(tiles).to_have_count(2)
        expect(tiles.first).to_contain_text("856 of 901 online, 45 silent")
        expect(tiles.first).to_contain_text("(901); no other would take over")
        for _ in range(5):
            page.get_by_role("button", name="Next").press("Enter")
        expect(page.locator("#shown")).to_contain_text("showing 1,001 to 1,101")
        expect(page.get_by_role("button", name="Next")).to_be_disabled()
        tiles.last.press("Enter")
        expect(page.locator("#shown")).to_have_text("201 of 1,101 devices, showing 1 to 200")
        expect(tiles.last).to_have_attribute("aria-pressed", "true")
        tiles.last.press("Enter")
        expect(page.locator("#shown")).to_contain_text("1,101 of 1,101 devices")
    finally:
        context.close()
        served.close()


def test_the_address_names_the_devices_that_are_shown(browser: Browser, fleet: CollectedFleet) -> None:
    served = serve_page(fleet.folder, "127.0.0.1:0", (None, None), None, None, _DAY_US, 0.2, lambda _: None)
    page = browser.new_page()
    shown = page.locator("#shown")
    try:
        page.goto(f"{served.link}#?state=offline&group={fleet.group_id}")
        expect(shown).to_contain_text("10 of 1,101 devices")
        expect(page.get_by_label("Show")).to_have_value("offline")
        expect(page.get_by_label("Group")).to_have_value(fleet.group_id)
        page.get_by_label("Group").select_option("")
        expect(shown).to_contain_text("55 of 1,101 devices")
        page.get_by_label("Find").fill("0000")
        expect(shown).to_have_text("1 of 1,101 devices")
        expect(page).to_have_url(f"{served.url}#?find=0000&state=offline")
        page.reload()
        expect(shown).to_have_text("1 of 1,101 devices")
        page.locator("#devices a").first.press("Enter")
        expect(page.locator("#name")).to_have_text("field-00007")
        page.go_back()
        expect(page.get_by_label("Find")).to_have_value("0000")
        link = (
            "counted({ what: 'and 52 more devices are away', hint: 'covey fleet --only offline' }).getAttribute('href')"
        )
        assert page.evaluate(link) == "#?state=offline"
        page.evaluate("location.hash = '?state=no%20such'")
        expect(shown).to_contain_text("1,101 of 1,101 devices")
    finally:
        page.close()
        served.close()


def test_devices_that_are_away_are_named_or_counted_while_this_one_listens(fleet: CollectedFleet) -> None:
    view = FleetView()
    with open_device(fleet.folder) as device:
        view.look(device, None, _DAY_US)
        own = own_condition(device)
        up = (replace(own.relay, state="up"),)
        listening = own._replace(running=True, relays=up, unplugged=False, grave=(), others=())
        found = [each.what for each in troubles_of(listening, view.table, (), (), NewestReadings(), {})]
    assert (len(found), found[-1]) == (4, "and 52 more devices are away")


def test_a_look_at_one_device_makes_no_rows_of_others(fleet: CollectedFleet) -> None:
    view, key = FleetView(), fleet.authors[77].identity.signing_public
    with open_device(fleet.folder) as device:
        found = view.look_at(device, None, _DAY_US, key)
    assert (found.device.label, len(found.groups), found.boards) == (fleet.label(77), 1, ())
    assert {each.name for each in found.device.values} >= {"air:temperature", "battery"}
    assert view.table.count(Wanted()) == 1


def test_data_sent_to_a_browser_does_not_grow_with_the_fleet(fleet: CollectedFleet) -> None:
    dashboard = Dashboard(lambda: open_device(fleet.folder), None, _DAY_US, 0.2)
    shown = dashboard.overview({"first": "400"})
    assert (shown["first"], len(shown["devices"]), shown["matching"], shown["is_read"]) == (400, 200, 1_101, False)
    for first, stands in (("399", 200), ("9" * 8, 1_000), ("9" * 40, 0), ("-1", 0), ("²", 0), ("", 0)):
        assert dashboard.overview({"first": first})["first"] == stands


@pytest.mark.parametrize("shows_s", [0.0, 60.0])
def test_last_values_follow_the_first_paint(
    fleet: CollectedFleet, monkeypatch: pytest.MonkeyPatch, shows_s: float
) -> None:
    monkeypatch.setattr("covey.app.fleet.dashboard._SHOWS_S", shows_s)
    dashboard = Dashboard(lambda: open_device(fleet.folder), None, _DAY_US, 0.01)
    looks = (each for each in dashboard.overviews({}) if each is not None)
    first = next(looks)
    assert (first["is_read"], first["devices"][0]["series"]) == (False, 0)
    last = next(each for each in looks if each["is_read"])
    assert {each["series"] for each in last["devices"]} == {4}
    assert last["summary"].endswith("nothing lost")


def test_the_part_read_so_far_is_shown_while_the_rest_is_read(fleet: CollectedFleet) -> None:
    view = FleetView()
    with open_device(fleet.folder) as device:
        view.take_members(device)
        view.survey(device, reads=False)
        shown = [
            sum(shown_device(each).series > 0 for each in view.table.window(Wanted(), 0, 2 * _COUNT))
            for _ in view.read(*vault_of(device, None), device.clock.wall_us(), _DAY_US)
        ]
    assert len(shown) > 1
    assert shown == sorted(shown)
    assert (0 < shown[0] < _COUNT, shown[-1]) == (True, _COUNT)


def test_a_reading_that_lands_is_shown(browser: Browser, fleet: CollectedFleet) -> None:
    served = serve_page(fleet.folder, "127.0.0.1:0", (None, None), None, None, _DAY_US, 0.2, lambda _: None)
    page = browser.new_page()
    try:
        page.goto(served.link)
        expect(page.locator("#shown")).to_have_text("1,101 of 1,101 devices, showing 1 to 200")
        page.get_by_label("Find").fill(fleet.label(77))
        expect(page.locator("#devices tr")).to_have_count(1)
        at_us = fleet.land_one(77, "level", 12.25)
        expect(page.locator(f"#devices [data-at='{at_us}']")).to_be_visible()
        page.get_by_role("link", name=fleet.label(77)).click()
        expect(page.locator("#values")).to_contain_text("12.25")
        fleet.land_one(77, "level", 13.5)
        expect(page.locator("#values")).to_contain_text("13.5")
        assert page.locator("#connection").is_hidden()
    finally:
        page.close()
        served.close()
