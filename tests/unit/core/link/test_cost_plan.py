"""`covey.core.link.cost_plan`: what settings cost, and which changes lower it."""

from __future__ import annotations

from dataclasses import replace

from covey.core.link.cost_plan import LinkSettings, predicted, suggestions

DEFAULTS = LinkSettings(None, 72, 300, 60, 112_320)
"""Thirteen series every ten seconds."""


def test_the_predictions_are_near_what_was_measured() -> None:
    idle = predicted(replace(DEFAULTS, readings_a_day=0)).total
    assert 300_000 < idle < 450_000  # measured: 326 to 399 kB
    assert 1_100_000 < predicted(DEFAULTS).total < 1_500_000
    assert 500_000 < predicted(replace(DEFAULTS, batch_s=300)).total < 800_000


def test_batches_replace_pings() -> None:
    assert predicted(DEFAULTS).connection == 0
    idle = predicted(replace(DEFAULTS, readings_a_day=0)).connection
    assert 0 < predicted(replace(DEFAULTS, batch_s=300)).connection < idle


def test_windows_replace_pings_and_beats() -> None:
    daily = predicted(LinkSettings(86_400, 72, 300, 60, 0))
    assert (daily.beats, daily.batches, daily.readings) == (0, 0, 0)
    assert daily.total < 10_000


def test_suggestions_lower_the_cost_and_the_cheapest_is_last() -> None:
    now = predicted(DEFAULTS).total
    found = suggestions(DEFAULTS)
    costs = [cost for _, cost in found]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] < now
    assert any(what.startswith("telemetry.batch_seconds") for what, _ in found)
    assert suggestions(LinkSettings(86_400, 72, 300, 60, 0)) == []
