"""`covey.app.telemetry.publisher`: a time that cannot be costs no reading."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from covey.app.device.noted_alarms import noted_alarms
from covey.app.telemetry.publisher import Outflow
from covey.core.ids import Place
from covey.core.link.queued import MessageClass
from covey.core.node import purpose_of
from covey.core.telemetry.batch import Alarm
from covey.core.telemetry.decoding import read_telemetry
from covey.core.telemetry.summaries import numbers_of, read_summary
from covey.core.telemetry.times import UNUSABLE_US
from covey.core.wire.message import Loss, Message, MessageType, read_message
from covey.errors import ReadingError
from covey.limits.storage import OUTBOX_ALARM_SHARE
from covey.limits.telemetry import ALARMS_PER_HOUR
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


def _queued(site: Site) -> list[tuple[Alarm | None, list[tuple[str, object]]]]:
    """Return what waits for the collector in the order in which it goes: what it announces, and its readings."""
    messages = [read_message(each.entry.message) for each in site.ann.sends() if each.entry]
    batches = [read_telemetry(each.body)[1] for each in messages if each.type is MessageType.TELEMETRY]
    return [(each.alarm, [(name, value) for name, _, _, value in each.readings()]) for each in batches]


def _site(folder: Path, *rules: str, outbox_bytes: int = 10_000_000) -> Site:
    site = Site(folder, outbox_bytes=outbox_bytes)
    for outgoing in site.ann.sends():
        site.gate.receive(outgoing.envelope)
    site.watch.change(rules)
    return site


def test_an_alarm_wants_a_commit_at_once_and_goes_ahead_of_a_backlog(tmp_path: Path) -> None:
    site = _site(tmp_path, "soil alarm > 50")
    for number in range(100):
        site.publisher.add("level", "m", None, number)
        site.publisher.flush(site.ann.node)
    assert not site.publisher.add("soil", "%", None, 50.0)
    assert site.publisher.add("soil", "%", None, 51.0)
    assert noted_alarms(site.ann.store) == []
    assert site.publisher.flush(site.ann.node) == 2
    assert noted_alarms(site.ann.store) == [("soil", "%")]
    assert site.publisher.add("soil", "%", site.wall_us(), 49.5)
    site.publisher.flush(site.ann.node)
    assert noted_alarms(site.ann.store) == []
    queued = _queued(site)
    assert queued[:2] == [(Alarm.RAISED, [("soil", 51.0)]), (Alarm.ENDED, [("soil", 49.5)])]
    assert {value for _, readings in queued[2:] for _, value in readings} == {*range(100)}
    counted = site.ann.store.counters.values()
    assert (counted["published_alarms"], counted["published_readings"]) == (2, 103)


@pytest.mark.slow
def test_alarms_beyond_the_bound_are_ordinary_readings_and_are_counted(tmp_path: Path) -> None:
    site = _site(tmp_path, "door alarm change > 0")
    for number in range(2 * ALARMS_PER_HOUR + 1):
        site.publisher.add("door", "", None, bool(number % 2))
        site.publisher.flush(site.ann.node)
    assert [alarm for alarm, _ in _queued(site)].count(Alarm.CHANGED) == ALARMS_PER_HOUR
    counted = site.ann.store.counters.values()
    assert (counted["published_alarms"], counted["suppressed_alarms"]) == (ALARMS_PER_HOUR, ALARMS_PER_HOUR)
    assert counted["published_readings"] == 2 * ALARMS_PER_HOUR + 1


@pytest.mark.slow
def test_a_full_outbox_thins_and_drops_old_readings_and_no_alarm(tmp_path: Path) -> None:
    site = _site(tmp_path, "a alarm > 0", outbox_bytes=8_000)
    site.publisher.add("a", "", None, 1.0)
    site.publisher.flush(site.ann.node)
    for number in range(60):
        site.publisher.add("b", "", None, f"{number} {'x' * 200}")
        site.publisher.flush(site.ann.node)
    queued = _queued(site)
    assert queued[0] == (Alarm.RAISED, [("a", 1.0)])
    assert len(queued) < 40


def _waiting(site: Site) -> list[Message]:
    """Return what waits for the collector, sent or not."""
    rows = site.ann.store.outbox.queued(site.gate.key, Place(0), 10_000, 1 << 30)
    return [read_message(raw, verify=False) for _, raw in rows]


def _numbers(site: Site) -> Counter[int]:
    """Return how often what waits accounts for each number."""
    found: Counter[int] = Counter()
    for message in _waiting(site):
        lost = Loss.from_wire(message.body).numbers if message.type is MessageType.LOSS else ()
        for first, last in (*numbers_of(message), *lost):
            found.update(range(first, last + 1))
    return found


def _values(site: Site, series: str) -> list[object]:
    """Return what waits of a series, unless it was thinned."""
    batches = [read_telemetry(each.body)[1] for each in _waiting(site) if each.type is MessageType.TELEMETRY]
    return [value for batch in batches for name, _, _, value in batch.readings() if name == series]


def test_series_that_are_kept_whole_outlast_others_and_newest_ones_become_one_row(tmp_path: Path) -> None:
    site = _site(tmp_path, "meter keep whole", "cpu keep newest", outbox_bytes=32_000)
    site.ann.node.telemetry.keep(0, site.watch.is_newest_only)
    for number in range(80):
        site.publisher.add("meter", "", None, number)
        for name in ("cpu", "air"):
            for step in range(4):
                site.publisher.add(name, "", site.wall_us() + number * 60_000_000 + step, number + step / 10)
        site.publisher.flush(site.ann.node)
    assert _values(site, "meter") == [*range(80)]
    summaries = [read_summary(each.body)[1] for each in _waiting(site) if each.type is MessageType.SUMMARY]
    assert summaries
    for summary in summaries:
        windows = {each.name: each.windows for each in summary.series}
        assert "meter" not in windows
        assert len(windows["cpu"]) == 1 < len(windows["air"])
    assert _numbers(site) == Counter(range(1, 161)), "acknowledged + thinned + lost = produced"


@pytest.mark.slow
def test_where_all_is_kept_whole_new_readings_wait_and_alarms_use_their_reserve(tmp_path: Path) -> None:
    site = _site(tmp_path, "door alarm > 0", "* keep whole", outbox_bytes=12_000)
    outflow = Outflow(site.publisher, lambda _level, line: site.said.append(line))
    for number in range(60):
        outflow.add("meter", "", None, number)
        outflow.flush(site.ann.node, site.ann.now)
    kept = len(_values(site, "meter"))
    assert _values(site, "meter") == [*range(kept)]
    assert outflow.waiting == 60 - kept > 0
    assert [line for line in site.said if "readings are waiting: the outbox holds" in line]
    outflow.add("door", "", None, 1.0)
    outflow.flush(site.ann.node, site.ann.now)
    assert _values(site, "door") == [1.0]
    assert outflow.waiting == 60 - kept
    assert _numbers(site) == Counter(range(1, kept + 2)), "nothing was lost, and no number used in vain"
    for number in range(1_000):
        site.watch.withdraw("door", "")
        outflow.add("door", "", None, 1.0 + number)
        outflow.flush(site.ann.node, site.ann.now)
    assert site.ann.store.outbox.totals()[1] <= 12_000 + 12_000 // OUTBOX_ALARM_SHARE


@pytest.mark.slow
def test_what_is_kept_whole_stays_so_and_expires_as_before_on_its_way_to_another_collector(tmp_path: Path) -> None:
    site = _site(tmp_path, "* keep whole", outbox_bytes=12_000)
    site.ann.node.telemetry.keep(1)
    site.publisher.add("meter", "", None, 7)
    site.publisher.flush(site.ann.node)
    [(place, raw)] = site.ann.store.outbox.queued(site.gate.key, Place(0), 9, 10_000)[-1:]
    with site.ann.store.transaction():
        site.ann.node._queue.redirect(site.gate.key, place, site.gate.key, site.group_id, raw, site.ann.now)
    site.watch.change(())
    for number in range(100):
        site.publisher.add("air", "", None, f"{number} {'x' * 200}")
        site.publisher.flush(site.ann.node)
    rows = site.ann.store.database.run("SELECT whole, expires IS NULL FROM outbox WHERE class = 2 ORDER BY id LIMIT 1")
    assert rows == [(1, 0)]


def test_an_alarm_of_a_reading_that_no_table_can_hold_is_raised_by_the_next_one(tmp_path: Path) -> None:
    site = _site(tmp_path, "* alarm > 0")
    with pytest.raises(ReadingError):
        site.publisher.add("a", "u" * 99, None, 1.0)
    assert site.publisher.add("a", "", None, 1.0)
    site.publisher.withdraw()
    assert site.publisher.add("a", "", None, 1.0)
    assert site.publisher.waiting == 2


def test_an_alarm_stays_one_on_its_way_to_another_collector(tmp_path: Path) -> None:
    site = _site(tmp_path, "a alarm > 0")
    site.publisher.add("a", "", None, 1.0)
    site.publisher.flush(site.ann.node)
    [(place, kind, _, _)] = site.ann.store.outbox.waiting(site.gate.key, 9)
    assert MessageClass(kind) is MessageClass.ALARM
    with site.ann.store.transaction():
        site.ann.node._queue.requeue(site.gate.key, place, site.ann.now)
    [(place, kind, _, _)] = site.ann.store.outbox.waiting(site.gate.key, 9)
    assert MessageClass(kind) is MessageClass.ALARM
    [(_, raw)] = site.ann.store.outbox.queued(site.gate.key, Place(place - 1), 1, 1)
    with site.ann.store.transaction():
        site.ann.node._queue.redirect(site.gate.key, place, site.gate.key, site.group_id, raw, site.ann.now)
    [(_, kind, _, _)] = site.ann.store.outbox.waiting(site.gate.key, 9)
    assert MessageClass(kind) is MessageClass.ALARM
    assert site.ann.store.outbox.bytes_by_class()[MessageClass.ALARM] > 0


def test_alarms_may_use_the_reserve_of_a_budget(tmp_path: Path) -> None:
    site = _site(tmp_path, "a alarm > 0")
    site.publisher.add("b", "", None, 1.0)
    site.publisher.add("a", "", None, 1.0)
    site.publisher.flush(site.ann.node)
    purposes = [purpose_of(each) for each in site.ann.node.envelopes_to_send(site.ann.now) if each.entry]
    assert purposes[-2:] == ["alarms", "readings"]
