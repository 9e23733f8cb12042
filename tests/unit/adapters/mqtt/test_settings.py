"""`covey.adapters.mqtt.settings`: whose eyes a relay's password may cross."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from covey.adapters.mqtt.settings import exposes_password
from tests.command import Here


@pytest.fixture
def alone(tmp_path: Path) -> Here:
    """A device that has no broker."""
    return Here(tmp_path, "alone")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.9.9.9",
        "[::1]",
        "10.1.2.3",
        "172.16.0.1",
        "172.31.255.1",
        "192.168.7.7",
        "169.254.1.1",
        "[fd00::1]",
        "[fe80::1]",
        "[::ffff:10.0.0.1]",
        "localhost",
        "barn",
        "barn.local",
        "BARN.LOCAL.",
        "a.b.internal",
        "nas.home.arpa",
    ],
)
def test_this_machine_and_private_networks_see_a_password(host: str) -> None:
    assert not exposes_password(f"mqtt://{host}:1883")


@pytest.mark.parametrize(
    "host",
    [
        "198.51.100.7",
        "172.32.0.1",
        "192.169.0.1",
        "100.64.0.1",
        "8.8.8.8",
        "[2001:db8::1]",
        "[::ffff:8.8.8.8]",
        "relay.example.org",
        "nas.lan",
        "notlocal.example",
        "10.0.0.1.example.org",
    ],
)
def test_nobody_else_may(host: str) -> None:
    assert exposes_password(f"mqtt://{host}")
    assert not exposes_password(f"mqtts://{host}")


_SETTERS: dict[str, Callable[[Here, str], str]] = {
    "relay": lambda here, url: here.covey("relay", "set", url).stderr,
    "config": lambda here, url: here.covey("config", "set", "relay.url", url).stderr,
    "add": lambda here, url: (
        here.covey("relay", "set", "mqtt://127.0.0.1").stderr + here.covey("relay", "add", url).stderr
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("setter", _SETTERS)
def test_a_person_who_sets_such_a_relay_is_warned(alone: Here, setter: str) -> None:
    assert "warning: mqtt://relay.example.org is not on" in _SETTERS[setter](alone, "mqtt://relay.example.org")
    assert "warning" not in _SETTERS[setter](alone, "mqtts://relay.example.net")
    assert "warning" not in _SETTERS[setter](alone, "mqtt://192.168.1.5")
