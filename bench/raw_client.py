"""A client of paho's as the peers of several benchmarks use it: a topic of its own, and requests that name one."""

from __future__ import annotations

import threading

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties


def connected(port: int, username: str, password: str, on_message: mqtt.CallbackOnMessage) -> mqtt.Client:
    """Return a client that listens on its own topic."""
    client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id=username, protocol=mqtt.MQTTv5)
    client.username_pw_set(username, password)
    listening = threading.Event()
    client.on_subscribe = lambda *_arguments: listening.set()
    client.on_message = on_message
    client.connect("127.0.0.1", port)
    client.subscribe(topic_of(username), qos=1)
    client.loop_start()
    listening.wait()
    return client


def answers_to(username: str) -> Properties:
    """Return what asks for an answer to somebody."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call] # paho types only some of its calls
    properties.ResponseTopic = topic_of(username)
    return properties


def topic_of(username: str) -> str:
    """Return the topic that a user listens on."""
    return f"covey/1/in/{username}"
