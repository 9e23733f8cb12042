"""The peer: paho publishing JSON readings at QoS 1, to a paho subscriber that appends to a file.

Neither end is durable: no sync, no acknowledgement beyond the broker's.

    python -m bench.messages.raw_paho publish PORT USERNAME TOPIC COUNT SIZE [BATCH]      password on stdin
    python -m bench.messages.raw_paho subscribe PORT USERNAME TOPIC COUNT FILE SESSION_SECONDS

`SIZE` is the least size of a message: a reading is padded with blanks, which JSON allows. With `BATCH`, each message is
a list of so many readings, compressed by zlib; what that takes counts, as it does for an agent.
"""

from __future__ import annotations

import json
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bench.readings import Reading, readings


def _client(username: str, password: str) -> mqtt.Client:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=username, protocol=mqtt.MQTTv5)
    client.username_pw_set(username, password)
    client.max_inflight_messages_set(200)
    client.max_queued_messages_set(0)
    return client


def publish(port: int, username: str, password: str, topic: str, count: int, size: int, batch: int = 0) -> None:
    """Publish, and return when the broker has acknowledged every reading."""
    client = _client(username, password)
    outstanding = threading.Semaphore(1000)
    done = threading.Event()
    acknowledged = 0

    def on_publish(*_arguments: object) -> None:
        nonlocal acknowledged
        acknowledged += 1
        outstanding.release()
        if acknowledged == count:
            done.set()

    client.on_publish = on_publish
    client.connect("127.0.0.1", port)
    client.loop_start()
    batches = list(_batched(count, batch)) if batch else []
    payloads: Iterable[str | bytes] = map(_compressed, batches) if batch else list(_singly(count, size))
    print("ready", flush=True)
    sys.stdin.readline()
    for payload in payloads:
        outstanding.acquire()
        client.publish(topic, payload, qos=1)
    done.wait()
    client.loop_stop()


def _singly(count: int, size: int) -> Iterator[str]:
    for each in readings(count):
        yield json.dumps(_record(each)).ljust(size)


def _batched(count: int, batch: int) -> Iterator[list[Reading]]:
    source = readings(count * batch)
    for _ in range(count):
        yield list(islice(source, batch))


def _compressed(batch: list[Reading]) -> bytes:
    return zlib.compress(json.dumps([_record(each) for each in batch]).encode())


def _record(reading: Reading) -> dict[str, str | float]:
    name, unit, time_us, value = reading
    return {"n": name, "u": unit, "t": time_us / 1e6, "v": value}


def subscribe(
    port: int, username: str, password: str, topic: str, count: int, file: Path, session_seconds: int
) -> None:
    """Append every payload to a file, and return when all have come."""
    client = _client(username, password)
    done = threading.Event()
    received = 0
    with file.open("ab") as sink:

        def on_message(_client: object, _userdata: object, message: mqtt.MQTTMessage) -> None:
            nonlocal received
            sink.write(message.payload + b"\n")
            received += 1
            if received == count:
                sink.flush()
                done.set()

        client.on_message = on_message
        client.on_subscribe = lambda *_arguments: print("ready", flush=True)
        lasting = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call] # paho types only some of its calls
        lasting.SessionExpiryInterval = session_seconds
        client.connect("127.0.0.1", port, clean_start=not session_seconds, properties=lasting)
        client.subscribe(topic, qos=1)
        client.loop_start()
        done.wait()
        client.loop_stop()


if __name__ == "__main__":
    _role, _port, _username, _topic, _count, *_rest = sys.argv[1:]
    _password = sys.stdin.readline().strip()
    if _role == "publish":
        publish(int(_port), _username, _password, _topic, int(_count), *map(int, _rest))
    else:
        subscribe(int(_port), _username, _password, _topic, int(_count), Path(_rest[0]), int(_rest[1]))
