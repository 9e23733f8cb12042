"""`covey.app.roles.pairing_guest`: a joiner's last words reach the relay before it goes."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from threading import Timer

from covey.adapters.clock import SystemClock
from covey.app.roles.pairing_guest import attend
from covey.core.pairing.joiner import Joiner
from covey.core.pairing.messages import JoinerIntroduction, Password
from covey.core.presence.heartbeat import LastWill
from covey.ports import Delivered, PublishRefusal, RelayEvent, RelayUp, Released
from tests.fleet import identity


class _SlowRelay:
    """Answers what is published a while later, and loses what it has not answered when it is left."""

    name = "relay"

    def __init__(self) -> None:
        self.answered: list[bytes] = []
        self.lost: list[bytes] = []
        self._deliver: Callable[[RelayEvent], None] = lambda _: None
        self._waiting: dict[int, bytes] = {}
        self.has_received = False

    def alive(self) -> bool:
        return True

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        self._deliver = deliver
        deliver(RelayUp("relay", session_present=False, maximum_payload=65_536))

    def publish(self, topic: str, payload: bytes, _lifetime_s: int = 0) -> int | PublishRefusal:
        assert topic.startswith("covey/1/pair/7/")
        handle = len(self._waiting) + len(self.answered) + 1
        self._waiting[handle], self.has_received = payload, True
        Timer(0.3, lambda: self._answer(handle)).start()
        return handle

    def _answer(self, handle: int) -> None:
        self.answered.append(self._waiting.pop(handle))
        self._deliver(Released("relay", handle, 0))

    def acknowledge(self, delivered: Delivered) -> None:
        raise AssertionError(delivered)

    def listen(self, topics: Collection[str]) -> None:
        raise AssertionError(topics)

    def set_will(self, will: LastWill | None) -> None:
        raise AssertionError(will)

    def stop(self) -> None:
        self.lost = [*self._waiting.values()]


def test_who_gives_up_says_so_before_it_goes() -> None:
    relay, clock, chance = _SlowRelay(), SystemClock(), random.Random(1)
    own = JoinerIntroduction(identity("pi").keys, "pi", needs_credential=False)
    until_us = clock.monotonic_us() + 60_000_000
    machine = Joiner(identity("pi"), own, (Password.CODE, b"secret"), until_us, chance.randbytes, None)
    attend(machine, 7, relay, clock, lambda _: None, lambda *_: None, gone=lambda: relay.has_received)
    assert machine.ending is not None
    assert relay.answered
    assert relay.lost == []
