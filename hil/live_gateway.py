"""A gateway and a collector in this process, on the real serial link of `covey_boards`, for a live board."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from covey.ports import SerialMessage
from covey_boards.serial_link import SerialPortLink
from covey_boards.shared import messages
from hil.firmware_simulation import GROUP, Collector, Keys

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_TURN_SECONDS = 0.005


class LiveGateway:
    """Enrols whoever identifies itself, and carries at once.

    Args:
        port: where the board is.
        collector: what it has received; survives the gateway.
    """

    def __init__(self, port: Path, collector: Collector | None = None, baud: int = 115_200) -> None:
        self.collector = collector or Collector()
        self.identities: list[Keys] = []
        self.reports: list[dict[str, int]] = []
        self.link = SerialPortLink(str(port), baud)
        self.link.start()

    def serve(self, until: Callable[[], object], seconds: float) -> None:
        """Do a gateway's work until something is so.

        Raises:
            TimeoutError: it is not.
        """
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {seconds} s: {self.link.statistics()}, {len(self.identities)} identified")
            event = self.link.next_event()
            if event is None:
                time.sleep(_TURN_SECONDS)
            elif isinstance(event, SerialMessage):
                self._receive(messages.from_line(event.content))
                self.link.acknowledge(event)

    def _receive(self, message: list[object]) -> None:
        kind, *fields = message
        if kind == messages.IDENTIFY:
            self._identify(*fields)
        elif kind == messages.REPORT:
            self.reports.append(dict(fields[0]))  # type: ignore[call-overload]
        elif kind == messages.CARRY and self.identities:
            answer = self.collector.receive(fields[1])
            if answer is not None:
                self.link.send(messages.to_line(messages.DELIVER, answer))

    def _identify(self, signing: object, noise: object, proof: object, collector: object, _software: object) -> None:
        assert messages.noise_key_is_proven(signing, noise, proof)
        self.identities.append(Keys(signing, noise))
        self.collector.board = self.identities[-1]
        self.link.send(messages.to_line(messages.TIME, time.time_ns() // 1000, True))
        if collector == bytes(32):
            keys = self.collector.identity
            self.link.send(messages.to_line(messages.ENROL, GROUP, keys.signing_public, keys.noise_public))

    def stop(self) -> None:
        """Close the port."""
        self.link.stop()
