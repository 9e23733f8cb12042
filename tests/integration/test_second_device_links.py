"""The second implementation of a device seals by link keys that it has given a real agent, as section 4 lets it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from covey.core.wire.envelope import LINKED
from covey.ports import Delivered
from tests.integration.gateway import Gateway
from tests.integration.landed import landed
from tests.integration.relay_client import RelayClient
from tests.integration.second import Second
from tests.waiting import wait_until

pytestmark = pytest.mark.broker


def test_its_envelopes_go_by_link_until_it_is_killed_and_again_afterwards(
    new_gateway: Callable[[str], Gateway], new_relay_client: Callable[..., RelayClient], second: Second
) -> None:
    collector = new_gateway("collector")
    collector.ok("group", "create", "--capability", "collector")
    collector.start("collect", "--no-sensors")
    count = ("--count", "150", "--every", "50")
    second.start("--invite", collector.ok("invite", "--no-wait").strip(), *count)
    wait_until(lambda: second.said("link"), "the collector has acknowledged a key")
    collector.end()
    spy = new_relay_client(username=collector.account, password=_password(collector)).up()
    spy.wait_for(Delivered, lambda event: event.payload[1] == LINKED)
    spy.relay.stop()
    second.end()
    keys = len(second.said("link"))
    second.start(*count)
    collector.start("collect", "--no-sensors")
    wait_until(lambda: len(second.said("link")) > keys, "it has given another key, as it has lost the one before")
    wait_until(lambda: len(landed(collector)) == 150, "all readings land")
    assert set(landed(collector).values()) == {1}
    assert "dropped_decryption" not in collector.counters()


def _password(gateway: Gateway) -> str:
    return gateway.relay_password
