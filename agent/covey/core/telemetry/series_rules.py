"""The rules that an owner or operator gives for some series, `telemetry.series`.

    ["freezer/* alarm > -15 hysteresis 2", "door/open alarm change > 0 keep whole", "cpu/* keep newest"]

1. A rule begins with a pattern of names (`*` matches anything). `alarm` follows with a condition, or `keep`, or both.
   Of the rules whose pattern matches a name, the first with `alarm` says which readings are alarms, and the first with
   `keep` what is kept of them.
2. Conditions are `> N`, `< N`, or `change > N`, which compares a reading with the one before it. A boolean counts as 0
   or 1; text is never an alarm.
3. The reading that crosses the limit is an alarm, and so is the one that ends it: the first beyond the limit by
   `hysteresis` (0 unless given). Readings between the two are none, so that a value that stays high sends one message.
   A change has no end.
4. A series raises at most `ALARMS_PER_HOUR` alarms in any hour; each may have its end. What exceeds that is an ordinary
   reading, and is counted. So is what an unjudged series says, once `MAXIMUM_ALARM_SERIES` are judged.
5. Where space is short, a series of `keep thin` (the default) becomes summaries of windows, and one of `keep newest` a
   single row: its last value, and how many there were. `keep whole` is neither thinned nor dropped (ADR 116).
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
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
    rf"(?P<pattern>\S+)(?:\s+alarm(?P<condition>\s*[<>]|\s+change\s*>)\s*(?P<limit>{_NUMBER})"
    rf"(?:\s+hysteresis\s+(?P<hysteresis>{_NUMBER}))?)?(?:\s+keep\s+(?P<keep>[a-z]+))?"
)
_HINT = (
    "a pattern of names, then 'alarm > N', 'alarm < N' (perhaps 'hysteresis N') or 'alarm change > N', "
    "then 'keep whole', 'keep thin' or 'keep newest'; at least one of the two: freezer/* alarm > -15 keep whole"
)


class Keep(Enum):
    """What is kept of a series where space is short."""

    WHOLE = "whole"
    THIN = "thin"
    NEWEST = "newest"


@dataclass(frozen=True, slots=True)
class AlarmLimit:
    """Which readings are alarms. `condition` is ">", "<" or "change"."""

    condition: str
    limit: float
    hysteresis: float = 0.0


@dataclass(frozen=True, slots=True)
class SeriesRule:
    """One rule: of alarms, of what is kept, or of both."""

    pattern: str
    alarm: AlarmLimit | None = None
    keep: Keep | None = None

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
    if found is None or not (found["condition"] or found["keep"]):
        raise ConfigurationError(f"'{text[:80]}' is not a rule for series", hint=_HINT)
    keep = next((each for each in Keep if each.value == found["keep"]), None)
    if found["keep"] and keep is None:
        raise ConfigurationError(f"'{text[:80]}': a series cannot be kept '{found['keep'][:16]}'", hint=_HINT)
    return SeriesRule(found["pattern"], _alarm_limit(text, found) if found["condition"] else None, keep)


def _alarm_limit(text: str, found: re.Match[str]) -> AlarmLimit:
    condition, limit = found["condition"].strip(), float(found["limit"])
    condition = "change" if condition.startswith("change") else condition
    hysteresis = float(found["hysteresis"] or 0)
    if not isfinite(limit) or not isfinite(hysteresis):
        raise ConfigurationError(f"'{text[:80]}': a number is too large", hint=_HINT)
    if hysteresis < 0 or (condition == "change" and (limit < 0 or found["hysteresis"])):
        why = "a change must not be negative, and has no hysteresis" if condition == "change" else "must be at least 0"
        raise ConfigurationError(f"'{text[:80]}': {'hysteresis ' * (condition != 'change')}{why}", hint=_HINT)
    return AlarmLimit(condition, limit, hysteresis)


@dataclass(slots=True)
class _Judged:
    limit: AlarmLimit
    last: float | None = None
    is_active: bool = False
    is_marked: bool = False
    """Whether the present alarm was marked, so that its end is."""
    raised_at_us: deque[int] = field(default_factory=deque)


class SeriesWatch:
    """Judges the readings of one device, whichever way they come: which are alarms, and what is kept of the others."""

    def __init__(self, rules: Iterable[str] = ()) -> None:
        self.suppressed = 0
        """Alarms beyond the bound that nobody has counted yet."""
        self._texts: tuple[str, ...] = ()
        self._alarms: tuple[SeriesRule, ...] = ()
        self._keeps: tuple[SeriesRule, ...] = ()
        self._judged: dict[tuple[str, str], _Judged] = {}
        self._unruled: set[str] = set()
        self._kept: dict[str, Keep] = {}
        self.change(rules)

    @property
    def has_rules(self) -> bool:
        """Whether readings differ."""
        return bool(self._texts)

    def change(self, rules: Iterable[str]) -> None:
        """Judge by other rules from now on; where they are the same, what is in alarm stays so."""
        texts = tuple(rules)
        if texts != self._texts:
            read = [read_series_rule(each) for each in texts]
            self._alarms = tuple(each for each in read if each.alarm is not None)
            self._keeps = tuple(each for each in read if each.keep is not None)
            self._texts = texts
            self._judged.clear()
            self._unruled.clear()
            self._kept.clear()

    def keep(self, name: str) -> Keep:
        """Return what is kept of a series where space is short (rule 5)."""
        if not self._keeps:
            return Keep.THIN
        found = self._kept.get(name)
        if found is None:
            if len(self._kept) >= MAXIMUM_ALARM_SERIES:
                self._kept.clear()
            found = next((each.keep for each in self._keeps if each.keep and each.names(name)), Keep.THIN)
            self._kept[name] = found
        return found

    def is_newest_only(self, name: str) -> bool:
        """Say whether a series is one of `keep newest`."""
        return self.keep(name) is Keep.NEWEST

    def judge(self, name: str, unit: str, value: Value, now_us: int) -> Alarm | None:
        """Return whether a reading is an alarm. `now_us` is monotonic."""
        if not self._alarms or isinstance(value, str | bytes) or not -_HIGHEST <= value <= _HIGHEST:
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

    def in_alarm(self) -> list[tuple[str, str]]:
        """Return the names and units of the series in alarm, in order."""
        return sorted(key for key, each in self._judged.items() if each.is_active and each.is_marked)

    def resume(self, in_alarm: Iterable[tuple[str, str]]) -> None:
        """Continue alarms that an earlier process has raised: they are not raised again, and their end is marked."""
        for name, unit in in_alarm:
            series = self._series(name, unit)
            if series is not None and series.limit.condition != "change":
                series.is_active = series.is_marked = True

    def take_suppressed(self) -> int:
        """Return the alarms suppressed since the last call."""
        found, self.suppressed = self.suppressed, 0
        return found

    def _series(self, name: str, unit: str) -> _Judged | None:
        found = self._judged.get((name, unit))
        if found is not None or name in self._unruled:
            return found
        limit = next((each.alarm for each in self._alarms if each.names(name)), None)
        if limit is None:
            if len(self._unruled) >= MAXIMUM_ALARM_SERIES:
                self._unruled.clear()
            self._unruled.add(name)
            return None
        if len(self._judged) >= MAXIMUM_ALARM_SERIES:
            self.suppressed += 1
            return None
        found = self._judged[name, unit] = _Judged(limit)
        return found

    def _judge(self, series: _Judged, value: float, now_us: int) -> Alarm | None:
        rule, before = series.limit, series.last
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
