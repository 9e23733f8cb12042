"""Turn MQTT messages of other publishers into readings: match topics, name readings, extract values.

1. A name is the wildcards' matches, and the entry's own name: `zigbee2mqtt/+` and `temperature` give
   `kitchen/temperature`.
2. A payload without the path is no failure, because devices publish what has changed; an invalid value is one. A
   missing or unreadable time costs no value: it becomes `times.UNUSABLE_US`.
3. A broker sends a message once for each matching subscription (MQTT 5, section 3.3.4), so of overlapping filters only
   the widest is subscribed to; the configuration has no others (`config.sensors`).
4. Any publisher chooses topics and pace, so names are bounded, and so are readings of one name in a minute.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from covey.core.now import ABSOLUTE_US
from covey.core.telemetry.drops import Drop
from covey.core.telemetry.names import segment
from covey.core.telemetry.reading import Reading
from covey.core.telemetry.times import LATEST_US, UNUSABLE_US
from covey.core.telemetry.topic_filters import covers
from covey.limits.sensors import MAXIMUM_SENSOR_SERIES, MAXIMUM_SERIES_READINGS_PER_MINUTE

if TYPE_CHECKING:
    from covey.config.sensors import Topic

_MINUTE_S = 60.0
_number = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?").fullmatch
_ABSENT = object()


class TopicValues:
    """What some topics say, as readings; `failure` is what was wrong since it was last asked."""

    def __init__(self, topics: tuple[Topic, ...]) -> None:
        self._topics = topics
        self._windows: dict[str, tuple[float, int]] = {}
        self._failure = ""
        self._dropped = Counter[Drop]()

    def failure(self) -> str:
        """Return what was wrong since the last call."""
        failure, self._failure = self._failure, ""
        return failure

    def dropped(self) -> Counter[Drop]:
        """Return how many readings were left out since the last call, by reason."""
        dropped, self._dropped = self._dropped, Counter[Drop]()
        return dropped

    def readings(self, topic: str, payload: bytes, now_s: float) -> list[Reading]:
        """Return what a message says; `now_s` is a monotonic clock's."""
        matching = [(each, levels) for each in self._topics if (levels := _wildcards(each.topic, topic)) is not None]
        if not matching:
            return []
        document = _document(payload)
        found = []
        for each, levels in matching:
            keys = _keys(each.path)
            published = _at(document, keys)
            if published is None or published is _ABSENT:
                continue
            value = _value(published, each)
            name = "/".join([*levels, *filter(None, [each.name or (segment(keys[-1]) if keys else "")])])
            time_us = _time_us(_at(document, _keys(each.time))) if each.time else None
            if value is None:
                self._drop(Drop.VALUE, f"{name or topic}: the published payload is not a value")
            elif self._admitted(name, now_s):
                found.append(Reading(name, each.unit, time_us, value))
        return found

    def _drop(self, reason: Drop, why: str) -> None:
        self._dropped[reason] += 1
        self._failure = why

    def _admitted(self, name: str, now_s: float) -> bool:
        window = self._windows.get(name)
        if window is None and len(self._windows) >= MAXIMUM_SENSOR_SERIES:
            self._drop(Drop.SERIES, f"{name}: dropped, there are {MAXIMUM_SENSOR_SERIES} names")
            return False
        since_s, count = window or (now_s, 0)
        if now_s >= since_s + _MINUTE_S:
            since_s, count = now_s, 0
        self._windows[name] = since_s, count + 1
        if count >= MAXIMUM_SERIES_READINGS_PER_MINUTE:
            self._drop(Drop.RATE, f"{name}: dropped, more than {MAXIMUM_SERIES_READINGS_PER_MINUTE} a minute")
            return False
        return True


def subscriptions(topics: tuple[Topic, ...]) -> list[str]:
    """Return the filters to subscribe to, so that each message that some topic matches comes once (rule 3)."""
    wanted = {each.topic for each in topics}
    return sorted(each for each in wanted if not any(covers(other, each) for other in wanted - {each}))


def _wildcards(pattern: str, topic: str) -> list[str] | None:
    """Return the matches of the wildcards as segments of a name; None for another topic (MQTT 5, 4.7)."""
    wanted, levels = pattern.split("/"), topic.split("/")
    if topic.startswith("$") and wanted[0] in {"+", "#"}:
        return None
    found: list[str] = []
    for place, each in enumerate(wanted):
        if each == "#":
            return [*found, *map(segment, levels[place:])]
        if place >= len(levels):
            return None
        if each == "+":
            found.append(segment(levels[place]))
        elif each != levels[place]:
            return None
    return found if len(wanted) == len(levels) else None


def _document(payload: bytes) -> object:
    text = payload.decode(errors="replace").strip()
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _keys(path: str) -> list[str]:
    return [each for each in path.removeprefix("$").replace("[", ".").replace("]", "").split(".") if each]


def _at(document: object, keys: list[str]) -> object:
    for key in keys:
        if isinstance(document, dict) and key in document:
            document = document[key]
        elif isinstance(document, list) and key.isdecimal() and len(key) < 6 and int(key) < len(document):
            document = document[int(key)]
        else:
            return _ABSENT
    return document


def _value(found: object, topic: Topic) -> float | bool | None:
    if isinstance(found, bool | int):
        return found
    if isinstance(found, str):
        if found in topic.on:
            return True
        if found in topic.off:
            return False
        found = float(found) if _number(found) else math.nan
    return found if isinstance(found, float) and math.isfinite(found) else None


def _time_us(found: object) -> int:
    """Return Unix microseconds from seconds, or from ISO 8601 with its offset from UTC; else `UNUSABLE_US`."""
    try:
        if isinstance(found, str):
            when = datetime.fromisoformat(found)
            found = None if when.tzinfo is None else when.timestamp()
        if isinstance(found, int | float) and not isinstance(found, bool):
            return time_us if ABSOLUTE_US <= (time_us := round(found * 1e6)) <= LATEST_US else UNUSABLE_US
    except (ValueError, OverflowError):
        pass
    return UNUSABLE_US
