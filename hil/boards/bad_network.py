"""A network between a board and its gateway that loses, doubles and holds back datagrams, by seed, on loopback."""

from __future__ import annotations

import heapq
import random
import select
import socket
import threading
import time
from contextlib import suppress

_TURN_S = 0.02
_LATE_S = 0.3


class BadNetwork:
    """Boards speak to `port`, and the gateway at `to` hears them from an address of their own each.

    Args:
        to: the gateway's address.
        permille: of datagrams that are lost; of those that come twice; of those that come late, after others.
        seed: of what happens to them.
    """

    def __init__(self, to: tuple[str, int], permille: int, seed: int) -> None:
        self._to, self._permille, self._rng = to, permille, random.Random(seed)  # noqa: S311 - a seeded world
        self._board = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._board.bind(("127.0.0.1", 0))
        self._gateway = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._gateway.bind(("127.0.0.1", 0))
        self.port = self._board.getsockname()[1]
        self.lost = self.doubled = self.late = self.passed = 0
        self._address: tuple[str, int] | None = None
        self._held: list[tuple[float, int, bytes, bool]] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bad network", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._stopping.set()
        self._thread.join()
        self._board.close()
        self._gateway.close()

    def _run(self) -> None:
        while not self._stopping.is_set():
            ready, _, _ = select.select([self._board, self._gateway], [], [], _TURN_S)
            for each in ready:
                with suppress(OSError):
                    raw, address = each.recvfrom(2_048)
                    upwards = each is self._board
                    self._address = address if upwards else self._address
                    self._take(raw, upwards)
            now = time.monotonic()
            while self._held and self._held[0][0] <= now:
                _, _, raw, upwards = heapq.heappop(self._held)
                self._give(raw, upwards)

    def _take(self, raw: bytes, upwards: bool) -> None:
        self.passed += 1
        chance = self._rng.randrange(1_000)
        if chance < self._permille:
            self.lost += 1
        elif chance < 2 * self._permille:
            self.doubled += 1
            self._give(raw, upwards)
            self._hold(raw, upwards)
        elif chance < 3 * self._permille:
            self.late += 1
            self._hold(raw, upwards)
        else:
            self._give(raw, upwards)

    def _hold(self, raw: bytes, upwards: bool) -> None:
        due = time.monotonic() + _LATE_S * self._rng.random()
        heapq.heappush(self._held, (due, self.passed, raw, upwards))

    def _give(self, raw: bytes, upwards: bool) -> None:
        with suppress(OSError):
            if upwards:
                self._gateway.sendto(raw, self._to)
            elif self._address is not None:
                self._board.sendto(raw, self._address)
