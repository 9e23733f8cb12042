"""`covey.core.vault.landed_records`: what a record is, by its first bytes, and that each kind is verified."""

from __future__ import annotations

import pytest

from covey.core.ids import Incarnation, LinkSeq
from covey.core.vault.landed_records import (
    RecordKind,
    landed_manifest,
    read_landed_manifest,
    record_kind,
    verify_record,
)
from covey.core.wire import cbor
from covey.core.wire.message import NO_GROUP, MessageType, write_message
from covey.errors import MalformedError, RemoteError
from tests.group_manifests import ANN, BEN, NOON_US, first, profile


def _message() -> bytes:
    number = LinkSeq(1)
    return write_message(
        ANN, MessageType.TELEMETRY, BEN.signing_public, NO_GROUP, Incarnation(bytes(8)), 1, number, NOON_US, b"x"
    )


_RECORDS = {
    RecordKind.MESSAGE: _message(),
    RecordKind.OPERATION: profile("Pumpen"),
    RecordKind.MANIFEST: landed_manifest(first()),
}


@pytest.mark.parametrize("kind", RecordKind)
def test_each_kind_is_known_and_verified(kind: RecordKind) -> None:
    raw = _RECORDS[kind]
    assert record_kind(raw) is kind
    verify_record(raw)
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1
        with pytest.raises(RemoteError):
            verify_record(bytes(changed))


def test_a_landed_manifest_is_the_signed_one() -> None:
    assert read_landed_manifest(landed_manifest(first())).raw == first().raw


def test_a_kind_that_is_not_known_is_no_manifest() -> None:
    with pytest.raises(MalformedError):
        read_landed_manifest(cbor.encode([1, first().raw]))
