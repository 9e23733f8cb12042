"""The queue between a connection and its caller: posted work and returned events."""

from __future__ import annotations

import enum
from dataclasses import dataclass


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
