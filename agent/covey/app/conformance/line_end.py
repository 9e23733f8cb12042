"""The line protocol's other end, which obeys the test: a board for a gateway, or a gateway for a board."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from covey_boards.shared import line_orders, link_machine
from covey_boards.shared.cbor import WireError
from covey_boards.shared.framing import Decoder, body_size_max
from covey_boards.shared.messages import to_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from covey.adapters.serial_line import SerialLine

MTU_BYTES, WINDOW = 128, 2
"""What this end says of its receive buffer: little, so that a device that does not heed it is seen."""
_DATA_LAST = 3
_DATA = (2, _DATA_LAST)
_ACK = 4
_BOOT_ID_BYTES = 8
_HEADER_BYTES = 4


class LineEnd:
    """One end of the line, with everything that came over it.

    While it is `deaf`, nothing that comes reaches the link.
    """

    def __init__(self, line: SerialLine, rng: Callable[[int], bytes], message_bytes: int) -> None:
        """Take a line; `message_bytes` is the longest message that this end says it takes."""
        self._line, self._rng, self.message_bytes = line, rng, message_bytes
        self.deaf = False
        self.received: list[tuple[float, list[object]]] = []
        """When each message came, and its kind and fields."""
        self.ups = 0
        """How often the link came up."""
        self.wrong = ""
        """The first rule of the line that the device broke; empty while it broke none."""
        self.is_exceeded = False
        """Whether a message came that is longer than this end takes."""
        self.frames: list[bytes] = []
        """Bodies of the DATA frames that came, also while this end was deaf."""
        self._delivered: set[int] = set()
        self.restart()

    def restart(self) -> None:
        """Begin with a new state, as a device does that was switched off."""
        self._link = link_machine.Link(self._rng(_BOOT_ID_BYTES), MTU_BYTES, self.message_bytes, WINDOW)
        self._watching, self._sending = (Decoder(link_machine.MTU_MAX) for _ in range(2))
        self._ahead: set[int] = set()
        self._session = b""
        """The tag of the frames that `_ahead` counts."""
        self._length = 0
        """Bytes of the message that is under way."""
        self._delivered.clear()

    def say(self, kind: int, *fields: object) -> int:
        """Queue a message for the device; return its number."""
        number = self._link.send(to_line(kind, *fields))
        assert number is not None, "a test says little at a time"
        return int(number)

    def was_taken(self, number: int) -> bool:
        """Say whether the device has acknowledged a message on the line."""
        return number in self._delivered

    def write_noise(self, raw: bytes) -> None:
        """Write bytes that are no frame."""
        self._line.write(raw)

    def after(self, moment: float, kind: int) -> list[list[object]]:
        """Return the fields of the messages of a kind that came after a moment."""
        return [fields[1:] for at, fields in self.received if at > moment and fields[0] == kind]

    def turn(self) -> None:
        """Take what has come, and do what is due."""
        now = time.monotonic_ns() // 1_000_000
        raw = self._line.read()
        self._watch(raw)
        if raw and not self.deaf:
            self._link.receive_bytes(raw, now)
        deadline = self._link.next_deadline()
        if deadline is not None and now >= deadline:
            self._link.handle_deadline(now)
        while (event := self._link.next_event()) is not None:
            self._take(event)
        while raw := self._link.bytes_to_send(now):
            self._watch_own(raw)
            self._line.write(raw)
        self._line.write(b"")

    def _take(self, event: object) -> None:
        if isinstance(event, link_machine.LinkUp):
            self.ups += 1
        elif isinstance(event, link_machine.Delivered):
            self._delivered.add(event.number)
        elif isinstance(event, link_machine.Message):
            try:
                self.received.append((time.monotonic(), line_orders.from_line(bytes(event.data))))
            except WireError:
                self._notes("it sent a message of an unknown kind or shape")
            self._link.acknowledge(event.token)

    def _watch(self, raw: bytes) -> None:
        """Look at each frame by itself: its length, and how far it is ahead of what this end has acknowledged."""
        for body in self._watching.receive_bytes(raw):
            if len(body) > body_size_max(MTU_BYTES) and self.ups:
                self._notes(f"it sent a frame of {len(body)} bytes before encoding, for an MTU of {MTU_BYTES}")
            if len(body) >= _HEADER_BYTES and body[0] in _DATA:
                self.frames.append(body)
                self._watch_data(body)

    def _watch_data(self, body: bytes) -> None:
        if body[2:4] != self._session:
            self._session, self._length = body[2:4], 0
            self._ahead.clear()
        if body[1] not in self._ahead:
            self._length += len(body) - _HEADER_BYTES
        self._ahead.add(body[1])
        if len(self._ahead) > WINDOW:
            self._notes(f"it sent {len(self._ahead)} fragments ahead of a window of {WINDOW}")
        if self._length > self.message_bytes:
            self.is_exceeded = True
            self._notes(f"it sent a message of more than {self.message_bytes} bytes, the most that it may")
        if body[0] == _DATA_LAST:
            self._length = 0

    def _watch_own(self, raw: bytes) -> None:
        for body in self._sending.receive_bytes(raw):
            if body[0] == _ACK:
                self._ahead = {each for each in self._ahead if 0 < (each - body[1]) & 255 < 128}

    def _notes(self, wrong: str) -> None:
        self.wrong = self.wrong or wrong
