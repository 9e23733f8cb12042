"""A connection to an MQTT 5 broker that is only published to, with a will; paho's thread keeps it alive in between."""

from __future__ import annotations

import ssl
import threading
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from covey.adapters.mqtt.settings import plain_words
from covey.errors import DoorError
from covey.limits.doors import DOOR_SEND_SECONDS, DOOR_UNACKNOWLEDGED

if TYPE_CHECKING:
    from collections.abc import Callable

    from paho.mqtt.reasoncodes import ReasonCode

_KEEPALIVE_S = 30


@dataclass(frozen=True, slots=True)
class Publication:
    """What is published, retained; the broker lets go of it after `expires_s` seconds, 0 for never."""

    topic: str
    payload: bytes
    expires_s: int = 0


class MqttPublisher:
    """One connection, which is made when it is needed."""

    def __init__(
        self, address: tuple[str, int], context: ssl.SSLContext | None, user_name: str, will: Publication
    ) -> None:
        self._address, self._context, self._user_name, self._will = address, context, user_name, will
        self._client: paho.Client | None = None
        self._answered = threading.Condition()
        self._refusal: str | None = None
        self._taken: set[int] = set()
        self._refused = 0
        self._is_gone = False

    @property
    def is_connected(self) -> bool:
        """Whether the broker has let us in, and has not gone since."""
        return self._client is not None and not self._is_gone and self._client.is_connected()

    def connect(self, password: str) -> None:
        """Connect anew.

        Raises:
            DoorError: no connection, or the broker refuses.
        """
        self.close()
        self._refusal, self._refused, self._is_gone = None, 0, False
        client = paho.Client(CallbackAPIVersion.VERSION2, "", protocol=paho.MQTTv5, reconnect_on_failure=False)
        client.on_connect, client.on_publish = self._on_connect, self._on_publish
        client.on_disconnect = self._on_disconnect
        client.connect_timeout = DOOR_SEND_SECONDS
        client.will_set(self._will.topic, self._will.payload, qos=1, retain=True)
        if self._user_name:
            client.username_pw_set(self._user_name, password)
        if self._context is not None:
            client.tls_set_context(self._context)
        try:
            client.connect(*self._address, keepalive=_KEEPALIVE_S)
        except OSError as error:
            raise DoorError(plain_words(error, *self._address)) from None
        client.loop_start()
        self._client = client
        if not self._wait(lambda: self._refusal is not None):
            self.close()
            raise DoorError(f"{self._address[0]} does not answer as an MQTT 5 broker does")
        if self._refusal:
            refusal = self._refusal
            self.close()
            raise DoorError(f"{self._address[0]} refuses: {refusal}")

    def publish(self, publications: list[Publication]) -> None:
        """Publish, some at a time, and return when the broker has taken all of it.

        Raises:
            DoorError: it has not.
        """
        client = self._client
        for first in range(0, len(publications), DOOR_UNACKNOWLEDGED):
            self._taken, sent = set(), set[int]()
            for each in publications[first : first + DOOR_UNACKNOWLEDGED]:
                if client is None or not self.is_connected:
                    raise DoorError(f"{self._address[0]} has ended the connection")
                properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call] # paho's has no types
                if each.expires_s:
                    properties.MessageExpiryInterval = each.expires_s
                # Not under our lock: paho holds one of its own here, and while it calls us.
                sent.add(client.publish(each.topic, each.payload, qos=1, retain=True, properties=properties).mid)
            if not self._wait(partial(sent.issubset, self._taken)):
                self.close()
                raise DoorError(f"{self._address[0]} has not taken what was published")
        if self._refused:
            self.close()
            raise DoorError(f"{self._address[0]} refuses a topic: may this account write there?")

    def close(self) -> None:
        """Leave without a word, so that the broker publishes the will."""
        client, self._client = self._client, None
        if client is not None:
            if (connection := client.socket()) is not None:
                connection.close()
            client.loop_stop()

    def _on_connect(self, _c: object, _d: object, _flags: object, reason: ReasonCode, _p: object) -> None:
        with self._answered:
            self._refusal = str(reason) if reason.is_failure else ""
            self._answered.notify_all()

    def _on_publish(self, _c: object, _d: object, mid: int, reason: ReasonCode, _p: object) -> None:
        with self._answered:
            self._taken.add(mid)
            self._refused += reason.is_failure
            self._answered.notify_all()

    def _on_disconnect(self, *_arguments: object) -> None:
        with self._answered:
            self._is_gone = True
            self._answered.notify_all()

    def _wait(self, condition: Callable[[], bool]) -> bool:
        """Wait until the condition holds (True), or for as long as a broker has for its answer (False)."""
        with self._answered:
            self._answered.wait_for(lambda: condition() or self._is_gone, DOOR_SEND_SECONDS)
            return condition()
