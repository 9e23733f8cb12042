"""The files that a group's history offers: which there are, and by what each of them opens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.adapters.content_secrets import kept_secret, save_secret
from covey.app.loop.relay_loop import wait_until
from covey.core.history.files import FileOffer, bound_to, content_key
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.orders.sealing import open_file_secret
from covey.errors import LocalError, RemoteError
from covey.limits.content import OFFER_WAIT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import ContentHash


@dataclass(frozen=True, slots=True)
class GroupFile:
    """An operation that offers a file."""

    operation: Operation
    file: FileOffer


def offers(device: Device, manifest: GroupManifest) -> Iterator[GroupFile]:
    """Yield the files that are offered in a group and count, the newest first."""
    group_id = manifest.group_id
    void = device.node.history.standing(group_id).void
    for each in device.store.operations.of_kind(group_id, OperationKind.FILE, newest_first=True):
        if each.id not in void:
            operation = read_operation(each.raw, verify=False)
            yield GroupFile(operation, FileOffer.from_wire(operation.body))


def pick_offer(device: Device, manifest: GroupManifest, named: str) -> GroupFile:
    """Return the file that a person means: by its name the newest one, or by the beginning of its id or hash.

    Raises:
        LocalError: none, or more than one.
    """
    found = _matching(device, manifest, named)
    if len(found) == 1:
        return found[0]
    what = f"{len(found)} files match" if found else "no file matches"
    raise LocalError(f"{what} '{named[:64]}'", hint="'covey file list' shows names and ids")


def awaited_offer(
    device: Device, manifest: GroupManifest, named: str, seconds: float, waits: Callable[[], None]
) -> GroupFile:
    """Return the file that a person means, also if the history that offers it is still on its way.

    A member may have offered it a moment ago, so it is waited for, up to `seconds` and `OFFER_WAIT_SECONDS`; `waits` is
    called first. A group without other members is not waited for. Raises as `pick_offer`.
    """
    own = device.node.identity.signing_public
    others = [each for each in manifest.members if each.keys.signing_public != own and not each.is_board]
    if others and seconds > 0 and not _matching(device, manifest, named):
        waits()
        wait_until(device, lambda: bool(_matching(device, manifest, named)), min(seconds, OFFER_WAIT_SECONDS))
    return pick_offer(device, manifest, named)


def _matching(device: Device, manifest: GroupManifest, named: str) -> list[GroupFile]:
    """Return the newest file of a name, or those whose id or hash begins so."""
    digits = named.lower()
    found: dict[ContentHash, GroupFile] = {}
    for offer in offers(device, manifest):
        if offer.file.name == named:
            return [offer]
        ids = offer.operation.id.hex(), offer.file.content.hash.hex()
        if digits and any(each.startswith(digits) for each in ids):
            found[offer.file.content.hash] = offer
    return [*found.values()]


def opening_of(device: Device, manifest: GroupManifest, offer: GroupFile) -> tuple[bytes, bytes]:
    """Return a file's key, and what it is bound to.

    Raises:
        LocalError: this device lacks the secret of the epoch that it was sealed in; or it is for others alone.
    """
    file, group_id = offer.file, manifest.group_id
    if file.sealed_secret is not None:
        kept = kept_secret(device.store.content.files, file.content.hash, offer.operation.id)
        secret = kept or _own_secret(device, manifest, offer)
        if secret is None:
            raise LocalError(
                f"'{file.name}' is sealed for other devices, or for a key that this device no longer has",
                hint="ask its author to put it again, for this device too",
            )
        return content_key(secret, file.file_id), bound_to(group_id, file.file_id)
    secret = device.store.groups.secret(group_id, file.epoch_id)
    if secret is None:
        raise locked(offer)
    return content_key(secret, file.file_id), bound_to(group_id, file.file_id)


def lacks_secret(device: Device, manifest: GroupManifest, offer: GroupFile) -> bool:
    """Say whether a file opens by the secret of an epoch that this device was not in, and has not been given."""
    file = offer.file
    return file.sealed_secret is None and device.store.groups.secret(manifest.group_id, file.epoch_id) is None


def locked(offer: GroupFile) -> LocalError:
    """Return what is said where a file's epoch has a secret that this device was not given."""
    return LocalError(
        f"'{offer.file.name}' was put before this device joined the group, and no member has sent its key yet",
        hint="a member that pins it sends the key when both are online; otherwise ask its author to put it again",
    )


def _own_secret(device: Device, manifest: GroupManifest, offer: GroupFile) -> bytes | None:
    file, noise = offer.file, device.node.identity.noise
    if file.sealed_secret is None:
        return None
    try:
        return open_file_secret(file.sealed_secret, manifest.group_id, offer.operation.author, file.file_id, noise)
    except RemoteError:
        return None


def keep_secret(device: Device, manifest: GroupManifest, offer: GroupFile) -> None:
    """Store the secret of a file next to it, before the file is known here, because its noise key will be deleted.

    Raises:
        StorageError: the disk refused.
    """
    secret = _own_secret(device, manifest, offer)
    if secret is not None:
        save_secret(device.store.content.files, offer.file.content.hash, offer.operation.id, secret)
