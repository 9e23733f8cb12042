"""`covey.adapters.mqtt.wire_meter`: what is left of a budget bounds connections and bytes."""

from __future__ import annotations

import pytest

from covey.adapters.mqtt.wire_meter import WireMeter
from covey.limits.link import WINDOW_COST_BYTES


@pytest.mark.parametrize(
    ("left", "pays", "exhausted"),
    [(None, True, False), (WINDOW_COST_BYTES, True, False), (WINDOW_COST_BYTES - 1, False, False), (0, False, True)],
)
def test_a_lost_connection_is_replaced_while_enough_is_left(left: int | None, pays: bool, exhausted: bool) -> None:
    meter = WireMeter()
    meter.allow(left)
    assert (meter.pays_for_connection, meter.exhausted) == (pays, exhausted)
