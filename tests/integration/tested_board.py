"""The boards' firmware on CPython, as a device that `covey conformance --role board` tests.

    python -P -m tests.integration.tested_board STATE LINE [BREAKS ...]

It keeps its files in STATE, serves the line LINE, and runs until it is killed. BREAKS are names of `WRONGS`.
"""

from __future__ import annotations

import os
import select
import sys
import time
import tty
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from covey_boards.device import core, identity, orders, outbox
from covey_boards.device.sensors import SENSORS

_TURN_S = 0.02
_RETRY_US = 2_000_000
"""A real board waits 30 s before it sends a message again: pacing, which each device decides for itself."""


class _Files:
    """The board's flash."""

    folder = ""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes | None:
        path = self._path / name
        return path.read_bytes() if path.exists() else None

    def write(self, name: str, data: bytes) -> None:
        new = self._path / f"{name}.new"
        new.write_bytes(data)
        new.replace(self._path / name)


def _proves_nothing() -> None:
    made = identity.Identity.__init__

    def unproven(self: Any, *rest: Any) -> None:
        made(self, *rest)
        self.proof = bytes(64)

    identity.Identity.__init__ = unproven


def _frees_on_any_acknowledgement() -> None:
    name = "_hear"
    receive = getattr(core.Core, name)

    def believing(self: Any, message: Any, now_us: int) -> None:
        message[1] = self._collector[1]
        receive(self, message, now_us)

    setattr(core.Core, name, believing)


def _follows_every_gateway() -> None:
    receive = core.Core._receive

    def following(self: Any, *rest: Any) -> Any:
        kept, self._collector = self._collector, None
        try:
            return receive(self, *rest)
        finally:
            self._collector = self._collector or kept

    core.Core._receive = following


def _keeps_its_incarnation() -> None:
    made = core.Core.__init__

    def same(self: Any, *rest: Any) -> None:
        made(self, *rest)
        self._incarnation = bytes(8)

    core.Core.__init__ = same


def _obeys_anybody() -> None:
    vars(orders)["_is_signed"] = lambda *_: True


WRONGS: dict[str, Callable[[], None]] = {
    "proves-nothing": _proves_nothing,
    "frees-on-any-acknowledgement": _frees_on_any_acknowledgement,
    "follows-every-gateway": _follows_every_gateway,
    "keeps-its-incarnation": _keeps_its_incarnation,
    "obeys-anybody": _obeys_anybody,
}
"""What a board may do wrong, by name."""


def run(state: str, line: str, breaks: list[str]) -> None:
    """Be the board, start after start."""
    vars(outbox)["_RETRY_US"] = _RETRY_US
    for each in breaks:
        WRONGS[each]()
    port = os.open(line, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    tty.setraw(port)
    files, sensors = _Files(Path(state)), [SENSORS["counter"]()]
    while True:
        settings = core.Settings(interval_us=300_000, batch_us=600_000, report_us=2_000_000)
        board = core.Core(identity.load_identity(files), files, sensors, settings)
        while not board.restart_wanted:
            select.select([port], [], [], _TURN_S)
            with suppress(BlockingIOError):
                board.feed(os.read(port, 4_096), _now_us())
            out = board.tick(_now_us())
            while out:
                out = out[os.write(port, out) :]


def _now_us() -> int:
    return time.monotonic_ns() // 1_000


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        run(sys.argv[1], sys.argv[2], sys.argv[3:])
