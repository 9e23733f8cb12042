"""The report's HTML file in a real browser: readable by everybody, small, dark, and the labels of the device here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from covey.core.ids import key_text
from covey_ingest.queries.report import make_report
from covey_ingest.queries.report_html import html
from tests import warm_covey
from tests.browser import is_readable_by_day_and_night
from tests.fleet import identity
from tests.integration.gateway import Gateway
from tests.report_tables import AWAKE, HOUR_US, NOW_US, SILENT, TRAP, write_tables

pytestmark = pytest.mark.processes


def test_everybody_can_read_it_on_a_telephone_too(browser: Browser, tmp_path: Path) -> None:
    file, labels = tmp_path / "report.html", {AWAKE: "pump", SILENT: TRAP}
    tables = write_tables(tmp_path / "tables")
    file.write_text(html(make_report(str(tables), NOW_US, 72 * HOUR_US, labels=labels)))
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page = context.new_page()
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    page.goto(file.as_uri())
    expect(page.locator("#summary")).to_have_text("2 devices: 2 seen, 0 silent, 1 with an unsynchronised clock")
    expect(page.get_by_role("rowheader", name="aaaaaaaa pump").first).to_be_visible()
    expect(page.get_by_role("img", name="Arrived readings")).to_be_visible()
    is_readable_by_day_and_night(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    is_readable_by_day_and_night(page)
    kind = page.get_by_role("cell", name="command", exact=True).first
    assert (
        kind.evaluate(
            "cell => { const words = document.createRange(); words.selectNodeContents(cell); "
            "return words.getClientRects().length; }"
        )
        == 1
    ), "a short word stays whole"
    context.close()
    assert loaded == [file.as_uri()]


def test_the_device_here_says_what_others_are_called(tmp_path: Path) -> None:
    hub, tables = Gateway(tmp_path, "hub"), write_tables(tmp_path / "tables")
    hub.ok("group", "create")
    keys = key_text("sign", bytes.fromhex(AWAKE)), key_text("noise", identity("pump").noise_public)
    hub.ok("group", "add", *keys, "--label", "pump")
    words = ["tables", "report", str(tables), "--since", "all"]
    here = {**os.environ, "COVEY_STATE": str(hub.state)}
    known = warm_covey.run(words, environment=here)
    assert (known.returncode, "aaaaaaaa pump" in known.stdout) == (0, True), known
    nobody = {**os.environ, "COVEY_STATE": str(tmp_path / "nowhere")}
    unknown = warm_covey.run(words, environment=nobody)
    assert (unknown.returncode, "pump" in unknown.stdout) == (0, False), unknown
