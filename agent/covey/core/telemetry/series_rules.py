"""The rules that an owner or operator gives for some series, `telemetry.series`, and which readings are alarms.

    ["freezer/* alarm > -15 hysteresis 2", "door/open alarm change > 0"]

1. A rule begins with a pattern of names (`*` matches anything). `alarm` follows with a condition: `> N`, `< N`, or
   `change > N`, which compares a reading with the one before it. A boolean counts as 0 or 1; text is never an alarm.
   The first rule whose pattern matches a name counts, and no other.
2. The reading that crosses the limit is an alarm, and so is the one that ends it: the first beyond the limit by
   `hysteresis` (0 unless given). Readings between the two are none, so that a value that stays high sends one message.
   A change has no end.
3. A series raises at most `ALARMS_PER_HOUR` alarms in any hour; each may have its end. What exceeds that is an ordinary
   reading, and is counted. So is what an unjudged series says, once `MAXIMUM_ALARM_SERIES` are judged.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import isfinite
from typing import TYPE_CHECKING

from covey.core.telemetry.batch import Alarm
from covey.errors import ConfigurationError
from covey.limits.telemetry import ALARMS_PER_HOUR, MAXIMUM_ALARM_SERIES, MAXIMUM_SERIES_RULE_BYTES

if TYPE_CHECKING:
    from covey.core.telemetry.batch import Value

_HOUR_US = 3_600_000_000
_HIGHEST = sys.float_info.max
_NUMBER = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_RULE = re.compile(
    rf"(?P<pattern>\S+)\s+alarm(?P<condition>\s*[<>]|\s+change\s*>)\s*(?P<limit>{_NUMBER})"
    rf"(?:\s+hysteresis\s+(?P<hysteresis>{_NUMBER}))?"
)
_HINT = "for example: freezer/* alarm > -15 hysteresis 2, or door/open alarm change > 0"


@dataclass(frozen=True, slots=True)
class SeriesRule:
    """One rule. `condition` is ">", "<" or "change"."""

    pattern: str
    condition: str
    limit: float
    hysteresis: float = 0.0

    def names(self, name: str) -> bool:
        """Say whether the pattern matches a name; * matches anything. Without backtracking: names are strangers'."""
        first, *others = self.pattern.split("*")
        if not others:
            return name == first
        *between, last = others
        end = len(name) - len(last)
        if not name.startswith(first) or not name.endswith(last) or end < len(first):
            return False
        at = len(first)
        for part in between:
            at = name.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True


def read_series_rule(text: str) -> SeriesRule:
    """Parse a rule.

    Raises:
        ConfigurationError: it is none.
    """
    found = _RULE.fullmatch(text.strip()) if len(text.encode()) <= MAXIMUM_SERIES_RULE_BYTES else None
    if found is None:
        raise ConfigurationError(f"'{text[:80]}' is not a rule for series", hint=_HINT)
    condition, limit = found["condition"].strip(), float(found["limit"])
    condition = "change" if condition.startswith("change") else condition
    hysteresis = float(found["hysteresis"] or 0)
    if not isfinite(limit) or not isfinite(hysteresis):
        raise ConfigurationError(f"'{text[:80]}': a number is too large", hint=_HINT)
    if hysteresis < 0 or (condition == "change" and (limit < 0 or found["hysteresis"])):
        why = "a change must not be negative, and has no hysteresis" if condition == "change" else "must be at least 0"
        raise ConfigurationError(f"'{text[:80]}': {'hysteresis ' * (condition != 'change')}{why}", hint=_HINT)
    return SeriesRule(found["pattern"], condition, limit, hysteresis)


@dataclass(slots=True)
class _Judged:
    rule: SeriesRule
    last: float | None = None
    is_active: bool = False
    is_marked: bool = False
    """Whether the present alarm was marked, so that its end is."""
    raised_at_us: deque[int] = field(default_factory=deque)


class AlarmWatch:
    """Judges the readings of one device, whichever way they come."""

    def __init__(self, rules: Iterable[str] = ()) -> None:
        self.suppressed = 0
        """Alarms beyond the bound that nobody has counted yet."""
        self._texts: tuple[str, ...] = ()
        self._rules: tuple[SeriesRule, ...] = ()
        self._judged: dict[tuple[str, str], _Judged] = {}
        self._unruled: set[str] = set()
        self.change(rules)

    @property
    def has_rules(self) -> bool:
        """Whether any reading can be an alarm."""
        return bool(self._rules)

    def change(self, rules: Iterable[str]) -> None:
        """Judge by other rules from now on; where they are the same, what is in alarm stays so."""
        texts = tuple(rules)
        if texts != self._texts:
            self._rules = tuple(read_series_rule(each) for each in texts)
            self._texts = texts
            self._judged.clear()
            self._unruled.clear()

    def judge(self, name: str, unit: str, value: Value, now_us: int) -> Alarm | None:
        """Return whether a reading is an alarm. `now_us` is monotonic."""
        if not self._rules or isinstance(value, str | bytes) or not -_HIGHEST <= value <= _HIGHEST:
            return None
        series = self._series(name, unit)
        return None if series is None else self._judge(series, float(value), now_us)

    def withdraw(self, name: str, unit: str) -> None:
        """Note that the alarm just raised was not stored: the next reading is judged as if there had been none."""
        series = self._judged.get((name, unit))
        if series is not None:
            series.is_active = series.is_marked = False
            series.last = None
            if series.raised_at_us:
                series.raised_at_us.pop()

    def take_suppressed(self) -> int:
        """Return the alarms suppressed since the last call."""
        found, self.suppressed = self.suppressed, 0
        return found

    def _series(self, name: str, unit: str) -> _Judged | None:
        found = self._judged.get((name, unit))
        if found is not None or name in self._unruled:
            return found
        rule = next((each for each in self._rules if each.names(name)), None)
        if rule is None:
            if len(self._unruled) >= MAXIMUM_ALARM_SERIES:
                self._unruled.clear()
            self._unruled.add(name)
            return None
        if len(self._judged) >= MAXIMUM_ALARM_SERIES:
            self.suppressed += 1
            return None
        found = self._judged[name, unit] = _Judged(rule)
        return found

    def _judge(self, series: _Judged, value: float, now_us: int) -> Alarm | None:
        rule, before = series.rule, series.last
        series.last = value
        if rule.condition == "change":
            is_over = before is not None and abs(value - before) > rule.limit
            return Alarm.CHANGED if is_over and self._may_raise(series, now_us) else None
        beyond = value - rule.limit if rule.condition == ">" else rule.limit - value
        if not series.is_active and beyond > 0:
            series.is_active = True
            series.is_marked = self._may_raise(series, now_us)
            return Alarm.RAISED if series.is_marked else None
        if series.is_active and beyond <= -rule.hysteresis:
            series.is_active = False
            return Alarm.ENDED if series.is_marked else None
        return None

    def _may_raise(self, series: _Judged, now_us: int) -> bool:
        raised = series.raised_at_us
        while raised and now_us - raised[0] >= _HOUR_US:
            raised.popleft()
        if len(raised) >= ALARMS_PER_HOUR:
            self.suppressed += 1
            return False
        raised.append(now_us)
        return True
