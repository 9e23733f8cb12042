"""Patches of files: offered with the whole file if much smaller, used by devices that have the previous file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.adapters.patches import apply_patch, can_patch, make_patch
from covey.app.content.content import delete_copy, fetch_file, is_here, make_room, open_stream, put_opened
from covey.app.content.file_offers import GroupFile, keep_secret, lacks_secret, offers, opening_of
from covey.core.content.patches import makes, patch_name
from covey.core.history.files import TAG_BYTES
from covey.errors import CoveyError, LocalError, PatchError
from covey.limits.content import PATCH_SHARE, PATCHED_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

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
    for each in (base, new):
        if each.file.content.size > PATCHED_BYTES:
            raise LocalError(f"'{each.file.name}' is too large for a patch", hint=f"at most {PATCHED_BYTES} bytes")
    patch = make_patch(_content(device, manifest, base), _content(device, manifest, new), waits)
    if len(patch) > new.file.content.size * PATCH_SHARE:
        return None
    with device.store.content.files.scratch(len(patch)) as file:
        file.write(patch)
        file.flush()
        name = patch_name(new.file.content.hash, base.file.content.hash)
        return put_opened(device, manifest, file.fileno(), len(patch), name, lambda _: None, readers)


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
            with files.scratch(reference.size) as file:
                file.write(made)
                file.flush()
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
