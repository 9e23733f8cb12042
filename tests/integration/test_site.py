"""The documentation as a site: it builds without a warning, needs nothing from elsewhere, and fits small screens."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser import chromium
from tests.meta.source_tree import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.skipif(find_spec("material") is None and not os.environ.get("CI"), reason="no MkDocs Material here"),
]

_LOADED = re.compile(r'<(?:script|img|link)\b[^>]*?\b(?:src|href)="(?:https?:)?//[^"]*"[^>]*>')
_PAGES = ("index.html", "start/first-fleet.html", "how-to/index.html", "reference/settings.html", "protocol/index.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    found = [(path.name, each) for path in pages for each in _LOADED.findall(path.read_text(encoding="utf-8"))]
    assert not [each for each in found if 'rel="canonical"' not in each[1]]


def test_every_command_and_setting_has_its_entry(site: Path) -> None:
    from covey.cli.command_tree import commands
    from covey.config.settings import settings

    page = (site / "reference/commands.html").read_text(encoding="utf-8")
    assert not [each.name for each in commands() if f"covey {each.name}" not in page]
    page = (site / "reference/settings.html").read_text(encoding="utf-8")
    assert not [key for key in settings() if f"<code>{key}</code>" not in page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from chromium()


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_fit_the_screen_and_ask_no_network(site: Path, browser: Browser, width: int) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 900})
    asked: list[str] = []
    opened.on("request", lambda request: asked.append(request.url))
    for page in _PAGES:
        opened.goto((site / page).as_uri())
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth"), page
    assert not [url for url in asked if not url.startswith(("file:", "data:", "blob:"))]
    opened.close()


def test_search_works_where_pages_are_opened_from_a_folder(site: Path, browser: Browser) -> None:
    from playwright.sync_api import expect

    opened = browser.new_page(viewport={"width": 1280, "height": 900})
    opened.goto((site / "how-to/index.html").as_uri())
    opened.get_by_role("textbox", name="Search").fill("takeover")
    expect(opened.locator(".md-search-result__link").first).to_be_visible()
    opened.close()
