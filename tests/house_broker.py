"""A broker as a house has it: with an account, whatever is retained, and no rules of Covey's."""

from __future__ import annotations

from pathlib import Path

from broker_conf.mosquitto import Broker
from tests.integration.mqtt_client import Client

_USER = "ab" * 16
_OF_A_HOUSE = {"acl_file": None, "retain_available": None, "use_username_as_clientid": None}


class HouseBroker:
    """A running mosquitto, the options of a door to it, and what stands on it retained."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.broker = Broker(folder / "broker", settings={**_OF_A_HOUSE, **settings})
        self.broker.start()
        self.password = self.broker.add_device(_USER)
        self.password_file = folder / "home.password"
        self.password_file.touch(0o600)
        self.password_file.write_text(self.password)
        self.url = self.broker.url.replace("//", f"//{_USER}@")

    def client(self) -> Client:
        """Return a connection of somebody else's to it."""
        return Client(self.broker, "", _USER, self.password)

    def retained(self) -> dict[str, bytes]:
        """Return what a newcomer is given."""
        client = self.client()
        found = dict[str, bytes]()
        client.subscribe("homeassistant/#")
        client.subscribe("covey/readings/#")
        client.publish("covey/readings/end", b"")
        while (message := client.next_message())[0] != "covey/readings/end":
            found[message[0]] = message[1]
        client.close()
        return found
