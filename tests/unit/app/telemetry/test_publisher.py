"""`covey.app.telemetry.publisher`: a time that cannot be costs no reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.core.telemetry.times import UNUSABLE_US
from tests.unit.app.telemetry.test_sensor_roles import Site

_HOUR_US = 3_600_000_000


@pytest.mark.parametrize(
    "time_us", [UNUSABLE_US, 300_000_000_000_000, 1_795_882_000_123_000_000, 32_503_680_000_000_000]
)
def test_a_time_that_cannot_be_becomes_that_of_the_arrival_and_is_counted(tmp_path: Path, time_us: int) -> None:
    site = Site(tmp_path)
    site.publisher.add("level", "m", time_us, 2.5)
    assert site.publisher.flush(site.ann.node) == 1
    assert site.ann.store.counters.values()["published_times_replaced"] == 1


def test_times_of_the_past_and_of_a_few_hours_ahead_stay(tmp_path: Path) -> None:
    site = Site(tmp_path)
    now_us = site.wall_us()
    for time_us in (None, 5, now_us, now_us - 20 * 365 * 24 * _HOUR_US, now_us + 12 * _HOUR_US):
        site.publisher.add("level", "m", time_us, 2.5)
    site.publisher.flush(site.ann.node)
    assert "published_times_replaced" not in site.ann.store.counters.values()


def test_ahead_of_a_clock_that_nobody_has_set_is_no_mistake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(tmp_path)
    ahead_us = site.wall_us() + 365 * 24 * _HOUR_US
    monkeypatch.setattr(site, "synchronised", lambda: False)
    site.publisher.add("level", "m", ahead_us, 2.5)
    site.publisher.flush(site.ann.node)
    assert "published_times_replaced" not in site.ann.store.counters.values()


def test_the_clock_is_asked_once_a_batch_and_again_after_it_was_set_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(tmp_path)
    began_us, asked = site.wall_us(), list[int]()

    def wall_us() -> int:
        asked.append(began_us)
        return began_us

    monkeypatch.setattr(site, "wall_us", wall_us)
    for second in range(100):
        site.publisher.add("level", "m", began_us + second * 1_000_000, 2.5)
    assert len(asked) == 1
    site.publisher.flush(site.ann.node)
    monkeypatch.setattr(site, "wall_us", lambda: began_us - 48 * _HOUR_US)
    site.publisher.add("level", "m", began_us, 2.5)
    site.publisher.flush(site.ann.node)
    assert site.ann.store.counters.values()["published_times_replaced"] == 1
