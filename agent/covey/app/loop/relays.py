"""The relays of one device, all connected at once, and the choice between them for each message (docs/protocol/core.md,
"Relay"; ADR 21).

1. Relays are used in the order of the configuration, but for each recipient first the one that delivered its last news.
   When a relay connects, relays of lower rank lose that preference: they were only a detour.
2. Each retry time without an answer moves a recipient to the next relay, in a circle. So a relay that swallows
   messages, or a recipient on another one only, costs a retry. A single missing message among answered ones is sent
   again by another relay.
3. An answer to a device's messages (an acknowledgement) goes by every relay that has delivered some of them since the
   last one: the sender may listen at one of them only, and a replay must not divert the answer.
4. A message too large for one relay is offered to the others.
5. A relay whose window has been full for `_STALLED_US` without an answer is skipped while others answer.
6. A relay that disconnects over a size without having announced a limit is not offered that size for a while
   (`core/link/taken_sizes.py`).
7. A recipient that leaves two retries unanswered may have answered into a subscription that a relay has lost. So the
   inbox of each relay that has delivered nothing for `RESUBSCRIBE_US` is subscribed again, at most once in that time.
8. A message that a relay refuses `POISON_TRIES` times in a row, while it accepts others, is given up there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from covey.core.ids import DeviceKey, Place
from covey.core.link.sealer import Outgoing
from covey.core.link.taken_sizes import SizeAdmission, TakenSizes
from covey.core.presence.heartbeat import LastWill
from covey.core.wire.topics import inbox_topic
from covey.limits.link import POISON_TRIES
from covey.limits.message import MAXIMUM_ENVELOPE_BYTES
from covey.limits.relay import RESUBSCRIBE_US
from covey.ports import Delivered, PublishRefusal, Relay, RelayEvent, Released

_STALLED_US = 5_000_000
_DEAF_RETRIES = 2
_REFUSED = 0x80
"""PUBACK reasons from here on refuse (MQTT 5, section 2.4)."""


@dataclass(slots=True)
class _Refusals:
    """How often a relay has refused one message, and how many of others it had taken before the first refusal."""

    taken_before: int
    count: int = 0


class Relays:
    """Relays by name, in the order of the configuration."""

    def __init__(self, relays: Sequence[Relay]) -> None:
        self._relays = {relay.name: relay for relay in relays}
        assert len(self._relays) == len(relays), "relays have names of their own"
        self._up: set[str] = set()
        self._sizes: dict[str, TakenSizes] = {}
        self._restored: dict[str, tuple[int, int, int]] = {}
        self._taken = dict.fromkeys(self._relays, 0)
        self._refusals: dict[tuple[str, DeviceKey, Place], _Refusals] = {}
        self._full_since: dict[str, int] = {}
        self._published: dict[tuple[str, int], Outgoing] = {}
        self._arrivals: dict[str, str] = {}
        self._asked: dict[str, set[str]] = {}
        self._renewed_us: int | None = None
        self._delivering: set[str] = set()
        """Relays that have delivered something since then (rule 7)."""

    # -- all of them --------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        """The relays' names, the preferred one first."""
        return list(self._relays)

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        """Keep connecting, in the background."""
        for relay in self._relays.values():
            relay.start(deliver)

    def stop(self) -> None:
        """Disconnect cleanly and end the background work."""
        for relay in self._relays.values():
            relay.stop()

    def rest(self) -> None:
        """Disconnect cleanly, and stay away until `resume`."""
        for relay in self._relays.values():
            relay.rest()

    def resume(self) -> None:
        """Connect again, at once."""
        for relay in self._relays.values():
            relay.resume()

    def alive(self) -> bool:
        """Say whether all background work is running."""
        return all(relay.alive() for relay in self._relays.values())

    def listen(self, topics: Collection[str]) -> None:
        """In addition to the inbox, listen everywhere to exactly these topics."""
        for relay in self._relays.values():
            relay.listen(topics)

    def publish(self, topic: str, payload: bytes, lifetime_s: int = 0) -> int | PublishRefusal:
        """Publish everywhere what belongs to no recipient, as at a rendezvous; return the first one's answer."""
        return next(iter([relay.publish(topic, payload, lifetime_s) for relay in self._relays.values()]))

    def acknowledge(self, delivered: Delivered) -> None:
        """Let the relay that brought something forget it."""
        self._delivering.add(delivered.relay)
        self._relays[delivered.relay].acknowledge(delivered)

    def set_will(self, relay: str, will: LastWill | None) -> None:
        """Have a relay publish a will when its next connection ends."""
        self._relays[relay].set_will(will)

    # -- what they tell -----------------------------------------------------------------------------------------------

    @property
    def complete(self) -> bool:
        """Whether all relays are reached."""
        return len(self._up) == len(self._relays)

    @property
    def connected(self) -> bool:
        """Whether any relay is reached."""
        return bool(self._up)

    @property
    def maximum_payload(self) -> int:
        """The size, in bytes, that what can be divided is divided to: the most that a relay takes, reached or not."""
        return max((sizes.divided for sizes in self._sizes.values()), default=MAXIMUM_ENVELOPE_BYTES)

    def carries(self, payload_bytes: int) -> bool:
        """Say whether any relay takes an envelope of that size; one that was never reached may."""
        unknown = len(self._sizes) < len(self._relays)
        return unknown or any(payload_bytes <= sizes.largest for sizes in self._sizes.values())

    def payload_of(self, name: str) -> int:
        """Return the largest envelope, in bytes, that a relay takes, as it announced or as its hang-ups show."""
        return self._sizes[name].largest

    def came_up(self, name: str, maximum_payload: int) -> None:
        """Note that a relay is reached (rule 1), and the largest envelope that it takes."""
        self._up.add(name)
        if name not in self._sizes:
            self._sizes[name] = TakenSizes()
            if name in self._restored:
                self._sizes[name].restore(*self._restored[name])
        self._sizes[name].came_up(maximum_payload)
        self._full_since.pop(name, None)
        rank = self.names.index(name)
        lower = set(self.names[rank + 1 :])
        self._arrivals = {topic: relay for topic, relay in self._arrivals.items() if relay not in lower}

    def refusal_of(self, name: str) -> tuple[int, int] | None:
        """Return from which size on a relay refuses messages, as its hang-ups show, and for how long (rule 6)."""
        sizes = self._sizes.get(name)
        return None if sizes is None else sizes.refusal

    def restore_refusal(self, name: str, refused_bytes: int, pause_us: int, now_us: int) -> None:
        """Take up what an earlier process has learned of a relay, once that is reached."""
        self._restored[name] = refused_bytes, pause_us, now_us

    def went_down(self, name: str, now_us: int, *, too_large: bool = False) -> int | None:
        """Note that a relay is lost, with what it had not answered.

        Return the size of message that it turns out to hang up on, if that shows now (rule 6).
        """
        self._up.discard(name)
        self._full_since.pop(name, None)
        self._published = {key: message for key, message in self._published.items() if key[0] != name}
        self._refusals = {key: refusals for key, refusals in self._refusals.items() if key[0] != name}
        sizes = self._sizes.get(name)
        return None if sizes is None else sizes.went_down(now_us, too_large=too_large)

    def released(self, event: Released) -> Outgoing | None:
        """Return the message that a relay has answered; None for what no link waits for."""
        self._full_since.pop(event.relay, None)
        taken = event.reason_code < _REFUSED
        self._taken[event.relay] += taken
        if (sizes := self._sizes.get(event.relay)) is not None:
            sizes.answered(event.handle, taken=taken)
        outgoing = self._published.pop((event.relay, event.handle), None)
        if outgoing is not None and outgoing.entry is not None and taken:
            self._refusals.pop((event.relay, outgoing.recipient, outgoing.entry.place), None)
        return outgoing

    def gives_up(self, relay: str, outgoing: Outgoing) -> bool:
        """Note that a relay has refused a message; say whether it always does while it takes others (rule 8)."""
        assert outgoing.entry is not None
        key = relay, outgoing.recipient, outgoing.entry.place
        refusals = self._refusals.setdefault(key, _Refusals(self._taken[relay]))
        refusals.count += 1
        if refusals.count < POISON_TRIES or self._taken[relay] == refusals.taken_before:
            return False
        del self._refusals[key]
        return True

    def note_received(self, device: DeviceKey, relay: str, *, news: bool) -> None:
        """Note that a relay has brought something of a device that wants an answer, or is news (rules 1 and 3)."""
        topic = inbox_topic(device)
        self._asked.setdefault(topic, set()).add(relay)
        if news:
            self._arrivals[topic] = relay

    # -- sending ------------------------------------------------------------------------------------------------------

    def full(self, now_us: int) -> bool:
        """Say whether sending has to wait for a relay's answer."""
        return bool(self._full_since) and any(name in self._full_since for name in self._usable(now_us))

    def send(self, outgoing: Outgoing, retries: int, now_us: int) -> str | PublishRefusal:
        """Publish an envelope; return the relay that took it, or why none did. `retries` are its recipient's."""
        names = self._routing(outgoing.topic, now_us)
        if outgoing.entry is None:
            return self._answer(outgoing, names, now_us)
        if retries >= _DEAF_RETRIES:
            self._renew_subscriptions(now_us)
        first = retries % len(names) if names else 0
        if retries == 0 and outgoing.entry.sends and outgoing.entry.relay in names[:1]:
            first = 1 % len(names)
        refusal = PublishRefusal.OFFLINE
        for name in names[first:] + names[:first]:
            result = self._publish(name, outgoing, now_us)
            if not isinstance(result, PublishRefusal):
                self._published[name, result] = outgoing
                return name
            if refusal is not PublishRefusal.NOT_NOW:
                refusal = result
            if result is PublishRefusal.WINDOW_FULL:
                break
        return refusal

    def _renew_subscriptions(self, now_us: int) -> None:
        if self._renewed_us is None or now_us >= self._renewed_us + RESUBSCRIBE_US:
            self._renewed_us = now_us
            for name in self._up - self._delivering:
                self._relays[name].renew_subscription()
            self._delivering.clear()

    def _answer(self, outgoing: Outgoing, names: list[str], now_us: int) -> str | PublishRefusal:
        """Publish what no link repeats (rule 3)."""
        asked = self._asked.pop(outgoing.topic, set())
        chosen = [name for name in names if name in asked] or names[:1]
        results = {name: self._publish(name, outgoing, now_us) for name in chosen}
        taken = [name for name, result in results.items() if not isinstance(result, PublishRefusal)]
        if taken:
            return taken[0]
        self._asked[outgoing.topic] = asked
        return next(
            (result for result in results.values() if isinstance(result, PublishRefusal)), PublishRefusal.OFFLINE
        )

    def _publish(self, name: str, outgoing: Outgoing, now_us: int) -> int | PublishRefusal:
        sizes, size = self._sizes[name], len(outgoing.envelope)
        match sizes.admission(size, now_us):
            case SizeAdmission.NEVER:
                return PublishRefusal.TOO_LARGE
            case SizeAdmission.ALONE_LATER:
                return PublishRefusal.NOT_NOW
            case SizeAdmission.AFTER_THE_SUSPECT:
                result: int | PublishRefusal = PublishRefusal.WINDOW_FULL
            case SizeAdmission.NOW:
                result = self._relays[name].publish(outgoing.topic, outgoing.envelope, outgoing.lifetime_s)
        if not isinstance(result, PublishRefusal):
            sizes.sent(result, size, now_us)
        elif result in {PublishRefusal.WINDOW_FULL, PublishRefusal.OFFLINE}:
            self._full_since.setdefault(name, now_us)
        return result

    def _usable(self, now_us: int) -> list[str]:
        up = [name for name in self._relays if name in self._up]
        if not self._full_since:
            return up
        answering = [name for name in up if now_us - self._full_since.get(name, now_us) < _STALLED_US]
        return answering or up

    def _routing(self, topic: str, now_us: int) -> list[str]:
        usable = self._usable(now_us)
        if len(usable) < 2:
            return usable
        first = self._arrivals.get(topic)
        return sorted(usable, key=lambda name: name != first)  # stable: the rest keeps its order
