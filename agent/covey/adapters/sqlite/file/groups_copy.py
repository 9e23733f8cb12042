"""A second copy of the groups' manifests and secrets, in a file next to the database.

Damage to the database's first page, or to the page of a manifest, would else leave the device in no group, although
all that it needs to fetch the rest from other members is a few kilobytes. Rules:

    1. The file is replaced durably after each commit that changed a group, and compared at each start: a crash between
       the commit and the file leaves a file that the next start corrects.
    2. It is wrapped whole (`adapters/keys/storage_key.py`): a thief of the disk learns no members from it.
    3. It has at most `GROUPS_COPY_BYTES`. Small groups come first; of a group that does not fit, nothing is kept.
    4. What a salvage takes from it is verified like every other row: a manifest by its signatures, a secret by its id.
    5. A group that is left or destroyed goes from the file with the same commit; the file is wiped with the device.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from covey.adapters.files import read_regular, replace_durably
from covey.adapters.keys.storage_key import WRAPPING_BYTES, StorageKey
from covey.core import crypto
from covey.core.ids import GROUP_ID_BYTES, GroupId
from covey.core.wire import cbor
from covey.errors import DecryptionError, MalformedError, RemoteError, StorageError
from covey.limits.storage import GROUPS_COPY_BYTES

GROUPS_COPY = "-groups"
"""Ends the file's name, which begins with the database's."""

_FORMAT = 1
_DOMAIN = b"covey/1 groups"
_PLACE = "groups copy"
COPIED_SECRETS = 16
"""The newest of each group: older ones open history that the group still has, and that members send again."""


@dataclass(frozen=True, slots=True)
class CopiedGroup:
    """A group's open manifests and its newest epochs as (epoch id, secret), both as they were stored."""

    group_id: GroupId
    manifests: tuple[bytes, ...]
    secrets: tuple[tuple[bytes, bytes], ...]

    def to_wire(self) -> list[object]:
        """Return the CBOR item."""
        return [self.group_id, list(self.manifests), [list(each) for each in self.secrets[:COPIED_SECRETS]]]


class GroupsCopy:
    """The file."""

    def __init__(self, path: Path, storage_key: StorageKey) -> None:
        self._path = path
        self._storage_key = storage_key
        self._written = b""
        """A digest of what it says: the content is secret."""

    def write(self, groups: list[CopiedGroup]) -> None:
        """Replace the file if it does not say this already; a disk that refuses leaves the old one."""
        items, size = [], 16
        for item in sorted((each.to_wire() for each in groups), key=lambda item: len(cbor.encode(item))):
            size += len(cbor.encode(item))
            if size > GROUPS_COPY_BYTES:
                break
            items.append(item)
        content = cbor.encode([_FORMAT, items])
        said = crypto.digest(_DOMAIN, content)
        if said == self._written:
            return
        with suppress(StorageError):
            if self._written or content != self._stored():
                replace_durably(self._path, self._storage_key.wrap(content, _PLACE), mode=0o600)
            self._written = said

    def read(self) -> list[CopiedGroup]:
        """Return what the file says; nothing where it is missing or damaged."""
        stored = self._stored()
        if not stored:
            return []
        try:
            return _groups(cbor.decode(stored, GROUPS_COPY_BYTES))
        except RemoteError:  # another Covey's
            return []

    def _stored(self) -> bytes:
        try:
            stored = read_regular(self._path, GROUPS_COPY_BYTES + WRAPPING_BYTES)[1]
            return self._storage_key.unwrap(stored, _PLACE)
        except (OSError, DecryptionError):
            return b""


def _groups(content: object) -> list[CopiedGroup]:
    groups: tuple[CopiedGroup, ...]
    version, groups = cbor.record(
        content, "copy of groups", cbor.uint(255), lambda items: read_copied_groups(items, GROUPS_COPY_BYTES)
    )
    if version != _FORMAT:
        raise MalformedError("a copy of groups in another form")
    return list(groups)


def read_copied_groups(items: object, maximum_bytes: int) -> tuple[CopiedGroup, ...]:
    """Return groups from their CBOR items, which were read from at most so many bytes.

    Raises:
        MalformedError: one is none.
    """

    def group(value: object) -> CopiedGroup:
        group_id, manifests, secrets = cbor.record(
            value,
            "copied group",
            cbor.octets_to(GROUP_ID_BYTES),
            cbor.many(cbor.octets_to(maximum_bytes), maximum_bytes),
            cbor.many(_secret, COPIED_SECRETS),
        )
        return CopiedGroup(GroupId(group_id), tuple(manifests), tuple(secrets))

    return cbor.many(group, maximum_bytes)(items)


def _secret(value: object) -> tuple[bytes, bytes]:
    epoch_id, secret = cbor.record(
        value, "copied secret", cbor.octets_to(GROUPS_COPY_BYTES), cbor.octets_to(GROUPS_COPY_BYTES)
    )
    return epoch_id, secret
