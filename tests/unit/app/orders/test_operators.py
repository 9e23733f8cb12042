"""`covey.app.orders.operators`: whom an order is for, and who of them could not obey it."""

from __future__ import annotations

import cbor2
import pytest

from covey.app.orders.operators import check_supported
from covey.core.group.features import Feature, own_announcement
from covey.core.group.manifest import Member
from covey.errors import LocalError
from tests.fleet import identity

_SENSOR = Member(identity("sensor").keys, extensions=cbor2.dumps({1: [int(Feature.HISTORY)]}))
_AGENT = Member(identity("agent").keys, extensions=own_announcement())


def test_an_order_names_the_targets_that_cannot_obey_it() -> None:
    assert check_supported([_SENSOR, _AGENT], Feature.COMMANDS) == (_SENSOR.name,)
    assert check_supported([_AGENT], Feature.COMMANDS) == ()


def test_an_order_that_no_target_can_obey_is_not_given() -> None:
    with pytest.raises(LocalError, match=f"1 device cannot obey settings: {_SENSOR.name}") as refused:
        check_supported([_SENSOR], Feature.SETTINGS)
    assert "upgrade Covey" in refused.value.hint
