"""The page of an order or a release in a browser: its time line, by keyboard, on a telephone, for screen readers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from covey.app.device.device import find_state
from covey.app.fleet.page import serve_page
from covey.app.orders.fleet import Scope, administered
from covey.app.orders.releases import PlannedPart, begin, go_on, plan_release, read_waves
from tests.browser import is_readable
from tests.operated_fleet import OperatedFleet
from tests.sealed import sealed

pytestmark = pytest.mark.processes

_HOUR_US = 3_600_000_000


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1280)])
def test_a_release_on_a_time_line(browser: Browser, tmp_path: Path, scheme: str, width: int) -> None:
    fleet = OperatedFleet(tmp_path, groups=2, devices=20, phone=False)
    with fleet.open(fleet.laptop) as opened:
        scope = Scope(administered(opened), fleet=True)
        plans = plan_release(opened, scope.groups, "all", read_waves("1,100%"), 30, _HOUR_US, 0, 0)
        parts = [PlannedPart(group, plan, sealed(opened, group)) for group, plan in plans]
        name = begin(opened, scope, "install", parts, "all").id
    fleet.report(fleet.laptop)
    with fleet.open(fleet.laptop) as opened:
        go_on(opened, scope.groups, name)
    failing = fleet.devices[fleet.groups[1]][:2]
    fleet.report(fleet.laptop, failing=failing)
    folder = find_state(str(fleet.laptop.state))
    served = serve_page(folder, "127.0.0.1:0", (None, None), None, None, 24 * _HOUR_US, 0.2, lambda _: None)
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    try:
        page.goto(served.link)
        expect(page.locator("#rolled tr")).to_have_count(1)
        if page.locator("#releases").get_attribute("open") is None:
            page.get_by_text("Releases", exact=True).press("Enter")
        page.locator("#rolled").get_by_role("link").press("Enter")
        expect(page.locator("#order-name")).to_be_focused()
        expect(page.locator("#order-words")).to_contain_text("in 2 groups, 40 of 40 devices reported")
        drawn = page.get_by_role("img", name=re.compile("3[89] done and [12] failed from .*, at most [0-9]+ in "))
        expect(drawn).to_be_visible()
        expect(page.locator("#waved tr")).to_have_count(2)
        expect(page.locator("#waved tr").first).to_contain_text("1 done")
        expect(page.locator("#failed tr").first).to_contain_text("exit code 1")
        expect(page.locator("#line-legend")).to_contain_text("Each column is 1 min, the highest ")
        is_readable(page)
        page.get_by_text("The time line as a table").press("Enter")
        expect(page.locator("#counted tr").first).to_contain_text(re.compile("[0-9]+"))
        is_readable(page)
        page.get_by_role("link", name="Hour").press("Enter")
        expect(page.get_by_role("link", name="Hour")).to_have_attribute("aria-current", "true")
        expect(drawn).to_be_visible()
        page.locator("#failed").get_by_role("link").first.press("Enter")
        expect(page.locator("#name")).to_be_focused()
        assert complaints == []
    finally:
        context.close()
        served.close()
