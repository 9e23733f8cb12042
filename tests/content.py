"""Files between the devices of tests: put, wanted, and opened as commands do it."""

from __future__ import annotations

from pathlib import Path

from covey.core.history.files import ContentReference, FileOffer, bound_to, content_key
from covey.core.ids import GroupId
from tests.fleet import Device


def put(device: Device, group_id: GroupId, content: bytes, folder: Path) -> FileOffer:
    """Let a member offer a file."""
    original = folder / "original"
    original.write_bytes(content)
    epoch_id = device.node.groups.group(group_id).epoch_id
    secret = device.store.groups.secret(group_id, epoch_id)
    assert secret is not None
    file_id, nonce = device.rng(16), device.rng(24)
    files = device.store.content.files
    with files.locked(), original.open("rb") as source:
        words = content_key(secret, file_id), nonce, bound_to(group_id, file_id)
        reference = files.seal(source.fileno(), len(content), *words, lambda _: None)
    offer = FileOffer("original", file_id, epoch_id, reference)
    with device.store.transaction():
        device.node.history.write(group_id, offer, device.now)
        device.store.content.put(group_id, device.key, reference, device.now.wall_us)
    return offer


def want(device: Device, group_id: GroupId, reference: ContentReference, author: Device) -> None:
    """Let a member ask for a file."""
    with device.store.transaction():
        device.store.content.want(group_id, author.key, reference, device.now.wall_us)
    device.node.content.refresh()


def opened(device: Device, group_id: GroupId, offer: FileOffer, folder: Path) -> bytes:
    """Return what a file holds that is here."""
    secret = device.store.groups.secret(group_id, offer.epoch_id)
    assert secret is not None
    target = folder / f"of {device.name}"
    words = content_key(secret, offer.file_id), bound_to(group_id, offer.file_id), target
    device.store.content.files.open_into(offer.content, *words, replace=True)
    return target.read_bytes()
