"""A TCP proxy that breaks connections, the same way for the same seed."""

from __future__ import annotations

import enum
import random
import select
import socket
import struct
import threading
from collections import Counter
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

_LOOK_S = 0.05


class Fault(enum.Enum):
    """What becomes of a connection, after so many bytes."""

    CUT = "reset on both sides, at the end of what was sent"
    TRUNCATE = "closed in the middle of what was sent"
    HALF_OPEN = "open, and nothing arrives any more"
    DELAY = "each piece late, and then reset"


class FaultyProxy:
    """Listens on loopback and carries to the broker's port: so many broken connections, then sound ones only."""

    def __init__(self, port: int, seed: int, broken: int) -> None:
        """Listen; nothing is broken before `wreak`."""
        self.seen: Counter[Fault] = Counter()
        self._port = port
        self._random = random.Random(seed)
        self._broken = broken
        self._wreaking = False
        self._stop = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(_LOOK_S)
        self._threads = [threading.Thread(target=self._listen)]
        self.url = f"mqtt://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        """Serve."""
        self._threads[0].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every connection."""
        self._stop.set()
        for thread in self._threads:
            thread.join(10)
        self._listener.close()

    @property
    def sound(self) -> bool:
        """Whether all is broken that was to be."""
        return self.seen.total() >= self._broken

    def wreak(self) -> None:
        """Break connections from now on, those that live as well."""
        self._wreaking = True

    def _listen(self) -> None:
        while not self._stop.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            self._threads.append(threading.Thread(target=self._carry, args=(client, _Plan(self._random))))
            self._threads[-1].start()

    def _carry(self, client: socket.socket, plan: _Plan) -> None:
        try:
            with client, socket.create_connection(("127.0.0.1", self._port)) as server:
                other = {client: server, server: client}
                while not self._stop.is_set():
                    for source in select.select([client, server], [], [], _LOOK_S)[0]:
                        chunk = source.recv(65536)
                        if not chunk or not self._pass(chunk, source, other[source], plan):
                            return
        except OSError:
            return  # one side has left

    def _pass(self, chunk: bytes, source: socket.socket, target: socket.socket, plan: _Plan) -> bool:
        """Pass a piece on as planned; say whether the connection lives."""
        if self._wreaking and not plan.counted and not self.sound:
            plan.counted = True
            self.seen[plan.fault] += 1
        plan.left -= len(chunk) if plan.counted else 0
        if plan.counted and plan.fault is Fault.DELAY:
            self._stop.wait(plan.pause_s)
        if plan.left <= 0:
            if plan.fault is Fault.HALF_OPEN:
                return True
            if plan.fault is Fault.TRUNCATE:
                target.sendall(chunk[: len(chunk) // 2])
                return False
            for end in (source, target):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        target.sendall(chunk)
        return True


class _Plan:
    """What is to become of one connection."""

    def __init__(self, chance: random.Random) -> None:
        self.fault = chance.choice([*Fault])
        self.left = chance.randrange(1, 8_000)
        self.pause_s = chance.uniform(0.01, 0.2)
        self.counted = False
