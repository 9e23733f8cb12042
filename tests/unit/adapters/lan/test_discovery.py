"""Finding peers where the system does not tell this machine's addresses."""

from __future__ import annotations

import threading

import pytest

from covey.adapters.lan.discovery import LanDiscovery
from tests.waiting import wait_until


def _looks() -> bool:
    return any(each.name == "lan discovery" for each in threading.enumerate())


def test_unreadable_addresses_are_reported_once_and_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, reported = list[int](), list[str]()

    def refuse() -> list[str]:
        looks.append(1)
        raise OSError(97, "Address family not supported by protocol")

    monkeypatch.setattr("covey.adapters.lan.discovery.near_addresses", refuse)
    monkeypatch.setattr("covey.adapters.lan.discovery._LOOK_S", 0.01)
    discovery = LanDiscovery(1, lambda _level, line: reported.append(line))
    wait_until(lambda: len(looks) > 2 or not _looks(), "it looks again")
    assert _looks(), "its thread lives"
    discovery.close()
    assert len(reported) == 1
    assert "addresses cannot be read" in reported[0]
    assert discovery.peers() == []
