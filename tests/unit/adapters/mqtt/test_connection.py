"""`covey.adapters.mqtt.lean_paho`: what it leans on in paho that is no part of paho's interface."""

from __future__ import annotations

import socket

from paho.mqtt.enums import CallbackAPIVersion

from covey.adapters.mqtt.buffered_socket import BufferedSocket
from covey.adapters.mqtt.connection import TopicAliases
from covey.adapters.mqtt.lean_paho import BufferedClient


def test_paho_asks_for_its_socket_where_the_buffers_are_put() -> None:  # else it works as before, and costs more
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = BufferedClient(CallbackAPIVersion.VERSION2)
        client.connect("127.0.0.1", server.getsockname()[1])
        connected = client.socket()
        assert isinstance(connected, BufferedSocket)
        connected.close()


def test_topics_go_by_aliases_and_the_one_used_longest_ago_gives_way() -> None:
    aliases = TopicAliases(2)
    assert [aliases.of(topic) for topic in "abaabcb"] == [
        *[("a", 1), ("b", 2), ("", 1), ("", 1), ("", 2)],
        *[("c", 1), ("", 2)],
    ]
    assert aliases.of("a") == ("a", 1)
    assert TopicAliases(0).of("a") == ("a", 0)
