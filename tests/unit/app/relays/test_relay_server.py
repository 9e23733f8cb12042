"""`covey relay serve`: what does not end it."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest

from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.state_folder import StateFolder
from covey.app.device.creating import create_device
from covey.app.relays.relay_server import renew_certificate
from covey.app.relays.serving_relay import served


def test_a_full_disk_leaves_the_relay_its_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, limits = StateFolder.at(tmp_path / "state"), resource.getrlimit(resource.RLIMIT_FSIZE)
    place = served(folder)
    create_device(folder, "hub")
    storage_key = StorageKey.of(folder.identity())
    folder.configuration.change({"relay.url": "mqtts://192.0.2.7"})
    renew_certificate(folder, place, storage_key)
    before = place.certificate_file.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # stands in for the disk's end
    try:
        renew_certificate(folder, place, storage_key)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert place.certificate_file.read_bytes() == before
    assert "keeps its present certificate" in capsys.readouterr().err
