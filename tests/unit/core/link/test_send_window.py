"""`covey.core.link.send_window`: one link's window, its pace and its retries."""

from __future__ import annotations

import pytest

from covey.core.ids import DeviceKey, Place
from covey.core.link.queued import Lane
from covey.core.link.send_window import SendLink
from covey.core.wire.sequences import SequenceSet
from covey.limits.link import (
    LINK_WINDOW_BYTES,
    LINK_WINDOW_MESSAGES,
    LINK_WINDOW_RESTART_MESSAGES,
    RESTED_RETRY_US,
    RETRY_US_INITIAL,
    RETRY_US_MAX,
    RETRY_US_MIN,
)

SECOND = 1_000_000


class Queue:
    """A link and the rows that wait for it."""

    def __init__(self, messages: int, size: int = 10, lane: Lane = Lane.BULK) -> None:
        self.rows = [(Place(number), b"m" * size) for number in range(1, messages + 1)]
        self.link = SendLink(DeviceKey(b"recipient"), lane)
        self.now = SECOND
        self.link.connected(self.now)

    def send(self) -> list[Place]:
        """Load what is wanted, send what may go."""
        while (wanted := self.link.wanted()) is not None:
            rows: list[tuple[Place, bytes]] = []
            for row in self.rows:
                if row[0] > wanted.after and len(rows) < wanted.messages and sum(len(m) for _, m in rows) < wanted.size:
                    rows.append(row)
            if not self.link.offer(rows, wanted):
                break
        gone = []
        for entry in self.link.messages_to_send():
            gone.append(entry.place)
            self.link.sent(entry, self.now)
        return gone

    def acknowledge(self, received: SequenceSet) -> bool:
        """Let an acknowledgement come; its rows are freed."""
        self.rows = [row for row in self.rows if row[0] not in received]
        return self.link.receive_acknowledgement(received, self.now)

    def wait(self, microseconds: int) -> None:
        """Let time pass."""
        self.now += microseconds
        self.link.handle_deadline(self.now, lambda _low, high: high)

    def add(self, place: Place) -> None:
        """Queue another message."""
        self.rows.append((place, b"m" * 10))
        self.link.queue_grew()


def test_messages_go_once_and_in_order() -> None:
    queue = Queue(5)
    assert queue.send() == [1, 2, 3, 4, 5]
    assert queue.send() == []
    assert not queue.link.idle
    assert queue.acknowledge(SequenceSet(5))
    assert queue.link.idle
    assert queue.link.next_deadline() is None


def test_the_window_is_bounded_in_messages() -> None:
    queue = Queue(2 * LINK_WINDOW_MESSAGES)
    assert len(queue.send()) == LINK_WINDOW_MESSAGES
    queue.acknowledge(SequenceSet(100))
    assert len(queue.send()) == 100


def test_the_window_is_bounded_in_bytes() -> None:
    queue = Queue(20, LINK_WINDOW_BYTES // 4)
    assert queue.send() == [1, 2, 3, 4]
    queue.acknowledge(SequenceSet(1))
    assert queue.send() == [5]
    for upto in range(2, 21):
        queue.acknowledge(SequenceSet(upto))
        queue.send()
    assert queue.link.idle


def test_a_message_larger_than_the_window_goes_alone() -> None:
    queue = Queue(2, 2 * LINK_WINDOW_BYTES)
    assert queue.send() == [1]
    queue.acknowledge(SequenceSet(1))
    assert queue.send() == [2]


def test_a_silent_recipient_costs_one_message_for_each_retry() -> None:
    queue = Queue(50)
    queue.send()
    pauses = []
    for _ in range(20):
        deadline = queue.link.next_deadline()
        assert deadline is not None
        pauses.append(deadline - queue.now)
        queue.wait(deadline - queue.now)
        assert len(queue.send()) == 1
    assert pauses[0] == RETRY_US_INITIAL
    assert pauses == sorted(pauses)
    assert pauses[-1] == RETRY_US_MAX


def test_a_retry_time_does_not_shrink_while_nothing_is_answered() -> None:
    queue = Queue(1)
    queue.send()
    pauses = []
    for number in range(12):
        deadline = queue.link.next_deadline()
        assert deadline is not None
        pauses.append(deadline - queue.now)
        queue.now = deadline
        queue.link.handle_deadline(queue.now, max if number % 3 == 0 else min)
        queue.send()
    assert pauses == sorted(pauses)


def test_a_retry_time_that_has_grown_stays_until_a_round_trip_is_measured() -> None:
    """A slow way answers what went more than once: nobody can tell which time, and so how slow it is (Karn)."""
    queue = Queue(1)
    queue.send()
    queue.wait(RETRY_US_INITIAL)
    queue.send()
    queue.wait(3 * RETRY_US_INITIAL)
    queue.send()
    queue.now += SECOND
    queue.acknowledge(SequenceSet(1))
    queue.add(Place(2))
    queue.send()
    deadline = queue.link.next_deadline()
    assert deadline is not None
    assert deadline - queue.now == 9 * RETRY_US_INITIAL
    queue.now += 2 * SECOND
    queue.acknowledge(SequenceSet(2))  # went once: a round trip
    queue.add(Place(3))
    queue.send()
    deadline = queue.link.next_deadline()
    assert deadline is not None
    assert deadline - queue.now <= 7 * SECOND


def test_a_retry_time_that_every_answer_sets_back_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here, as no whole world shows this mistake surely: a way that slow has honest ones go nearly as often."""
    receive_acknowledgement = SendLink.receive_acknowledgement

    def at_every_answer(link: SendLink, received: SequenceSet, now_us: int) -> bool:
        freed = receive_acknowledgement(link, received, now_us)
        if freed:
            link.pace.reset()
        return freed

    monkeypatch.setattr(SendLink, "receive_acknowledgement", at_every_answer)
    with pytest.raises(AssertionError):
        test_a_retry_time_that_has_grown_stays_until_a_round_trip_is_measured()


def test_a_false_alarm_costs_nothing() -> None:
    queue = Queue(50)
    queue.send()
    queue.wait(RETRY_US_INITIAL)
    assert queue.send() == [1]
    queue.acknowledge(SequenceSet(40))
    assert queue.send() == list(range(41, 51))


def test_a_refused_message_holds_up_none_behind_it() -> None:
    queue = Queue(1)
    queue.send()
    queue.wait(RETRY_US_INITIAL)
    assert queue.send() == [1]
    queue.add(Place(2))
    queue.wait(RETRY_US_MAX)
    assert queue.send() == [2]
    queue.acknowledge(SequenceSet(0, ((2, 2),)))
    for place in range(3, 8):
        queue.add(Place(place))
        assert place in queue.send()
        queue.acknowledge(SequenceSet(0, ((2, place),)))
    assert not queue.link.idle


def test_messages_shown_missing_go_again_after_a_round_trip() -> None:
    queue = Queue(5)
    queue.send()
    queue.now += 100_000
    queue.acknowledge(SequenceSet(2, ((4, 5),)))
    assert queue.send() == []
    queue.now += RETRY_US_MIN
    queue.acknowledge(SequenceSet(2, ((4, 5),)))
    assert queue.send() == [3]


def test_a_hole_that_stays_is_filled_ever_less_often() -> None:
    queue = Queue(2)
    sends = 0
    for _ in range(600):
        sends += queue.send().count(Place(1))
        queue.now += SECOND
        queue.acknowledge(SequenceSet(0, ((2, 2),)))
    assert 5 <= sends <= 12


def test_a_lost_connection_repeats_what_the_relay_had_not_answered() -> None:
    queue = Queue(4)
    queue.send()
    queue.link.relayed(Place(1))
    queue.link.relayed(Place(3))
    queue.link.relayed(Place(99))
    queue.link.connection_lost()
    assert queue.link.next_deadline() is None
    queue.link.connected(queue.now)
    assert queue.send() == [2, 4]


def test_the_retry_time_follows_the_round_trip() -> None:
    queue = Queue(1)
    for place in range(1, 30):
        queue.send()
        queue.now += 3 * SECOND
        queue.acknowledge(SequenceSet(place))
        queue.add(Place(place + 1))
    queue.send()
    deadline = queue.link.next_deadline()
    assert deadline is not None
    assert 3 * SECOND <= deadline - queue.now <= 4 * SECOND


def test_a_window_freed_after_an_absence_is_one_round_trip() -> None:
    queue = Queue(1)
    for place in range(1, 30):
        queue.send()
        queue.now += SECOND // 5
        queue.acknowledge(SequenceSet(place))
        queue.add(Place(place + 1))
    for place in range(31, 36):
        queue.add(Place(place))
    queue.send()
    queue.now += RETRY_US_MIN - 1  # its recipient ends, and comes back just in time
    queue.acknowledge(SequenceSet(35))
    queue.add(Place(36))
    queue.send()
    deadline = queue.link.next_deadline()
    assert deadline is not None
    assert deadline - queue.now <= 1.2 * RETRY_US_MIN


def test_what_is_tried_in_an_absence_measures_no_round_trip() -> None:
    queue = Queue(1)
    queue.send()
    queue.wait(RETRY_US_INITIAL)
    assert queue.send() == [1]
    queue.add(Place(2))
    queue.wait(3 * RETRY_US_INITIAL)
    assert queue.send() == [2], "it was never tried before"
    queue.now += 40 * SECOND
    queue.acknowledge(SequenceSet(2))
    queue.link.pace.rest()
    queue.add(Place(3))
    queue.send()
    deadline = queue.link.next_deadline()
    assert deadline is not None
    assert deadline - queue.now <= RESTED_RETRY_US


def test_windows_shorter_than_the_retry_time_repeat_what_was_lost() -> None:
    queue = Queue(1)
    queue.send()
    queue.wait(2 * SECOND)
    queue.now += 100 * SECOND
    queue.acknowledge(SequenceSet(1))
    queue.add(Place(2))
    assert queue.send() == [2]
    queue.link.relayed(Place(2))
    queue.wait(30 * SECOND)
    queue.link.connection_lost()
    queue.now += 86_400 * SECOND
    queue.link.connected(queue.now)
    queue.wait(RETRY_US_INITIAL - 1)
    assert queue.send() == [], "an answer may come from the relay"
    queue.wait(1)
    assert queue.send() == [2]
    queue.link.connection_lost()
    queue.now += SECOND
    queue.link.connected(queue.now)
    queue.wait(RETRY_US_INITIAL)
    assert queue.send() == [2], "it was on its way when the connection was lost"


def test_an_outage_is_no_round_trip() -> None:
    queue = Queue(1)
    queue.send()
    queue.link.relayed(Place(1))
    queue.link.connection_lost()
    queue.now += 3_600 * SECOND
    queue.link.connected(queue.now)
    queue.acknowledge(SequenceSet(1))
    queue.add(Place(2))
    queue.send()
    deadline = queue.link.next_deadline()
    assert deadline is not None
    assert deadline - queue.now == RETRY_US_INITIAL


def test_an_acknowledgement_of_what_was_never_sent_stops_nothing() -> None:
    queue = Queue(1)
    queue.send()
    queue.acknowledge(SequenceSet(1_000_000))
    assert queue.link.idle
    queue.add(Place(2))
    assert queue.send() == [2]


def test_withdrawn_messages_are_not_sent_again() -> None:
    queue = Queue(5)
    queue.send()
    queue.link.withdraw(1, 3)
    queue.wait(RETRY_US_INITIAL)
    assert queue.send() == [4]
    queue.acknowledge(SequenceSet(5))
    assert queue.link.idle


def test_an_old_acknowledgement_changes_nothing() -> None:
    queue = Queue(3)
    queue.send()
    queue.acknowledge(SequenceSet(2))
    assert not queue.acknowledge(SequenceSet(1))
    assert queue.send() == []


def test_a_peer_that_speaks_gets_one_message_tried_again() -> None:
    queue = Queue(3)
    queue.send()
    for _ in range(6):
        queue.wait(RETRY_US_MAX)
        queue.send()
    queue.link.retry_now(queue.now)  # an answer to what went just now says nothing new
    queue.wait(0)
    assert queue.send() == []
    queue.now += RETRY_US_INITIAL
    queue.link.retry_now(queue.now)
    queue.wait(0)
    assert len(queue.send()) == 1
    queue.link.retry_now(queue.now)
    queue.wait(0)
    assert queue.send() == []


def test_a_restart_sends_a_few_once() -> None:
    queue = Queue(2 * LINK_WINDOW_RESTART_MESSAGES)
    queue.send()
    queue.link.restart(queue.now)
    assert queue.send() == [], "nothing was left unanswered"
    for _ in range(6):
        queue.wait(RETRY_US_MAX)
        queue.send()
    queue.link.restart(queue.now)
    queue.link.restart(queue.now)
    assert len(queue.send()) == LINK_WINDOW_RESTART_MESSAGES
    assert queue.link.next_deadline() == queue.now + RETRY_US_INITIAL


def test_a_connection_that_is_back_begins_with_a_short_retry_time() -> None:
    queue = Queue(3)
    queue.send()
    for _ in range(6):
        queue.wait(RETRY_US_MAX)
        queue.send()
    queue.link.connection_lost()
    queue.link.connected(queue.now)
    queue.send()
    assert queue.link.next_deadline() == queue.now + RETRY_US_INITIAL


def test_repeated_messages_go_beside_new_ones() -> None:
    """Of a window that is tried again and again and grows by each answer, one place in eight is for the oldest."""
    queue = Queue(3 * LINK_WINDOW_MESSAGES)
    queue.send()
    for _ in range(2):
        queue.wait(10 * RETRY_US_MAX)
        queue.send()  # the oldest has gone three times now
    lost = Place(1)
    taken = SequenceSet().including([(2, 40)])
    queue.acknowledge(taken)
    assert lost in queue.send()


def test_a_backlog_ends_when_all_of_it_is_on_its_way() -> None:
    queue = Queue(LINK_WINDOW_MESSAGES + 100)

    def note() -> Place | None:
        queue.link.note_backlog(lambda: queue.rows[-1][0])
        return queue.link.backlog_upto

    queue.send()
    assert note() == LINK_WINDOW_MESSAGES + 100
    queue.add(Place(LINK_WINDOW_MESSAGES + 101))
    assert note() == LINK_WINDOW_MESSAGES + 100  # what came later is live
    queue.acknowledge(SequenceSet(200))
    queue.send()
    assert note() is None


def test_messages_waiting_for_an_answer_are_backlog() -> None:
    queue = Queue(2 * LINK_WINDOW_MESSAGES)
    queue.send()
    queue.link.note_backlog(lambda: Place(5))
    assert queue.link.backlog_upto == LINK_WINDOW_MESSAGES  # as far as the window has read
    queue.link.connected(queue.now)
    assert queue.link.backlog_upto is None
    queue.link.note_backlog(lambda: Place(9_000))
    queue.wait(10 * RETRY_US_MAX)
    assert queue.link.backlog_upto == 9_000  # nobody has answered yet
    queue.acknowledge(SequenceSet(1))
    assert queue.link.backlog_upto is None


def _sent_in_retries(queue: Queue, retries: int, *, seen: bool, accepted: range = range(0)) -> set[Place]:
    """Let retries pass; the recipient acknowledges only some places. Return what was sent."""
    sent: set[Place] = set()
    for _ in range(retries):
        if seen:
            queue.link.seen()
        queue.wait(RETRY_US_MAX)
        gone = queue.send()
        sent.update(gone)
        queue.acknowledge(SequenceSet(0).including((place, place) for place in gone if place in accepted))
    return sent


def test_messages_that_a_recipient_never_accepts_fill_no_window() -> None:
    refused = 3 * Lane.HISTORY.window_messages
    queue = Queue(refused + 2, lane=Lane.HISTORY)
    queue.send()
    _sent_in_retries(queue, 40, seen=True, accepted=range(refused + 1, refused + 3))
    assert [place for place, _ in queue.rows] == list(range(1, refused + 1))
    assert _sent_in_retries(queue, 40, seen=True, accepted=range(1, refused + 3)) >= {Place(1)}
    _sent_in_retries(queue, 40, seen=True, accepted=range(1, refused + 3))
    assert queue.rows == []
    assert queue.link.idle


def test_messages_for_an_absent_recipient_stay_in_order() -> None:
    queue = Queue(3 * Lane.HISTORY.window_messages, lane=Lane.HISTORY)
    assert queue.send() == [1, 2, 3, 4]
    assert _sent_in_retries(queue, 40, seen=False) == {1, 2, 3, 4}
