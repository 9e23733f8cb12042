"""The peer: a request and its response by MQTT 5 with paho, and a program that is run in between. Nothing is durable.

python -m bench.raw_request respond PORT USERNAME                      password on stdin; runs until it is killed
python -m bench.raw_request request PORT USERNAME RESPONDER COUNT      prints the seconds of each
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from covey.core.ids import DeviceKey
from covey.core.wire.topics import inbox_topic

PROGRAM = ("/bin/echo", "hello")


def _topic(username: str) -> str:
    return inbox_topic(DeviceKey(bytes.fromhex(username)))


def _connected(port: int, username: str, on_message: mqtt.CallbackOnMessage) -> mqtt.Client:
    """Return a client that listens on its own topic."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=username, protocol=mqtt.MQTTv5)
    client.username_pw_set(username, sys.stdin.readline().strip())
    listening = threading.Event()
    client.on_subscribe = lambda *_arguments: listening.set()
    client.on_message = on_message
    client.connect("127.0.0.1", port)
    client.subscribe(_topic(username), qos=1)
    client.loop_start()
    listening.wait()
    return client


def respond(port: int, username: str) -> None:
    """Run the program for every request, and publish what it wrote."""

    def answer(client: mqtt.Client, _userdata: object, message: mqtt.MQTTMessage) -> None:
        output = subprocess.run(PROGRAM, capture_output=True, check=True).stdout
        client.publish(str(message.properties.ResponseTopic), output, qos=1)  # type: ignore[union-attr] # it has one

    _connected(port, username, answer)
    print("ready", flush=True)
    threading.Event().wait()


def request(port: int, username: str, responder: str, count: int) -> None:
    """Ask so often, each time after the response to the request before."""
    came = threading.Event()
    client = _connected(port, username, lambda *_arguments: came.set())
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call] # paho types only some of its calls
    properties.ResponseTopic = _topic(username)
    for _ in range(count):
        came.clear()
        begin = time.perf_counter()
        client.publish(_topic(responder), b"hello", qos=1, properties=properties)
        came.wait()
        print(time.perf_counter() - begin, flush=True)
    client.disconnect()
    client.loop_stop()


if __name__ == "__main__":
    _role, _port, _username, *_rest = sys.argv[1:]
    if _role == "respond":
        respond(int(_port), _username)
    else:
        request(int(_port), _username, _rest[0], int(_rest[1]))
