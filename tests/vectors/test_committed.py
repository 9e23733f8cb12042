"""The committed vectors are what the generator writes, so that the code and the contract cannot drift apart."""

from __future__ import annotations

import json
import re
import zlib
from typing import Any

import pytest

from covey.core.telemetry.decoding import read_telemetry
from tests.examples import parameters
from tests.vectors import HERE, load
from tests.vectors.generate import FILES, file_content, text

_PAGES = HERE.parents[1] / "docs/protocol"
_REGISTRY = (_PAGES / "registry.md").read_text(encoding="utf-8")
_ALL = sorted(path.stem for path in HERE.glob("*.json") if path.stem != "schema")
_BY_SIZE = sorted(_ALL, key=lambda name: (HERE / f"{name}.json").stat().st_size)
_SMALL = len(_ALL) // 2
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
            assert entry | {"bytes": ""} == other | {"bytes": ""}
            assert read_telemetry(bytes.fromhex(entry["bytes"])) == read_telemetry(bytes.fromhex(other["bytes"]))


@pytest.mark.parametrize("name", parameters(_BY_SIZE, quick=_SMALL))
def test_a_file_has_the_schema_of_all(name: str) -> None:
    """What it is about, names, `bytes` with a code, and no number that a reader of JSON may round."""
    jsonschema = pytest.importorskip("jsonschema", reason="the peers extra is not installed")
    validator = jsonschema.Draft202012Validator(_json("schema"))
    wrong = [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(_json(name))]
    assert wrong == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"about": "no sentence"}, "$.about"),
        ({"vectors": [{"bytes": "00", "code": None}]}, "$.vectors[0]"),
        ({"vectors": [{"name": "no code", "bytes": "00"}]}, "$.vectors[0]"),
        ({"vectors": [{"name": "nothing that is refused", "code": "malformed"}]}, "$.vectors[0]"),
        ({"vectors": [{"name": "no hex", "bytes": "0", "code": None}]}, "$.vectors[0].bytes"),
        ({"vectors": [{"name": "a number that is rounded", "n": 2**53 + 1}]}, "$.vectors[0].n"),
        ({"vectors": [{"name": "a small number as text", "n": {"int": "7"}}]}, "$.vectors[0].n"),
        ({"keys": {"alice": {"signing_seed": "00"}}}, "$.keys.alice"),
    ],
)
def test_the_schema_refuses(change: dict[str, Any], path: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="the peers extra is not installed")
    file = {"about": "A file of vectors.", "vectors": [{"name": "one", "bytes": "00", "code": None}]}
    validator = jsonschema.Draft202012Validator(_json("schema"))
    assert validator.is_valid(file)
    found = {error.json_path for error in validator.iter_errors(file | change)}
    assert any(each.startswith(path) for each in found), found


@pytest.mark.parametrize("name", _ALL)
def test_a_file_names_only_codes_of_the_registry(name: str) -> None:
    file = _json(name)
    codes = {entry.get("code") for part in file.values() for entry in _entries(part)}
    assert codes <= {*re.findall(r"^\| `(\w+)` \|", _REGISTRY, re.MULTILINE), None}


def test_every_file_is_listed_and_checked() -> None:
    listed = re.findall(r"^\| `(\w+)\.json` \|", (_PAGES / "vectors.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(listed) == _ALL


def _json(name: str) -> dict[str, Any]:
    file: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return file


def _entries(part: Any) -> list[dict[str, Any]]:
    return part if isinstance(part, list) and part and isinstance(part[0], dict) else []


@pytest.mark.parametrize("name", _ALL)
def test_every_vector_has_a_name_of_its_own(name: str) -> None:
    for part, entries in _json(name).items():
        names = [entry["name"] for entry in _entries(entries)]
        assert len(names) == len(set(names)), part
