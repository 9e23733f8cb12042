"""The peer: members of nothing, which paho keeps connected, and which answer a few bytes with a few bytes.

python -m bench.fanout_peer PORT           a line "FOLDER USERNAME PASSWORD" each on stdin, then an empty one
"""

from __future__ import annotations

import sys
import threading

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from covey.core.ids import DeviceKey
from covey.core.wire.topics import inbox_topic


def connected(port: int, username: str, password: str, on_message: mqtt.CallbackOnMessage) -> mqtt.Client:
    """Return a client that listens on its own topic."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=username, protocol=mqtt.MQTTv5)
    client.username_pw_set(username, password)
    listening = threading.Event()
    client.on_subscribe = lambda *_arguments: listening.set()
    client.on_message = on_message
    client.connect("127.0.0.1", port)
    client.subscribe(_topic(username), qos=1)
    client.loop_start()
    listening.wait()
    return client


def answers_to(username: str) -> Properties:
    """Return what asks for an answer to somebody."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call] # paho types only some of its calls
    properties.ResponseTopic = _topic(username)
    return properties


def _topic(username: str) -> str:
    return inbox_topic(DeviceKey(bytes.fromhex(username)))


def _answer(client: mqtt.Client, _userdata: object, message: mqtt.MQTTMessage) -> None:
    client.publish(str(message.properties.ResponseTopic), b"hello", qos=1)  # type: ignore[union-attr] # it has one


def main() -> None:
    """Connect all, and answer until the process is killed."""
    port = int(sys.argv[1])
    lines = iter(lambda: sys.stdin.readline().split(), [])
    clients = [connected(port, username, password, _answer) for _, username, password in lines]
    print("ready", flush=True)
    threading.Event().wait()
    del clients


if __name__ == "__main__":
    main()
