"""Debian's Chromium, and what has to hold of every page that a person opens in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.waiting import GUARD_S

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


def chromium() -> Iterator[Browser]:
    """Start it; it ends with the generator. Where there is none, the test is skipped, or in CI fails."""
    program = shutil.which("chromium")
    if program is None:
        if "CI" in os.environ:
            pytest.fail("no chromium here")
        pytest.skip("no chromium here (apt-get install chromium)")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=GUARD_S * 1_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def is_readable(page: Page) -> None:
    """Hold a page against axe-core's rules, and against the width of its screen."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    assert [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
