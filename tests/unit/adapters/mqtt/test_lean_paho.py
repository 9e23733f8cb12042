"""`covey.adapters.mqtt.lean_paho`: shared tables are those of MQTT 5, and what paho does without, others still get."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from paho.mqtt import MQTTException
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

import covey.adapters.mqtt.lean_paho  # noqa: F401 - it shares the tables


def _properties(packet_type: int) -> Any:
    return Properties(packet_type)


def test_properties_share_tables_and_no_values() -> None:
    expiring, plain = _properties(PacketTypes.PUBLISH), _properties(PacketTypes.PUBLISH)
    expiring.MessageExpiryInterval = 5
    assert expiring.pack() == b"\x05\x02\x00\x00\x00\x05"
    assert plain.isEmpty()
    assert plain.names is expiring.names


def test_properties_that_came_are_read_and_checked() -> None:
    came = _properties(PacketTypes.CONNACK)
    came.unpack(b"\x05\x21\x00\x14\x24\x01")
    assert (came.ReceiveMaximum, came.MaximumQoS) == (20, 1)
    with pytest.raises(MQTTException):
        _properties(PacketTypes.PUBLISH).ReceiveMaximum = 20


_IMPORTS_WHILE_PAHO_LOADS = """
import sys

class AnotherThread:
    def find_spec(self, name, path=None, target=None):
        if name == "socks" and "paho.mqtt.client" in sys.modules and "logging" not in sys.modules:
            import logging
            import urllib.request
            logging.getLogger("zeroconf").addHandler(logging.NullHandler())
            print(urllib.request.Request.__name__)

sys.meta_path.insert(0, AnotherThread())
import covey.adapters.mqtt.lean_paho
"""


@pytest.mark.processes
def test_another_thread_that_imports_while_paho_loads_gets_the_whole_modules() -> None:
    """Replacing them in `sys.modules` for a moment once ended the import of zeroconf in a `RecursionError`."""
    ended = subprocess.run(
        [sys.executable, "-c", _IMPORTS_WHILE_PAHO_LOADS], check=False, capture_output=True, text=True
    )
    assert (ended.stdout, ended.stderr) == ("Request\n", "")
