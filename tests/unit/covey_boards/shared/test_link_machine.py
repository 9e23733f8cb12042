"""The serial link: rules by number, then whole lives on a bad line (`link_simulation`, which boards run, too)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from covey_boards.shared import framing, link_machine
from covey_boards.shared.link_machine import Delivered, Link, LinkDown, LinkUp, Message
from hil.on_board import link_simulation
from tests.examples import examples


def events(link: Link) -> list[object]:
    return list(iter(link.next_event, None))


def exchange(a: Link, b: Link, now: int, rounds: int = 6) -> None:
    """Carry bytes both ways without loss."""
    for _ in range(rounds):
        b.receive_bytes(a.bytes_to_send(now), now)
        a.receive_bytes(b.bytes_to_send(now), now)


def pair(mtu: int = 64) -> tuple[Link, Link]:
    """Return two ends that are up, their events taken."""
    a, b = Link(b"a" * 8, mtu=mtu), Link(b"b" * 8, mtu=mtu)
    a.handle_deadline(0)
    exchange(a, b, 0)
    assert (a.state, b.state) == (link_machine.UP, link_machine.UP)
    events(a), events(b)
    return a, b


def test_hello_brings_both_ends_up_and_tells_the_limits() -> None:
    a, b = Link(b"a" * 8, mtu=48), Link(b"b" * 8, mtu=512)
    a.handle_deadline(0)
    exchange(a, b, 0)
    assert events(a) == [LinkUp(b"b" * 8, 1, 512, True)]
    assert events(b) == [LinkUp(b"a" * 8, 1, 48, True)]


def test_every_frame_fits_the_peers_receive_buffer() -> None:
    a, b = pair(mtu=48)
    a.send(b"\0\xff" * 500)
    for now in range(100):
        raw = a.bytes_to_send(now)
        assert len(raw) <= 48
        b.receive_bytes(raw, now)
        a.receive_bytes(b.bytes_to_send(now), now)
    assert events(b)[0].data == b"\0\xff" * 500


def test_a_small_heap_sends_shorter_frames_than_its_peer_takes() -> None:
    board, gateway = Link(b"a" * 8, mtu=256, frame_bytes_max=128), Link(b"b" * 8, mtu=512)
    board.handle_deadline(0)
    exchange(board, gateway, 0)
    events(gateway)
    board.send(b"\0\xff" * 200)
    for now in range(100):
        raw = board.bytes_to_send(now)
        assert len(raw) <= 128
        gateway.receive_bytes(raw, now)
        board.receive_bytes(gateway.bytes_to_send(now), now)
    assert events(gateway)[0].data == b"\0\xff" * 200


def test_a_message_is_acknowledged_only_when_its_owner_has_stored_it() -> None:
    a, b = pair()
    number = a.send(b"reading")
    exchange(a, b, 0)
    (message,) = events(b)
    assert events(a) == []
    b.acknowledge(message.token)
    exchange(a, b, 0)
    assert events(a) == [Delivered(number)]


def test_a_repetition_of_a_held_message_is_answered_with_busy() -> None:
    a, b = pair()
    a.send(b"reading")
    exchange(a, b, 0)
    a.handle_deadline(a.next_deadline())
    exchange(a, b, 1000)
    assert a.statistics.busy_received == 1
    assert a.next_deadline() == 1000 + link_machine._RTO_MS_MAX
    assert len(events(b)) == 1


def test_a_lost_acknowledgement_does_not_deliver_twice() -> None:
    a, b = pair()
    number = a.send(b"reading")
    exchange(a, b, 0)
    (message,) = events(b)
    b.acknowledge(message.token)
    b.bytes_to_send(0)  # lost
    a.handle_deadline(a.next_deadline())
    exchange(a, b, 1000)
    assert events(a) == [Delivered(number)]
    assert events(b) == []
    assert b.statistics.duplicates == 1


def test_a_late_acknowledgement_does_not_release_the_next_sessions_message() -> None:
    a, b = pair()
    a.send(b"old")
    exchange(a, b, 0)
    (old,) = events(b)
    second = Link(b"c" * 8)
    second.handle_deadline(10)
    second.send(b"new")
    exchange(second, b, 10)
    b.acknowledge(old.token)
    exchange(second, b, 10)
    assert not [event for event in events(second) if isinstance(event, Delivered)]
    new = events(b)[-1]
    assert isinstance(new, Message)
    b.acknowledge(new.token)
    exchange(second, b, 10)
    assert events(second)[-1] == Delivered(0)


def test_a_restart_ends_the_session_and_the_message_is_sent_again() -> None:
    a, b = pair()
    a.send(b"x" * 200)
    b.receive_bytes(a.bytes_to_send(0), 0)  # the first fragment only
    second = Link(b"c" * 8)
    second.handle_deadline(5)
    exchange(second, a, 5, rounds=20)
    assert LinkDown("restarted") in events(a)
    assert events(second)[-1].data == b"x" * 200


def test_silence_takes_the_link_down_and_hello_brings_it_back() -> None:
    a, b = pair()
    number = a.send(b"reading")
    now = 0
    while a.state == link_machine.UP:
        a.bytes_to_send(now)
        now = a.next_deadline()
        a.handle_deadline(now)
    assert events(a) == [LinkDown("silence")]
    a.handle_deadline(a.next_deadline())
    exchange(a, b, now)
    assert events(a) == [LinkUp(b"b" * 8, 1, 64, False)]
    a.handle_deadline(a.next_deadline())
    exchange(a, b, now)
    b.acknowledge(events(b)[-1].token)
    exchange(a, b, now)
    assert events(a) == [Delivered(number)]


def test_repetitions_slow_down_to_two_seconds() -> None:
    a, _ = pair()
    a.send(b"reading")
    a.bytes_to_send(0)
    gaps, now = [], 0
    while a.state == link_machine.UP:
        gaps.append(a.next_deadline() - now)
        now = a.next_deadline()
        a.handle_deadline(now)
        a.bytes_to_send(now)
    assert gaps == sorted(gaps)
    assert gaps[-2] == link_machine._RTO_MS_MAX


def test_the_timer_comes_down_to_the_measured_round_trip() -> None:
    a, b = pair()
    now = 0
    for _ in range(30):
        a.send(b"reading")
        b.receive_bytes(a.bytes_to_send(now), now)
        b.acknowledge(events(b)[-1].token)
        now += 10
        a.receive_bytes(b.bytes_to_send(now), now)
    a.send(b"reading")
    a.bytes_to_send(now)
    assert a.next_deadline() - now == link_machine._RTO_MS_MIN


def test_the_queue_is_bounded_and_long_messages_are_refused() -> None:
    a = Link(b"a" * 8)
    while a.send(bytes(1000)) is not None:
        pass
    assert sum(len(data) for _, data in a._queue) <= link_machine._QUEUE_BYTES_MAX
    with pytest.raises(ValueError, match="too long"):
        a.send(bytes(link_machine.MESSAGE_BYTES_MAX + 1))


def test_a_message_without_end_is_not_kept() -> None:
    a, b = pair()
    for sequence in range(256):
        body = bytes([2, sequence]) + a._tag + bytes(40)
        b.receive_bytes(framing.encode(body), 0)
    assert sum(map(len, b._fragments)) <= link_machine.MESSAGE_BYTES_MAX


def test_a_message_of_small_fragments_is_not_kept() -> None:
    """Each costs a board more heap than it holds."""
    a, b = pair()
    for sequence in range(256):
        b.receive_bytes(framing.encode(bytes([2, sequence]) + a._tag + b"x"), 0)
    assert len(b._fragments) == link_machine._FRAGMENTS_MAX


def test_a_frame_of_another_session_is_answered_with_hello_and_changes_nothing() -> None:
    a, b = pair()
    stranger = Link(b"s" * 8)
    b.receive_bytes(framing.encode(bytes([3, 0]) + stranger._tag + b"forged"), 5)
    assert events(b) == []
    (answer,) = framing.Decoder(64).receive_bytes(b.bytes_to_send(5))
    assert answer[0] == 1
    a.send(b"ours")
    exchange(a, b, 5)
    assert events(b)[0].data == b"ours"


def test_busy_cannot_stop_us_for_long() -> None:
    a, _ = pair()
    a.send(b"reading")
    a.bytes_to_send(0)
    a.receive_bytes(framing.encode(bytes([5, 0]) + a._tag + b"\xff\xff"), 7)
    assert a.next_deadline() == 10_000


def test_a_peer_that_is_always_busy_gets_again_what_the_line_lost() -> None:
    a, b = pair()
    a.send(b"reading")
    assert a.bytes_to_send(0), "lost"
    for now in range(1_000, 20_000, 1_000):
        b.busy(4_000)
        a.receive_bytes(b.bytes_to_send(now), now)
        a.handle_deadline(now)
        b.receive_bytes(a.bytes_to_send(now), now)
    assert [event.data for event in events(b)] == [b"reading"]


def test_no_version_in_common_is_said_once() -> None:
    a = Link(b"a" * 8)
    hello = bytes([9, 9, 1, 0]) + bytes(4) + b"z" * 8 + bytes(8)
    for now in range(3):
        a.receive_bytes(framing.encode(bytes([1, 0, 0, 0]) + hello), now)
    assert events(a) == [LinkDown("version")]


def test_an_echo_of_our_own_hello_is_nobody() -> None:
    a = Link(b"a" * 8)
    a.handle_deadline(0)
    a.receive_bytes(a.bytes_to_send(0), 0)
    assert (a.state, a.statistics.strays) == (link_machine.SEARCHING, 1)


# A body that looks right up to the checksum, so that random bytes reach every branch.
FORGED = st.builds(
    lambda kind, sequence, tag, rest: framing.encode(bytes([kind, sequence]) + tag + rest),
    st.integers(0, 6),
    st.integers(0, 255),
    st.sampled_from([Link(b"a" * 8)._tag, pair()[0]._tag, b"??"]),
    st.binary(max_size=40),
)


@settings(deadline=None)
@given(st.lists(st.one_of(st.binary(max_size=80), FORGED), max_size=20))
def test_any_bytes_leave_both_ends_running_and_in_step(pieces: list[bytes]) -> None:
    a, b = pair()
    for now, piece in enumerate(pieces):
        a.receive_bytes(piece, now)
        b.receive_bytes(piece, now)
    a, now = Link(b"A" * 8), 100_000  # whatever they were told: a restart brings them together again
    a.handle_deadline(now)
    number = a.send(b"after all")
    for _ in range(12):
        exchange(a, b, now)
        for event in events(b):
            if isinstance(event, Message):
                b.acknowledge(event.token)
        for end in (a, b):
            if end.next_deadline() is not None:
                end.handle_deadline(end.next_deadline())
    assert Delivered(number) in events(a)


@examples(60)
@given(
    st.integers(0, 65_535),
    st.sampled_from([0, 10, 50, 100, 300]),
    st.integers(0, 4),
    st.tuples(st.integers(1, 8), st.integers(1, 8)),
)
def test_whole_lives_on_a_bad_line(seed: int, permille: int, resets: int, windows: tuple[int, int]) -> None:
    link_simulation.simulate(seed, permille=permille, resets=resets, windows=windows)


def test_one_damaged_burst_in_a_hundred_loses_nothing() -> None:
    a, b, _ = link_simulation.simulate(1, count=200, permille=10, mtu=256, limit_ms=10_000_000)
    assert len(a.received) == len(b.received) == 200
    assert a.link.statistics.repetitions + b.link.statistics.repetitions > 0
