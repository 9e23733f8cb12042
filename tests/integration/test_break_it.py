"""The page on which visitors try to break Covey: what runs there, and the page itself in a browser."""

from __future__ import annotations

import functools
import http.server
import os
import random
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docs.site.break_it.build import MAXIMUM_BYTES, build, is_fetched
from docs.site.break_it.world import BARN, HUB, NAMES, SHED, World
from tests.browser import chromium, is_readable

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.slow, pytest.mark.processes]


def _misbehave(world: World, whether: bool) -> None:
    relay = world.relay
    relay.drops = relay.repeats = relay.flips = relay.shuffles = relay.replays = whether


def _mistakes(world: World) -> tuple[int, int, int]:
    counts = world.counts()
    return counts["lost"], counts["twice"], counts["foreign"]


def test_nothing_is_lost_or_twice_behind_a_hostile_relay_and_power_cuts(tmp_path: Path) -> None:
    world, chance = World(tmp_path), random.Random(7)
    _misbehave(world, True)
    for step in range(60):
        if step % 7 == 3:
            world.cut_power(chance.choice(NAMES))
        world.step()
        assert _mistakes(world) == (0, 0, 0)
    assert set(world.relay.harmed) == {"dropped", "repeated", "flipped", "shuffled", "replayed"}
    _misbehave(world, False)
    for name in NAMES:
        if not world.devices[name].is_on:
            world.cut_power(name)
    before = world.counts()["measured"]
    for _ in range(200):
        world.step(5)
        rows = set(world.rows)
        if all((name, number) in rows for name in (SHED, BARN) for number in world.measured[name] if number <= before):
            break
    assert _mistakes(world) == (0, 0, 0)
    assert world.counts()["rows"] >= before


def test_a_removed_device_gets_nothing_more_into_the_table(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(10):
        world.step()
    world.steal(BARN)
    last = max(number for name, numbers in world.measured.items() for number in numbers)
    for _ in range(30):
        world.step()
    assert {BARN, SHED} <= {name for name, number in world.rows if number <= last}
    assert {name for name, number in world.rows if number > last + 1} == {SHED}
    assert _mistakes(world) == (0, 0, 0)


def test_a_reading_that_is_on_no_disk_counts_as_lost(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.step()
    world.measured[SHED].append(999)
    assert _mistakes(world) == (1, 0, 0)
    world.rows.append(world.rows[0] if world.rows else (SHED, 999))
    world.rows.append(world.rows[-1])
    assert world.counts()["twice"] >= 1


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Build the page, and serve it."""
    if shutil.which("npm") is None and not is_fetched():
        if "CI" in os.environ:
            pytest.fail("no npm here")
        pytest.skip("no npm here (apt-get install npm)")
    folder = tmp_path_factory.mktemp("break")
    assert build(folder) <= MAXIMUM_BYTES
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/index.html"
        server.shutdown()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a browser."""
    yield from chromium()


def test_a_visitor_breaks_nothing(site: str, browser: Browser) -> None:
    from playwright.sync_api import expect

    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(site)
    expect(page.locator("#rows td").first).to_be_visible()
    is_readable(page)
    for box in page.locator("input").all():
        box.check()
    page.get_by_role("button", name=f"Cut the power of {SHED}").click()
    page.get_by_role("button", name=f"Cut the power of {HUB}").click()
    _await_rows(page, 0)
    page.get_by_role("button", name=f"Switch {HUB} on").click()
    page.get_by_role("button", name=f"Switch {SHED} on").click()
    page.get_by_role("button", name=f"Steal {BARN}, and remove it").click()
    for box in page.locator("input").all():
        box.uncheck()
    _await_rows(page, 10)
    expect(page.locator("#harmed")).to_contain_text("flipped")
    for count in ("lost", "twice", "foreign"):
        expect(page.locator(f"#{count}")).to_have_text("0")
    origin = site.rpartition("/")[0]
    assert not [url for url in asked if not url.startswith((origin, "blob:", "data:"))]
    page.close()


def _await_rows(page: Page, more: int) -> None:
    """Wait until the table has so many more rows, and something more was measured."""
    rows, measured = (int(page.locator(name).inner_text()) for name in ("#rows-count", "#measured"))
    page.wait_for_function(
        "([rows, measured]) => +document.getElementById('rows-count').textContent >= rows"
        " && +document.getElementById('measured').textContent > measured",
        arg=[rows + more, measured],
        timeout=120_000,
    )
