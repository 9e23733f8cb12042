"""`covey.core.link.thinning`: a full outbox keeps the shape of old readings, and each number is told of once."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from fractions import Fraction

import pytest

from covey.core.ids import GroupId, Incarnation, Place
from covey.core.link.queued import MessageClass
from covey.core.link.thinning import thin
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, Kind
from covey.core.telemetry.decoding import read_telemetry
from covey.core.telemetry.summaries import Summary, numbers_of, read_summary
from covey.core.wire.message import Loss, LossReason, Message, MessageType, read_message
from covey.core.wire.sequences import SequenceSet
from covey.limits.telemetry import WINDOWS_US
from covey.limits.units import KIB
from tests.fleet import Device, Make, carry, found

_SECOND = 1_000_000
_START_US = 1_790_000_400_000_000
"""The beginning of an hour, and of no day."""

_Sums = dict[tuple[str, int], Fraction]


class Station:
    """A device without a connection: two sensors every ten seconds, a text now and then, a batch every minute."""

    def __init__(self, make: Make, outbox_bytes: int) -> None:
        self.ann, self.collector = make("ann", outbox_bytes=outbox_bytes), make("collector", collects=True)
        self.group_id: GroupId = found(self.ann, self.collector)
        carry(self.ann, self.collector)
        self.at = 0
        self.chance = random.Random(9)
        self.published = 0
        self.minutes: Counter[tuple[str, int]] = Counter()
        self.sums: _Sums = defaultdict(Fraction)

    def publish(self, batches: int, *, boot: bytes = bytes(8), minutes: int = 1) -> None:
        for _ in range(batches):
            builder = BatchBuilder()
            for _ in range(6 * minutes):
                self.at += 10 * _SECOND
                for name in ("t/air", "t/soil"):
                    tenths = self.chance.randrange(-300, 450)
                    builder.add(name, "Cel", self.at, tenths / 10)
                    minute = (_START_US + self.at) // (60 * _SECOND)
                    self.minutes[name, minute] += 1
                    self.sums[name, minute] += Fraction(tenths, 10)
            clock = ClockReading(boot, self.at, _START_US + self.at, ClockKind.SYNCHRONISED)
            self.ann.batch(self.group_id, builder.body(clock))
            self.published += 1

    def queued(self) -> list[Message]:
        rows = self.ann.store.outbox.queued(self.collector.key, Place(0), 100_000, 1 << 40)
        return [read_message(raw, verify=False) for _, raw in rows]

    def landed(self) -> list[Message]:
        """Carry all that waits, and return what the collector has landed."""
        for _ in range(100):
            carry(self.ann, self.collector)
            rows = self.collector.store.landing.until(1 << 40)
            for row in rows:
                self.collector.node.landing.landed(row.author, row.incarnation, {row.link_seq}, self.collector.now)
            if not self.ann.store.outbox.totals()[0]:
                break
        assert self.ann.store.outbox.totals() == (0, 0)
        return [read_message(row.message) for row in rows]


def _numbers(messages: list[Message]) -> Counter[int]:
    """Return how often messages account for each number."""
    found: Counter[int] = Counter()
    for message in messages:
        loss = Loss.from_wire(message.body).numbers if message.type is MessageType.LOSS else ()
        for first, last in (*numbers_of(message), *loss):
            found.update(range(first, last + 1))
    return found


def _summaries(messages: list[Message]) -> list[Summary]:
    return [read_summary(each.body)[1] for each in messages if each.type is MessageType.SUMMARY]


def _of_minutes(messages: list[Message], width_us: int) -> tuple[Counter[tuple[str, int]], _Sums]:
    """Return readings and sums by series and window, of batches and summaries together."""
    counts: Counter[tuple[str, int]] = Counter()
    sums: _Sums = defaultdict(Fraction)
    for message in messages:
        if message.type is MessageType.TELEMETRY:
            for name, _, time_us, value in read_telemetry(message.body)[1].readings():
                assert isinstance(value, float)
                counts[name, time_us // width_us] += 1
                sums[name, time_us // width_us] += Fraction(round(value * 10), 10)
    for summary in _summaries(messages):
        offset = summary.clock.wall_us - summary.clock.monotonic_us
        for each in summary.series:
            for window in each.windows:
                place = each.name, (window.first_us + offset) // width_us
                assert place[1] == (window.last_us + offset) // width_us, "no window crosses its bounds"
                counts[place] += window.readings
                sums[place] += Fraction(window.total, 10**each.scale)
    return counts, sums


def _by(width_us: int, station: Station) -> tuple[Counter[tuple[str, int]], _Sums]:
    counts: Counter[tuple[str, int]] = Counter()
    sums: _Sums = defaultdict(Fraction)
    for (name, minute), count in station.minutes.items():
        place = name, minute * 60 * _SECOND // width_us
        counts[place] += count
        sums[place] += station.sums[name, minute]
    return counts, sums


@pytest.mark.slow
def test_every_minute_keeps_its_readings_and_their_sum(make: Make) -> None:
    station = Station(make, outbox_bytes=40_000)
    station.publish(400)
    assert station.ann.store.outbox.totals()[1] <= 40_000
    messages = station.landed()
    assert {summary.window_us for summary in _summaries(messages)} == {WINDOWS_US[0]}
    assert _numbers(messages) == Counter(range(1, 401)), "each number is in a batch or a summary, once"
    assert _of_minutes(messages, WINDOWS_US[0]) == _by(WINDOWS_US[0], station)
    counters = station.ann.store.counters.values()
    raw = sum(message.type is MessageType.TELEMETRY for message in messages)
    assert counters["thinned_messages"] == 400 - raw
    assert counters["thinned_readings"] == 12 * (400 - raw)
    assert "dropped_outbox_full" not in counters
    newest = [message for message in messages if message.type is MessageType.TELEMETRY]
    assert _numbers(newest)[400], "the newest ones are whole"


@pytest.mark.parametrize(("outbox_bytes", "widest"), [(12_000, 1), (7_000, 2), (5_000, 3)])
@pytest.mark.slow
def test_where_space_is_still_short_windows_become_wider(make: Make, outbox_bytes: int, widest: int) -> None:
    station = Station(make, outbox_bytes)
    station.publish(1_200)
    assert station.ann.store.outbox.totals()[1] <= outbox_bytes
    messages = station.landed()
    widths = {summary.window_us for summary in _summaries(messages)}
    assert max(widths) == WINDOWS_US[widest]
    assert _numbers(messages) == Counter(range(1, 1_201))
    assert _of_minutes(messages, WINDOWS_US[-1]) == _by(WINDOWS_US[-1], station)


@pytest.mark.slow
def test_batches_of_different_boots_and_groups_are_not_summarised_together(make: Make) -> None:
    station = Station(make, outbox_bytes=20_000)
    for boot in range(40):
        station.publish(10, boot=bytes([boot] * 8))
    messages = station.landed()
    assert _numbers(messages) == Counter(range(1, 401))
    counts, sums = _of_minutes(messages, WINDOWS_US[-1])
    assert (counts, sums) == _by(WINDOWS_US[-1], station)
    assert len({summary.clock.boot_id for summary in _summaries(messages)}) > 30


@pytest.mark.slow
def test_what_is_being_sent_is_left_alone(make: Make) -> None:
    station = Station(make, outbox_bytes=30_000)
    station.publish(40)
    in_flight = {each.entry.place for each in station.ann.sends() if each.entry is not None}
    assert len(in_flight) > 5
    station.publish(200)
    kept = {message.link_seq for message in station.queued() if message.type is MessageType.TELEMETRY}
    assert in_flight <= {Place(number) for number in kept}


@pytest.mark.slow
def test_what_was_sent_is_thinned_before_anything_is_dropped(make: Make) -> None:
    station = Station(make, outbox_bytes=5_500)
    station.publish(14)
    assert station.ann.sends()
    station.publish(296)
    station.ann.node.connection_lost()
    station.ann.node.connected(station.ann.now)
    messages = station.landed()
    assert _numbers(messages) == Counter(range(1, 311))
    assert not any(message.type is MessageType.LOSS for message in messages)


def test_of_other_queues_batches_are_thinned_too(make: Make) -> None:
    """A collector that went silent has the backlog; new telemetry goes to another one."""
    station = Station(make, outbox_bytes=20_000)
    station.publish(60)
    ann, other = station.ann, make("other")
    waiting = ann.store.outbox.totals()[1]
    builder = BatchBuilder()
    builder.add("s", "", 0, "x" * 4_000 + str(station.chance.random()))
    body = builder.body(ClockReading(bytes(8), 1, _START_US, ClockKind.SYNCHRONISED))
    with ann.store.transaction():
        for _ in range(60):
            ann.node._queue.queue_batch(other.key, station.group_id, body, ann.now)
    assert _summaries(station.queued())
    assert ann.store.outbox.totals()[1] <= 20_000
    assert waiting <= 20_000


def test_a_summary_that_is_dropped_is_reported_with_all_its_numbers(make: Make) -> None:
    station = Station(make, outbox_bytes=20_000)
    station.publish(100)
    ann = station.ann
    summary = next(message for message in station.queued() if message.type is MessageType.SUMMARY)
    with ann.store.transaction():
        ann.node.withdraw(station.collector.key, Place(summary.link_seq), ann.now)
    messages = station.landed()
    (loss,) = [Loss.from_wire(message.body) for message in messages if message.type is MessageType.LOSS]
    assert (loss.reason, loss.numbers) == (LossReason.DAMAGED, numbers_of(summary))
    assert _numbers(messages) == Counter(range(1, 101))


def test_what_nobody_can_thin_is_dropped_as_before(make: Make) -> None:
    station = Station(make, outbox_bytes=9_000)
    station.publish(30)
    for number in range(40):
        station.ann.batch(station.group_id, b"%02d not a batch" % number + station.chance.randbytes(600))
    messages = station.landed()
    assert _numbers(messages) == Counter(range(1, 71))
    assert any(message.type is MessageType.LOSS for message in messages)


@pytest.mark.slow
def test_whole_messages_are_neither_thinned_nor_dropped(make: Make) -> None:
    station = Station(make, outbox_bytes=20_000)
    station.publish(10)
    with station.ann.store.transaction():
        station.ann.store.database.run("UPDATE outbox SET whole = 1 WHERE class = ?", (MessageClass.TELEMETRY,))
    station.publish(300)
    for number in range(60):
        station.ann.batch(station.group_id, b"%02d not a batch" % number + station.chance.randbytes(600))
    batches = [message for message in station.queued() if message.type is MessageType.TELEMETRY]
    assert set(range(1, 11)) <= set(_numbers(batches))


def test_a_rolled_back_transaction_thins_nothing(make: Make) -> None:
    station = Station(make, outbox_bytes=15_000)
    station.publish(30)
    before = [message.raw for message in station.queued()]
    queue, now = station.ann.node._queue, station.ann.now

    def cut() -> None:
        with station.ann.store.transaction():
            for _ in range(20):
                queue.queue_batch(station.collector.key, station.group_id, b"not a batch" + bytes(500), now)
            assert _summaries(station.queued())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        cut()
    assert [message.raw for message in station.queued()] == before
    station.publish(1)
    assert _numbers(station.landed())[31] == 1


@pytest.mark.slow
def test_texts_leave_their_number_behind(make: Make) -> None:
    station = Station(make, outbox_bytes=15_000)
    for number in range(200):
        builder = BatchBuilder()
        builder.add("why", "", number * _SECOND, f"reason {number} {station.chance.random()}" * 3)
        builder.add("n", "", number * _SECOND, number)
        station.ann.batch(station.group_id, builder.body(ClockReading(bytes(8), 1, _START_US, ClockKind.SYNCHRONISED)))
    messages = station.landed()
    assert _numbers(messages) == Counter(range(1, 201))
    raw = sum(message.type is MessageType.TELEMETRY for message in messages)
    texts = [each for summary in _summaries(messages) for each in summary.series if each.kind is Kind.TEXT]
    assert sum(window.readings for each in texts for window in each.windows) == 200 - raw


def test_a_summary_goes_on_to_another_collector(make: Make) -> None:
    station = Station(make, outbox_bytes=15_000)
    station.publish(100)
    ann: Device = station.ann
    summary = next(message for message in station.queued() if message.type is MessageType.SUMMARY)
    with ann.store.transaction():
        ann.node._queue.redirect(
            station.collector.key,
            Place(summary.link_seq),
            station.collector.key,
            station.group_id,
            summary.raw,
            ann.now,
        )
    messages = station.landed()
    assert summary.raw in [message.raw for message in messages], "as it was signed"
    assert _numbers(messages) == Counter(range(1, 101))


def test_what_an_earlier_life_has_queued_is_not_thinned(make: Make) -> None:
    station = Station(make, outbox_bytes=10_000_000)
    station.publish(100)
    outbox, recipients = station.ann.store.outbox, (station.collector.key,)
    present = station.ann.store.incarnations.present()
    assert thin(outbox.thinnable, recipients, present, lambda _: SequenceSet(), 16_384) is not None
    other = Incarnation(b"another!")
    assert thin(outbox.thinnable, recipients, other, lambda _: SequenceSet(), 16_384) is None


def test_a_summary_expires_with_the_youngest_that_it_replaces(make: Make) -> None:
    station = Station(make, outbox_bytes=10_000)
    ann = station.ann
    ann.node.telemetry.keep(1)
    station.publish(20)
    with ann.store.transaction():
        ann.node._queue.grow_older(40_000_000_000)
    station.publish(60)
    lifetimes = "SELECT expires - (SELECT age FROM device) FROM outbox WHERE window > 0"
    left = [row[0] for row in ann.store.database.run(lifetimes)]
    assert left
    assert all(86_400_000_000 <= each < 90_000_000_000 for each in left)


@pytest.mark.slow
def test_a_newest_only_series_has_one_window(make: Make) -> None:
    station = Station(make, outbox_bytes=15_000)
    station.ann.node._queue.in_one_window = lambda name: name == "t/soil"
    station.publish(200)
    messages = station.landed()
    for summary in _summaries(messages):
        windows = {each.name: len(each.windows) for each in summary.series}
        assert windows["t/soil"] == 1 < windows["t/air"]
    assert _numbers(messages) == Counter(range(1, 201))


@pytest.mark.slow
def test_nine_days_offline_in_256_kibibytes(make: Make) -> None:
    """`bench/messages/thinning.py` does the same with ninety days in 64 MiB."""
    station = Station(make, outbox_bytes=256 * KIB)
    station.publish(9 * 288, minutes=5)
    assert station.ann.store.outbox.totals()[1] <= 256 * KIB
    messages = station.landed()
    assert {summary.window_us for summary in _summaries(messages)} == {WINDOWS_US[0]}
    assert _of_minutes(messages, WINDOWS_US[0]) == _by(WINDOWS_US[0], station)
    assert _numbers(messages) == Counter(range(1, 9 * 288 + 1))
