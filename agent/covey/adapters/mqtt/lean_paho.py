"""paho's client, as `paho`, without what it loads for proxies: it asks for one only where PySocks is installed.

That is the HTTP client and the e-mail parser of the standard library: more than a MiB of an agent's memory.
"""

import sys
from importlib.util import find_spec
from types import ModuleType

_PROXIES = "urllib.request"

if find_spec("socks") is None and _PROXIES not in sys.modules:
    sys.modules[_PROXIES] = ModuleType(_PROXIES)
    import paho.mqtt.client as paho

    del sys.modules[_PROXIES]
else:
    import paho.mqtt.client as paho

__all__ = ["paho"]
