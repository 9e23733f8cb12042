"""Some thousands of the devices of `bench.messages.collector`, on one connection; says how long each message took.

python -m bench.messages.collector_devices      a JSON document on stdin (`Orders`), then a line when to begin

Prints "ready" when the collector has every speaker's link key, and at the end a JSON document (`Outcome`).
"""

from __future__ import annotations

import json
import sys
import time
from array import array
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Event
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bench.messages.collector_speakers import Speaker, batches
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.core.wire.topics import inbox_topic

_SUBSCRIBED_AT_ONCE = 500
_UNANSWERED = 20_000
"""Publishes without the broker's answer at most: what is due beyond waits, and counts as late."""
_LOOK_S = 0.01
_RETURN_S = 60.0


@dataclass(frozen=True, slots=True)
class Orders:
    """What one process of speakers is to do. Keys in hex; `group_ids` are those of the speakers, in turn."""

    port: int
    username: str
    password: str
    collector: str
    collector_noise: str
    group_ids: list[str]
    first: int
    count: int
    a_group: int
    readings: int
    a_second: float
    seconds: float
    drains_s: float
    warm: int
    backlog: int
    file: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The results. The times lie in `file`: pairs of doubles, made and acknowledged, in seconds of the clock.

    `warmed`: what was said before all that, and is in the vault, too. `drained_s`: until all devices' backlog was
    acknowledged, of which `file` says nothing.
    """

    warmed: int
    said: int
    acknowledged: int
    repeated: int
    envelope_bytes: int
    drained_s: float


class _Speakers:
    """Speakers behind one connection."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._collector = DeviceKey(bytes.fromhex(orders.collector)), NoisePublic(bytes.fromhex(orders.collector_noise))
        self._speakers = [self._speaker(orders.first + place) for place in range(orders.count)]
        self._by_topic = {inbox_topic(each.identity.signing_public): each for each in self._speakers}
        self._topic = inbox_topic(self._collector[0])
        self._batches = batches(orders.readings)
        self._came: deque[tuple[str, bytes]] = deque()
        self._subscribed, self._open_subscriptions = Event(), 0
        self._unanswered = self.repeated = self.envelope_bytes = self.acknowledged = 0
        self._times = array("d")
        self._repeats_at_s = self._began_s = self.drained_s = 0.0
        self._returned = orders.count
        self._client = self._connect()

    def _speaker(self, place: int) -> Speaker:
        group_id = GroupId(bytes.fromhex(self._orders.group_ids[place // self._orders.a_group]))
        return Speaker(place, group_id, self._collector)

    def _connect(self) -> mqtt.Client:
        orders = self._orders
        client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=orders.username, protocol=mqtt.MQTTv5)
        client.username_pw_set(orders.username, orders.password)
        client.max_inflight_messages_set(1_000)
        client.max_queued_messages_set(0)
        client.reconnect_delay_set(1, 1)
        client.on_connect = self._subscribe
        client.on_subscribe = self._on_subscribe
        client.on_message = lambda _client, _data, message: self._came.append((message.topic, bytes(message.payload)))
        client.on_publish = self._on_publish
        lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho types only some of its calls
        lasting.SessionExpiryInterval, lasting.ReceiveMaximum = 3_600, 1_000
        client.connect("127.0.0.1", orders.port, clean_start=False, properties=lasting)
        client.loop_start()
        self._subscribed.wait()
        return client

    def _subscribe(self, client: mqtt.Client, *_: object) -> None:
        topics = list(self._by_topic)
        for first in range(0, len(topics), _SUBSCRIBED_AT_ONCE):
            self._open_subscriptions += 1
            client.subscribe([(topic, 1) for topic in topics[first : first + _SUBSCRIBED_AT_ONCE]])

    def _on_subscribe(self, *_: object) -> None:
        self._open_subscriptions -= 1
        if not self._open_subscriptions:
            self._subscribed.set()

    def _on_publish(self, *_: object) -> None:
        self._unanswered -= 1

    def _publish(self, topic: str, envelope: bytes) -> None:
        self._unanswered += 1
        self._client.publish(topic, envelope, qos=1)

    def _send(self, each: Speaker, now_s: float) -> None:
        for envelope, repeated in each.envelopes(int(now_s * 1e6)):
            self.repeated += repeated
            self.envelope_bytes = len(envelope)
            self._publish(self._topic, envelope)

    def _receive(self) -> None:
        wall_us = time.time_ns() // 1_000
        while self._came:
            topic, envelope = self._came.popleft()
            now_s, speaker = time.monotonic(), self._by_topic[topic]
            freed, answer = speaker.receive(envelope, int(now_s * 1e6), wall_us)
            for made_s in freed:
                if made_s:
                    self._times.extend((made_s, now_s))
                else:
                    self.drained_s = now_s - self._began_s
            self.acknowledged += len(freed)
            if answer is not None:
                self._publish(self._topic, answer)
            if speaker.waiting:
                self._send(speaker, now_s)

    def _repeat(self, now_s: float) -> None:
        """Say again what is left unanswered; looked for once a second."""
        if now_s < self._repeats_at_s:
            return
        self._repeats_at_s = now_s + 1
        for each in self._speakers[: self._returned]:
            if each.waiting:
                self._send(each, now_s)

    def _turn(self) -> float:
        self._receive()
        now_s = time.monotonic()
        self._repeat(now_s)
        return now_s

    @property
    def warmed(self) -> int:
        """How many messages were said before they count."""
        return self._orders.warm * len(self._speakers)

    @property
    def waits(self) -> bool:
        """Whether anything is not acknowledged."""
        return any(each.waiting for each in self._speakers)

    def begin(self) -> None:
        """Have the collector take every speaker's link key, and with the messages after it give its own."""
        self._say_to_all(lambda each: each.begin(time.monotonic(), time.time_ns() // 1_000))
        for turn in range(self._orders.warm):
            batch = self._batches[turn % len(self._batches)]
            self._say_to_all(lambda each, batch=batch: each.say(batch, time.monotonic(), time.time_ns() // 1_000))  # type: ignore[misc]
        self._times = array("d")
        self.repeated = self.acknowledged = 0

    def _say_to_all(self, say: Callable[[Speaker], None]) -> None:
        """Let each speaker say one thing, in turn, and wait until all is acknowledged."""
        began_s = time.monotonic()
        for place, each in enumerate(self._speakers):
            while time.monotonic() < began_s + place / self._orders.a_second:
                self._turn()
                time.sleep(_LOOK_S)
            say(each)
            self._send(each, time.monotonic())
        while self.waits:
            self._turn()
            time.sleep(_LOOK_S)

    def hoard(self) -> None:
        """Have each speaker say what is its backlog, without a connection. It is made at 0 s."""
        for each in self._speakers:
            for number in range(self._orders.backlog):
                each.say(self._batches[number % len(self._batches)], 0.0, time.time_ns() // 1_000)

    def speak(self) -> int:
        """Say what is due until the end, then wait until all is acknowledged; return how many messages that were.

        Those with a backlog come back one after the other, within a minute; what they say before is backlog, too.
        """
        orders, count = self._orders, len(self._speakers)
        said, began_s = 0, time.monotonic()
        self._began_s, self._returned = began_s, 0 if orders.backlog else count
        while (now_s := self._turn()) < began_s + orders.seconds:
            while self._returned < count and now_s >= began_s + self._returned * _RETURN_S / count:
                self._send(self._speakers[self._returned], now_s)
                self._returned += 1
            due = int((now_s - began_s) * orders.a_second)
            while said < due and self._unanswered < _UNANSWERED:
                made_s, place = began_s + said / orders.a_second, said % count
                speaker, is_back = self._speakers[place], place < self._returned
                speaker.say(
                    self._batches[said % len(self._batches)], made_s if is_back else 0.0, time.time_ns() // 1_000
                )
                if is_back:
                    self._send(speaker, now_s)
                said += 1
            time.sleep(_LOOK_S)
        until_s = time.monotonic() + orders.drains_s
        while self._turn() < until_s and self.waits:
            time.sleep(_LOOK_S)
        return said + orders.backlog * count

    def end(self) -> None:
        """Keep the times, and disconnect."""
        Path(self._orders.file).write_bytes(self._times.tobytes())
        self._client.disconnect()
        self._client.loop_stop()


def main() -> None:
    """Speak."""
    document: dict[str, Any] = json.loads(sys.stdin.readline())
    speakers = _Speakers(Orders(**document))
    speakers.begin()
    speakers.hoard()
    print("ready", flush=True)
    sys.stdin.readline()
    said = speakers.speak()
    speakers.end()
    outcome = Outcome(
        warmed=speakers.warmed,
        said=said,
        acknowledged=speakers.acknowledged,
        repeated=speakers.repeated,
        envelope_bytes=speakers.envelope_bytes,
        drained_s=speakers.drained_s,
    )
    print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
