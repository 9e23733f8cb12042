"""paho's client, as `paho`, without the parts that an agent does not use:

1. What it loads for proxies, which it uses only if PySocks is installed: the HTTP client and the e-mail parser of the
   standard library, more than a MiB of an agent's memory.
2. The tables of international names, which resolver and TLS load for any name that is text: 0.35 MiB. An ASCII name
   works as bytes, too (`host`).
3. `logging`, `uuid` and `platform`, 0.7 MiB: they load when paho uses them, which it does for no client of Covey's;
   and `ssl`, 1.3 MiB with OpenSSL's half of it, which loads with the first connection that is encrypted.
4. The tables of MQTT's properties, which it builds again for each received packet: 16 us of some 50 for a packet. All
   packets share one set.
5. Its searches of these tables, by name: 25 us to pack an alias, and 5 us to find that a packet has no properties.
6. Its records of each publish, each answer and each message: some 20 us each. `BufferedClient` writes publishes, and
   reads the few bytes of answers and of messages without properties that count.

It also corrects paho's clock of what was sent: paho does not note when it has written its last waiting packet, and
pings beside other traffic.
"""

from __future__ import annotations

import builtins
import os
import socket
import sys
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.exception import MalformedPacket
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from covey.adapters.mqtt.buffered_socket import BufferedSocket

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from paho.mqtt.reasoncodes import ReasonCode

    from covey.adapters.mqtt.posted import Will
    from covey.adapters.mqtt.settings import ConnectionSettings, Place

_PAHO = "paho.mqtt.client"
_HAS_PROXIES = find_spec("socks") is not None

_LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40}
"""`logging`'s, which paho reads when it loads."""

_WANTS = {"SSLWantReadError", "SSLWantWriteError"}
"""Errors of `ssl` that paho looks for with each read, encrypted or not."""


class _NeverRaised(Exception):  # noqa: N818 - no error
    """Stands for an error of `ssl` while that is not loaded."""


def _load_lean() -> None:
    """Load paho's client with what it imports replaced for it alone: other threads import at the same time."""
    instead = {
        "uuid": _loaded_when_used("uuid"),
        "logging": _loaded_when_used("logging", **_LEVELS),
        "platform": _loaded_when_used("platform", system=lambda: os.uname().sysname),
        "ssl": _loaded_when_used("ssl"),
    }
    if not _HAS_PROXIES:
        instead["urllib.request"] = import_module("urllib")

    def import_lean(name: str, *arguments: Any) -> Any:
        return instead[name] if name in instead and name not in sys.modules else __import__(name, *arguments)

    spec = find_spec(_PAHO)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": import_lean}  # what its import statements call
    sys.modules[_PAHO] = module
    spec.loader.exec_module(module)


def _loaded_when_used(name: str, **known: Any) -> ModuleType:
    module = ModuleType(name)

    def find(wanted: str) -> Any:
        if wanted in _WANTS and name not in sys.modules:
            return _NeverRaised
        return getattr(import_module(name), wanted)

    vars(module).update(known, __getattr__=find)
    return module


if _PAHO not in sys.modules:
    _load_lean()
import paho.mqtt.client as paho  # noqa: E402

__all__ = [
    "BufferedClient",
    "MqttMessage",
    "host",
    "new_client",
    "paho",
    "publish_properties",
    "refusal_words",
    "subscriptions",
]

DISCONNECT_S = 1.0
"""How long a clean disconnect may take: it only flushes a few packets."""

_PUBLISH, _PUBACK = 0x30, 0x40
"""First bytes of packets; that of PUBLISH has flags, too (§2.1.3)."""

_TABLES = {"names", "properties", "types"}


def _share_tables() -> None:
    """Let all properties have the same tables, if they are what this paho gives each; nothing writes to them."""
    made = vars(Properties(PacketTypes.PUBLISH))  # type: ignore[no-untyped-call] # paho's has no types
    if made.keys() != {*_TABLES, "packetType"}:
        return
    tables = {name: made[name] for name in _TABLES}

    def begin(self: Properties, packetType: int) -> None:  # noqa: N803 - as paho calls it
        vars(self).update(tables, packetType=packetType)

    unpack_some = Properties.unpack

    def unpack(self: Properties, buffer: bytes) -> tuple[Properties, int]:
        is_nothing = buffer[:1] == b"\0" and len(vars(self)) == len(made)
        return (self, 1) if is_nothing else unpack_some(self, buffer)  # type: ignore[no-untyped-call]

    Properties.__init__ = begin  # type: ignore[method-assign]
    Properties.unpack = unpack  # type: ignore[method-assign]


_share_tables()


def host(name: str) -> Any:
    """Return a server's name as paho is to be given it: it hands it on to the resolver and to TLS."""
    return name.encode("ascii") if name.isascii() and not _HAS_PROXIES else name


class MqttMessage(NamedTuple):
    """A message as it came; `topic` is empty where its `alias` stands for it, and where it is no text."""

    mid: int
    qos: int
    topic: str
    alias: int
    payload: bytes
    repeated: bool
    retained: bool


_PahoClient = paho.Client


class BufferedClient(_PahoClient):
    """paho's client on a socket with buffers; where a later paho asks for its socket otherwise, it has none.

    With a `place` it connects there, while TLS still checks the host that it was told.
    """

    place: Place | None = None
    connect_s_max: float = 10.0
    on_answer: Callable[[int, int], None]
    """Gets the packet identifier and the reason code of each answer to a publish."""
    on_arrival: Callable[[MqttMessage], None]
    """Gets each message."""

    def _packet_read(self) -> MQTTErrorCode:
        """Deal with one packet: in one piece where it has come whole, else as paho does."""
        connected = self._sock
        whole = None
        if isinstance(connected, BufferedSocket) and not self._in_packet["command"]:
            whole = connected.take_packet()
        if whole is None:
            return super()._packet_read()
        command, content = whole
        self._last_bytes_received = paho.time_func()
        if self._is_plain(command, content):
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        incoming = self._in_packet
        incoming["command"], incoming["remaining_length"] = command, len(content)
        incoming["packet"] = bytearray(content)
        try:
            return super()._packet_handle()
        except MalformedPacket:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        finally:
            incoming["command"], incoming["remaining_length"], incoming["packet"] = 0, 0, bytearray()

    def _packet_handle(self) -> MQTTErrorCode:
        """Deal with a packet that came in pieces."""
        if self._is_plain(self._in_packet["command"], bytes(self._in_packet["packet"])):
            return MQTTErrorCode.MQTT_ERR_SUCCESS
        return super()._packet_handle()

    def _is_plain(self, command: int, content: bytes) -> bool:
        """Pass on the answer to a publish (§3.4), or a message without properties; return whether it is one of them."""
        if command != _PUBACK or len(content) < 2:
            return command & 0xF0 == _PUBLISH and self._is_arrival(command, content)
        self.on_answer(int.from_bytes(content[:2]), content[2] if len(content) > 2 else 0)
        return True

    def _is_arrival(self, command: int, content: bytes) -> bool:
        """Pass on a message without properties (§3.3); return whether this is one."""
        qos = command >> 1 & 3
        topic_ends = 2 + int.from_bytes(content[:2])
        begins = topic_ends + (3 if qos else 1)
        if qos > 1 or len(content) < begins or content[begins - 1]:
            return False
        try:
            topic = content[2:topic_ends].decode()
        except UnicodeDecodeError:
            return False
        mid = int.from_bytes(content[topic_ends : begins - 1])
        self.on_arrival(MqttMessage(mid, qos, topic, 0, content[begins:], bool(command & 8), bool(command & 1)))
        return True

    def send_publish(self, topic: bytes, payload: bytes, qos: int, properties: bytes, *, retain: bool) -> int:
        """Queue a publish (§3.3), of which paho keeps no record; return its packet identifier."""
        mid = self._mid_generate()
        head = len(topic).to_bytes(2) + topic + (mid.to_bytes(2) if qos else b"") + properties
        packet = bytearray((_PUBLISH | qos << 1 | retain,))
        self._pack_remaining_length(packet, len(head) + len(payload))
        packet += head
        packet += payload
        self._packet_queue(_PUBLISH, packet, mid, 1)  # of QoS 1, it leaves nothing to do for paho once it is written
        return mid

    def _packet_write(self) -> MQTTErrorCode:
        """Write what waits, and note when all of it has left, so that a ping is sent only after a silence."""
        waited = super().want_write()
        result = super()._packet_write()
        if waited and not super().want_write():
            self._last_msg_out = paho.time_func()
        return result

    def _create_socket_connection(self) -> socket.socket:
        if self.place is None:
            return super()._create_socket_connection()
        return socket.create_connection(self.place, timeout=self.connect_s_max)

    def _create_socket(self) -> BufferedSocket:
        return BufferedSocket(super()._create_socket(), DISCONNECT_S)  # type: ignore[arg-type] # its own Protocol


def new_client(settings: ConnectionSettings, will: Will | None, place: Place | None = None) -> BufferedClient:
    """Return a client that only does the protocol: it neither reconnects nor queues, and acknowledges nothing.

    It connects to `place`, if there is one, else to the settings' host and port.
    """
    client = BufferedClient(
        CallbackAPIVersion.VERSION2,
        client_id=settings.client_id,
        protocol=paho.MQTTv5,
        reconnect_on_failure=False,
        manual_ack=True,
    )
    client.place, client.connect_s_max = place, settings.connect_s_max
    client.connect_timeout = settings.connect_s_max
    if settings.username is not None:
        client.username_pw_set(settings.username, settings.password)
    if settings.tls:
        client.tls_set_context(settings.tls)
    if will is not None:
        delay = Properties(PacketTypes.WILLMESSAGE)  # type: ignore[no-untyped-call] # paho's has no types
        delay.WillDelayInterval = will.delay_s
        client.will_set(will.topic, will.payload, qos=1, retain=will.retain, properties=delay)
    # Present, it stops paho from writing to the socket on whichever thread it happens to be.
    client.on_socket_register_write = _nothing
    return client


def refusal_words(reason: ReasonCode) -> str:
    """Say why a server did not accept us (CONNACK reasons, §3.2.2.2)."""
    if reason.value == 0x84:
        return "the server does not speak MQTT 5"
    if reason.value in {0x86, 0x87}:
        return "the server refuses this user name and password"
    return f"the server refuses the connection: {reason}"


@lru_cache(maxsize=64)
def publish_properties(lifetime_s: int, alias: int) -> bytes:
    """Return the properties of a publish: Message Expiry Interval (§3.3.2.3.3) and Topic Alias, where there are any."""
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call] # paho's has no types
    if lifetime_s > 0:
        properties.MessageExpiryInterval = lifetime_s
    if alias:
        properties.TopicAlias = alias
    return bytes(properties.pack())  # type: ignore[no-untyped-call]


def subscriptions(topics: Collection[str], qos: int, *, retained: bool) -> list[tuple[str, SubscribeOptions]]:
    handling = SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE if retained else SubscribeOptions.RETAIN_DO_NOT_SEND
    options = SubscribeOptions(qos=qos, retainHandling=handling)
    return [(topic, options) for topic in topics]


def _nothing(*_arguments: object) -> None:
    """Do nothing."""
