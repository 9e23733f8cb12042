"""The records of a segment: device messages, operations and group manifests (docs/protocol/vault.md, "Vault").

A message and an operation begin with a signature, over 10 and 12 fields; a landed manifest begins with a number. So
nothing is two of the three. From manifests, and from the operations that describe a group, a reader knows a device's
label and group at the time of a reading.
"""

from __future__ import annotations

from enum import Enum, auto

from covey.core.group.manifest import GroupManifest, read_manifest
from covey.core.history.operation import is_operation, read_operation
from covey.core.wire import cbor
from covey.core.wire.message import read_message
from covey.errors import MalformedError
from covey.limits.group import MAXIMUM_MANIFEST_BYTES

_MANIFEST = 0
_MANIFEST_HEAD = b"\x82\x00"
_MOST_BYTES = MAXIMUM_MANIFEST_BYTES + len(_MANIFEST_HEAD) + 5


class RecordKind(Enum):
    """What a record is meant to be, by its first bytes; what is none of the others is a message, or nothing."""

    MESSAGE = auto()
    OPERATION = auto()
    MANIFEST = auto()


def record_kind(raw: bytes) -> RecordKind:
    """Return what a record is meant to be."""
    if raw.startswith(_MANIFEST_HEAD):
        return RecordKind.MANIFEST
    return RecordKind.OPERATION if is_operation(raw) else RecordKind.MESSAGE


def verify_record(raw: bytes) -> None:
    """Parse a record, and verify the signature in it.

    Raises:
        RemoteError: malformed, or not signed by the named author.
    """
    match record_kind(raw):
        case RecordKind.MANIFEST:
            read_landed_manifest(raw)
        case RecordKind.OPERATION:
            read_operation(raw)
        case RecordKind.MESSAGE:
            read_message(raw)


def landed_manifest(manifest: GroupManifest) -> bytes:
    """Return the record of a signed manifest: `[0, group-manifest]`."""
    return cbor.encode([_MANIFEST, manifest.raw])


def read_landed_manifest(raw: bytes, *, verify: bool = True) -> GroupManifest:
    """Return the manifest of a record.

    Raises:
        RemoteError: malformed, or not signed by its issuer.
    """
    kind, content = cbor.record(
        cbor.decode(raw, _MOST_BYTES), "landed manifest", cbor.uint(255), cbor.octets_to(MAXIMUM_MANIFEST_BYTES)
    )
    if kind != _MANIFEST:
        raise MalformedError("landed manifest: another kind of object")
    return read_manifest(content, verify=verify)
