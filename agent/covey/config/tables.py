"""A table that stands several times in a file, checked as strictly as the settings are.

A dataclass whose fields are options is its schema: what each key means, an example, its unit and its bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from covey.config.schema import Value
from covey.config.settings import Setting, nearest
from covey.errors import ConfigurationError


def option(
    default: Value,
    meaning: str,
    example: Value,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    *,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a key of a table, as `settings.py` does a setting; `choices` are the texts that it may be."""
    about = {"default": default, "meaning": meaning, "example": example, "unit": unit, "bounds": (low, high)}
    return field(default=default, metadata={**about, "choices": choices})


def table_of(schema: type, table: Mapping[str, Any], where: str) -> Any:
    """Return a table as a dataclass whose fields are options.

    Raises:
        ConfigurationError: an unknown key, with the nearest one that is known, or a value that is none of its.
    """
    known = {each.name: each.metadata for each in fields(schema)}
    for key in table:
        if key not in known:
            near = nearest(key, known, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(known)}"
            raise ConfigurationError(f"{where}: {key} is nothing that is known here", hint=hint)
    return schema(**{key: _take(about, table.get(key), f"{where}: {key}") for key, about in known.items()})


def _take(about: Mapping[str, Any], value: object, where: str) -> Value:
    low, high = about["bounds"]
    setting = Setting(
        *(where, about["default"], about["meaning"], about["example"], about["unit"], low, high),
        local=True,
        choices=about["choices"],
    )
    return setting.check(about["default"] if value is None else value, where)
