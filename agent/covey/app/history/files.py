"""A group's history in files: written for members, read by them, where no network reaches."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.files import replace_by_parts, storage_errors
from covey.app.device.device import Device
from covey.app.groups.groups import pick_member
from covey.app.history.history import every_operation
from covey.core.group.manifest import GroupManifest
from covey.core.ids import KEY_BYTES, DeviceKey, GroupId, NoisePublic
from covey.core.wire.history_file import HistoryFileWriter, Part, PartKind, read_parts
from covey.errors import LocalError, NotForUsError, RemoteError, UsageError
from covey.limits.group import BUNDLE_MANIFESTS
from covey.limits.history import BUNDLE_OPERATION_BYTES, BUNDLE_OPERATIONS

_NONCE_BYTES = 24
_REASONS = 20
"""How many reasons for refused documents are shown: an invented stick may have many."""
_FOR_MEMBERS = "ask a member for a new file; a device that is not a member needs an invite: 'covey invite' on a member"


@dataclass(frozen=True, slots=True)
class HistoryExported:
    """What was written: how many versions of the group, how many operations, for how many members."""

    file: str
    versions: int
    operations: int
    members: int


@dataclass(slots=True)
class RefusedOperation:
    """Why some of a file's documents were refused: what they are, a code, a sentence, and how many."""

    what: str
    code: str
    why: str
    count: int = 1


@dataclass(slots=True)
class HistoryImported:
    """The results of a file's operations; `complaint` says why the rest of it could not be read.

    `forked` names authors proved by one of them to have written two under one number.
    """

    file: str
    group_id: str = ""
    taken: int = 0
    known: int = 0
    refused: int = 0
    waiting: int = 0
    refusals: tuple[RefusedOperation, ...] = ()
    forked: tuple[str, ...] = ()
    complaint: str = ""

    def note_refused(self, what: str, error: RemoteError) -> None:
        """Note that one was refused."""
        found = next((each for each in self.refusals if (each.what, each.why) == (what, str(error))), None)
        if found is not None:
            found.count += 1
        elif len(self.refusals) < _REASONS:
            self.refusals += (RefusedOperation(what, error.code, str(error)),)


def export_history(device: Device, manifest: GroupManifest, path: Path, names: list[str]) -> HistoryExported:
    """Write all versions of a group and all that it has said into a file for these members, or for all of them.

    Raises:
        LocalError: it is not clear who is meant, or a board is.
        StorageError: the file cannot be written; what stood there before stands.
    """
    recipients = _recipients(device, manifest, names)
    writer = HistoryFileWriter(
        secrets.token_bytes(KEY_BYTES), secrets.token_bytes(KEY_BYTES), secrets.token_bytes(_NONCE_BYTES)
    )
    counted = {PartKind.MANIFESTS: 0, PartKind.OPERATIONS: 0}

    def items() -> Iterator[bytes]:
        yield writer.header(recipients)
        for part in _parts(device, manifest.group_id):
            counted[part.kind] += len(part.documents)
            yield writer.part(part)

    with storage_errors("write", path):
        replace_by_parts(path, items(), 0o600)
    return HistoryExported(path.name, counted[PartKind.MANIFESTS], counted[PartKind.OPERATIONS], len(recipients))


def _recipients(device: Device, manifest: GroupManifest, names: list[str]) -> list[tuple[DeviceKey, NoisePublic]]:
    """Return a file's recipients: the named members, or all; and this device itself."""
    own = device.node.identity.signing_public
    chosen = [pick_member(manifest, name) for name in names] or [each for each in manifest.members if not each.is_board]
    if any(member.is_board for member in chosen):
        raise LocalError("a board does not store history", hint="name its gateway")
    found = {member.keys.signing_public: member.keys.noise_public for member in chosen}
    return sorted({**found, own: device.node.identity.noise_public}.items())


def _parts(device: Device, group_id: GroupId) -> Iterator[Part]:
    manifests = device.store.groups.manifests_from(group_id, 1)
    for documents in _bundled(manifests, BUNDLE_MANIFESTS):
        yield Part(group_id, PartKind.MANIFESTS, documents)
    for documents in _bundled((stored.raw for stored in every_operation(device, group_id)), BUNDLE_OPERATIONS):
        yield Part(group_id, PartKind.OPERATIONS, documents)
    yield Part(group_id, PartKind.OPERATIONS, (), last=True)


def _bundled(documents: Iterable[bytes], most: int) -> Iterator[tuple[bytes, ...]]:
    bundle: list[bytes] = []
    length = 0
    for raw in documents:
        if bundle and (len(bundle) == most or length + len(raw) > BUNDLE_OPERATION_BYTES):
            yield tuple(bundle)
            bundle, length = [], 0
        bundle.append(raw)
        length += len(raw)
    if bundle:
        yield tuple(bundle)


def import_history(device: Device, path: Path) -> HistoryImported:
    """Take what a file holds, as if members had sent it; what is whole of a damaged one is taken.

    Raises:
        UsageError: the file cannot be read.
        LocalError: it is sealed for others, or of a group that this device is not in.
    """
    found = HistoryImported(path.name)
    identity = device.node.identity
    try:
        with path.open("rb") as source:
            for part in read_parts(source.read, identity.signing_public, identity.noise):
                _take(device, part, found)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except NotForUsError as error:
        raise LocalError(f"{path}: {error}", hint=_FOR_MEMBERS) from error
    except RemoteError as error:
        came = "the entries before it were imported" if found.group_id else "nothing was imported"
        found.complaint = f"{path}: {error}; {came}"
    return found


def _take(device: Device, part: Part, found: HistoryImported) -> None:
    found.group_id = part.group_id.hex()
    if part.group_id not in {group.group_id for group in device.node.groups.joined()}:
        raise LocalError(
            f"the history belongs to group {found.group_id[:8]}, and this device is not a member of it",
            hint="ask a member for an invite ('covey invite' there), then run 'covey join' here",
        )
    with device.store.transaction():
        if part.kind is PartKind.MANIFESTS:
            error = device.node.history_import.take_manifests(part.group_id, part.documents, device.now())
            if error is not None:
                found.note_refused("version", error)
            return
        taken = device.node.history_import.take_operations(part.group_id, part.documents, device.now())
    rest = len(part.documents) - len(taken.accepted) - len(taken.refused)
    for error in taken.refused:
        found.note_refused("operation", error)
    found.forked = tuple(sorted({*found.forked, *(each.hex() for each in taken.forks)}))
    found.taken += len(taken.accepted)
    found.refused += len(taken.refused)
    found.waiting += taken.waiting
    found.known += rest - taken.waiting
