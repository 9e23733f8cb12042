"""Every file and folder that a document names is there, and every link of it leads to something."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.site.pages import PAGES
from tests.meta.source_tree import ROOT

_DOCUMENTS = sorted((*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *ROOT.glob("*_*/**/*.md")))
_TOPS = "agent|bench|broker_conf|deb|demo|docs|firmware_bridge|hil|spark_ingest|tests"
_PATH = re.compile(rf"`((?:{_TOPS})/[\w./-]*)`")
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(#[^)\s]*)?\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def _anchors(path: Path) -> set[str]:
    """Return how the headings of a document are linked to."""
    headings = _HEADING.findall(path.read_text(encoding="utf-8"))
    return {"#" + re.sub(r"[^\w\- ]", "", each.lower()).replace(" ", "-") for each in headings}


def _missing(document: Path) -> Iterator[str]:
    text = document.read_text(encoding="utf-8")
    yield from (name for name in _PATH.findall(text) if not (ROOT / name).exists())
    for name, anchor in _LINK.findall(text):
        target = (document.parent / name).resolve() if name else document
        if target.is_relative_to(ROOT / "docs") and str(target.relative_to(ROOT / "docs")) in PAGES:
            continue  # written from the product when the site is built, and checked then
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            yield name + anchor


@pytest.mark.parametrize("document", _DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_that_a_document_names_exists(document: Path) -> None:
    assert not list(_missing(document))
