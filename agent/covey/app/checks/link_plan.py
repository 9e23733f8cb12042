"""Predict what this device's settings cost on its link, and suggest changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.device.relay_access import schedule_of
from covey.core.link.budget import link_budget
from covey.core.link.cost_plan import LinkSettings, predicted, suggestions
from covey.limits.relay import KEEPALIVE_S

if TYPE_CHECKING:
    from covey.config.schema import Config

_HOST_SERIES = 13
"""What a machine's own sensors measure, on most machines."""
_DAY_S, _MONTH_DAYS = 86_400, 30


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A changed setting, and what a day costs with it."""

    change: str
    bytes_a_day: int


@dataclass(frozen=True, slots=True)
class LinkPlan:
    """A predicted cost in bytes a day, by part; `budget_bytes_a_day` is a day's share of the budget, None: none."""

    series: int
    bytes_a_day: int
    bytes_a_month: int
    parts: dict[str, int]
    budget_bytes_a_day: int | None
    suggestions: tuple[Suggestion, ...]


def link_plan(config: Config, series: int | None) -> LinkPlan:
    """Return what the settings cost with so many series; None: those of this machine's own sensors."""
    if series is None:
        series = _HOST_SERIES if config.sensors.enabled else 0
    schedule, budget = schedule_of(config.link), link_budget(config.link.budget)
    settings = LinkSettings(
        None if schedule is None else schedule.every_us / 1e6,
        KEEPALIVE_S,
        config.presence.interval_seconds or float(_DAY_S),
        config.telemetry.batch_seconds,
        round(series * _DAY_S / config.sensors.interval_seconds),
    )
    cost = predicted(settings)
    parts = {
        "connection": cost.connection,
        "heartbeats": cost.beats,
        "groups and keys": cost.groups,
        "batches": cost.batches,
        "readings": cost.readings,
    }
    return LinkPlan(
        series,
        cost.total,
        cost.total * _MONTH_DAYS,
        parts,
        None if budget is None else budget.bytes_a_day,
        tuple(Suggestion(*each) for each in suggestions(settings)),
    )
