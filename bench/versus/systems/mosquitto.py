"""A mosquitto at the edge that is bridged to another at the hub.

The producer is paho, which waits for the edge's acknowledgement and sends again by itself. The consumer is paho with a
session that lasts; it acknowledges each message when it is noted.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from string import Template
from typing import ClassVar

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from bench.versus.link import Link
from bench.versus.program import Program
from bench.versus.system import CONFIGURATIONS, LackingError, NotAcknowledgedError, Place, System
from broker_conf.mosquitto.broker import find_mosquitto, free_port
from covey.errors import ConfigurationError

_TOPIC = "readings"
_PATIENCE_S = 2.0
_READY_S = 60.0


class Mosquitto(System):
    """Both brokers as Debian installs them; QoS 1."""

    name = "mosquitto"
    promise = "Debian's defaults, QoS 1"
    suffix: ClassVar[str] = ""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._edge_port, self._hub_port = free_port(), free_port()
        self._producer = _client("producer", self._edge_port)
        self._waiting: tuple[int, int] | None = None
        self._acknowledged = threading.Condition()
        self._identifiers: set[int] = set()
        self._producer.on_publish = self._note

    @classmethod
    def version(cls) -> str:
        """Return what `mosquitto -h` says first."""
        try:
            command, environment = find_mosquitto()
        except ConfigurationError as error:
            raise LackingError("mosquitto is not installed", error.hint) from error
        said = subprocess.run([command, "-h"], env=environment, capture_output=True, text=True, check=False)
        return said.stdout.splitlines()[0]

    def set_up(self) -> None:
        """Start both, and subscribe once, so that a session exists."""
        self.link = Link(self._hub_port)
        ports = {"edge_port": self._edge_port, "hub_port": self._hub_port, "link_port": self.link.port}
        command, environment = find_mosquitto()
        for side, folder in (("hub", self.place.hub), ("edge", self.place.edge)):
            (folder / "mosquitto").mkdir()
            text = (CONFIGURATIONS / f"mosquitto-{side}{self.suffix}.conf").read_text()
            file = self.place.rig / f"{side}.conf"
            file.write_text(Template(text).substitute(ports, folder=folder / "mosquitto"))
            log = self.place.rig / f"{side}.log"
            environment |= self.edge_environment if side == "edge" else {}
            self.programs[side] = Program([str(command), "-v", "-c", str(file)], log, environment)
            self.programs[side].start()
        self._subscribe_once()
        self._producer.connect_async("127.0.0.1", self._edge_port, keepalive=5)
        self._producer.loop_start()

    def _subscribe_once(self) -> None:
        """Have the consumer's session before anything is published: without it the hub drops what arrives."""
        subscribed = threading.Event()
        client = _client("consumer", self._hub_port)
        client.on_connect = lambda *_arguments: _subscribe(client)
        client.on_subscribe = lambda *_arguments: subscribed.set()
        client.connect_async("127.0.0.1", self._hub_port)
        client.loop_start()
        if not subscribed.wait(_READY_S):
            raise OSError("the hub's broker does not answer")
        client.disconnect()
        client.loop_stop()

    def publish(self, number: int, payload: bytes) -> None:
        """Publish, or go on waiting for what was published: paho keeps it, and sends it again."""
        if self._waiting is None or self._waiting[0] != number:
            self._waiting = number, self._producer.publish(_TOPIC, payload, qos=1).mid
        identifier = self._waiting[1]
        with self._acknowledged:
            if not self._acknowledged.wait_for(lambda: identifier in self._identifiers, _PATIENCE_S):
                raise NotAcknowledgedError("no acknowledgement")
            self._identifiers.remove(identifier)

    def _note(self, _client: mqtt.Client, _data: object, identifier: int, *_arguments: object) -> None:
        with self._acknowledged:
            self._identifiers.add(identifier)
            self._acknowledged.notify_all()

    def receive(self, arrive: Callable[[object, bytes], None], stopped: Callable[[], bool]) -> None:
        """Subscribe, note, acknowledge."""
        client = _client("consumer", self._hub_port)
        client.manual_ack_set(True)

        def note(_client: mqtt.Client, _data: object, message: mqtt.MQTTMessage) -> None:
            arrive(None, bytes(message.payload))
            client.ack(message.mid, message.qos)

        client.on_connect = lambda *_arguments: _subscribe(client)
        client.on_message = note
        client.connect("127.0.0.1", self._hub_port, keepalive=5)
        client.loop_start()
        try:
            while not stopped():
                time.sleep(0.1)
        finally:
            client.disconnect()  # the session stays
            client.loop_stop()

    def data_files(self, side: str) -> list[Path]:
        """Return the database."""
        folder = self.place.edge if side == "edge" else self.place.hub
        return [each for each in (folder / "mosquitto").iterdir() if each.is_file()]

    def close(self) -> None:
        """End the producer, too."""
        self._producer.loop_stop()
        super().close()


class SavingMosquitto(Mosquitto):
    """The most that its manual offers. With QoS 2, the bridge of 2.0.11 never resumes after some of the faults."""

    name = "mosquitto-saving"
    promise = "saves each change, no queue limit, QoS 1"
    suffix = "-saving"


def _subscribe(client: mqtt.Client) -> None:
    client.subscribe(_TOPIC, qos=1)


def _client(name: str, port: int) -> mqtt.Client:
    client = mqtt.Client(
        CallbackAPIVersion.VERSION2, client_id=f"{name}-{port}", protocol=mqtt.MQTTv311, clean_session=False
    )
    client.reconnect_delay_set(1, 1)
    client.max_queued_messages_set(0)
    return client
