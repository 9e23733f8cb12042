"""Test vectors as data: the contract for every implementation and runtime (docs/protocol/vectors.md, section 17)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def load(name: str) -> dict[str, Any]:
    """Return one committed vector file; numbers that are spelled for readers of JSON are numbers."""
    parsed: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"), object_hook=_number)
    return parsed


def _number(value: dict[str, Any]) -> Any:
    return int(value["int"]) if value.keys() == {"int"} else value


def vectors(name: str, part: str = "vectors") -> list[Any]:
    """Return one list of a vector file, each entry as a pytest parameter named for it."""
    import pytest

    return [pytest.param(entry, id=entry["name"]) for entry in load(name)[part]]


def octets(entry: dict[str, Any], key: str) -> bytes:
    """Return a vector's bytes: `<key>` in hex, then `<key>_repeat` = [hex, times] where it would be long."""
    raw = bytes.fromhex(entry[key])
    if f"{key}_repeat" in entry:
        unit, times = entry[f"{key}_repeat"]
        raw += bytes.fromhex(unit) * times
    return raw


def from_json(value: Any) -> Any:
    """Return what a JSON value stands for; {"bytes": hex}, {"int": decimal} and {"map": pairs} are spelled out."""
    if isinstance(value, list):
        return [from_json(each) for each in value]
    if isinstance(value, dict):
        if "bytes" in value:
            return bytes.fromhex(value["bytes"])
        if "int" in value:
            return int(value["int"])
        return {from_json(key): from_json(content) for key, content in value["map"]}
    return value


def to_json(value: object) -> Any:
    """Return a value as a vector spells it; the inverse of `from_json`."""
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    if isinstance(value, dict):
        return {"map": [[to_json(key), to_json(content)] for key, content in value.items()]}
    if type(value) is int and abs(value) >= 2**53:  # beyond what every JSON reader keeps exactly
        return {"int": str(value)}
    return value
