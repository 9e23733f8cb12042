"""The peer: members of nothing, which paho keeps connected, and which answer a few bytes with a few bytes.

python -m bench.fleet.fanout_peer PORT       a line "FOLDER USERNAME PASSWORD GROUP" each on stdin, then an empty one
"""

from __future__ import annotations

import sys
import threading

import paho.mqtt.client as mqtt

from bench.raw_client import connected


def _answer(client: mqtt.Client, _userdata: object, message: mqtt.MQTTMessage) -> None:
    client.publish(str(message.properties.ResponseTopic), b"hello", qos=1)  # type: ignore[union-attr] # it has one


def main() -> None:
    """Connect all, and answer until the process is killed."""
    port = int(sys.argv[1])
    lines = iter(lambda: sys.stdin.readline().split(), [])
    clients = [connected(port, username, password, _answer) for _, username, password, _ in lines]
    print("ready", flush=True)
    threading.Event().wait()
    del clients


if __name__ == "__main__":
    main()
