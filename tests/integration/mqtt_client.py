"""A plain MQTT 5 client without manners: it does whatever it is told."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from tests.waiting import take

if TYPE_CHECKING:
    import ssl

    from paho.mqtt.reasoncodes import ReasonCode

    from broker_conf.mosquitto import Broker


class Client:
    """One connection, and all that the broker answered, in order."""

    def __init__(
        self,
        broker: Broker,
        client_id: str,
        username: str | None,
        password: str | None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.inbox = f"covey/1/in/{username}"
        self.connects: queue.SimpleQueue[ReasonCode] = queue.SimpleQueue()
        self.disconnects: queue.SimpleQueue[ReasonCode] = queue.SimpleQueue()
        self.subscribes: queue.SimpleQueue[ReasonCode] = queue.SimpleQueue()
        self.publishes: queue.SimpleQueue[ReasonCode] = queue.SimpleQueue()
        self.messages: queue.SimpleQueue[tuple[str, bytes]] = queue.SimpleQueue()
        self.paho = paho.Client(
            CallbackAPIVersion.VERSION2, client_id, protocol=paho.MQTTv5, reconnect_on_failure=False
        )
        if tls:
            self.paho.tls_set_context(tls)
        if username is not None:
            self.paho.username_pw_set(username, password)
        self.paho.on_connect = lambda _c, _d, _flags, reason, _p: self.connects.put(reason)
        self.paho.on_disconnect = lambda _c, _d, _flags, reason, _p: self.disconnects.put(reason)
        self.paho.on_subscribe = lambda _c, _d, _mid, reasons, _p: self.subscribes.put(reasons[0])
        self.paho.on_publish = lambda _c, _d, _mid, reason, _p: self.publishes.put(reason)
        self.paho.on_message = lambda _c, _d, message: self.messages.put((message.topic, bytes(message.payload)))
        self.paho.connect("127.0.0.1", broker.port, clean_start=True)
        self.paho.loop_start()
        self.accepted = take(self.connects)

    def subscribe(self, topic: str) -> ReasonCode:
        """Subscribe, and return what the broker says to it."""
        self.paho.subscribe(topic, qos=1)
        return take(self.subscribes)

    def publish(self, topic: str, payload: bytes) -> str:
        """Publish, and return what the broker says to it."""
        self.paho.publish(topic, payload, qos=1)
        return str(take(self.publishes))

    def next_message(self) -> tuple[str, bytes]:
        """Return the next message delivered."""
        return take(self.messages)

    def close(self) -> None:
        """Leave."""
        self.paho.disconnect()
        self.paho.loop_stop()
