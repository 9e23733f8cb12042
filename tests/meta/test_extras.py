"""What is optional: `./dev` installs all of it, and nothing speaks of an extra that there is not."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.meta.source_tree import PRODUCT, ROOT

_NAMED = re.compile(r"(?:covey|'\.|\"\.|-e \.)\[([a-z,]+)\]")


def _extras() -> set[str]:
    return set(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"])


def test_dev_installs_every_extra() -> None:
    script = (ROOT / "dev").read_text(encoding="utf-8")
    (always,) = re.findall(r"local extras=(\S+)", script)
    (sometimes,) = re.findall(r"extras\+=,(\S+)", script)
    assert set(always.split(",")) | {sometimes} == _extras()


def test_every_extra_that_is_named_is_there() -> None:
    files: list[Path] = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    files += [file for folder in PRODUCT for file in (ROOT / folder).rglob("*.py")]
    named = {
        extra
        for file in files
        for words in _NAMED.findall(file.read_text(encoding="utf-8"))
        for extra in words.split(",")
    }
    assert {"spark", "delta", "report"} <= named
    assert named <= _extras()
