"""The peer: a request and its response by MQTT 5 with paho, and a program that is run in between. Nothing is durable.

python -m bench.fleet.raw_request respond PORT USERNAME                      password on stdin; runs until it is killed
python -m bench.fleet.raw_request request PORT USERNAME RESPONDER COUNT      prints the seconds of each
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import paho.mqtt.client as mqtt

from bench.raw_client import answers_to, connected, topic_of

PROGRAM = ("/bin/echo", "hello")


def respond(port: int, username: str) -> None:
    """Run the program for every request, and publish what it wrote."""

    def answer(client: mqtt.Client, _userdata: object, message: mqtt.MQTTMessage) -> None:
        output = subprocess.run(PROGRAM, capture_output=True, check=True).stdout
        client.publish(str(message.properties.ResponseTopic), output, qos=1)  # type: ignore[union-attr] # it has one

    connected(port, username, sys.stdin.readline().strip(), answer)
    print("ready", flush=True)
    threading.Event().wait()


def request(port: int, username: str, responder: str, count: int) -> None:
    """Ask so often, each time after the response to the request before."""
    came = threading.Event()
    client = connected(port, username, sys.stdin.readline().strip(), lambda *_arguments: came.set())
    properties = answers_to(username)
    for _ in range(count):
        came.clear()
        begin = time.perf_counter()
        client.publish(topic_of(responder), b"hello", qos=1, properties=properties)
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
