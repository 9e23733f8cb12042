"""Take docs/images/fleet.png, device.png and report.png: `python -m docs.site.screenshots`.

It makes a collector with forty devices and two hours of readings, as tests do, runs it with a broker, and opens its
page and its report in Debian's Chromium.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from broker_conf.mosquitto import Broker
from tests.collected_fleet import CollectedFleet
from tests.integration.gateway import Gateway
from tests.waiting import wait_until

_IMAGES = Path(__file__).parents[1] / "images"
_COVEY = str(Path(sys.executable).with_name("covey"))


def take(folder: Path) -> None:
    """Make a fleet in a folder, and take the pictures."""
    fleet = CollectedFleet(folder, 40, rounds=24)
    state, tables, page = fleet.hub.state, folder / "tables", folder / "report.html"
    vault = [str(state / "vault"), str(tables), "--key-file", str(state / "vault.key")]
    subprocess.run([_COVEY, "tables", "run", *vault, "--available-now"], check=True, stdout=subprocess.DEVNULL)
    report = ["tables", "report", "tables", "--html", str(page)]
    subprocess.run([_COVEY, *report], check=True, stdout=subprocess.DEVNULL, cwd=folder)
    listening = ["--listen", "127.0.0.1:8799"]
    command = [_COVEY, "dashboard", "--state", str(state), *listening]
    with (
        Broker(folder / "broker") as broker,
        _collecting(fleet.hub, broker),
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as dashboard,
    ):
        try:
            assert dashboard.stdout is not None
            link = next(word for line in dashboard.stdout for word in line.split() if word.startswith("http"))
            _pictures(link, page.as_uri())
        finally:
            dashboard.terminate()


@contextmanager
def _collecting(hub: Gateway, broker: Broker) -> Iterator[None]:
    hub.ok("relay", "set", broker.url, "--password-file", "-", feed=broker.add_device(hub.author))
    hub.start("collect", "--no-sensors")
    try:
        wait_until(lambda: hub.json("status")["relays"][0]["state"] == "up", "the collector is connected")
        yield
    finally:
        hub.end()


def _pictures(link: str, report: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 680})
        page.goto(link)
        row = page.get_by_role("link", name="field-00003")
        expect(row).to_be_visible(timeout=60_000)
        page.wait_for_timeout(3_000)
        page.screenshot(path=_IMAGES / "fleet.png")
        row.click()
        expect(page.get_by_text("air:temperature")).to_be_visible(timeout=60_000)
        page.screenshot(path=_IMAGES / "device.png", full_page=True)
        page.goto(report)
        page.screenshot(path=_IMAGES / "report.png")
        browser.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        take(Path(place))
