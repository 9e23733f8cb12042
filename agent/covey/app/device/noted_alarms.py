"""Which series of this device are in alarm: noted with the alarms themselves, for status and for the next process.

A process that starts continues what is noted. Otherwise an alarm that ends while none runs would never end for others.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from covey.limits.telemetry import ALARMS_NOTED

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.telemetry.series_rules import SeriesWatch

_CONDITION = "alarms"


def note_alarms(store: SqliteStore, series: SeriesWatch, now_us: int) -> None:
    """Note the series in alarm. Writes, so inside a transaction."""
    store.conditions.set(_CONDITION, json.dumps(series.in_alarm()[:ALARMS_NOTED]), now_us)


def noted_alarms(store: SqliteStore) -> list[tuple[str, str]]:
    """Return the names and units of the series in alarm, as they were noted last."""
    text, _ = store.conditions.values().get(_CONDITION, ("[]", 0))
    try:
        return [(str(name), str(unit)) for name, unit in json.loads(text)]
    except (ValueError, TypeError):  # a damaged row: the next alarm writes another one
        return []
