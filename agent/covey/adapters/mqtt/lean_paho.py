"""paho's client, as `paho`, without the parts that an agent does not use:

1. What it loads for proxies, which it uses only if PySocks is installed: the HTTP client and the e-mail parser of the
   standard library, more than a MiB of an agent's memory.
2. The tables of international names, which resolver and TLS load for any name that is text: 0.35 MiB. An ASCII name
   works as bytes, too (`host`).
3. `logging` and `uuid`, 0.6 MiB: they load when paho uses them, which it does for no client of Covey's.
4. The tables of MQTT's properties, which it builds again for each received packet: 16 us of some 50 for a packet. All
   packets share one set.

It also corrects paho's clock of what was sent: paho does not note when it has written its last waiting packet, and
pings beside other traffic.
"""

from __future__ import annotations

import builtins
import socket
import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from covey.adapters.mqtt.buffered_socket import BufferedSocket

if TYPE_CHECKING:
    from collections.abc import Collection

    from paho.mqtt.reasoncodes import ReasonCode

    from covey.adapters.mqtt.posted import Will
    from covey.adapters.mqtt.settings import ConnectionSettings, Place

_PAHO = "paho.mqtt.client"
_HAS_PROXIES = find_spec("socks") is not None

_LEVELS = {"DEBUG": 10, "INFO": 20, "WARNING": 30, "ERROR": 40}
"""`logging`'s, which paho reads when it loads."""


def _load_lean() -> None:
    """Load paho's client with what it imports replaced for it alone: other threads import at the same time."""
    instead = {"uuid": _loaded_when_used("uuid"), "logging": _loaded_when_used("logging", **_LEVELS)}
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
    vars(module).update(known, __getattr__=lambda wanted: getattr(import_module(name), wanted))
    return module


if _PAHO not in sys.modules:
    _load_lean()
import paho.mqtt.client as paho  # noqa: E402

__all__ = ["BufferedClient", "host", "new_client", "paho", "publish_properties", "refusal_words", "subscriptions"]

DISCONNECT_S = 1.0
"""How long a clean disconnect may take: it only flushes a few packets."""

_TABLES = {"names", "properties", "types"}


def _share_tables() -> None:
    """Let all properties have the same tables, if they are what this paho gives each; nothing writes to them."""
    made = vars(Properties(PacketTypes.PUBLISH))  # type: ignore[no-untyped-call] # paho's has no types
    if made.keys() != {*_TABLES, "packetType"}:
        return
    tables = {name: made[name] for name in _TABLES}

    def begin(self: Properties, packetType: int) -> None:  # noqa: N803 - as paho calls it
        vars(self).update(tables, packetType=packetType)

    Properties.__init__ = begin  # type: ignore[method-assign]


_share_tables()


def host(name: str) -> Any:
    """Return a server's name as paho is to be given it: it hands it on to the resolver and to TLS."""
    return name.encode("ascii") if name.isascii() and not _HAS_PROXIES else name


class BufferedClient(paho.Client):
    """paho's client on a socket with buffers; where a later paho asks for its socket otherwise, it has none.

    With a `place` it connects there, while TLS still checks the host that it was told.
    """

    place: Place | None = None
    connect_s_max: float = 10.0

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


def new_client(settings: ConnectionSettings, will: Will | None, place: Place | None = None) -> paho.Client:
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
    client.max_inflight_messages_set(0)  # unlimited: the window is ours
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


def publish_properties(lifetime_s: int, alias: int) -> Properties | None:
    """Return the Message Expiry Interval (§3.3.2.3.3) and the Topic Alias of a publish; None where it has neither."""
    if lifetime_s <= 0 and not alias:
        return None
    properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call] # paho's has no types
    if lifetime_s > 0:
        properties.MessageExpiryInterval = lifetime_s
    if alias:
        properties.TopicAlias = alias
    return properties


def subscriptions(topics: Collection[str], qos: int, *, retained: bool) -> list[tuple[str, SubscribeOptions]]:
    handling = SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE if retained else SubscribeOptions.RETAIN_DO_NOT_SEND
    options = SubscribeOptions(qos=qos, retainHandling=handling)
    return [(topic, options) for topic in topics]


def _nothing(*_arguments: object) -> None:
    """Do nothing."""
