"""Boards on UDP: which addresses have a line, and what is sent to them. No socket, no clock; docs/protocol/, "Over
UDP".

1. An address has a line once it has sent HELLO and proved, by naming our boot id, that it receives our packets. Before
   that it gets no more bytes than it sent, and none unasked: so nobody can flood a third party.
2. A line is trusted while its board is a member of one of our groups, one line for a board. Of the others,
   `MAXIMUM_UDP_STRANGERS` are kept, and those silent for longest are dropped first; of members, `MAXIMUM_UDP_BOARDS`.
3. A line that is up is served like a serial one. A silent one waits until its board speaks.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

from covey.limits.board import MAXIMUM_UDP_BOARDS, MAXIMUM_UDP_STRANGERS
from covey.ports import UDP_PREFIX, SerialDown, SerialMessage, SerialUp
from covey_boards.line_queues import LineQueues
from covey_boards.shared import link_machine
from covey_boards.shared.datagrams import DATAGRAM_BYTES_MAX, Datagrams, begins

Address = tuple[str, int]

_MTU = 512
_WINDOW = 8
_STRANGER_MS = 60_000
"""For how long a line of a stranger that is up is not given to another one."""


class UdpLine:
    """Implements `ports.SerialLink` for one address."""

    def __init__(self, address: Address, random: Callable[[int], bytes], wake: Callable[[], None]) -> None:
        self.port = f"{UDP_PREFIX}{address[0]}:{address[1]}"
        self.queues = LineQueues(wake)
        self.queues.opened = 1
        self.link = link_machine.Link(random(8), mtu=_MTU, window=_WINDOW)
        self.datagrams = Datagrams(random(4))
        self.received_ms = self.allowed_bytes = 0
        self.is_trusted = self.is_known = self.has_ended = False

    @property
    def is_up(self) -> bool:
        """Whether the other end has shown that it hears us."""
        return bool(self.link.state == link_machine.UP)

    def start(self) -> None:
        """Nothing to open: the listener is."""

    def stop(self) -> None:
        """Nothing to close."""

    def send(self, message: bytes) -> bool:
        return self.queues.send(message)

    def next_event(self) -> SerialUp | SerialDown | SerialMessage | None:
        return self.queues.next_event()

    def acknowledge(self, message: SerialMessage) -> None:
        """Let the board forget a message."""
        self.queues.acknowledge(message)

    def statistics(self) -> dict[str, int]:
        return self.queues.statistics()


class UdpLines:
    """The lines of one socket.

    Args:
        random: gives so many random bytes. wake: tells the socket's owner to ask for datagrams to send.
    """

    def __init__(self, random: Callable[[int], bytes], wake: Callable[[], None] = lambda: None) -> None:
        self._random, self._wake = random, wake
        self._lines: OrderedDict[Address, UdpLine] = OrderedDict()
        self._new: list[UdpLine] = []
        self._lock = threading.Lock()
        self.dropped = 0

    # -- what the bridge calls ----------------------------------------------------------------------------------------

    def new_lines(self) -> list[UdpLine]:
        """Return the lines that have come up for the first time since the last call."""
        with self._lock:
            new, self._new = self._new, []
        return new

    def trust(self, line: object, others: Sequence[object]) -> None:
        """Note that a member is on a line, and on none of the others any more (rule 2)."""
        with self._lock:
            for each in self._lines.values():
                if each in others:
                    each.is_trusted = False
            if isinstance(line, UdpLine) and not line.has_ended:
                line.is_trusted = True
            trusted = [each for each in self._lines.values() if each.is_trusted]
            for each in trusted[: max(0, len(trusted) - MAXIMUM_UDP_BOARDS)]:
                each.is_trusted = False

    @staticmethod
    def has_ended(line: object) -> bool:
        """Say whether a line is gone."""
        return isinstance(line, UdpLine) and line.has_ended

    # -- what the socket's owner calls --------------------------------------------------------------------------------

    def receive(self, raw: bytes, address: Address, now_ms: int) -> None:
        """Take a datagram; what is none of ours changes nothing."""
        line = self._lines.get(address)
        if line is None:
            if not begins(raw) or len(raw) > DATAGRAM_BYTES_MAX or not self._make_room(now_ms):
                self.dropped += 1
                return
            line = UdpLine(address, self._random, self._wake)
        frames = line.datagrams.frames_of(raw)
        if not frames:
            self.dropped += 1
            return
        before = line.link.decoder.frames
        line.link.receive_bytes(frames, now_ms)
        if line.link.decoder.frames == before:  # noise
            self.dropped += 1
            return
        with self._lock:
            self._lines[address] = line
            self._lines.move_to_end(address)
        line.received_ms, line.allowed_bytes = now_ms, len(raw)
        line.queues.take_events(line.link)
        if line.is_up and not line.is_known:
            line.is_known = True
            with self._lock:
                self._new.append(line)

    def datagrams_to_send(self, now_ms: int) -> list[tuple[bytes, Address]]:
        """Return the datagrams to send now, with their addresses."""
        sent = []
        for address, line in list(self._lines.items()):
            link, before = line.link, dict.fromkeys(line.statistics(), 0)
            deadline = link.next_deadline()
            if line.is_up and deadline is not None and now_ms >= deadline:
                link.handle_deadline(now_ms)
            line.queues.take_requests(link)
            while frames := link.bytes_to_send(now_ms):
                datagram = bytes(line.datagrams.wrapped(frames))
                if not line.is_up:  # rule 1
                    if len(datagram) > line.allowed_bytes:
                        continue
                    line.allowed_bytes -= len(datagram)
                sent.append((datagram, address))
            line.queues.take_events(link)
            line.queues.note(link, before)
        return sent

    def next_deadline(self) -> int | None:
        """Return when `datagrams_to_send` is to be asked at the latest, in milliseconds."""
        deadlines = [line.link.next_deadline() for line in self._lines.values() if line.is_up]
        return min((each for each in deadlines if each is not None), default=None)

    def _make_room(self, now_ms: int) -> bool:
        """Rule 2."""
        strangers = [(address, line) for address, line in self._lines.items() if not line.is_trusted]
        if len(strangers) < MAXIMUM_UDP_STRANGERS:
            return True
        idle = [each for each in strangers if not each[1].is_up or now_ms - each[1].received_ms > _STRANGER_MS]
        if not idle:
            return False
        address, line = next((each for each in idle if not each[1].is_up), idle[0])
        with self._lock:
            del self._lines[address]
        line.has_ended = True
        line.queues.close()
        line.queues.put(SerialDown("another board uses its place"))
        return True
