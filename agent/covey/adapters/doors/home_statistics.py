"""Hours of series as rows of Home Assistant's long-term statistics: messages of its WebSocket API, and units.

1. A row is imported as one of the entity's own (source `recorder`), so the entity's curve has no hole. Home Assistant
   replaces the row that it has of that hour: a repetition changes nothing.
2. Statistics have one unit for all rows, and an import that names another one would have the old rows read in it. So
   hours are imported in the unit that the statistics have already, which may be a person's choice (°F).
3. From version 2025.11 on, Home Assistant wants `mean_type` and `unit_class` in place of `has_mean`, which versions
   before refuse.

https://developers.home-assistant.io/docs/api/websocket and `components/recorder/websocket_api.py` of its source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from math import isclose, isfinite
from typing import Any

from covey.core.telemetry.door_hours import HOUR_US, DueHour

_ARITHMETIC = 1
"""Its `StatisticMeanType` of ordinary means."""
_NEW_FORM = (2025, 11)
_HOUR_S = HOUR_US // 1_000_000

_PRESSURES = {"Pa": 1, "hPa": 100, "kPa": 1_000, "bar": 100_000, "cbar": 1_000, "mbar": 100, "psi": 6_894.757}
_MERCURY_PA = 13.5951 * 9.80665
"""A millimetre of mercury."""
_LENGTHS = {"m": 1, "km": 1_000, "cm": 0.01, "mm": 0.001, "mi": 1_609.344, "yd": 0.9144, "ft": 0.3048, "in": 0.0254}
_POUND_KG = 0.45359237
_CLASSES: Mapping[str, Mapping[str, float]] = {
    "pressure": _PRESSURES | {"mmHg": _MERCURY_PA, "inHg": 25.4 * _MERCURY_PA},
    "voltage": {"V": 1, "mV": 0.001},
    "electric_current": {"A": 1, "mA": 0.001},
    "power": {"W": 1, "kW": 1_000},
    "distance": _LENGTHS,
    "mass": {
        "kg": 1,
        "g": 0.001,
        "mg": 1e-6,
        "µg": 1e-9,
        "oz": _POUND_KG / 16,
        "lb": _POUND_KG,
        "st": 14 * _POUND_KG,
    },
    "speed": {"m/s": 1, "km/h": 1 / 3.6, "mph": 0.44704, "kn": 1_852 / 3_600, "ft/s": 0.3048},
    "duration": {"s": 1, "ms": 0.001, "min": 60, "h": 3_600, "d": 86_400, "w": 604_800},
    "unitless": {"%": 0.01, "": 1},
}
"""Home Assistant's classes of units that can be converted, as far as Covey's units are of them; each unit's size."""
_TEMPERATURES = {"°C": (1.0, 273.15), "K": (1.0, 0.0), "°F": (5 / 9, 459.67 * 5 / 9)}
"""Each unit's size in kelvin, and its zero."""


def unit_class(unit: str) -> str | None:
    """Return Home Assistant's class of a unit, one of those that a number of ours may have."""
    if unit in _TEMPERATURES:
        return "temperature"
    return next((name for name, units in _CLASSES.items() if unit in units and unit), None)


def converted(value: float, unit: str, wanted: str) -> float | None:
    """Return a value in another unit of Home Assistant's; None where these are no units of one quantity."""
    if unit == wanted:
        return value
    if unit in _TEMPERATURES and wanted in _TEMPERATURES:
        (size, zero), (other, other_zero) = _TEMPERATURES[unit], _TEMPERATURES[wanted]
        return (value * size + zero - other_zero) / other
    for units in _CLASSES.values():
        if unit in units and wanted in units:
            return value * units[unit] / units[wanted]
    return None


def takes_new_form(version: str) -> bool:
    """Say whether a version of Home Assistant wants `mean_type` and `unit_class`."""
    found = re.match(r"([0-9]{4})\.([0-9]{1,2})", version)
    return found is not None and (int(found[1]), int(found[2])) >= _NEW_FORM


def row_of(due: DueHour, unit: str, wanted: str) -> dict[str, Any] | None:
    """Return an hour as a row, in the unit that is wanted; None where that is impossible."""
    values = [converted(each, unit, wanted) for each in (due.mean, due.low, due.high)]
    mean, low, high = values
    if mean is None or low is None or high is None or not all(map(isfinite, (mean, low, high))):
        return None
    return {"start": hour_text(due.hour), "mean": mean, "min": low, "max": high}


def hour_text(hour: int) -> str:
    """Return when an hour begins, as the API reads it."""
    return datetime.fromtimestamp(hour * _HOUR_S, UTC).isoformat()


def import_message(entity_id: str, unit: str, rows: Iterable[Mapping[str, Any]], *, new_form: bool) -> dict[str, Any]:
    """Return the message that imports rows of an entity."""
    mean = {"mean_type": _ARITHMETIC, "unit_class": unit_class(unit)} if new_form else {"has_mean": True}
    metadata = {
        "source": "recorder",
        "statistic_id": entity_id,
        "name": None,
        "unit_of_measurement": unit or None,
        "has_sum": False,
        **mean,
    }
    return {"type": "recorder/import_statistics", "metadata": metadata, "stats": [*rows]}


def look_message(
    entity_ids: Iterable[str], first_hour: int, last_hour: int, units: Mapping[str, str]
) -> dict[str, Any]:
    """Return the message that asks for what is stored of these hours; `units` by class: as they are stored."""
    return {
        "type": "recorder/statistics_during_period",
        "start_time": hour_text(first_hour),
        "end_time": hour_text(last_hour + 1),
        "statistic_ids": sorted(entity_ids),
        "period": "hour",
        "types": ["mean", "min", "max"],
        "units": dict(units),
    }


def is_row(stored: Mapping[str, Any] | None, row: Mapping[str, Any]) -> bool:
    """Say whether what is stored of an hour is a row that was sent."""
    if stored is None:
        return False
    for name in ("mean", "min", "max"):
        value = stored.get(name)
        if not isinstance(value, int | float) or not isclose(value, row[name], rel_tol=1e-9, abs_tol=1e-9):
            return False
    return True


def hours_stored(answer: object) -> dict[tuple[str, int], Mapping[str, Any]]:
    """Return what an answer to `look_message` says, by entity and hour.

    Raises:
        ValueError: it is none.
    """
    if not isinstance(answer, dict) or not all(isinstance(rows, list) for rows in answer.values()):
        raise ValueError("statistics are no table of rows")
    found = dict[tuple[str, int], Mapping[str, Any]]()
    for entity_id, rows in answer.items():
        for row in rows:
            start = row.get("start") if isinstance(row, dict) else None
            if not isinstance(start, int | float):
                raise ValueError("a row of statistics has no time")  # noqa: TRY004 - as above
            found[entity_id, int(start // 1_000 // _HOUR_S)] = row
    return found
