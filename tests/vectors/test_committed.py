"""The committed vectors are what the generator writes, so that the code and the contract cannot drift apart."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

import pytest

from covey.core.telemetry.decoding import read_telemetry
from tests.vectors import HERE, load
from tests.vectors.generate import FILES, file_content, text

_REGISTRY = (HERE.parents[1] / "docs/protocol/registry.md").read_text(encoding="utf-8")
_ANOTHER_ZLIB = hasattr(zlib, "ZLIBNG_VERSION") or "ng" in zlib.ZLIB_RUNTIME_VERSION
"""It deflates otherwise, and no worse."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FILES) - {"telemetry"}))
def test_a_file_is_what_the_generator_writes(name: str) -> None:
    if _ANOTHER_ZLIB and name in {"vault", "erasures"}:
        assert _outlined(load(name)) == _outlined(file_content(name))
    else:
        assert (HERE / f"{name}.json").read_text(encoding="utf-8") == text(name)


def _outlined(file: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return what packed segments do not change."""
    return [(each["name"], each["code"]) for part in file.values() if isinstance(part, list) for each in part]


def test_the_telemetry_file_is_what_the_generator_writes() -> None:
    committed, made = (json.loads(each) for each in ((HERE / "telemetry.json").read_text("utf-8"), text("telemetry")))
    if not _ANOTHER_ZLIB:
        assert committed == made
    for entry, other in zip(committed["vectors"], made["vectors"], strict=True):
        if entry["code"] is None:
            assert entry | {"body": ""} == other | {"body": ""}
            assert read_telemetry(bytes.fromhex(entry["body"])) == read_telemetry(bytes.fromhex(other["body"]))


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_file_has_the_schema_of_all(name: str) -> None:
    """It says what it is about; its entries have names, and known codes; no number is one that JSON may round."""
    file = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    assert isinstance(file["about"], str)
    assert file["about"].endswith(".")
    codes = {*re.findall(r"^\| `(\w+)` \|", _REGISTRY, re.MULTILINE), None}
    for entries in file.values():
        if isinstance(entries, list) and entries and isinstance(entries[0], dict):
            assert all(isinstance(entry["name"], str) for entry in entries)
            assert {entry.get("code") for entry in entries} <= codes
    assert all(abs(number) <= 2**53 for number in _numbers(file))


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers(each)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield value


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_vector_has_a_name_of_its_own(name: str) -> None:
    for part, entries in load(name).items():
        if isinstance(entries, list) and entries and isinstance(entries[0], dict):
            names = [entry["name"] for entry in entries]
            assert len(names) == len(set(names)), part
