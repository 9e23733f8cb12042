"""Offer files to groups: seal each first, which takes time, then write all offers in one commit.

A sealed file that is not offered yet is no one's: it is neither served nor evicted. It is deleted if the command ends
without offering it, and after a power cut by a later start of the agent.
"""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.adapters.content_sealing import opened_file
from covey.adapters.content_secrets import save_secret
from covey.adapters.sqlite.content import ContentState
from covey.app.content.content import make_room
from covey.app.content.file_offers import GroupFile
from covey.app.history.writing import all_or_nothing
from covey.core.history.files import (
    FILE_ID_BYTES,
    NONCE_BYTES,
    TAG_BYTES,
    FileOffer,
    bound_to,
    content_key,
    is_file_name,
)
from covey.core.orders.sealing import FILE_SECRET_BYTES, seal_file_secret
from covey.errors import LocalError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import NoisePublic


@dataclass(frozen=True, slots=True)
class SealedFile:
    """A file that is sealed here for a group, and is to be offered; `secret` opens it if it is for some devices."""

    group: GroupManifest
    file: FileOffer
    key: bytes = field(repr=False)
    secret: bytes | None = field(default=None, repr=False)


def put_file(
    device: Device,
    manifest: GroupManifest,
    path: Path,
    name: str | None,
    moves: Callable[[int], None],
    readers: Collection[NoisePublic] = (),
    *,
    pinned: bool = True,
) -> GroupFile:
    """Seal a file for a group's members, and offer it to them; raises what `put_opened` raises, and:

    Raises:
        LocalError: it cannot be read.
    """
    with opened_file(path) as (source, size):
        name = path.name if name is None else name
        return put_opened(device, manifest, source, size, name, moves, readers, pinned=pinned)


def put_opened(
    device: Device,
    manifest: GroupManifest,
    source: int,
    size: int,
    name: str,
    moves: Callable[[int], None],
    readers: Collection[NoisePublic] = (),
    *,
    pinned: bool = True,
) -> GroupFile:
    """Seal the `size` bytes of a descriptor for a group's members, and offer them; raises what `seal_opened` raises."""
    with sealed_files(device) as sealed:
        sealed.append(seal_opened(device, manifest, source, size, name, moves, readers))
        with all_or_nothing(device):
            return offer_sealed(device, sealed[0], pinned=pinned)


def seal_file(
    device: Device, manifest: GroupManifest, path: Path, name: str | None, moves: Callable[[int], None]
) -> SealedFile:
    """Seal a file for a group's members; raises what `seal_opened` raises, and:

    Raises:
        LocalError: it cannot be read.
    """
    with opened_file(path) as (source, size):
        return seal_opened(device, manifest, source, size, path.name if name is None else name, moves)


def seal_opened(
    device: Device,
    manifest: GroupManifest,
    source: int,
    size: int,
    name: str,
    moves: Callable[[int], None],
    readers: Collection[NoisePublic] = (),
) -> SealedFile:
    """Seal the `size` bytes of a descriptor for a group's members; `moves` hears how many are done.

    Only `readers` and this device can open it, where there are any: by the noise keys that the manifest lists.

    Raises:
        DiskFullError: no room for it.
        LocalError: it cannot be offered.
        UsageError: a name that no file has.
    """
    if not is_file_name(name):
        raise UsageError(f"'{name[:64]}' is not a file name", hint="--name NAME, without a path and control characters")
    group_id, store = manifest.group_id, device.store
    secret = store.groups.secret(group_id, manifest.epoch_id)
    if secret is None:
        raise LocalError(
            "this device does not have the group's current secret yet",
            hint="wait until a member sends it, then try again",
        )
    file_id, nonce = secrets.token_bytes(FILE_ID_BYTES), secrets.token_bytes(NONCE_BYTES)
    sealed_secret, author = None, device.node.identity.signing_public
    if readers:
        secret, readers = secrets.token_bytes(FILE_SECRET_BYTES), {*readers, device.node.identity.noise.current.public}
        sealed_secret = seal_file_secret(secret, readers, group_id, author, file_id, secrets.token_bytes)
    files, key = store.content.files, content_key(secret, file_id)
    with files.locked():
        make_room(device, size + TAG_BYTES)
        content = files.seal(source, size, key, nonce, bound_to(group_id, file_id), moves)
        with store.transaction():
            store.content.seal(group_id, author, content, device.now().wall_us)
    offer = FileOffer(name, file_id, manifest.epoch_id, content, sealed_secret)
    return SealedFile(manifest, offer, key, secret if readers else None)


def offer_sealed(device: Device, sealed: SealedFile, *, pinned: bool = True) -> GroupFile:
    """Offer a sealed file to its group. Inside a transaction.

    `pinned`: the file stays here until somebody drops it, for nobody else may have it yet; else newer ones may take its
    room.

    Raises:
        LocalError: it is not here any more, or it cannot be offered.
    """
    group_id, content = sealed.group.group_id, sealed.file.content
    kept = device.store.content.of(content.hash)
    if kept is None:
        raise LocalError(f"'{sealed.file.name}' was deleted before it was offered", hint="run the command again")
    operation = device.node.history.write(group_id, sealed.file, device.now())
    device.store.content.put(group_id, device.node.identity.signing_public, content, device.now().wall_us)
    device.store.content.pin(content.hash, pinned=pinned)
    if sealed.secret is not None:
        save_secret(device.store.content.files, content.hash, operation.id, sealed.secret)
    return GroupFile(operation, sealed.file)


@contextmanager
def sealed_files(device: Device) -> Iterator[list[SealedFile]]:
    """Delete what is sealed in here and not offered by the end."""
    sealed: list[SealedFile] = []
    try:
        yield sealed
    finally:
        kept = [device.store.content.of(each.file.content.hash) for each in sealed]
        if left := [each.hash for each in kept if each is not None and each.state is ContentState.SEALED]:
            with device.store.transaction():
                for each in left:
                    device.store.content.drop(each)
