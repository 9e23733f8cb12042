"""Debian's Chromium, and what has to hold of every page that a person opens in it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_SEEN_WITHIN_S = 120.0
"""A page that does not show what a test expects by then never will: far above what a busy machine needs."""


def chromium() -> Iterator[Browser]:
    """Start it; it ends with the generator. Where there is none, the test is skipped, or in CI fails."""
    program = shutil.which("chromium")
    if program is None:
        if "CI" in os.environ:
            pytest.fail("no chromium here")
        pytest.skip("no chromium here (apt-get install chromium)")
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=_SEEN_WITHIN_S * 1_000)
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


def is_readable_by_day_and_night(page: Page) -> None:
    """Hold it against them in light and in dark colours; a page of its own for each would take two seconds more."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        is_readable(page)
