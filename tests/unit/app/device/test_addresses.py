"""`covey.app.device.addresses`: what a setting that is an address with a port may be."""

from __future__ import annotations

import pytest

from covey.app.device.addresses import host_and_port
from covey.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.7.2:7480", ("10.0.7.2", 7480)),
        ("barn.example.org:0", ("barn.example.org", 0)),
        ("[fd00::7]:7480", ("fd00::7", 7480)),
    ],
)
def test_an_address_with_a_port(text: str, found: tuple[str, int]) -> None:
    assert host_and_port(text, "content.lan_peers") == found


@pytest.mark.parametrize(
    "text", ["", "10.0.7.2", ":7480", "10.0.7.2:", "10.0.7.2:99999", "http://10.0.7.2:7480", "me@pi:1", "a b:1"]
)
def test_a_value_that_is_no_address_is_refused(text: str) -> None:
    """A URL was once taken, and no file was ever fetched from there."""
    with pytest.raises(ConfigurationError, match="is not HOST:PORT") as caught:
        host_and_port(text, "content.lan_peers")
    assert caught.value.hint == "covey config set content.lan_peers HOST:PORT"
