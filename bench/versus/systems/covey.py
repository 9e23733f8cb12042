"""Covey: an agent at the edge, an agent at the hub, and mosquitto as their relay, which nobody has to trust.

The producer sends a blob through the edge's local API, with a key that makes repeating safe. The answer comes when the
blob is in the outbox on the disk. The consumer takes blobs from the hub's inbox and deletes each that it has noted.
"""

from __future__ import annotations

import sys
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from string import Template

from bench.versus.link import Link
from bench.versus.program import Program
from bench.versus.system import CONFIGURATIONS, NotAcknowledgedError, Place, System
from broker_conf.mosquitto.broker import Broker, find_mosquitto
from covey.client import Client
from covey.errors import CoveyError
from demo.device import COVEY, Device

_READY_S = 120.0
_FOLLOW_S = 2


class Covey(System):
    """Two agents and their relay."""

    name = "covey"
    promise = "defaults"

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self._devices = {"edge": Device(place.edge, "edge"), "hub": Device(place.hub, "hub")}
        self._sockets = {side: place.rig / f"{side}.sock" for side in self._devices}
        self._client = Client(self._sockets["edge"])

    @classmethod
    def version(cls) -> str:
        """Return Covey's version and Python's."""
        return f"covey {version('covey')} (Python {sys.version.split()[0]})"

    def set_up(self) -> None:
        """Pair both, with the edge's way to the relay through the link."""
        broker = Broker(self.place.hub / "relay")
        broker.log = self.place.rig / "relay.log"
        broker.start()
        self.link = Link(broker.port)
        edge, hub = self._devices.values()
        edge.set_up(broker, f"mqtt://127.0.0.1:{self.link.port}")
        hub.set_up(broker)
        broker.stop()
        command, environment = find_mosquitto()
        relay = [str(command), "-c", str(self.place.hub / "relay" / "mosquitto.conf")]
        self.programs["relay"] = Program(relay, self.place.rig / "relay.log", environment)
        self.programs["relay"].start()
        for side, device in self._devices.items():
            text = Template((CONFIGURATIONS / f"covey-{side}.toml").read_text()).substitute(socket=self._sockets[side])
            for section, settings in tomllib.loads(text).items():
                for key, value in settings.items():
                    device.ok("config", "set", f"{section}.{key}", str(value))
            words = [*COVEY, "run", "--state", str(device.state), "--no-sensors"]
            clock = self.edge_environment if side == "edge" else {}
            self.programs[side] = Program(words, self.place.rig / f"{side}.log", clock)
        hub.ok("group", "create")
        self.programs["hub"].start()
        edge.ok("join", "-", feed=hub.ok("invite", "--no-wait"))
        self.programs["edge"].start()
        until = time.monotonic() + _READY_S
        while time.monotonic() < until and not all(Client(socket).answers() for socket in self._sockets.values()):
            time.sleep(0.1)

    def publish(self, number: int, payload: bytes) -> None:
        """Send a blob to the other member."""
        try:
            self._client.send(payload, key=f"message-{number}")
        except (CoveyError, OSError) as error:
            raise NotAcknowledgedError(str(error)) from error

    def receive(self, arrive: Callable[[object, bytes], None], stopped: Callable[[], bool]) -> None:
        """Take blobs out of the inbox."""
        client = Client(self._sockets["hub"])
        try:
            while not stopped():
                for blob in client.inbox(follow_s=_FOLLOW_S):
                    arrive(blob.id, blob.body)
                    client.delete(blob.id)
        except CoveyError as error:
            raise OSError(str(error)) from error
        finally:
            with suppress(OSError):
                client.close()

    def data_files(self, side: str) -> list[Path]:
        """Return all files of the state folder but the configuration and the reserved space, which holds nothing."""
        files = (each for each in self._devices[side].state.rglob("*") if each.is_file() and not each.is_symlink())
        return [each for each in files if each.name != "config.toml" and not each.name.endswith("-reserved")]
