"""The state of group files for status, metrics and checks: local copies, downloads and nearby devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.adapters.sqlite.content import ContentState
from covey.app.content.documents import ContentStatus

if TYPE_CHECKING:
    from covey.app.device.device import Device

PEERS_CONDITION = "peers nearby"
STORE_CONDITION = "store of files"
NEARBY_FILES, NEARBY_BYTES = "content_nearby_files", "content_nearby_bytes"


def store_trouble(device: Device) -> str:
    """Return why the store of files refused the agent the last time; empty where it did not, or there is none."""
    return device.store.conditions.values().get(STORE_CONDITION, ("", 0))[0] if device.config.content.store else ""


def content_status(device: Device, *, running: bool) -> ContentStatus | None:
    """Return how files are; None where there are none, and none are taken from places nearby."""
    config, store = device.config.content, device.store
    files = store.content.all()
    if not files and not config.lan and not config.store:
        return None
    here = [each for each in files if each.state is ContentState.HERE]
    peers, _ = store.conditions.values().get(PEERS_CONDITION, ("", 0))
    return ContentStatus(
        here=len(here),
        here_bytes=sum(each.sealed_size for each in here),
        pinned_bytes=sum(each.sealed_size for each in here if each.pinned),
        maximum_bytes=config.maximum_mb * 1_000_000,
        wanted=sum(each.state is ContentState.WANTED for each in files),
        wrong=sum(each.state is ContentState.REFUSED for each in files),
        peers=int(peers) if config.lan and running and peers.isdecimal() else None,
    )
