"""Boards on UDP: who gets a line, what a bad network does to it, and what hostile datagrams get."""

from __future__ import annotations

import random

import pytest

from covey.limits.board import MAXIMUM_UDP_STRANGERS
from covey.ports import SerialDown, SerialMessage
from covey_boards.shared import link_machine
from covey_boards.shared.datagrams import DATAGRAM_BYTES_MAX, Datagrams
from covey_boards.udp_lines import Address, UdpLine, UdpLines

HOME: Address = ("192.0.2.7", 7425)


class Board:
    """A board's end, at an address."""

    def __init__(self, seed: int = 1, address: Address = HOME) -> None:
        rng = random.Random(seed)
        self.address = address
        self.link = link_machine.Link(rng.randbytes(8))
        self.datagrams = Datagrams(rng.randbytes(4))
        self.received: list[bytes] = []

    def turn(self, arrived: list[bytes], now_ms: int) -> list[bytes]:
        """Take datagrams, and return those to send."""
        for raw in arrived:
            self.link.receive_bytes(self.datagrams.frames_of(raw), now_ms)
        deadline = self.link.next_deadline()
        if deadline is not None and now_ms >= deadline:
            self.link.handle_deadline(now_ms)
        while (event := self.link.next_event()) is not None:
            if isinstance(event, link_machine.Message):
                self.received.append(event.data)
                self.link.acknowledge(event.token)
        frames = self.link.bytes_to_send(now_ms)
        return [self.datagrams.wrapped(frames)] if frames else []


class Network:
    """Boards and lines, with a seeded network that loses, doubles and holds back each so-manieth datagram."""

    def __init__(self, *boards: Board, seed: int = 1, bad: float = 0.0) -> None:
        self.rng, self.bad = random.Random(seed), bad
        self.lines = UdpLines(random.Random(f"gateway {seed}").randbytes)
        self.boards = boards
        self.now_ms = 0
        self.up: list[tuple[int, bytes, Address]] = []
        self.down: list[tuple[int, bytes, Address]] = []
        self.taken: list[bytes] = []
        self.open: list[UdpLine] = []

    def _send(self, way: list[tuple[int, bytes, Address]], raw: bytes, address: Address) -> None:
        chance = self.rng.random()
        if chance < self.bad / 3:
            return
        late = self.now_ms + (self.rng.randrange(1, 400) if self.rng.random() < self.bad else 1)
        way.append((late, raw, address))
        if chance > 1 - self.bad / 3:
            way.append((late + self.rng.randrange(1, 3_000), raw, address))

    def _arrived(self, way: list[tuple[int, bytes, Address]]) -> list[tuple[int, bytes, Address]]:
        due = [each for each in way if each[0] <= self.now_ms]
        way[:] = [each for each in way if each[0] > self.now_ms]
        return sorted(due, key=lambda each: each[0])

    def turn(self) -> None:
        """Let five milliseconds pass."""
        self.now_ms += 5
        for _, raw, address in self._arrived(self.up):
            self.lines.receive(raw, address, self.now_ms)
        self.open += self.lines.new_lines()
        for line in self.open:
            while (event := line.next_event()) is not None:
                if isinstance(event, SerialMessage):
                    self.taken.append(event.content)
                    line.acknowledge(event)
        for raw, address in self.lines.datagrams_to_send(self.now_ms):
            self._send(self.down, raw, address)
        arrived = self._arrived(self.down)
        for board in self.boards:
            for raw in board.turn([raw for _, raw, to in arrived if to == board.address], self.now_ms):
                self._send(self.up, raw, board.address)

    def run(self, seconds: float) -> None:
        for _ in range(int(200 * seconds)):
            self.turn()


@pytest.mark.slow
def test_messages_pass_both_ways_each_once_and_in_order_over_a_bad_network() -> None:
    """A fifth of the datagrams is lost, comes twice, or comes late and after others: seconds late, too."""
    for seed in range(6):
        board = Board(seed)
        network = Network(board, seed=seed, bad=0.2)
        network.run(3)
        assert len(network.open) == 1
        upwards, downwards = [b"up %d" % n * 40 for n in range(60)], [b"down %d" % n for n in range(30)]
        waiting, waiting_down = list(upwards), list(downwards)
        for _ in range(40_000):
            if waiting and board.link.send(waiting[0]) is not None:
                waiting.pop(0)
            if waiting_down and network.open[0].send(waiting_down[0]):
                waiting_down.pop(0)
            network.turn()
            if len(network.taken) >= len(upwards) and len(board.received) >= len(downwards):
                break
        network.run(5)
        assert network.taken == upwards
        assert board.received == downwards
        assert len(network.open) == 1


def test_two_boards_behind_one_address_have_a_line_each() -> None:
    first, second = Board(1), Board(2, (HOME[0], 7426))
    network = Network(first, second)
    network.run(1)
    assert [line.port for line in network.open] == ["udp:192.0.2.7:7425", "udp:192.0.2.7:7426"]


def test_a_restarted_board_keeps_its_line() -> None:
    network = Network(Board(1))
    network.run(1)
    network.boards = (Board(2),)
    network.run(1)
    [line] = network.open
    network.boards[0].link.send(b"of the new one")
    network.run(1)
    assert network.taken == [b"of the new one"]
    assert line.is_up


def _hello(seed: int = 9, address: Address = HOME) -> bytes:
    [raw] = Board(seed, address).turn([], 0)
    return raw


def test_an_unproved_address_receives_at_most_as_many_bytes_as_it_sent() -> None:
    """A sender's address can be forged: nobody is to be flooded through us."""
    lines = UdpLines(random.Random("gateway").randbytes)
    rng, sent, answered = random.Random(2), 0, 0
    for number in range(400):
        raw = _hello(number % 5)
        if number % 3:
            raw = raw[: rng.randrange(len(raw))] + rng.randbytes(rng.randrange(3))
        sent += len(raw)
        lines.receive(raw, HOME, 10 * number)
        answered += sum(len(datagram) for datagram, _ in lines.datagrams_to_send(10 * number))
        assert answered <= sent
    assert [lines.datagrams_to_send(10_000 + 1_000 * later) for later in range(60)] == [[]] * 60
    assert lines.next_deadline() is None
    assert not lines.new_lines()


def test_noise_makes_no_line() -> None:
    lines = UdpLines(random.Random("gateway").randbytes)
    rng = random.Random(3)
    hello = _hello()
    for number in range(500):
        noise = rng.randbytes(rng.randrange(60)) if number % 2 else hello[:11] + rng.randbytes(30)
        lines.receive(noise, (HOME[0], number), 0)
    lines.receive(hello + bytes(DATAGRAM_BYTES_MAX), HOME, 0)
    assert lines.dropped == 501
    assert not lines._lines


def test_strangers_are_bounded_and_a_member_keeps_its_line() -> None:
    """Whoever comes from many addresses takes no place of a board that is trusted, nor more than there are."""
    board = Board(1)
    network = Network(board)
    network.run(1)
    [line] = network.open
    assert isinstance(line, UdpLine)
    network.lines.trust(line, [])
    for number in range(10 * MAXIMUM_UDP_STRANGERS):
        network.lines.receive(_hello(number), (f"198.51.100.{number % 250}", number), network.now_ms)
    assert len(network.lines._lines) == MAXIMUM_UDP_STRANGERS + 1
    board.link.send(b"still here")
    network.run(1)
    assert network.taken == [b"still here"]


def test_strangers_that_are_up_are_forgotten_when_they_have_said_nothing_for_a_while() -> None:
    boards = [Board(number, ("198.51.100.1", number)) for number in range(MAXIMUM_UDP_STRANGERS)]
    network = Network(*boards)
    network.run(1)
    assert len(network.open) == len(boards)
    network.lines.receive(_hello(), HOME, network.now_ms)
    assert HOME not in network.lines._lines, "no place"
    network.lines.receive(_hello(), HOME, network.now_ms + 61_000)
    assert HOME in network.lines._lines
    [gone] = [line for line in network.open if network.lines.has_ended(line)]
    events = []
    while (event := gone.next_event()) is not None:
        events.append(event)
    assert isinstance(events[-1], SerialDown)
    assert not gone.send(b"x")


def test_a_line_moves_with_its_board() -> None:
    first, second = Board(1), Board(2, ("192.0.2.8", 7425))
    network = Network(first, second)
    network.run(1)
    before, after = network.open
    network.lines.trust(before, [])
    network.lines.trust(after, [before])
    assert (before.is_trusted, after.is_trusted) == (False, True)


def test_nobody_who_has_not_seen_a_stream_speaks_in_it() -> None:
    board = Board(1)
    network = Network(board)
    network.run(1)
    forged = Datagrams(b"fake").wrapped(board.link.bytes_to_send(0) or b"\0\1\0")
    dropped = network.lines.dropped
    network.lines.receive(forged, HOME, network.now_ms)
    assert network.lines.dropped == dropped + 1
    assert network.open[0].is_up
