"""What a connection shares with its caller's threads: posted work, the inbox's topics, and returned events.

Rules 2 and 8 of `connection.py`: publishes are bounded here, before they are posted.
"""

from __future__ import annotations

import enum
import socket
import threading
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.adapters.mqtt.settings import PACKET_BYTES_MAX, publish_bytes
from covey.ports import PublishRefusal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from covey.adapters.mqtt.settings import ConnectionSettings


@dataclass(frozen=True, slots=True)
class Will:
    """What the server publishes `delay_s` after the connection ended without a DISCONNECT (§3.1.3.2)."""

    topic: str
    payload: bytes
    delay_s: int = 0
    retain: bool = False


@dataclass(frozen=True, slots=True)
class ServerUp:
    """The server accepted us, and our inbox if we have one; one publish may carry `payload_bytes_max`."""

    session_present: bool
    payload_bytes_max: int
    packet_bytes_max: int


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message; `packet_id` (0 at QoS 0) is acknowledged on this connection only."""

    packet_id: int
    topic: str
    payload: bytes
    repeated: bool
    retained: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """The server's reason codes for the publish (one code) or subscriptions (one each) that returned `handle`."""

    handle: int
    codes: tuple[int, ...]


ConnectionEvent = ServerUp | Arrived | Answered


@dataclass(frozen=True, slots=True)
class Publish:
    """A publish that is posted."""

    handle: int
    topic: str
    payload: bytes
    lifetime_s: int
    retain: bool


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscriptions that are posted."""

    handle: int
    topics: tuple[str, ...]
    qos: int
    retained: bool


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """The end of a subscription, posted."""

    handle: int
    topic: str


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """A PUBACK that is posted."""

    packet_id: int


class Order(enum.Enum):
    """What else is posted."""

    RENEW_SUBSCRIPTION = enum.auto()
    CLOSE = enum.auto()
    DROP = enum.auto()


Work = Publish | Subscribe | Unsubscribe | Acknowledge | Order


class PostedWork:
    """Work for the network thread, in the order in which it was posted, by any thread.

    `wakes` becomes readable when there is some. `handles` numbers what the server answers.
    """

    def __init__(self, settings: ConnectionSettings, handles: Iterator[int]) -> None:
        self._settings = settings
        self._handles = handles
        self._lock = threading.Lock()
        self._waiting: deque[Work] = deque()
        self._woken = False
        self._open = False  # for publishes
        self._unanswered = 0
        self._window = settings.window
        self._packet_bytes_max = PACKET_BYTES_MAX
        self.wakes, self._waker = socket.socketpair()
        self.wakes.setblocking(False)
        self._waker.setblocking(False)

    def publish(self, topic: str, payload: bytes, lifetime_s: int, *, retain: bool) -> int | PublishRefusal:
        """Post a publish if it fits the window and the packet size; return its handle."""
        size = publish_bytes(len(topic.encode()), len(payload), expires=lifetime_s > 0)
        with self._lock:
            if not self._open:
                return PublishRefusal.OFFLINE
            if size > self._packet_bytes_max and self._settings.obeys:
                return PublishRefusal.TOO_LARGE
            if self._unanswered >= self._window and self._settings.obeys:
                return PublishRefusal.WINDOW_FULL
            self._unanswered += 1
            handle = next(self._handles)
            self._add(Publish(handle, topic, payload, lifetime_s, retain))
            return handle

    def subscribe(self, topics: tuple[str, ...], qos: int, *, retained: bool) -> int:
        """Post subscriptions; return their handle."""
        handle = next(self._handles)
        self.post(Subscribe(handle, topics, qos, retained))
        return handle

    def unsubscribe(self, topic: str) -> int:
        """Post the end of a subscription; return its handle."""
        handle = next(self._handles)
        self.post(Unsubscribe(handle, topic))
        return handle

    def post(self, work: Work) -> None:
        """Post work that nothing bounds."""
        with self._lock:
            self._add(work)

    def end(self, order: Order) -> None:
        """Post an order that ends the connection; nothing is published after it."""
        with self._lock:
            self._open = False
            self._add(order)

    def _add(self, work: Work) -> None:
        self._waiting.append(work)
        if not self._woken:
            self._woken = True
            self._waker.send(b"\0")

    # --- the network thread --------------------------------------------------------------------------

    def take(self) -> deque[Work]:
        """Return what was posted since the last call."""
        self.wakes.recv(64)
        with self._lock:
            self._woken = False
            taken, self._waiting = self._waiting, deque()
        return taken

    def bound(self, window: int, packet_bytes_max: int) -> None:
        """Note what the server takes: publishes without an answer, and bytes of a packet."""
        with self._lock:
            self._window = min(self._settings.window, window)
            self._packet_bytes_max = packet_bytes_max

    def open(self) -> int:
        """Take publishes from now on; return how many bytes a packet may have."""
        with self._lock:
            self._open = True
            return self._packet_bytes_max

    def note_answer(self) -> None:
        """Note that the server has answered a publish."""
        with self._lock:
            self._unanswered -= 1

    def close(self) -> None:
        """Take nothing any more."""
        with self._lock:
            self._open = False
            self._woken = True  # nobody may write to the closed pair
            self._waker.close()
            self.wakes.close()


class Subscriptions:
    """The topic that is ours, others that we read for a while, and what we refused to take from them."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.oversize_dropped = 0
        self._others: frozenset[str] = frozenset()
        self._retired: set[str] = set()
        self._granted: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def listen(self, topics: Collection[str]) -> None:
        """Read these topics, too, and no others."""
        with self._lock:
            self._retired |= self._others
            self._others = frozenset(topics)
            self._retired -= self._others

    def overheard(self, topic: str) -> bool:
        """Note a topic that the session still holds for an earlier process; say whether a renewal is to end it."""
        with self._lock:
            ends = bool(topic) and topic not in self.topics() and topic not in self._retired
            if ends:
                self._retired.add(topic)
            return ends

    @property
    def in_session(self) -> bool:
        """Whether the session holds exactly what we read, as far as this process knows."""
        with self._lock:
            return self._granted == frozenset(self.topics()) and not self._retired

    def note_granted(self, topics: Collection[str]) -> None:
        """Note what the server has granted last."""
        with self._lock:
            self._granted = frozenset(topics)

    def topics(self) -> list[str]:
        """Return what we read, our own topic first."""
        return [self.topic, *sorted(self._others)]

    def retired(self) -> list[str]:
        """Return the topics whose subscription must end."""
        with self._lock:
            return sorted(self._retired)

    def forget(self, topics: list[str]) -> None:
        """Note that the server has ended these."""
        with self._lock:
            self._retired.difference_update(topics)
