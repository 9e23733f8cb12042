"""`covey.adapters.mqtt.lean_paho`: properties that share their tables are those of MQTT 5, each with its own values."""

from __future__ import annotations

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
