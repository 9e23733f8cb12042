"""A table that stands several times in a file, checked as strictly as the settings are.

A dataclass whose fields are options is its schema: what each key means, an example, its unit and its bounds. A field
that is no option is a list of such tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, get_args, get_type_hints

from covey.config.schema import Value
from covey.config.settings import Setting, nearest
from covey.errors import ConfigurationError
from covey.limits.sensors import MAXIMUM_SENSOR_VALUES


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


def table_of(schema: type, table: object, where: str, beside: tuple[str, ...] = (), hint: str = "") -> Any:
    """Return a table as a dataclass whose fields are options; `beside` names keys that are read elsewhere.

    Raises:
        ConfigurationError: an unknown key, with the nearest one that is known, or a value that is none of its; with
            `hint` where the schema itself refuses it.
    """
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{where} must be a table", hint=hint)
    known = {each.name: each.metadata for each in fields(schema)}
    for key in table:
        if key not in known:
            near = nearest(key, known, 1)
            found = f"did you mean '{near[0]}'?" if near else f"known: {', '.join((*beside, *known))}"
            raise ConfigurationError(f"{where}: {key} is unknown", hint=found)
    values = {key: value_of(about, table.get(key), f"{where}: {key}") for key, about in known.items() if about}
    for key in table.keys() - values.keys():
        entries = get_args(get_type_hints(schema)[key])[0]
        values[key] = _tables_of(entries, table[key], f"{where}: {key}", hint)
    try:
        return schema(**values)
    except ValueError as error:
        raise ConfigurationError(f"{where}: {error}", hint=hint) from error


def value_of(about: Mapping[str, Any], value: object, where: str) -> Any:
    """Return what a key is set to, its default where that is None; `about` is what `option` says of it.

    Raises:
        ConfigurationError: it is none of its values.
    """
    low, high = about["bounds"]
    setting = Setting(
        *(where, about["default"], about["meaning"], about["example"], about["unit"], low, high),
        local=True,
        choices=about["choices"],
    )
    return setting.check(about["default"] if value is None else value, where)


def _tables_of(schema: type, value: object, where: str, hint: str) -> tuple[Any, ...]:
    if not isinstance(value, list) or len(value) > MAXIMUM_SENSOR_VALUES:
        raise ConfigurationError(f"{where} must be at most {MAXIMUM_SENSOR_VALUES} tables", hint=hint)
    return tuple(table_of(schema, each, f"{where} {number}", hint=hint) for number, each in enumerate(value, 1))
