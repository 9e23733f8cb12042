"""The committed vectors are what the generator writes, so that the code and the contract cannot drift apart."""

from __future__ import annotations

import zlib
from typing import Any

import pytest

from covey.core.telemetry.decoding import read_telemetry
from tests.vectors import HERE, load
from tests.vectors.generate import FILES, text

_ANOTHER_ZLIB = hasattr(zlib, "ZLIBNG_VERSION") or "ng" in zlib.ZLIB_RUNTIME_VERSION
"""It deflates otherwise, and no worse."""


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(FILES) - {"telemetry"}))
def test_a_file_is_what_the_generator_writes(name: str) -> None:
    if _ANOTHER_ZLIB and name in {"vault", "erasures"}:
        assert _outlined(load(name)) == _outlined(FILES[name]())
    else:
        assert (HERE / f"{name}.json").read_text(encoding="utf-8") == text(name)


def _outlined(file: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Return what packed segments do not change."""
    return [(each["name"], each["code"]) for part in file.values() if isinstance(part, list) for each in part]


def test_the_telemetry_file_is_what_the_generator_writes() -> None:
    committed, made = load("telemetry"), FILES["telemetry"]()
    if not _ANOTHER_ZLIB:
        assert committed == made
    for entry, other in zip(committed["vectors"], made["vectors"], strict=True):
        if entry["code"] is None:
            assert entry | {"body": ""} == other | {"body": ""}
            assert read_telemetry(bytes.fromhex(entry["body"])) == read_telemetry(bytes.fromhex(other["body"]))


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_vector_has_a_name_of_its_own(name: str) -> None:
    for part, entries in load(name).items():
        if isinstance(entries, list) and entries and isinstance(entries[0], dict):
            names = [entry["name"] for entry in entries]
            assert len(names) == len(set(names)), part
