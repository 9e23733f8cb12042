"""A relay that devices know by an address: which its machine had by itself, and has or has no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from covey.adapters.state_folder import StateFolder
from covey.app.relays.serving_relay import found_address, lost_address, served


@pytest.mark.parametrize(
    ("url", "found", "lost"),
    [
        ("mqtts://192.0.2.7:8884", "192.0.2.7", "192.0.2.7"),
        ("mqtts://[2001:db8::7]", "2001:db8::7", "2001:db8::7"),
        ("mqtts://192.0.2.8", "192.0.2.8", ""),
        ("mqtts://192.0.2.9", "", ""),
        ("mqtts://127.0.0.1", "", ""),
        ("mqtts://barn.example.org", "", ""),
    ],
    ids=["gone", "gone, of six", "its own", "chosen by a person", "of itself alone", "a name"],
)
def test_an_address_that_nobody_chose_and_the_machine_has_lost(
    url: str, found: str, lost: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("covey.app.relays.serving_relay.own_addresses", lambda: ["192.0.2.8"])
    folder = StateFolder.at(tmp_path / "state")
    served(folder).keep_names(["192.0.2.9"])
    assert (found_address(folder, url), lost_address(folder, url)) == (found, lost)
