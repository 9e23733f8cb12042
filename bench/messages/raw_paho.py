"""The peer: paho publishing one JSON reading a message at QoS 1, to a paho subscriber that appends to a file.

Neither end is durable: no sync, no acknowledgement beyond the broker's.

    python -m bench.messages.raw_paho publish PORT USERNAME TOPIC COUNT SIZE      password on stdin
    python -m bench.messages.raw_paho subscribe PORT USERNAME TOPIC COUNT FILE SESSION_SECONDS

`SIZE` is the least size of a message: a reading is padded with blanks, which JSON allows.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from bench.readings import readings


def _client(username: str, password: str) -> mqtt.Client:
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=username, protocol=mqtt.MQTTv5)
    client.username_pw_set(username, password)
    client.max_inflight_messages_set(200)
    client.max_queued_messages_set(0)
    return client


def publish(port: int, username: str, password: str, topic: str, count: int, size: int) -> None:
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
    prepared = [
        json.dumps({"n": name, "u": unit, "t": time_us / 1e6, "v": value}).ljust(size)
        for name, unit, time_us, value in readings(count)
    ]
    print("ready", flush=True)
    sys.stdin.readline()
    for payload in prepared:
        outstanding.acquire()
        client.publish(topic, payload, qos=1)
    done.wait()
    client.loop_stop()


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
        publish(int(_port), _username, _password, _topic, int(_count), int(_rest[0]))
    else:
        subscribe(int(_port), _username, _password, _topic, int(_count), Path(_rest[0]), int(_rest[1]))
