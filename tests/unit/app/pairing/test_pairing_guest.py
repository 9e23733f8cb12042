"""`covey.app.pairing.pairing_guest`: a joiner's last words reach the relay before it goes."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from threading import Timer

import pytest

from covey.adapters.clock import SystemClock
from covey.app.pairing.pairing_guest import attend
from covey.core.pairing.joiner import Joiner
from covey.core.pairing.messages import JoinerIntroduction, Password
from covey.core.presence.heartbeat import LastWill
from covey.errors import LocalError, RelayError
from covey.ports import Delivered, PublishRefusal, RelayDown, RelayEvent, RelayUp, Released
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

    def rest(self) -> None:
        """Satisfy the port."""

    def resume(self) -> None:
        """Satisfy the port."""

    def renew_subscription(self) -> None:
        raise AssertionError

    def set_will(self, will: LastWill | None) -> None:
        raise AssertionError(will)

    def stop(self) -> None:
        self.lost = [*self._waiting.values()]


class _DumbRelay(_SlowRelay):
    """Lets nobody speak, without saying no: what listens there may be no broker, or one that wants TLS."""

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        for _ in range(2):
            deliver(RelayDown("relay", "the server ended the connection without an answer"))


class _DesertedRelay(_SlowRelay):
    """Says of each message that nobody is subscribed."""

    def publish(self, topic: str, payload: bytes, _lifetime_s: int = 0) -> int | PublishRefusal:
        assert topic.startswith("covey/1/pair/7/")
        assert payload
        self._deliver(Released("relay", 1, 0x10))
        return 1


def _joiner(clock: SystemClock) -> Joiner:
    own = JoinerIntroduction(identity("pi").keys, "pi", needs_credential=False)
    until_us = clock.monotonic_us() + 60_000_000
    return Joiner(identity("pi"), own, (Password.CODE, b"secret"), until_us, random.Random(1).randbytes, None)


def test_a_relay_that_lets_nobody_speak_is_not_tried_until_the_code_is_over() -> None:
    clock = SystemClock()
    with pytest.raises(RelayError, match="cannot be used: the server ended the connection") as ended:
        attend(_joiner(clock), 7, _DumbRelay(), clock, lambda _: None, lambda *_: None, unreached_us=0)
    assert "mqtts://" in ended.value.hint


class _OldRelay(_SlowRelay):
    """Speaks MQTT 3.1.1 alone."""

    def __init__(self, reason: str) -> None:
        super().__init__()
        self._reason = reason

    def start(self, deliver: Callable[[RelayEvent], None]) -> None:
        deliver(RelayDown("relay", self._reason, refused=True))


@pytest.mark.parametrize(
    ("reason", "unreached_us"),
    [
        ("the server does not speak MQTT 5", None),
        ("the server ended the connection without an answer; perhaps it does not speak MQTT 5", 0),
    ],
)
def test_a_relay_without_mqtt_5_is_named_as_such(reason: str, unreached_us: int | None) -> None:
    clock = SystemClock()
    with pytest.raises(RelayError, match="cannot be used") as ended:
        attend(_joiner(clock), 7, _OldRelay(reason), clock, lambda _: None, lambda *_: None, unreached_us=unreached_us)
    assert "use a broker that speaks MQTT 5" in ended.value.hint


def test_a_rendezvous_at_which_nobody_listens_is_left() -> None:
    """The code was used, for instance."""
    clock = SystemClock()
    with pytest.raises(LocalError, match="no device waits for this code: it was used or cancelled") as ended:
        attend(_joiner(clock), 7, _DesertedRelay(), clock, lambda _: None, lambda *_: None, deserted_us=0)
    assert ended.value.hint.startswith("ask for a new code: covey invite")


def test_a_joiner_that_gives_up_says_so_first() -> None:
    relay, clock = _SlowRelay(), SystemClock()
    machine = _joiner(clock)
    attend(machine, 7, relay, clock, lambda _: None, lambda *_: None, gone=lambda: relay.has_received)
    assert machine.ending is not None
    assert relay.answered
    assert relay.lost == []
