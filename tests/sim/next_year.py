"""Next year's build, beside today's in one process: what it adds is registered for as long as one of its devices runs.

It has two more kinds of operations, one more type of messages, one more field in every structure that may grow, version
2 of the judging rules, and suite 2 for sealed envelopes. Everything else is the product.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from unittest.mock import patch

from covey.core.events import Event
from covey.core.group import features, rules
from covey.core.group.manifest import GroupManifest
from covey.core.group.resolver import GroupState, Step, resolve
from covey.core.group.rules import JudgingRules
from covey.core.history import kinds
from covey.core.history.body import OperationBody
from covey.core.history.kinds import KindTraits
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.core.link import link_keys, sealer
from covey.core.link.sealer import Outgoing
from covey.core.now import Now
from covey.core.orders.authority import Pins
from covey.core.receiving.outcome import Delivery, HandlerOutcome
from covey.core.wire import cbor, envelope, message
from covey.core.wire.envelope import LinkEnvelope, SealedEnvelope
from covey.core.wire.message import MessageType
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES
from covey.limits.message import MAXIMUM_ENVELOPE_BYTES
from tests.sim.obedient import Obedient

POLL, ANSWER = 14, 15
"""Kinds of operations."""
GREETING = 0x40
"""A type of messages: sequenced, of a group."""
SUITE_2 = 3
"""The form of sealed envelopes of suite 2."""
NEXT_FIELD = 1_001
"""The field that each structure has, where it may grow."""
_Result = TypeVar("_Result")


class NextFeature(IntEnum):
    """What next year's build announces: today's features, and its own."""

    HISTORY = 1
    SETTINGS = 2
    COMMANDS = 3
    RELEASES = 4
    FILES = 5
    EPHEMERAL = 6
    TAGGED_PULLS = 7
    POLLS = 8
    SUITE_2 = 9


@dataclass(frozen=True, slots=True)
class Said(OperationBody):
    """What an operation of a new kind says; its extension map has what must be understood as well."""

    word: str
    kind: ClassVar[Any] = POLL

    def to_wire(self) -> bytes:
        """Return the body."""
        return cbor.encode_growing([self.word], {1_000: "must be understood"})

    @classmethod
    def from_wire(cls, body: bytes) -> Said:
        """Parse the body."""
        fields = cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES, understood=(1_000,))
        return cls(*cbor.record(fields, "poll", cbor.text(100)))

    def shown(self) -> dict[str, Any]:
        """Return the word."""
        return {"text": self.word}


class Answered(Said):
    """The other kind."""

    __slots__ = ()
    kind: ClassVar[Any] = ANSWER


def _resolve_2(base: GroupState, steps: Iterable[Step]) -> GroupState:
    """Version 2 of the rules: where rivals meet, labels are written in small letters."""
    found = resolve(base, steps)
    members = {key: replace(member, label=member.label.lower()) for key, member in found.members.items()}
    return GroupState(members, found.banned)


class _Types:
    """`MessageType` with one number more."""

    greeting = int.__new__(MessageType, GREETING)
    greeting._name_, greeting._value_ = "GREETING", GREETING

    def __call__(self, number: int) -> MessageType:
        return self.greeting if number == GREETING else MessageType(number)


def _grown(fields: list[Any], extensions: cbor.Extensions | None = None) -> bytes:
    return _encode_growing(fields, {**(extensions or {}), NEXT_FIELD: "next year"})


_encode_growing, _seal, _read_envelope = cbor.encode_growing, envelope.seal, envelope.read_envelope


@dataclass(frozen=True, slots=True)
class _Suite2(SealedEnvelope):
    """The same box, with its nonce the other way round: no reader of suite 1 opens it."""

    def open(self, noise_secret: bytes) -> bytes:
        return SealedEnvelope(self.ephemeral_public, self.nonce[::-1], self.ciphertext).open(noise_secret)


def _read_any_envelope(raw: bytes) -> SealedEnvelope | LinkEnvelope:
    if raw[1:2] != bytes([SUITE_2]):
        return _read_envelope(raw)
    _, ephemeral, nonce, ciphertext = cbor.decode(raw, MAXIMUM_ENVELOPE_BYTES)
    return _Suite2(ephemeral, nonce, ciphertext)


class NextYear(Obedient):
    """A device of next year's build. Until `is_new` it runs today's."""

    def __init__(self, name: str, folder: Path, chance: random.Random, pins: Pins, *, is_new: bool = True) -> None:
        self.is_new = is_new
        self.greeted: list[tuple[DeviceKey, bytes]] = []
        self.by_suite_2 = 0
        """Envelopes that it has sealed by suite 2."""
        super().__init__(name, folder, chance, pins)

    @contextmanager
    def _running(self) -> Iterator[None]:
        with ExitStack() as stack:
            if self.is_new:
                for each in self._patches():
                    stack.enter_context(each)
            yield

    def _patches(self) -> list[Any]:
        traits = {POLL: KindTraits(f"{__name__}:Said"), ANSWER: KindTraits(f"{__name__}:Answered")}
        return [
            patch.object(cbor, "encode_growing", _grown),
            patch.object(features, "Feature", NextFeature),
            patch.object(features, "NEWEST_RULES", 2),
            patch.dict(rules.JUDGING, {2: JudgingRules(_resolve_2, rules.JUDGING[1].authorise)}),
            patch.dict(kinds.KINDS, traits),
            patch("covey.core.history.bodies.OperationKind", int),
            patch.dict(message._KNOWN, {GREETING: _Types.greeting}),
            patch.object(message, "MessageType", _Types()),
            patch.object(sealer, "seal", self._seal_for),
            patch.object(link_keys, "read_envelope", _read_any_envelope),
        ]

    def _seal_for(self, content: bytes, to: NoisePublic, ephemeral_secret: bytes, nonce: bytes) -> bytes:
        """Seal by suite 2 for whoever announces it."""
        announcing = {
            member.keys.noise_public
            for group in self.node.groups.joined()
            for member in group.members
            if NextFeature.SUITE_2 in (member.features or ())
        }
        sealed = _seal(content, to, ephemeral_secret, nonce)
        if to not in announcing:
            return sealed
        self.by_suite_2 += 1
        _, ephemeral, _, ciphertext = cbor.decode(sealed, MAXIMUM_ENVELOPE_BYTES)
        return cbor.encode([SUITE_2, ephemeral, nonce[::-1], ciphertext])

    def _boot(self) -> None:
        with self._running():
            super()._boot()
            self.node._receiver._sequenced._handlers = {
                **self.node._receiver._sequenced._handlers,
                _Types.greeting: self._take_greeting,
            }

    def _take_greeting(self, delivery: Delivery, _now: Now) -> HandlerOutcome:
        self.greeted.append((delivery.message.author, delivery.message.body))
        return HandlerOutcome()

    def upgrade(self) -> None:
        """Install next year's build, and start it."""
        self.is_new = True
        self.restart()

    # -- what it does, by its build ------------------------------------------------------------------------------------

    def run(self, work: Callable[[], _Result]) -> _Result:
        """Do something as this device's build does it, in one commit."""
        with self._running(), self.store.transaction():
            return work()

    def greet(self, to: DeviceKey, group_id: GroupId, word: bytes) -> None:
        """Queue a message of the new type."""
        self.run(lambda: self.node._queue.queue(to, _Types.greeting, group_id, word, self.now))

    def edit(self, group_id: GroupId, change: Callable[[GroupManifest], GroupManifest]) -> None:
        """Issue a manifest."""
        self.run(lambda: self.node.actions.change(group_id, lambda draft, _: change(draft), self.now))

    def write_operation(self, group_id: GroupId, body: Any) -> Any:
        """Write an operation."""
        with self._running():
            return super().write_operation(group_id, body)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        with self._running():
            super().wait(seconds)

    def maintain(self) -> None:
        """Write what is due, and obey."""
        with self._running():
            super().maintain()

    def sends(self) -> list[Outgoing]:
        """Hand everything that may go to a relay."""
        with self._running():
            return super().sends()

    def receive(self, sealed: bytes) -> None:
        """Take an envelope in."""
        with self._running():
            super().receive(sealed)

    def events(self) -> list[Event]:
        """Take what happened."""
        with self._running():
            return super().events()
