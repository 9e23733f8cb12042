"""paho's client, as `paho`, without what an agent has no use for.

1. What it loads for proxies: it asks for one only where PySocks is installed. That is the HTTP client and the e-mail
   parser of the standard library: more than a MiB of an agent's memory.
2. The tables of international names, which resolver and TLS load for any name that is text: 0.35 MiB. A name in ASCII
   means the same to both as bytes (`host`).
3. The tables of MQTT's properties, which it makes anew for each packet that comes: 16 us of them where a packet costs
   paho some 50. All packets share one set.
"""

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

_PROXIES = "urllib.request"

_HAS_PROXIES = find_spec("socks") is not None

if not _HAS_PROXIES and _PROXIES not in sys.modules:
    sys.modules[_PROXIES] = ModuleType(_PROXIES)
    import paho.mqtt.client as paho

    del sys.modules[_PROXIES]
else:
    import paho.mqtt.client as paho

__all__ = ["host", "paho"]

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
