"""A microcontroller in the fleet: the boards' firmware on emulated MicroPython, on a serial line to an agent.

It draws its own keys, and seals and signs what it measures; the agent carries it and cannot read it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from covey.adapters.state_folder import StateFolder
from covey.errors import ConfigurationError, TransientError
from demo.device import Device, Ledger
from hil.boards.emulated_board import EmulatedBoard
from hil.boards.runtimes import MissingError

if TYPE_CHECKING:
    from pathlib import Path

_SENSORS = [["counter", {}], ["memory", {}]]
_INTERVAL_SECONDS = 0.2
_ENROL_SECONDS = 30


class Board:
    """One emulated board behind an agent.

    Args:
        gateway: the agent; its port is configured before it starts.
        seconds: how long the board samples.

    Raises:
        ConfigurationError: MicroPython cannot be had here.
    """

    name = "board"

    def __init__(self, folder: Path, gateway: Device, seconds: float, batch_seconds: float) -> None:
        self.author = ""
        self._gateway = gateway
        samples = int(seconds / _INTERVAL_SECONDS)
        self.published = samples * len(_SENSORS)
        settings = {
            "interval_seconds": _INTERVAL_SECONDS,
            "batch_seconds": batch_seconds,
            "report_seconds": 2,
            "samples": samples,
            "sensors": _SENSORS,
        }
        try:
            self._board = EmulatedBoard(folder, settings=settings, heap_kib=128)
        except MissingError as error:
            raise ConfigurationError(
                f"no emulated board: {error}", hint="the emulator comes from Debian by apt-get; or run without --board"
            ) from error
        gateway.ok("config", "set", "bridge.ports", str(self._board.port))
        self._board.start()

    def wire_bytes(self) -> int:
        """Return how many bytes crossed its serial line, both directions."""
        return sum(self._board.line.transferred)

    def enrol(self) -> None:
        """Let it into the group of its gateway, which runs."""
        deadline = time.monotonic() + _ENROL_SECONDS
        while not self._numbers():
            if time.monotonic() > deadline or not self._board.alive:
                raise TransientError("the board does not answer", hint=f"the logs are in {self._board.port.parent}")
            time.sleep(0.1)
        shown = self._gateway.json("mcu", "enrol", "--yes", "--label", self.name)
        self.author = shown["signing_public"]

    def replug(self) -> None:
        """Unplug it, and plug it in again: its port has another name then."""
        self._board.line.replug()

    def ledger(self) -> Ledger:
        """Return what the board reports, as its gateway has noted it."""
        numbers = self._numbers()
        waiting = numbers.get("outbox_messages", 0)
        published = numbers.get("readings", 0)
        return Ledger(published, waiting + (published < self.published), 0, 0)

    def _numbers(self) -> dict[str, int]:
        folder = StateFolder.at(self._gateway.state)
        store = folder.store(folder.configuration.config(), folder.identity())
        try:
            return next((board.statistics for board in store.boards.all()), {})
        finally:
            store.close()

    def close(self) -> None:
        """Switch it off."""
        self._board.close()
