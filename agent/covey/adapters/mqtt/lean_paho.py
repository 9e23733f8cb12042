"""paho's client, as `paho`, without what an agent has no use for.

1. What it loads for proxies: it asks for one only where PySocks is installed. That is the HTTP client and the e-mail
   parser of the standard library: more than a MiB of an agent's memory.
2. The tables of international names, which resolver and TLS load for any name that is text: 0.35 MiB. A name in ASCII
   means the same to both as bytes (`host`).
"""

import sys
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_PROXIES = "urllib.request"

_HAS_PROXIES = find_spec("socks") is not None

if not _HAS_PROXIES and _PROXIES not in sys.modules:
    sys.modules[_PROXIES] = ModuleType(_PROXIES)
    import paho.mqtt.client as paho

    del sys.modules[_PROXIES]
else:
    import paho.mqtt.client as paho

__all__ = ["host", "paho"]


def host(name: str) -> Any:
    """Return a server's name as paho is to be given it: it hands it on to the resolver and to TLS."""
    return name.encode("ascii") if name.isascii() and not _HAS_PROXIES else name
