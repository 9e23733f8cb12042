"""A running agent whose relay brings more from hostile hands than from honest ones, in the same turns.

Whatever they send, at whatever numbers: who is honest is heard in the turn in which its envelope comes, as often as it
speaks; an envelope that brings out a defect is set aside alone; counters end at their largest value; and the work that
is done for what is worth nothing has a bound, for each author and for all.

A whole world brings no flood: one that meets the real bounds takes ten thousand envelopes. Here they are small.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from covey.adapters.sqlite.counters import Counters
from covey.adapters.sqlite.link.inbox import Inbox
from covey.app.loop.deliveries import Deliveries
from covey.app.loop.relays import Relays
from covey.app.loop.runtime import Runtime
from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import INCARNATION_BYTES, DeviceKey, Incarnation, LinkSeq, Place
from covey.core.link import rates as rates_module
from covey.core.link.incarnations import IncarnationSpan
from covey.core.link.link_keys import KeptKey, Opened, open_envelope
from covey.core.link.rates import ReceivingRates, TokenBucket
from covey.core.now import Now
from covey.core.presence.heartbeat import LastWill
from covey.core.receiving import receiver as receiver_module
from covey.core.wire import cbor
from covey.core.wire.envelope import seal
from covey.core.wire.message import (
    NO_GROUP,
    Acknowledgement,
    LossReason,
    Message,
    MessageType,
    read_message,
    write_message,
)
from covey.core.wire.sequences import SequenceSet
from covey.core.wire.topics import inbox_topic
from covey.errors import StorageError
from covey.limits.message import MAXIMUM_COUNTER, MAXIMUM_SEQUENCE
from covey.limits.rate import WORTHLESS_TOKENS
from covey.ports import Delivered, RelayEvent, RelayUp, Released
from tests.examples import parameters
from tests.fleet import Device, found, identity
from tests.proof import a_world_notices

if TYPE_CHECKING:
    pass

_STEPS = 60
_PATIENCE_STEPS = 300
_SEEDS_OF_MISTAKES = (1, 2, 3)
_SECOND = 1_000_000
_WINDOW = 20
"""What the relay brings before it is acknowledged."""
_AUTHOR, _AUTHOR_PER_SECOND, _ALL, _ALL_PER_SECOND, _DEFECT = 1_000, 20, 2_000, 100, 100
_SPEAKS, _CLAIMS = Incarnation(b"insider!"), Incarnation(b"claimant")


class _PlantedError(Exception):
    """What nobody has foreseen."""


class _Relay:
    """A relay that brings in order, as much at once as its window holds (`covey.ports.Relay`)."""

    name = "relay"

    def __init__(self, publish: Callable[[str, bytes], None], acknowledged: Callable[[Delivered], None]) -> None:
        self.queue: list[tuple[bytes, str]] = []
        self._publish, self._acknowledged = publish, acknowledged
        self._events: list[RelayEvent] = [RelayUp(self.name, True, 1_000_000)]
        self._in_flight: list[Delivered] = []
        self._number = 0

    def events(self) -> list[RelayEvent]:
        """Return what has happened, with what is brought now."""
        events, self._events = self._events, []
        while self.queue and len(self._in_flight) < _WINDOW:
            envelope, topic = self.queue.pop(0)
            self._number += 1
            self._in_flight.append(Delivered(self.name, (1, self._number), topic, envelope))
            events.append(self._in_flight[-1])
        return events

    @property
    def idle(self) -> bool:
        """Say whether everything was brought and acknowledged."""
        return not self.queue and not self._in_flight

    def publish(self, topic: str, payload: bytes, _lifetime_s: int = 0) -> int:
        """Take it."""
        self._number += 1
        self._events.append(Released(self.name, self._number, 0))
        self._publish(topic, payload)
        return self._number

    def acknowledge(self, delivered: Delivered) -> None:
        """Let go of it."""
        self._in_flight.remove(delivered)
        self._acknowledged(delivered)

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        """Satisfy the port."""

    def listen(self, topics: Collection[str]) -> None:
        """Satisfy the port."""

    def rest(self) -> None:
        """Satisfy the port."""

    def resume(self) -> None:
        """Satisfy the port."""

    def renew_subscription(self) -> None:
        """Satisfy the port."""

    def set_will(self, will: LastWill | None) -> None:
        """Satisfy the port."""

    def alive(self) -> bool:
        """Satisfy the port."""
        return True

    def stop(self) -> None:
        """Satisfy the port."""


class _World:
    """Ann is honest, mal a member whose keys somebody else has, too, and the outcast none; all of them speak to ben."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.ann, self.ben, mal = devices = [Device(name, folder) for name in ("ann", "ben", "mal")]
        self.group_id = found(*devices)
        self.mal, self.outcast = mal.identity, identity("outcast")
        mal.stop()
        self._begin_another_incarnation()
        self._began_us = self._now_us = self.ben.now.monotonic_us
        self.said: list[str] = []
        self.accepted: list[bytes] = []
        self.verified = self.opened = 0
        self._blobs: dict[bytes, bytes] = {}
        self._noise: set[bytes] = set()
        self._returned: list[bytes] = []
        self._numbers: Counter[tuple[DeviceKey, Incarnation]] = Counter()
        self.relay = _Relay(self._publish, self._check_acknowledged)
        self.runtime = Runtime(
            self.ben.store, Relays([self.relay]), self, self.ben.make_node, [], lambda _, line: self.said.append(line)
        )

    def _begin_another_incarnation(self) -> None:
        """Let there be an earlier one, of which the others have acknowledged nothing."""
        self.ben.blob(self.group_id, b"in an earlier life")
        with self.ben.store.transaction():
            self.ben.store.counters.count("lost_messages", MAXIMUM_COUNTER - 1)  # as after eight million such claims
            self.ben.store.incarnations.renew(Incarnation(self.chance.randbytes(INCARNATION_BYTES)))
        self.ben.restart()

    # -- ben's clock --------------------------------------------------------------------------------------------------

    def monotonic_us(self) -> int:
        """Return the time."""
        return self._now_us

    def wall_us(self) -> int:
        """Return the date."""
        return self.ann.now.wall_us

    def synchronised(self) -> bool:
        """Return whether anybody knows it."""
        return True

    def boot_id(self) -> bytes:
        """Return a boot's id."""
        return bytes(8)

    # -- the course of events -----------------------------------------------------------------------------------------

    def step(self) -> None:
        """Let ann speak and the hostile send, and bring all that in one order or another."""
        self.accepted.append(b"honest %d" % len(self.accepted))
        self.ann.blob(self.group_id, self.accepted[-1])
        with self.ben.store.transaction():
            self.runtime.node.send_blob(
                self.group_id, b"answer %d" % len(self.accepted), Now(self._now_us, self.wall_us())
            )
        acts = (self._junk, self._noises, self._forged, self._defects, self._losses, self._acknowledgements)
        envelopes = [*self._sent_by_ann(), *self.chance.choice(acts)()]
        self.chance.shuffle(envelopes)
        self.relay.queue += [(each, inbox_topic(self.ben.key)) for each in envelopes]
        self.turn(self.chance.choice((0, 0.1, 0.5, 3)))

    def turn(self, seconds: float) -> None:
        """Let time pass, and ben turn once."""
        self._now_us += int(seconds * _SECOND)
        self.ann.wait(seconds)
        self.runtime.turn(self.relay.events())
        returned, self._returned = self._returned, []
        for each in returned:
            self.ann.receive(each)
        self._check_work()

    def finish(self) -> None:
        """Go on without the hostile until all has come."""
        for _ in range(_PATIENCE_STEPS):
            self.relay.queue += [(each, inbox_topic(self.ben.key)) for each in self._sent_by_ann()]
            self.turn(1)
            if self.relay.idle and not self._wait_for_each_other():
                break
        assert sorted(self.ben.inbox()) == sorted(self.accepted), "not everything came once"
        assert not self._wait_for_each_other(), "not everything was acknowledged"
        answers = [b"answer %d" % (number + 1) for number in range(_STEPS)]
        assert sorted(self.ann.inbox()) == sorted([b"in an earlier life", *answers])
        waiting = self.ben.store.outbox.queued(self.mal.signing_public, Place(0), 10_000, 10_000_000)
        bodies = {read_message(raw, verify=False).body for _, raw in waiting}
        assert bodies.issuperset(answers), "what was said of an earlier incarnation counts for the present one"
        assert all(type(value) is int for value in self.ben.store.counters.values().values())

    def _wait_for_each_other(self) -> bool:
        pairs = ((self.ann, self.ben), (self.ben, self.ann))
        return any(recipient.key in sender.store.outbox.recipients() for sender, recipient in pairs)

    def _sent_by_ann(self) -> list[bytes]:
        sent = []
        for outgoing in self.ann.sends():
            if outgoing.recipient == self.ben.key:
                sent.append(outgoing.envelope)
                if outgoing.entry is not None:
                    message = read_message(outgoing.entry.message, verify=False)
                    if message.type is MessageType.BLOB:
                        self._blobs[outgoing.envelope] = message.body
        return sent

    def _publish(self, topic: str, payload: bytes) -> None:
        if topic == inbox_topic(self.ann.key):
            self._returned.append(payload)

    # -- what must hold -----------------------------------------------------------------------------------------------

    def _check_acknowledged(self, delivered: Delivered) -> None:
        body = self._blobs.get(delivered.payload)
        assert body is None or body in self.ben.inbox(), "the relay forgets what an honest member has said"

    def _check_work(self) -> None:
        elapsed_s = (self._now_us - self._began_us) / _SECOND
        of_author, of_all = _AUTHOR + elapsed_s * _AUTHOR_PER_SECOND, _ALL + elapsed_s * _ALL_PER_SECOND
        assert self.verified <= of_author / WORTHLESS_TOKENS + 1, "who has no token left is verified"
        assert self.opened <= of_all / WORTHLESS_TOKENS + _WINDOW, "more is opened than there are tokens for"
        unforeseen = [line for line in self.said if "defect" in line and _PlantedError.__name__ not in line]
        assert not unforeseen

    def note_opened(self, raw: bytes) -> None:
        """Note that ben has opened an envelope, or tried to."""
        self.opened += raw in self._noise

    def note_verified(self, author: DeviceKey) -> None:
        """Note that somebody has verified a signature."""
        self.verified += author == self.outcast.signing_public

    # -- the hostile --------------------------------------------------------------------------------------------------

    def _junk(self) -> list[bytes]:
        return [self._say(self.outcast, MessageType.BLOB, b"junk") for _ in range(self.chance.choice((1, 10, 100)))]

    def _noises(self) -> list[bytes]:
        """Send what does not open: it is sealed for somebody else."""
        chance, to = self.chance, self.outcast.noise_public
        noises = [
            seal(b"noise", to, chance.randbytes(32), chance.randbytes(24)) for _ in range(chance.choice((1, 10, 200)))
        ]
        self._noise.update(noises)
        return noises

    def _forged(self) -> list[bytes]:
        """Say something in ann's name, unsigned."""
        return [
            self._say(self.ann.identity, MessageType.BLOB, b"forged", broken=True)
            for _ in range(self.chance.choice((1, 10, 60)))
        ]

    def _defects(self) -> list[bytes]:
        return [self._say(self.mal, MessageType.BLOB, b"defect") for _ in range(self.chance.choice((1, 3)))]

    def _losses(self) -> list[bytes]:
        """Have lost nearly all that can be numbered, in other incarnations."""
        return [
            self._say(
                self.mal,
                MessageType.LOSS,
                cbor.encode([int(LossReason.EXPIRED), [[1, MAXIMUM_SEQUENCE - 1]], [], self.chance.randbytes(8)]),
                _CLAIMS,
                seq=MAXIMUM_SEQUENCE,
            )
            for _ in range(2)
        ]

    def _acknowledgements(self) -> list[bytes]:
        everything = SequenceSet(MAXIMUM_SEQUENCE)
        earlier = [span.incarnation for span in self.ben.store.incarnations.spans(self.mal.signing_public)[:-1]]
        assert earlier
        return [
            self._say(self.mal, MessageType.ACK, Acknowledgement(each, everything).to_wire())
            for each in (*earlier, Incarnation(b"unknown!"))
        ]

    def _say(
        self,
        author: Identity,
        kind: MessageType,
        body: bytes,
        incarnation: Incarnation = _SPEAKS,
        *,
        seq: int = 0,
        broken: bool = False,
    ) -> bytes:
        key = author.signing_public, incarnation
        self._numbers[key] += 1
        group_id = self.group_id if kind is MessageType.BLOB else NO_GROUP
        number = LinkSeq(0 if kind is MessageType.ACK else self._numbers[key])
        to = self.ben.identity
        raw = bytearray(
            write_message(author, kind, to.signing_public, group_id, incarnation, seq or number, number, 1, body)
        )
        if broken:
            raw[-1] ^= 1
        return seal(bytes(raw), to.noise_public, self.chance.randbytes(32), self.chance.randbytes(24))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that a few envelopes meet, and a defect."""
    monkeypatch.setattr(rates_module, "AUTHOR_TOKENS", _AUTHOR)
    monkeypatch.setattr(rates_module, "AUTHOR_TOKENS_PER_SECOND", _AUTHOR_PER_SECOND)
    monkeypatch.setattr(rates_module, "ALL_TOKENS", _ALL)
    monkeypatch.setattr(rates_module, "ALL_TOKENS_PER_SECOND", _ALL_PER_SECOND)
    monkeypatch.setattr(receiver_module, "DEFECT_TOKENS", _DEFECT)
    deliver = Inbox.deliver

    def delivers(inbox: Inbox, message: Message, now_us: int) -> bool:
        taken = deliver(inbox, message, now_us)
        if message.body == b"defect":
            raise _PlantedError
        return taken

    monkeypatch.setattr(Inbox, "deliver", delivers)


def _run(folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> _World:
    folder.mkdir(exist_ok=True)
    world = _World(folder, seed)
    verify = crypto.verify

    def opens(raw: bytes, identity: Identity, find: Callable[[bytes], KeptKey | None]) -> Opened:
        world.note_opened(raw)
        return open_envelope(raw, identity, find)

    def verifies(domain: bytes, content: bytes, signature: bytes, author: DeviceKey) -> None:
        world.note_verified(author)
        verify(domain, content, signature, author)

    with monkeypatch.context() as patches:
        patches.setattr(receiver_module, "open_envelope", opens)
        patches.setattr(crypto, "verify", verifies)
        for _ in range(_STEPS):
            world.step()
        world.finish()
    return world


@pytest.mark.parametrize("seed", parameters([0, 2], quick=0, plain=1))
def test_honest_members_are_received_despite_hostile_traffic(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:  # accepts: 002.35
    world = _run(tmp_path, seed, monkeypatch)
    counters = world.ben.store.counters.values()
    assert counters["quarantined_unforeseen"] > 0
    assert counters["dropped_rate"] > 0
    assert counters["lost_messages"] == MAXIMUM_COUNTER


def _undivided(deliveries: Deliveries, node: Any, now: Now) -> None:
    """Take a turn as one: what brings out a defect has all of it set aside."""
    held = list(deliveries._held)
    if not held or now.monotonic_us < deliveries._until_us:
        return
    rests_us = node.receiving_rests_us(now)
    if rests_us:
        deliveries._until_us = now.monotonic_us + rests_us
        return
    try:
        with deliveries._store.transaction():
            seen = [node.receive_envelope(each.payload, now) for each in held]
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001 - as the production code does
        node = deliveries._renew_node()
        for each in held:
            node = deliveries._set_aside(node, each, error, now)
    else:
        deliveries._acknowledge(held, seen)


def _verified_first(raw: bytes, *, admit: Callable[[DeviceKey], None]) -> Message:
    message = read_message(raw)
    admit(message.author)
    return message


def _count_on(counters: Counters, counter: str, amount: int = 1) -> None:
    counters._database.run(
        "INSERT INTO counter VALUES (?1, ?2) ON CONFLICT DO UPDATE SET value = value + ?2", (counter, amount)
    )


def _at_everybodys_cost(rates: ReceivingRates, author: DeviceKey | None, tokens: int, now_us: int) -> None:
    _spend(rates, author, tokens, now_us)
    if author is None:
        for bucket in rates._authors.values():
            bucket.spend(tokens, now_us)


_spend = ReceivingRates.spend


def _all_places(span: IncarnationSpan, received: SequenceSet) -> SequenceSet:
    spans = [(1, received.upto)] if received.upto else []
    return SequenceSet().including([(span.base + low, span.base + high) for low, high in (*spans, *received.ranges)])


Mistake = tuple[object, str, object]
_MISTAKES: dict[str, tuple[Mistake, ...]] = {
    "a defect takes its turn along": ((Deliveries, "receive", _undivided),),
    "an author has tokens for ever": ((ReceivingRates, "exhausted", lambda *_: False),),
    "all have tokens for ever": ((ReceivingRates, "wait_us", lambda *_: 0),),
    "tokens do not come back": ((TokenBucket, "_refill", lambda *_: None),),
    "an author pays for what nobody has signed": ((ReceivingRates, "spend", _at_everybodys_cost),),
    "the signature comes before the tokens": ((receiver_module, "read_message", _verified_first),),
    "a counter has no end": ((Counters, "count", _count_on),),
    "an acknowledgement reaches beyond its incarnation": (
        (SequenceSet, "up_to", lambda received, _most: received),
        (IncarnationSpan, "places", _all_places),
    ),
}


@pytest.mark.proof
@pytest.mark.parametrize("mistake", _MISTAKES)
def test_a_mistake_with_hostile_envelopes_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    for replaced in _MISTAKES[mistake]:
        monkeypatch.setattr(*replaced)
    a_world_notices(mistake, partial(_run, monkeypatch=monkeypatch), tmp_path, _SEEDS_OF_MISTAKES)
