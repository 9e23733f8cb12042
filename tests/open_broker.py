"""A broker as somebody has it at home: on loopback, for everybody."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from broker_conf.mosquitto.broker import find_mosquitto, free_port
from tests.waiting import wait_until


class OpenBroker:
    """mosquitto without accounts; it forgets everything when it stops."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._configuration = folder / "mosquitto.conf"
        self._configuration.write_text(f"listener {self.port} 127.0.0.1\nallow_anonymous true\n")
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop."""
        self.stop()

    def start(self) -> None:
        """Start, and return when it answers."""
        program, environment = find_mosquitto()
        words = [str(program), "-c", str(self._configuration)]
        self._process = subprocess.Popen(words, env=environment, stderr=subprocess.DEVNULL)
        wait_until(self._answers)

    def stop(self) -> None:
        """Stop."""
        if self._process:
            self._process.terminate()
            self._process.wait()

    def publish(self, topic: str, *payloads: str, retain: bool = False) -> None:
        """Publish with QoS 1; return when the broker has them."""
        client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        client.connect("127.0.0.1", self.port)
        client.loop_start()
        for each in payloads:
            client.publish(topic, each, qos=1, retain=retain).wait_for_publish(30)
        client.disconnect()
        client.loop_stop()

    def _answers(self) -> bool:
        with suppress(OSError):
            client = paho.Client(CallbackAPIVersion.VERSION2)
            client.connect("127.0.0.1", self.port)
            client.disconnect()
            return True
        return False
