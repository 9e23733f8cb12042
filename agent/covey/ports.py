"""What the runtime needs of the world, as Protocols. `adapters/` implements them; tests may, too.

The core never sees these: it takes `now` and bytes in, and gives changes and releases out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from covey.core.crypto import DeviceKeys
from covey.core.ids import ContentHash

if TYPE_CHECKING:
    from pathlib import Path

    from covey.core.actions.definition import Invocation
    from covey.core.presence.heartbeat import LastWill
    from covey.core.telemetry.drops import Drop
    from covey.core.telemetry.reading import Reading


class Clock(Protocol):
    """Time, three kinds of it."""

    def monotonic_us(self) -> int:
        """Microseconds since boot, suspend included; never steps."""

    def wall_us(self) -> int:
        """Microseconds since the Unix epoch, as the machine believes."""

    def synchronised(self) -> bool:
        """Say whether the wall clock is disciplined by a time source at the moment."""

    def boot_id(self) -> bytes:
        """Return 8 bytes that change with every boot."""


@dataclass(frozen=True, slots=True)
class RelayUp:
    """The relay accepted us and our inbox subscription; `maximum_payload` is the most one publish may carry.

    `connection` is the one that our will there speaks of; None where we have left none.
    """

    relay: str
    session_present: bool
    maximum_payload: int
    connection: int | None = None


@dataclass(frozen=True, slots=True)
class RelayDown:
    """No connection; the adapter tries again by itself. `reason` is text for people; `refused`: the relay said no.

    `up_s` is how long it was up, 0 where it never was. `taken_over`: somebody else has signed in as this device.
    `too_large`: the relay ended the connection over a packet that it calls too large. `resting`: this device
    ended it, until `Relay.resume`.
    """

    relay: str
    reason: str
    refused: bool = False
    up_s: float = 0.0
    taken_over: bool = False
    too_large: bool = False
    resting: bool = False


@dataclass(frozen=True, slots=True)
class Delivered:
    """An envelope arrived. Pass the event to `Relay.acknowledge` after the commit."""

    relay: str
    token: tuple[int, int]
    topic: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class Released:
    """The relay has answered the publish that returned `handle`: a hint, never a proof of delivery.

    `reason_code` is MQTT 5's PUBACK reason: 0 success, 0x10 no matching subscribers, >= 0x80 refused.
    """

    relay: str
    handle: int
    reason_code: int


RelayEvent = RelayUp | RelayDown | Delivered | Released


class PublishRefusal(Enum):
    """Why a relay did not take a publish; nothing was sent."""

    OFFLINE = "offline"
    WINDOW_FULL = "window full"
    TOO_LARGE = "too large"
    NOT_NOW = "goes alone, when nothing else is unanswered"


class Topics(Protocol):
    """Where one speaks and listens: a relay, or several as one."""

    def publish(self, topic: str, payload: bytes, lifetime_s: int = 0) -> int | PublishRefusal:
        """Hand over one publish; return its handle, unique for this adapter's life, or why not.

        It is kept so long for a subscriber that is away; 0: as long as its session; `NOT_KEPT`: not at all (QoS 0).
        """

    def listen(self, topics: Collection[str]) -> None:
        """In addition to the inbox, listen to exactly these topics from now on. Each delivery names its topic."""


class Relay(Topics, Protocol):
    """A dumb broker: carries bytes to topics at least once, perhaps, in some order."""

    name: str

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        """Keep connecting, in the background. `deliver` is called from another thread and must not block."""

    def acknowledge(self, delivered: Delivered) -> None:
        """Let the relay forget a delivery. A delivery of an earlier connection is ignored: it comes again."""

    def renew_subscription(self) -> None:
        """Ask for the inbox once more: the relay may have lost the subscription."""

    def set_will(self, will: LastWill | None) -> None:
        """Have the relay publish a will when the next connection, and each one after it, ends without a farewell."""

    def rest(self) -> None:
        """Disconnect cleanly, so that the relay keeps the session, and stay away until `resume`."""

    def resume(self) -> None:
        """Connect again, at once."""

    def alive(self) -> bool:
        """Say whether the background work is running; being offline does not count as stopped."""

    def stop(self) -> None:
        """Disconnect cleanly and end the background work."""


@dataclass(frozen=True, slots=True)
class AttachedBoard:
    """A microcontroller on one of this machine's ports, as it has introduced itself."""

    port: str
    keys: DeviceKeys
    software: str
    enrolled: bool
    up: bool
    changed_at_us: int
    statistics: dict[str, int]
    trouble: str = ""
    """What it said last that went wrong, since it started; text of a peer."""


UDP_PREFIX = "udp:"
"""How the ports of boards on UDP are called, before their address and its port."""


LINE_CONDITION = "line "
"""Begins the name of a condition: what a board on a port says that went wrong, which has not said who it is."""


class SerialLink(Protocol):
    """A port with a board behind it: whole messages, each at least once, in order."""

    port: str

    def start(self) -> None:
        """Keep looking for the board, in the background."""

    def send(self, message: bytes) -> bool:
        """Queue a message for the board; False while it is away or its queue is full."""

    def next_event(self) -> SerialUp | SerialDown | SerialMessage | None:
        """Return what happened, oldest first."""

    def acknowledge(self, message: SerialMessage) -> None:
        """Let the board forget a message: it is stored, or done."""

    def statistics(self) -> dict[str, int]:
        """Return counters of the line."""

    def stop(self) -> None:
        """Close the port and end the background work."""


class ComingLines(Protocol):
    """Lines that come up by themselves, such as those of boards on a network."""

    def start(self) -> None:
        """Begin to listen."""

    def stop(self) -> None:
        """Stop listening, and close all lines."""

    def new_lines(self) -> Sequence[SerialLink]:
        """Return the lines that have come up for the first time since the last call."""

    def trust(self, line: SerialLink, others: Sequence[SerialLink]) -> None:
        """Note that a member of a group is on a line, and on none of the others any more."""

    def has_ended(self, line: SerialLink) -> bool:
        """Say whether a line is gone."""


@dataclass(frozen=True, slots=True)
class SerialUp:
    """The board answers; `restarted` says that it has forgotten what was before."""

    restarted: bool


@dataclass(frozen=True, slots=True)
class SerialDown:
    """The board is gone or silent. `reason` is text for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class SerialMessage:
    """A message of the board. Pass it to `acknowledge` after the commit."""

    content: bytes
    token: object


class Transactions(Protocol):
    """Whatever a commit makes durable together."""

    def transaction(self) -> AbstractContextManager[None]:
        """Open a write transaction: committed durably at the end, rolled back on any exception.

        Raises:
            StorageError: the commit failed; nothing of it is there.
        """


Report = Callable[[str, str], None]
"""`report(level, line)` tells the person who runs the agent; levels are `error`, `warning`, `notice` and `info`."""


class ObjectStore(Protocol):
    """Where a vault lies: immutable objects, and a few small ones that are replaced whole."""

    def put(self, key: str, content: bytes) -> None:
        """Store durably and atomically: after return a reader sees all of it, before it the old or nothing.

        Raises:
            StorageError: the store refused; nothing visible changed.
        """

    def replace(self, key: str, content: bytes, before: bytes | None) -> None:
        """Store like `put`, but only where the object is still `before`, or still absent (004.14).

        Raises:
            ConflictError: it is something else.
            StorageError: the store refused; nothing visible changed.
        """

    def get(self, key: str, maximum: int) -> bytes | None:
        """Return the object, or None where there is none.

        Raises:
            LimitError: it is longer than `maximum` bytes.
            StorageError: the store could not be read.
        """

    def delete(self, key: str) -> None:
        """Remove an object; nothing happens where there is none.

        Raises:
            StorageError: the store refused.
        """

    def keys(self, prefix: str) -> Iterator[str]:
        """List keys under a prefix, sorted. Costly on object stores: never in the steady state (004.01)."""


class PiecewiseStore(ObjectStore, Protocol):
    """One that gives an object while it still comes."""

    def pieces(self, key: str, begin: int, end: int) -> Iterator[bytes] | None:
        """Give the bytes of an object from one position up to another, a chunk at a time; None where there is none.

        Fewer come where it is shorter.

        Raises:
            StorageError: the store could not be read; also while the bytes are taken.
        """


@dataclass(frozen=True, slots=True)
class GivenFile:
    """What peers may be given: `size` bytes at `path`, or as far as they have come at `part`.

    `index` holds the hashes of its chunks, and is itself known by `index_hash`; None: this is an index. `content` is
    the file that it is, or is the index of.
    `looked_for`: this device is asking places nearby for it, and not members at a relay.
    """

    path: Path
    part: Path
    size: int
    index: Path | None
    index_hash: ContentHash
    content: ContentHash
    looked_for: bool = False


class ContentPlace(Protocol):
    """Where sealed files may lie that is nearer than members at a relay: a peer of this network, an object store."""

    @property
    def name(self) -> str:
        """What a person calls it."""

    @property
    def on_this_network(self) -> bool:
        """Whether no link is between: what comes from there twice costs nobody anything."""

    def read(self, content: bytes, position: int, end: int) -> Iterator[bytes | memoryview] | None:
        """Give the bytes of what has a hash, in pieces that hold until the next one; None where it is not there.

        Waits for the place, within bounds of its own.

        Raises:
            CoveyError: it is not reached, or gives less than was asked for; also while the bytes are taken.
        """

    def close(self) -> None:
        """Release open handles; the next read opens it again."""


@dataclass(frozen=True, slots=True)
class ProgramEnd:
    """How a program has ended: its exit code, or a signal's number below 0, and the beginning of what it wrote.

    A code of None says that nobody knows.
    """

    code: int | None
    output: bytes
    cut: bool
    timed_out: bool


class RunningProgram(Protocol):
    """A program that runs within its bounds."""

    def look(self, now_us: int) -> ProgramEnd | None:
        """Return how it has ended; None while it runs. Never waits; at its time it is ended, with its children.

        Raises:
            ActionError: it was not started after all.
        """

    def stop(self) -> ProgramEnd:
        """End it now, with its children.

        Raises:
            ActionError: it was not started after all.
        """


class Programs(Protocol):
    """Has programs run, without a shell and with nothing of this process."""

    def start(self, invocation: Invocation, now_us: int) -> RunningProgram:
        """Start one, at a monotonic time in microseconds.

        Raises:
            ActionError: it cannot be started.
        """


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one look at a sensor gave: readings, named below the sensor; `failure` says what else it should have.

    A reading without a time was measured now; a time below 2**28 s is the monotonic clock's, another one Unix time.
    `committed` is called in the sensor's thread when the outbox holds all of them; `urgent`: it waits for that.
    `position`, if there is one, is committed together with the readings, and given to who opens the sensor next.
    `dropped`: how many readings were left out since the last look, by reason.
    """

    readings: Sequence[Reading]
    failure: str = ""
    committed: Callable[[], None] | None = None
    urgent: bool = False
    position: bytes | None = None
    dropped: Mapping[Drop, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SensorOpening:
    """What a sensor is opened with.

    `options` are its kind's settings, `position` is how far it had come, and a `trial` takes nothing from an agent that
    reads it too.
    """

    name: str
    options: Any
    interval_seconds: float
    clock: Clock
    position: bytes = b""
    trial: bool = False


class Sensor(Protocol):
    """A configured source of readings: a bus, a program, a broker. Only one thread uses it."""

    def read(self) -> Measurement:
        """Return new readings. One that sends by itself is waited for, a second at most; there may be none.

        Raises:
            SensorError: it does not measure; it is closed, and opened again after a while. Any other error has the same
            effect.
        """

    def close(self) -> None:
        """Release its resources; it is not used again."""


class SensorFeed(Protocol):
    """A sensor that runs next to the agent's loop: opened, read, opened again after a failure."""

    name: str

    @property
    def position(self) -> bytes | None:
        """How far the sensor had come with what was taken; None: as far as when it was opened, or it has none."""

    def start(self) -> None:
        """Begin."""

    def take(self, most: int) -> list[Reading]:
        """Return so many waiting readings, with times and whole names; never blocks.

        Readings of one position come together, even beyond `most`.
        """

    def commit(self) -> None:
        """Know that the outbox holds all that was taken."""

    def urgent(self) -> bool:
        """Say whether it waits for a commit."""

    def state(self) -> str:
        """Return `up` once it has measured, `starting`, `no reading yet`, or in a line why it does not measure."""

    def dropped(self) -> dict[Drop, int]:
        """Return how many readings were left out, or got another time, since it was made, by reason."""

    def stop(self) -> None:
        """Have it end; `join` waits for that."""

    def join(self, seconds: float) -> None:
        """Wait until it has ended, but not longer."""
