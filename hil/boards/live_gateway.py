"""A gateway and a collector in this process, on the real serial link of `covey_boards`, for a live board."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from covey.limits.board import BOARD_PART_BYTES
from covey.ports import SerialLink, SerialMessage
from covey_boards.device.identity import noise_key_is_proven
from covey_boards.images import BoardImage
from covey_boards.serial_link import SerialPortLink
from covey_boards.shared import line_orders, messages
from covey_boards.updates import RECEIVING
from hil.on_board.firmware_simulation import GROUP, Collector, Keys
from tests.waiting import GUARD_S, Patience

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TURN_SECONDS = 0.005


class LiveBoard(Protocol):
    """What is behind the line."""

    @property
    def port(self) -> Path:
        """What a gateway opens."""
        ...

    @property
    def state(self) -> str:
        """Say whether the firmware runs, and what it said."""
        ...

    @property
    def alive(self) -> bool:
        """Say whether it runs."""
        ...

    def start(self) -> None:
        """Switch it on."""
        ...


class LiveGateway:
    """Enrols whoever identifies itself, and carries at once.

    Args:
        board: behind the line.
        collector: what it has received; survives the gateway.
        baud: of the board's port.
        link: in the place of that port.
    """

    def __init__(
        self, board: LiveBoard, collector: Collector | None = None, baud: int = 115_200, link: SerialLink | None = None
    ) -> None:
        self.acknowledges = True  # or what the collector answers gets lost: the relay is away
        self._board = board
        self.collector = collector or Collector()
        self.identities: list[Keys] = []
        self.reports: list[dict[str, int]] = []
        self.troubles: list[object] = []
        self.kept: list[bytes] = []  # for a board that sleeps
        self.asleep = False
        self.results: list[list[object]] = []
        self.operators: list[bytes] = []
        self.image: BoardImage | None = None  # what the board is to run
        self.progress: list[tuple[int, int, str]] = []  # state, how far, and why
        self._sent_part: int | None = None
        self.software: list[object] = []
        self.link: SerialLink = link or SerialPortLink(str(board.port), baud)
        self.link.start()

    def serve(self, until: Callable[[], object]) -> None:
        """Do a gateway's work until something is so. Each message of the board starts the patience anew.

        Raises:
            TimeoutError: the board says nothing more, has ended, or talks on without end.
        """
        patience, guard = Patience(), time.monotonic() + GUARD_S
        while not until():
            event = self.link.next_event()
            if isinstance(event, SerialMessage):
                self._receive(line_orders.from_line(event.content))
                self.link.acknowledge(event)
                patience = Patience()
            elif event is None:
                if not (self._board.alive and patience.left and time.monotonic() < guard):
                    reported = self.link.statistics(), self.reports[-1:], self.troubles[-3:], self.progress[-3:]
                    raise TimeoutError(f"the board {self._board.state}; line, report, troubles, firmware: {reported}")
                time.sleep(_TURN_SECONDS)

    def live(self, until: Callable[[], object]) -> None:
        """Serve until something is so, and switch the board on whenever it restarts.

        Raises:
            TimeoutError: it runs, and says nothing more.
        """
        while True:
            try:
                return self.serve(until)
            except TimeoutError:
                if self._board.alive:
                    raise
                self._board.start()

    def _receive(self, message: list[object]) -> None:
        kind, *fields = message
        self.asleep = kind == line_orders.SLEEP and fields[0] != 0
        if kind == messages.IDENTIFY:
            self._identify(*fields)
        elif kind == messages.REPORT:
            self.reports.append(dict(fields[0]))  # type: ignore[call-overload]
        elif kind == messages.TROUBLE:
            self.troubles += fields
        elif kind == line_orders.SLEEP and not self.asleep:
            self.link.send(messages.to_line(messages.TIME, time.time_ns() // 1000, True))
        elif kind == line_orders.RESULT:
            self.results.append(fields)
        elif kind == line_orders.PROGRESS:
            self._bring(*fields)
        elif kind in (messages.CARRY, line_orders.ALARM) and self.identities:
            answer = self.collector.receive(fields[1])
            if answer is not None and self.acknowledges:
                self.kept.append(messages.to_line(messages.DELIVER, answer))
        while self.kept and not self.asleep:
            self.link.send(self.kept.pop(0))

    def _identify(self, signing: object, noise: object, proof: object, collector: object, software: object) -> None:
        self.software.append(software)
        assert noise_key_is_proven(signing, noise, proof)
        self.identities.append(Keys(signing, noise))
        self.collector.board = self.identities[-1]
        self.link.send(messages.to_line(messages.TIME, time.time_ns() // 1000, True))
        if collector == bytes(32):
            keys = self.collector.identity
            if self.operators:
                self.link.send(messages.to_line(line_orders.OPERATORS, 1, self.operators))
            self.link.send(messages.to_line(messages.ENROL, GROUP, keys.signing_public, keys.noise_public))

        elif self.image is not None:
            self.announce()

    def order(self, *raws: bytes) -> None:
        """Hand an order down."""
        self.link.send(messages.to_line(line_orders.ORDER, list(raws)))

    def announce(self) -> None:
        """Tell the board what it is to run."""
        assert self.image is not None
        self._sent_part = None
        self.link.send(messages.to_line(line_orders.FIRMWARE, self.image.announced))

    def _bring(self, digest: object, state: object, offset: object, why: object) -> None:
        assert self.image is not None
        assert digest == self.image.digest
        self.progress.append((int(str(state)), int(str(offset)), str(why)))
        at = int(str(offset))
        if state == RECEIVING and at != self._sent_part:  # as `updates.py`
            self._sent_part = at
            part = self.image.contents[at : at + BOARD_PART_BYTES]
            self.link.send(messages.to_line(line_orders.PART, at, part))

    def stop(self) -> None:
        """Close the port."""
        self.link.stop()
