"""Predict what settings cost on the link, in bytes a day, from measured costs of each part (docs/how-to/metered.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from covey.limits.link import WINDOW_COST_BYTES
from covey.limits.link_key import LINK_KEY_US

_DAY_S = 86_400
_PING_BYTES, _BEAT_BYTES, _HEADS_BYTES, _KEY_BYTES = 204, 320, 870, 1_300
"""With all headers: a ping and its answer, a beat, an hour's comparison of groups both ways, and a link key."""
_KEYS_A_DAY = _DAY_S * 1_000_000 // LINK_KEY_US
_BATCH_BYTES, _READING_BYTES = 710, 2
"""A batch with its acknowledgement, and each reading in it: thirteen series, rounded."""
_BATCH_SECONDS = (60.0, 300.0, 900.0, 3_600.0)


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """The settings that decide what a link costs; `window_s` is the interval of windows, None: always connected."""

    window_s: float | None
    keepalive_s: float
    beat_s: float
    batch_s: float
    readings_a_day: int


@dataclass(frozen=True, slots=True)
class PredictedCost:
    """Bytes a day, by part."""

    connection: int
    beats: int
    groups: int
    batches: int
    readings: int

    @property
    def total(self) -> int:
        """All of it."""
        return self.connection + self.beats + self.groups + self.batches + self.readings


def predicted(settings: LinkSettings) -> PredictedCost:
    """Return what settings cost."""
    readings = settings.readings_a_day
    batches = min(readings, round(_DAY_S / settings.batch_s))
    if settings.window_s is None:
        pings = max(0, round(_DAY_S / settings.keepalive_s) - batches)  # a batch postpones the next one
        connection, beats = pings * _PING_BYTES, round(_DAY_S / settings.beat_s)
        groups = 24 * _HEADS_BYTES + _KEYS_A_DAY * _KEY_BYTES
        if batches:
            beats = max(0, beats - batches)
        beat_bytes = beats * _BEAT_BYTES
    else:
        windows = round(_DAY_S / settings.window_s)
        connection, beat_bytes, groups = windows * WINDOW_COST_BYTES, 0, min(windows, 24) * _HEADS_BYTES
    return PredictedCost(connection, beat_bytes, groups, batches * _BATCH_BYTES, readings * _READING_BYTES)


def suggestions(settings: LinkSettings) -> list[tuple[str, int]]:
    """Return changes that lower the cost, each with what a day costs then, the cheapest last."""
    now, found = predicted(settings).total, list[tuple[str, int]]()
    for window_s, text in ((3_600.0, "every 1h"), (21_600.0, "every 6h"), (86_400.0, "at 02:00")):
        if settings.window_s is None or window_s > settings.window_s:
            found.append((f"link.connect = '{text}'", predicted(replace(settings, window_s=window_s)).total))
    if settings.readings_a_day:
        for batch_s in _BATCH_SECONDS:
            if batch_s > settings.batch_s:
                cost = predicted(replace(settings, batch_s=batch_s)).total
                found.append((f"telemetry.batch_seconds = {batch_s:g}", cost))
        half = replace(settings, readings_a_day=settings.readings_a_day // 2)
        found.append(("sensors.interval_seconds doubled", predicted(half).total))
    return sorted(((what, cost) for what, cost in found if cost < now), key=lambda each: -each[1])
