"""The board's outbox: what is freed, what is repeated, what is lost, and what is said about it."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from covey_boards.device.outbox import _MISSING_US as MISSING_US
from covey_boards.device.outbox import _RETRY_US as RETRY_US
from covey_boards.device.outbox import _RETRY_US_MAX as RETRY_US_MAX
from covey_boards.device.outbox import Outbox, with_range, without

S = 1_000_000


def _outbox(bytes_max: int = 1000) -> Outbox:
    return Outbox(bytes_max, random.Random(1).randint)


def _filled(count: int, bytes_max: int = 1000) -> Outbox:
    outbox = _outbox(bytes_max)
    for _ in range(count):
        outbox.add(bytes(100))
    return outbox


def _take(outbox: Outbox, now_us: int) -> int | None:
    entry = outbox.due(now_us)
    if entry is None:
        return None
    outbox.taken(entry, now_us)
    return int(entry.link_seq)


def _held(outbox: Outbox) -> list[int]:
    return [entry.link_seq for entry in outbox.entries]


def test_new_messages_go_at_once_and_in_order_whatever_is_unacknowledged() -> None:
    outbox = _filled(4)
    assert [_take(outbox, 0) for _ in range(5)] == [1, 2, 3, 4, None]


def test_only_an_acknowledgement_frees() -> None:
    outbox = _filled(4)
    while _take(outbox, 0):
        pass
    assert outbox.receive_acknowledgement(1, [(3, 3)], S) == []
    assert _held(outbox) == [2, 4]
    assert outbox.size == 200
    assert outbox.receive_acknowledgement(4, [], S) == []
    assert _held(outbox) == []
    assert outbox.due(1000 * RETRY_US_MAX) is None


def test_silence_repeats_one_message_at_growing_intervals() -> None:
    outbox = _filled(3)
    while _take(outbox, 0):
        pass
    times: list[int] = []
    order: list[int | None] = []
    for now_us in range(0, 40 * RETRY_US, RETRY_US // 4):
        if outbox.due(now_us):
            times.append(now_us)
            order.append(_take(outbox, now_us))
    assert times[0] == RETRY_US
    assert order[:4] == [1, 2, 3, 1], "the one that went least often"
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(RETRY_US <= gap <= RETRY_US_MAX + RETRY_US for gap in gaps)
    assert max(gaps) > 2 * RETRY_US


def test_a_hole_below_what_is_acknowledged_goes_again_sooner() -> None:
    outbox = _filled(3)
    while _take(outbox, 0):
        pass
    outbox.receive_acknowledgement(0, [(2, 3)], S)
    assert outbox.due(RETRY_US // 2 - 1) is None
    assert _take(outbox, RETRY_US // 2) == 1


def test_untaken_messages_are_reported_lost_once() -> None:
    outbox = _filled(14)
    assert _held(outbox) == list(range(5, 15))
    assert outbox.loss_to_write() == outbox.numbers_of([(1, 4)]) == [(1, 4)]
    outbox.add(b"record", False, [(1, 4)])
    assert not outbox.loss_to_write()
    for _ in range(12):
        outbox.add(bytes(100))
    assert 15 in _held(outbox), "a record of loss is not dropped"
    assert not outbox.loss_to_write(), "one record at a time"
    outbox.receive_acknowledgement(15, [], S)
    assert outbox.loss_to_write() == [(5, 14), (16, 18)]
    assert outbox.numbers_of(outbox.loss_to_write()) == [(5, 17)], "a record of loss has no number"
    outbox.add(b"record", False, outbox.loss_to_write())
    outbox.receive_acknowledgement(28, [], S)
    for _ in range(12):
        outbox.add(bytes(100))
    assert outbox.numbers_of(outbox.loss_to_write()) == [(27, 28)]


def test_a_link_is_not_dropped_and_has_no_number() -> None:
    outbox = _outbox()
    outbox.add(bytes(100))
    link = outbox.add(bytes(100), False)
    for _ in range(12):
        outbox.add(bytes(100))
    assert link in outbox.entries
    assert outbox.loss_to_write() == [(1, 1), (3, 5)]
    assert outbox.numbers_of(outbox.loss_to_write()) == [(1, 4)]


def test_messages_in_flight_are_not_dropped() -> None:
    outbox = _filled(10)
    outbox.entries[0].carried = True
    outbox.add(bytes(100))
    assert _held(outbox) == [1, *range(3, 12)]


def test_messages_a_gateway_took_are_awaited_and_then_lost() -> None:
    outbox = _filled(10)
    while _take(outbox, 0):
        pass
    for _ in range(4):
        outbox.add(bytes(100))
    assert not outbox.loss_to_write()
    assert outbox.receive_acknowledgement(2, [(5, 12)], S) == [], "3 and 4 may still come"
    assert not outbox.loss_to_write()
    outbox.receive_acknowledgement(3, [(5, 13)], S + MISSING_US - 1)
    assert not outbox.loss_to_write()
    outbox.receive_acknowledgement(3, [(5, 13)], S + MISSING_US)
    assert outbox.loss_to_write() == [(4, 4)]


def test_a_collector_that_lost_its_state_learns_what_is_lost() -> None:
    outbox = _filled(3)
    outbox.receive_acknowledgement(3, [], S)
    outbox.add(bytes(100))
    assert outbox.receive_acknowledgement(0, [], 2 * S) == [(1, 3)]
    assert outbox.receive_acknowledgement(0, [(4, 4)], 3 * S) == [(1, 3)]
    assert outbox.receive_acknowledgement(4, [], 4 * S) == []


_SPANS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 6)), max_size=6).map(
    lambda pairs: [(first, first + more) for first, more in pairs]
)


@given(_SPANS, _SPANS)
def test_ranges_are_sets(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> None:
    def members(ranges: list[tuple[int, int]]) -> set[int]:
        return {number for first, last in ranges for number in range(first, last + 1)}

    joined: list[tuple[int, int]] = []
    for first, last in some:
        joined = with_range(joined, first, last)
    assert members(joined) == members(some)
    cut: list[tuple[int, int]] = []
    for first, last in others:
        cut = with_range(cut, first, last)
    assert members(without(joined, cut)) == members(some) - members(others)


def test_a_lost_loss_record_keeps_its_numbers_lost() -> None:
    outbox = _filled(14, 1010)
    record = outbox.add(b"record", False, outbox.loss_to_write())
    while _held(outbox)[0] != 15:
        _take(outbox, S)
        outbox.receive_acknowledgement(_held(outbox)[0], [], S)
    assert outbox.untaken() == [1, 15, 1, 14], "a restart takes the record along"
    outbox.taken(record, S)
    assert outbox.untaken() is None, "the gateway has it"


def test_an_alarm_that_overtakes_shows_nothing_to_be_missing() -> None:
    """Its gateway sends it ahead of what it took before; an ordinary message shows it."""
    outbox = _outbox(300)
    for _ in range(4):
        outbox.add(bytes(100))
        _take(outbox, 0)
    outbox.add(bytes(100), keep=2)
    _take(outbox, 0)
    assert _held(outbox) == [3, 4, 5]
    for now_us in (0, 2 * MISSING_US):
        assert outbox.receive_acknowledgement(0, [(5, 5)], now_us) == []
        assert outbox.due(now_us + RETRY_US - 1) is None or now_us, "nothing goes again sooner"
    assert outbox.loss_to_write() == []
    for now_us in (3 * MISSING_US, 4 * MISSING_US):
        outbox.receive_acknowledgement(0, [(4, 5)], now_us)
    assert outbox.loss_to_write() == [(1, 2)]
