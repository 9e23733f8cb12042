"""Patches of files: offered with the whole file if much smaller, used by devices that have the previous file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO

from covey.adapters.patches import apply_patch, can_patch, make_patch
from covey.app.content.content import delete_copy, fetch_file, is_here, make_room, open_stream
from covey.app.content.file_offers import GroupFile, keep_secret, lacks_secret, offers, opening_of
from covey.app.content.offering import SealedFile, put_opened, seal_opened
from covey.core.content.patches import makes, patch_name
from covey.core.history.files import TAG_BYTES, FileOffer, bound_to
from covey.errors import CoveyError, LocalError, PatchError
from covey.limits.content import PATCH_SHARE, PATCHED_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import NoisePublic


def offer_patch(
    device: Device,
    manifest: GroupManifest,
    base: GroupFile,
    new: GroupFile,
    waits: Callable[[float], None],
    readers: Collection[NoisePublic] = (),
) -> GroupFile | None:
    """Offer what makes one file of another one, to the same readers; None where the whole is about as small.

    `waits` hears for how many seconds it has been made.

    Raises:
        LocalError: one of them is not here, cannot be opened, or is too large.
        MissingPackageError: zstandard is not installed.
    """
    patch = _patch(device, manifest, base, new.file, lambda: _content(device, manifest, new), waits)
    if patch is None:
        return None
    with _scratch(device, patch) as file:
        name = patch_name(new.file.content.hash, base.file.content.hash)
        return put_opened(device, manifest, file.fileno(), len(patch), name, lambda _: None, readers)


def seal_patch(device: Device, base: GroupFile, new: SealedFile, waits: Callable[[float], None]) -> SealedFile | None:
    """Seal what makes a file that is to be offered of another one; as `offer_patch`."""

    def content() -> bytes:
        bound = bound_to(new.group.group_id, new.file.file_id)
        with device.store.content.files.open_scratch(new.file.content, new.key, bound) as file:
            return file.read()

    patch = _patch(device, new.group, base, new.file, content, waits)
    if patch is None:
        return None
    with _scratch(device, patch) as file:
        name = patch_name(new.file.content.hash, base.file.content.hash)
        return seal_opened(device, new.group, file.fileno(), len(patch), name, lambda _: None)


def _patch(
    device: Device,
    manifest: GroupManifest,
    base: GroupFile,
    new: FileOffer,
    content: Callable[[], bytes],
    waits: Callable[[float], None],
) -> bytes | None:
    for each in (base.file, new):
        if each.content.size > PATCHED_BYTES:
            raise LocalError(f"'{each.name}' is too large for a patch", hint=f"at most {PATCHED_BYTES} bytes")
    patch = make_patch(_content(device, manifest, base), content(), waits)
    return patch if len(patch) <= new.content.size * PATCH_SHARE else None


@contextmanager
def _scratch(device: Device, content: bytes) -> Iterator[BinaryIO]:
    with device.store.content.files.scratch(len(content)) as file:
        file.write(content)
        file.flush()
        yield file


def find_patch(device: Device, manifest: GroupManifest, offer: GroupFile) -> tuple[GroupFile, GroupFile] | None:
    """Return the smallest patch that makes a file of another one that is here, and that one."""
    if offer.file.content.size > PATCHED_BYTES or not can_patch():
        return None
    found: list[tuple[GroupFile, GroupFile]] = []
    all_offers = [*offers(device, manifest)]
    for each in all_offers:
        before = makes(each.file.name, offer.file.content.hash)
        smaller = each.file.content.size <= offer.file.content.size * PATCH_SHARE
        base = next((base for base in all_offers if before and base.file.content.hash.hex().startswith(before)), None)
        if base is not None and smaller and base.file.content.size <= PATCHED_BYTES and is_here(device, base):
            found.append((each, base))
    return min(found, key=lambda pair: pair[0].file.content.size, default=None)


def apply(device: Device, manifest: GroupManifest, offer: GroupFile, patch: GroupFile, base: GroupFile) -> bool:
    """Make a file of a patch that is here and the file before; False where that comes to another one."""
    reference, files = offer.file.content, device.store.content.files
    try:
        raw, before = (_content(device, manifest, each) for each in (patch, base))
        made = apply_patch(before, raw, reference.size)
        key, bound = opening_of(device, manifest, offer)
        with files.locked():
            make_room(device, reference.size + TAG_BYTES)
            with _scratch(device, made) as file:
                sealed = files.seal(file.fileno(), reference.size, key, reference.nonce, bound, lambda _: None)
            if sealed != reference:
                files.remove(sealed.hash)
                raise PatchError("the patch makes another file")
            with device.store.transaction():
                keep_secret(device, manifest, offer)
                device.store.content.put(manifest.group_id, offer.operation.author, reference, device.now().wall_us)
    except CoveyError:
        return False
    return True


def fetch_smallest(
    device: Device, manifest: GroupManifest, offer: GroupFile, seconds: float, moves: Callable[[int], None]
) -> int:
    """Have a file here, by a patch where one fits what is here, else whole; return the bytes that a patch saved.

    Raises what `fetch_file` raises.
    """
    if not is_here(device, offer) and not lacks_secret(device, manifest, offer):  # a patch is sealed as the whole is
        found = find_patch(device, manifest, offer)
        if found is not None:
            patch, base = found
            fetch_file(device, manifest, patch, seconds, moves)
            if apply(device, manifest, offer, patch, base):
                return offer.file.content.size - patch.file.content.size
            delete_copy(device, patch)
    fetch_file(device, manifest, offer, seconds, moves)
    return 0


def _content(device: Device, manifest: GroupManifest, offer: GroupFile) -> bytes:
    with open_stream(device, manifest, offer) as file:
        return file.read()
