"""Frames ahead of their acknowledgement: how many, what is lost of them, and what a heap that ends leaves behind."""

from __future__ import annotations

import pytest

from covey_boards.shared import framing, link_machine
from covey_boards.shared.link_machine import Delivered, Link, Message
from hil.on_board import link_simulation
from hil.on_board.link_simulation import Random

HELLO, DATA_LAST, ACK, BUSY, RESEND = 1, 3, 4, 5, 6


def _pair(window: int) -> tuple[Link, Link]:
    """Return a board, and a gateway with a window; both are up."""
    board, gateway = Link(b"b" * 8), Link(b"g" * 8, mtu=512, window=window)
    board.handle_deadline(0)
    for _ in range(4):
        gateway.receive_bytes(board.bytes_to_send(0), 0)
        board.receive_bytes(gateway.bytes_to_send(0), 0)
    assert (board.state, gateway.state) == (link_machine.UP, link_machine.UP)
    _events(board), _events(gateway)
    return board, gateway


def _events(link: Link) -> list[object]:
    return list(iter(link.next_event, None))


def _written(link: Link, now: int = 0) -> list[bytes]:
    """Return all bursts that a link writes."""
    return list(iter(lambda: link.bytes_to_send(now), b""))


def _kinds(bursts: list[bytes]) -> list[tuple[int, int]]:
    """Return (kind, sequence) of all frames."""
    return [(body[0], body[1]) for body in framing.Decoder(4_096).receive_bytes(b"".join(bursts))]


def _taken(link: Link) -> list[Message]:
    return [event for event in _events(link) if isinstance(event, Message)]


def _queue(link: Link, count: int) -> list[bytes]:
    messages = [b"message %d" % number for number in range(count)]
    for message in messages:
        link.send(message)
    return messages


@pytest.mark.parametrize("window", [1, 4, 8])
def test_as_many_go_ahead_as_the_peer_takes(window: int) -> None:
    board, _ = _pair(window)
    _queue(board, 12)
    assert _kinds(_written(board)) == [(DATA_LAST, sequence) for sequence in range(window)]


@pytest.mark.parametrize(("said", "ahead"), [(0, 1), (255, 8)])
def test_a_window_out_of_bounds_counts_as_the_next_within(said: int, ahead: int) -> None:
    board = Link(b"b" * 8)
    hello = bytes([1, 1, 1, said, 0, 2, 0, 16]) + b"g" * 8 + b"b" * 8
    board.receive_bytes(framing.encode(bytes([HELLO, 0, 0, 0]) + hello), 0)
    board.bytes_to_send(0)
    _queue(board, 12)
    assert len(_written(board)) == ahead


def test_a_missing_frame_is_named_once_and_resent() -> None:
    board, gateway = _pair(4)
    messages = _queue(board, 4)
    bursts = _written(board)
    for burst in (bursts[0], *bursts[2:]):
        gateway.receive_bytes(burst, 5)
    asked = _written(gateway)
    assert _kinds(asked) == [(RESEND, 1)]
    board.receive_bytes(asked[0], 9)
    repeated = _written(board, 9)
    assert _kinds(repeated) == [(DATA_LAST, 1), (DATA_LAST, 2), (DATA_LAST, 3)]
    gateway.receive_bytes(b"".join(repeated), 14)
    assert [message.data for message in _taken(gateway)] == messages
    assert board.statistics.repetitions == 3


@pytest.mark.parametrize("window", [2, 4])
def test_a_frame_lost_twice_is_named_twice(window: int) -> None:
    board, gateway = _pair(window)
    _queue(board, window)
    for burst in _written(board)[1:]:
        gateway.receive_bytes(burst, 5)
    for asked in _written(gateway):
        board.receive_bytes(asked, 9)
    for burst in _written(board, 9)[1:]:
        gateway.receive_bytes(burst, 14)
    assert _kinds(_written(gateway)) == [(RESEND, 0)]


def test_frames_are_acknowledged_in_order() -> None:
    board, gateway = _pair(4)
    numbers = [board.send(message) for message in (b"first", b"x" * 600, b"last")]  # the second in two fragments
    gateway.receive_bytes(b"".join(_written(board)), 0)
    first, second, third = _taken(gateway)
    assert _written(gateway) == [], "nothing before its owner has the first"
    gateway.acknowledge(second.token)
    assert _written(gateway) == [], "in the order of their coming"
    gateway.acknowledge(first.token)
    gateway.acknowledge(second.token)
    assert _kinds(_written(gateway)) == [(ACK, 1), (ACK, 2)], "a fragment with its message"
    board.receive_bytes(framing.encode(bytes([ACK, 2]) + board._tag), 3)
    assert [event.number for event in _events(board) if isinstance(event, Delivered)] == numbers[:2]
    gateway.acknowledge(third.token)
    for raw in _written(gateway):
        board.receive_bytes(raw, 4)
    assert [event.number for event in _events(board) if isinstance(event, Delivered)] == numbers[2:]


def test_silence_repeats_the_oldest_and_its_acknowledgement_what_followed() -> None:
    board, gateway = _pair(4)
    messages = _queue(board, 3)
    _written(board)  # lost, all of it
    now = board.next_deadline()
    board.handle_deadline(now)
    repeated = _written(board, now)
    assert _kinds(repeated) == [(DATA_LAST, 0)]
    gateway.receive_bytes(repeated[0], now)
    gateway.acknowledge(_taken(gateway)[0].token)
    board.receive_bytes(_written(gateway)[0], now)
    gateway.receive_bytes(b"".join(_written(board, now)), now)
    assert [message.data for message in _taken(gateway)] == messages[1:]


def test_an_owner_who_takes_its_time_costs_one_frame_and_not_the_window() -> None:
    board, gateway = _pair(8)
    _queue(board, 8)
    gateway.receive_bytes(b"".join(_written(board)), 0)
    held = _taken(gateway)
    now = board.next_deadline()
    board.handle_deadline(now)
    (repeated,) = _written(board, now)
    gateway.receive_bytes(repeated, now)
    (busy,) = _written(gateway)
    assert _kinds([busy])[0][0] == BUSY
    board.receive_bytes(busy, now)
    for message in held:
        gateway.acknowledge(message.token)
        for raw in _written(gateway):
            board.receive_bytes(raw, now)
        assert _written(board, now) == [], "nothing goes again"
    assert board.statistics.messages_sent == 8


def test_a_sender_that_heeds_no_window_is_not_heard_beyond_it() -> None:
    board, gateway = _pair(2)
    for sequence in range(6):
        gateway.receive_bytes(framing.encode(bytes([DATA_LAST, sequence]) + board._tag, b"hostile"), 0)
    assert len(_taken(gateway)) == 2


def test_a_resend_of_what_was_never_sent_changes_nothing() -> None:
    board, _ = _pair(4)
    _queue(board, 2)
    _written(board)
    for sequence in (2, 100, 255):
        board.receive_bytes(framing.encode(bytes([RESEND, sequence]) + board._tag), 1)
    assert _written(board, 1) == []
    board.send(b"next")
    assert _kinds(_written(board, 1)) == [(DATA_LAST, 2)]


def test_the_round_trip_of_what_went_again_is_not_measured() -> None:
    board, gateway = _pair(4)
    _queue(board, 4)
    lost = _written(board)
    for burst in lost[1:]:
        gateway.receive_bytes(burst, 5)
    for raw in _written(gateway):
        board.receive_bytes(raw, 1_000)
    gateway.receive_bytes(b"".join(_written(board, 1_000)), 1_000)
    for message in _taken(gateway):
        gateway.acknowledge(message.token)
    for raw in _written(gateway):
        board.receive_bytes(raw, 1_900)
    assert board._timer._smoothed is None
    assert board.statistics.messages_sent == 4


@pytest.mark.slow
def test_sequences_go_round_with_a_window() -> None:
    link_simulation.simulate(4, count=600, permille=20, mtu=256, windows=(8, 8), limit_ms=1 << 30)


@pytest.mark.parametrize("seed", range(8))
def test_a_heap_that_ends_in_any_frame_loses_and_doubles_nothing(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rule 9 of `link_machine`: a frame that there was no room for is one that the line lost."""
    rng = Random(seed + 1_000)

    class SmallHeap(Link):
        def _emit(self, kind: int, sequence: int, payload: bytes) -> None:
            if not rng.below(8):
                raise MemoryError
            super()._emit(kind, sequence, payload)

    def survived(name: str) -> object:
        def call(link: Link, *arguments: object) -> object:
            try:
                return getattr(Link, name)(link, *arguments)
            except MemoryError:
                return b""

        return call

    for name in ("receive_bytes", "handle_deadline", "bytes_to_send", "acknowledge"):
        setattr(SmallHeap, name, survived(name))
    monkeypatch.setattr(link_simulation.link_machine, "Link", SmallHeap)
    link_simulation.simulate(seed, count=20, permille=20, windows=(1 + seed % 3, 8), limit_ms=1 << 30)
