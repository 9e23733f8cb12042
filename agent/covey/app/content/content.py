"""Files of a group: put and fetch them, and list local copies (docs/protocol/content.md, "Content")."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from covey.adapters.content_files import check_target
from covey.adapters.sqlite.content import ContentState, KeptFile
from covey.adapters.wake_pipe import wake_agent
from covey.app.content.documents import HERE, LOCKED, OFFERED, REQUESTED, WRONG, OfferedFile
from covey.app.content.file_offers import GroupFile, keep_secret, lacks_secret, locked, offers, opening_of
from covey.app.loop.relay_loop import wait_until
from covey.core.content.patches import is_patch_name
from covey.core.history.files import (
    TAG_BYTES,
    ContentReference,
)
from covey.core.ids import ContentHash
from covey.errors import (
    DamagedFileError,
    DecryptionError,
    DiskFullError,
    LocalError,
    StorageError,
    TimeUpError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest

FETCH_ACTION = "fetch-file"
"""The action by which devices fetch what an operator's device has put (`operations.d`)."""

_STATES = {ContentState.WANTED: REQUESTED, ContentState.HERE: HERE, ContentState.REFUSED: WRONG}


def ask_for_file(device: Device, manifest: GroupManifest, offer: GroupFile) -> None:
    """Have a file fetched, unless it is here, and the secret that it opens by, where this device lacks that.

    Raises:
        DiskFullError: no room for it.
    """
    content = offer.file.content
    if is_here(device, offer):
        if not lacks_secret(device, manifest, offer):
            return
        with device.store.transaction():
            device.store.content.lack(content.hash, offer.operation.id, device.now().wall_us)
    else:
        make_room(device, content.sealed_size)
        files = device.store.content.files
        files.need_room(content.sealed_size)
        with files.locked(), device.store.transaction():
            keep_secret(device, manifest, offer)
            device.store.content.want(manifest.group_id, offer.operation.author, content, device.now().wall_us)
            if lacks_secret(device, manifest, offer):
                device.store.content.lack(content.hash, offer.operation.id, device.now().wall_us)
    device.node.content.refresh()
    wake_agent(device.folder.wake_pipe)


def fetch_file(
    device: Device, manifest: GroupManifest, offer: GroupFile, seconds: float, moves: Callable[[int], None]
) -> None:
    """Have a file here, whole; `moves` hears how many bytes have come.

    Raises:
        DiskFullError: no room for it.
        LocalError: it has not come in that time (it is asked for still), or is not what its author says.
    """
    content = offer.file.content
    ask_for_file(device, manifest, offer)

    def state() -> ContentState | None:
        moves(device.store.content.come(content.hash))
        found = device.store.content.of(content.hash)
        return None if found is None else found.state

    is_whole = partial(device.store.content.files.is_whole, content.hash)
    wait_until(device, lambda: state() is not ContentState.WANTED, seconds, is_whole)
    found = state()
    if found is ContentState.REFUSED:
        raise LocalError(
            f"'{offer.file.name}' does not match its offer and was deleted",
            hint="ask its author to put it again",
        )
    if found is not ContentState.HERE:
        raise TimeUpError(
            f"'{offer.file.name}' has not arrived yet",
            hint="the agent keeps fetching it: 'covey file list --waiting' shows progress",
        )


def wait_until_it_opens(device: Device, manifest: GroupManifest, offer: GroupFile, seconds: float) -> None:
    """Wait for the secret that a file opens by which is here, where this device lacks that and has asked for it.

    Raises:
        LocalError: it has not come in that time; it is asked for still.
    """
    if not wait_until(device, lambda: not lacks_secret(device, manifest, offer), seconds):
        raise locked(offer)


def open_file(device: Device, manifest: GroupManifest, offer: GroupFile, target: Path, *, replace: bool) -> None:
    """Write what a file holds to `target`.

    Raises:
        DamagedFileError: the disk has changed what is here.
        DecryptionError: what is here was not sealed for this group.
        LocalError: this device cannot open it, or `target` is there already.
        StorageError: the disk refused.
    """
    key, associated = opening_of(device, manifest, offer)
    with _repaired(device, manifest, offer):
        device.store.content.files.open_into(offer.file.content, key, associated, target, replace=replace)
    _use(device, offer)


def open_stream(device: Device, manifest: GroupManifest, offer: GroupFile) -> BinaryIO:
    """Return what a file that is here holds, as a file of no name.

    Raises:
        DamagedFileError: the disk has changed what is here.
        DecryptionError: what is here was not sealed for this group.
        LocalError: it is not here, or this device cannot open it.
        StorageError: the disk refused, or has no room for it.
    """
    _need_here(device, offer)
    with _repaired(device, manifest, offer):
        made = device.store.content.files.open_scratch(offer.file.content, *opening_of(device, manifest, offer))
    _use(device, offer)
    return made


@contextmanager
def _repaired(device: Device, manifest: GroupManifest, offer: GroupFile) -> Iterator[None]:
    try:
        yield
    except (DecryptionError, StorageError) as error:
        if repair_file(device, manifest, offer):
            raise DamagedFileError(offer.file.name) from error
        raise


def _use(device: Device, offer: GroupFile) -> None:
    with device.store.transaction():
        device.store.content.use(offer.file.content.hash, device.now().wall_us)


def is_here(device: Device, offer: GroupFile) -> bool:
    """Say whether a file is here whole."""
    kept = device.store.content.of(offer.file.content.hash)
    return kept is not None and kept.state is ContentState.HERE


def _need_here(device: Device, offer: GroupFile) -> None:
    if not is_here(device, offer):
        raise LocalError(f"'{offer.file.name}' is not on this device", hint="'covey file get' fetches it")


def check_room(device: Device, path: Path, copies: int) -> None:
    """Check that the quota has room for a file sealed for so many groups, each of which needs a copy of its own.

    Raises:
        DiskFullError: it has not.
    """
    if path.is_file():
        _check_quota(device, copies * (path.stat().st_size + TAG_BYTES))


def _quota(device: Device) -> int:
    return device.config.content.maximum_mb * 1_000_000


def _may_go(device: Device) -> list[KeptFile]:
    return [each for each in device.store.content.all() if each.state is ContentState.HERE and not each.pinned]


def _check_quota(device: Device, size: int) -> int:
    """Return how many bytes local files use, if there can be room for `size` more."""
    used, quota = device.store.content.files.used_bytes(), _quota(device)
    if used + size > quota + sum(each.sealed_size for each in _may_go(device)):
        raise DiskFullError(
            f"no room for {size} bytes: local files use {used} of {quota} bytes",
            hint="'covey file delete' deletes a local copy; or raise content.maximum_mb",
        )
    return used


def make_room(device: Device, size: int) -> None:
    """Delete unpinned files, least recently used first, until one of `size` bytes fits the quota.

    Raises:
        DiskFullError: pinned files and running downloads leave no room; nothing was deleted.
    """
    used, quota, content = _check_quota(device, size), _quota(device), device.store.content
    with device.store.transaction():
        for each in _may_go(device):  # ask again: another command may have pinned a file
            if used + size <= quota:
                break
            content.drop(each.hash)
            used -= each.sealed_size


# -- looking ----------------------------------------------------------------------------------------------------------


def described(device: Device, manifest: GroupManifest, offer: GroupFile) -> OfferedFile:
    """Return how a file is here."""
    content, file = device.store.content, offer.file
    kept = content.of(file.content.hash)
    member = manifest.member(offer.operation.author)
    return OfferedFile(
        offer.operation.id.hex(),
        file.name,
        file.content.size,
        offer.operation.author.hex(),
        member.label if member else "",
        offer.operation.made_at_us,
        file.content.hash.hex(),
        _state(device, manifest, offer, kept),
        _come(device, kept),
        kept is not None and kept.pinned,
        len(content.holders(file.content.hash)),
    )


def _state(device: Device, manifest: GroupManifest, offer: GroupFile, kept: KeptFile | None) -> str:
    if kept is None:
        return OFFERED
    is_locked = kept.state is ContentState.HERE and kept.is_lacking and lacks_secret(device, manifest, offer)
    return LOCKED if is_locked else _STATES[kept.state]


def is_patch(entry: OfferedFile) -> bool:
    """Say whether a file is called as patches of others are."""
    return is_patch_name(entry.name)


def _come(device: Device, kept: KeptFile | None) -> int:
    if kept is None or kept.state is ContentState.REFUSED:
        return 0
    return kept.sealed_size if kept.state is ContentState.HERE else device.store.content.come(kept.hash)


def holders(device: Device, manifest: GroupManifest, offer: GroupFile) -> dict[str, str]:
    """Return the members that have said they have a file that is here: keys in hex, with labels."""
    found = [(key, manifest.member(key)) for key in device.store.content.holders(offer.file.content.hash)]
    return {key.hex(): member.label for key, member in found if member is not None}


def target_of(offer: GroupFile, output: str | None, *, replace: bool) -> Path:
    """Return where a file is to be written: in a folder by its name, without one in this one.

    Raises:
        LocalError: one is there already, or the folder is not.
    """
    target = Path(output or ".")
    if target.is_dir():
        target /= offer.file.name
    check_target(target, replace=replace)
    return target


def export_file(device: Device, offer: GroupFile, output: str, moves: Callable[[int], None], *, replace: bool) -> Path:
    """Write a file as it is sealed, to be carried by hand; return where it lies. `moves` hears how much was written.

    Raises:
        LocalError: it is not here whole, or there is something already.
        StorageError: the disk refused.
    """
    content = offer.file.content.hash
    _need_here(device, offer)
    target = Path(output)
    if target.is_dir():
        target /= f"{offer.file.name}.sealed"
    device.store.content.files.copy_out(content, target, moves, replace=replace)
    return target


def import_file(device: Device, manifest: GroupManifest, path: Path, moves: Callable[[int], None]) -> GroupFile:
    """Take a file that another member has exported; it is here then, as if it had been fetched.

    `moves` hears how many bytes were copied.

    Raises:
        DiskFullError: no room for it.
        LocalError: it is none that a member offers, or not all of one.
    """
    offered = {each.file.content.hash: each for each in offers(device, manifest)}

    def expected(content: ContentHash) -> ContentReference | None:
        return offered[content].file.content if content in offered else None

    content = device.store.content
    with content.files.locked():
        make_room(device, path.stat().st_size if path.exists() else 0)
        reference = content.files.take(path, expected, moves)
        offer = offered[reference.hash]
        with device.store.transaction():
            keep_secret(device, manifest, offer)
            content.put(manifest.group_id, offer.operation.author, reference, device.now().wall_us)
    ask_for_file(device, manifest, offer)
    return offer


def delete_copy(device: Device, offer: GroupFile) -> None:
    """Delete this device's copy, or stop fetching it."""
    with device.store.transaction():
        device.store.content.drop(offer.file.content.hash)


def pin_file(device: Device, offer: GroupFile, *, pinned: bool) -> None:
    """Pin or unpin a local file.

    Raises:
        LocalError: it is not here.
    """
    content = offer.file.content.hash
    if device.store.content.of(content) is None:
        raise LocalError(f"'{offer.file.name}' is not on this device", hint="'covey file get' fetches it")
    with device.store.transaction():
        device.store.content.pin(content, pinned=pinned)


def repair_file(
    device: Device, manifest: GroupManifest, offer: GroupFile, moves: Callable[[int], None] = lambda _: None
) -> bool:
    """Read a file that is here; if it no longer matches its offer, have it fetched again, and return True.

    The intact part, up to the first damaged chunk, stays. `moves` is called with the number of bytes read.

    Raises:
        StorageError: the disk refused.
    """
    content, reference = device.store.content, offer.file.content
    if content.files.verify(reference.hash, moves):
        return False
    with content.files.locked(), device.store.transaction():
        content.files.make_part(reference)
        content.want(manifest.group_id, offer.operation.author, reference, device.now().wall_us)
    device.node.content.refresh()
    wake_agent(device.folder.wake_pipe)
    return True
