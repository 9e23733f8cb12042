"""Every definition of an action that the documents show is one that a device takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from covey.config.actions import read_action
from tests.meta.source_tree import ROOT

_DEFINITION = re.compile(r"^```toml\n((?:(?!```).*\n)*?argv = (?:(?!```).*\n)*)^```$", re.MULTILINE)
_DOCUMENTS = [path for path in sorted((ROOT / "docs").rglob("*.md")) if _DEFINITION.search(path.read_text())]


@pytest.mark.parametrize("document", _DOCUMENTS, ids=lambda path: path.name)
def test_definitions_of_a_document_are_taken(document: Path) -> None:
    for place, text in enumerate(_DEFINITION.findall(document.read_text())):
        assert read_action("an-action", text, f"{document.name}, definition {place + 1}").argv


def test_there_are_definitions() -> None:
    assert sum(len(_DEFINITION.findall(path.read_text())) for path in _DOCUMENTS) >= 5
