"""`covey.core.vault.documents`: segments and vault manifests, by the vectors."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from covey.core.crypto import Identity
from covey.core.ids import Incarnation, NodeId, VaultId
from covey.core.vault import documents, merging, segments
from covey.core.vault.documents import SegmentEntry, SegmentPart, SegmentRange, SegmentRecord, Tombstone
from covey.core.vault.keys import VaultKey
from covey.core.vault.landed_records import verify_record
from covey.core.vault.segments import OpenedSegment
from covey.errors import LimitError, MalformedError, RemoteError, RollbackError
from tests.vectors import load, vectors

_FILE = load("vault")
_KEY = VaultKey(VaultId(bytes.fromhex(_FILE["vault"]["vault_id"])), bytes.fromhex(_FILE["vault"]["key"]))
_NODE = NodeId(bytes.fromhex(_FILE["node"]["node_id"]))


def _identity(name: str) -> Identity:
    keys = _FILE["keys"][name]
    return Identity.from_seeds(bytes.fromhex(keys["signing_seed"]), bytes.fromhex(keys["noise_secret"]))


_COLLECTOR = _identity(_FILE["node"]["device"])


def _entry(described: dict[str, Any]) -> SegmentEntry:
    return SegmentEntry(
        described["number"],
        Incarnation(bytes.fromhex(described["incarnation"])),
        bytes.fromhex(described["hash"]),
        described["size"],
        described["created_at_us"],
        described["records"],
        described["covers"],
    )


@pytest.mark.parametrize("vector", vectors("vault", "segments"))
def test_segments(vector: dict[str, Any]) -> None:  # accepts: 004.19, 004.20, 004.21
    entry, content = _entry(vector["entry"]), bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            documents.open_segment(_KEY, _NODE, entry, content)
        assert caught.value.code == vector["code"]
        return
    records = [SegmentRecord(at, bytes.fromhex(message)) for at, message in vector["records"]]
    assert documents.open_segment(_KEY, _NODE, entry, content) == tuple(records)
    for record in records:
        verify_record(record.message)
    sealed = documents.seal_segment(
        _KEY,
        _COLLECTOR.signing_public,
        entry.number,
        entry.incarnation,
        entry.created_at_us,
        records,
        bytes.fromhex(vector["nonce"]),
    )
    assert sealed == (entry, content), "a crash can repeat it"
    assert documents.segment_key(_KEY.vault_id, _NODE, entry.number, entry.incarnation) == vector["object_key"]


@pytest.mark.parametrize("vector", vectors("vault", "manifests"))
def test_manifests(vector: dict[str, Any]) -> None:  # accepts: 004.03, 004.10, 004.12, 004.15, 004.16, 004.19, 004.21
    content = bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            documents.open_vault_manifest(_KEY, _NODE, content, vector["floor"])
        assert caught.value.code == vector["code"]
        return
    manifest = documents.open_vault_manifest(_KEY, _NODE, content, vector["floor"])
    assert (manifest.vault_id, manifest.node_id) == (_KEY.vault_id, _NODE)
    assert manifest.signing_public == _COLLECTOR.signing_public
    assert manifest.incarnation.hex() == vector["incarnation"]
    assert (manifest.manifest_seq, manifest.created_at_us) == (vector["manifest_seq"], vector["created_at_us"])
    assert (manifest.prev.hex(), manifest.hash.hex()) == (vector["prev"], vector["hash"])
    assert manifest.ranges == tuple(_named(each) for each in vector["ranges"])
    assert manifest.segments == tuple(_entry(each) for each in vector["segments"])
    assert manifest.tombstones == tuple(_tombstone(each) for each in vector["tombstones"])
    assert documents.seal_vault_manifest(_KEY, manifest, _COLLECTOR, bytes.fromhex(vector["nonce"])) == content
    assert documents.manifest_key(_KEY.vault_id, _NODE) == vector["object_key"]
    assert documents.node_of_manifest_key(vector["object_key"]) == _NODE


def _named(vector: dict[str, Any]) -> SegmentRange:
    return SegmentRange(vector["first"], vector["last"], bytes.fromhex(vector["hash"]), vector["size"])


@pytest.mark.parametrize("vector", vectors("vault", "ranges"))
def test_ranges(vector: dict[str, Any]) -> None:  # accepts: 004.11
    named, content = _named(vector["range"]), bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            documents.open_range(_KEY, _NODE, named, content)
        assert caught.value.code == vector["code"]
        return
    entries = documents.open_range(_KEY, _NODE, named, content)
    assert entries == tuple(_entry(each) for each in vector["entries"])
    sealed = documents.seal_range(_KEY, _COLLECTOR.signing_public, entries, bytes.fromhex(vector["nonce"]))
    assert sealed == (named, content)
    assert documents.range_key(_KEY.vault_id, _NODE, named) == vector["object_key"]


def _tombstone(vector: dict[str, Any]) -> Tombstone:
    return Tombstone(
        vector["first"], vector["last"], bytes.fromhex(vector["hash"]), vector["size"], vector["created_at_us"]
    )


@pytest.mark.parametrize("vector", vectors("vault", "merged"))
def test_merged_segments(vector: dict[str, Any]) -> None:
    entry, content = _entry(vector["entry"]), bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            documents.open_segment(_KEY, _NODE, entry, content)
        assert caught.value.code == vector["code"]
        return
    parts = documents.open_parts(_KEY, _NODE, entry, content)
    assert [
        [part.number, part.created_at_us, [[each.received_at_us, each.message.hex()] for each in part.records]]
        for part in parts
    ] == vector["parts"]
    records = documents.open_segment(_KEY, _NODE, entry, content)
    assert [(each.number, each.index) for each in records] == [(1, 0), (1, 1), (2, 0)], "each where it was landed"
    assert documents.entry_key(_KEY.vault_id, _NODE, entry) == vector["object_key"]
    _check_sealed(segments.seal_merged(_KEY, _COLLECTOR.signing_public, parts), vector, parts)


@pytest.mark.parametrize("vector", vectors("erasures", "segments"))
def test_thinned_segments(vector: dict[str, Any]) -> None:
    entry, content = _entry(vector["entry"]), bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            segments.open_whole(_KEY, _NODE, entry, content)
        assert caught.value.code == vector["code"]
        return
    opened = segments.open_whole(_KEY, _NODE, entry, content)
    assert opened.erased_at_us == vector["erased_at_us"]
    assert [
        [part.number, part.created_at_us, [[each.received_at_us, each.message.hex()] for each in part.records]]
        for part in opened.parts
    ] == vector["parts"]
    assert [
        [each.author.hex(), each.incarnation.hex(), [list(span) for span in each.numbers]] for each in opened.erased
    ] == vector["erased"]
    span = entry.first, entry.number
    sealed = segments.seal_thinned(_KEY, _COLLECTOR.signing_public, span, entry.created_at_us, opened)
    assert documents.entry_key(_KEY.vault_id, _NODE, entry) == vector["object_key"]
    _check_sealed(sealed, vector, opened.parts)


def _check_sealed(sealed: tuple[SegmentEntry, bytes], vector: dict[str, Any], parts: Sequence[SegmentPart]) -> None:
    """Check what this version makes of a vector's parts: the same bytes, if it is this one's and this zlib's."""
    assert documents.open_parts(_KEY, _NODE, *sealed) == tuple(parts)
    if vector["name"].startswith("segments 1 and 2") and "ng" not in zlib.ZLIB_RUNTIME_VERSION:
        assert sealed == (_entry(vector["entry"]), bytes.fromhex(vector["bytes"]))


@pytest.mark.parametrize("vector", vectors("erasures", "manifests"))
def test_erasures(vector: dict[str, Any]) -> None:
    content = bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            documents.open_vault_manifest(_KEY, _NODE, content)
        assert caught.value.code == vector["code"]
        return
    manifest = documents.open_vault_manifest(_KEY, _NODE, content)
    said = [(each.author, each.until_us, each.last, each.note, each.completed_at_us) for each in manifest.erasures]
    spelled = [[each.hex() if isinstance(each, bytes) else each for each in one] for one in said]
    assert spelled == [[*each.values()] for each in vector["erasures"]]
    assert (manifest.prev.hex(), manifest.hash.hex()) == (vector["prev"], vector["hash"])
    assert documents.seal_vault_manifest(_KEY, manifest, _COLLECTOR, bytes.fromhex(vector["nonce"])) == content


@pytest.mark.parametrize("vector", vectors("vault", "tombstones"))
def test_tombstones(vector: dict[str, Any]) -> None:
    named, content = _tombstone(vector["tombstone"]), bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            merging.open_tombstone(_KEY, _NODE, named, content)
        assert caught.value.code == vector["code"]
        return
    replaced = merging.open_tombstone(_KEY, _NODE, named, content)
    assert replaced.segments == tuple(_entry(each) for each in vector["segments"])
    assert replaced.ranges == tuple(_named(each) for each in vector["ranges"])
    sealed = merging.seal_tombstone(_KEY, _COLLECTOR.signing_public, replaced, named.created_at_us)
    assert sealed == (named, content)
    assert documents.tombstone_key(_KEY.vault_id, _NODE, named) == vector["object_key"]


def test_folding_keeps_positions() -> None:  # accepts: 004.11
    key, identity = _KEY, _COLLECTOR
    entries = tuple(
        documents.seal_segment(key, identity.signing_public, number, Incarnation(bytes(8)), 1, [], bytes(24))[0]
        for number in (1, 2, 3)
    )
    before = documents.next_manifest(None, key, identity.signing_public, Incarnation(bytes(8)), 10, entries[:2])
    named, _ = documents.seal_range(key, identity.signing_public, entries[:1], bytes(24))
    after = documents.next_manifest(before, key, identity.signing_public, Incarnation(bytes(8)), 20, entries[2:], named)
    assert (after.ranges, after.segments, after.last_number) == ((named,), entries[1:], 3)
    sealed = documents.seal_vault_manifest(key, after, identity, bytes(24))
    assert documents.open_vault_manifest(key, _NODE, sealed).raw == after.raw


def test_manifests_follow_each_other() -> None:  # accepts: 004.05, 004.12
    key, identity = _KEY, _COLLECTOR
    entry, _ = documents.seal_segment(key, identity.signing_public, 1, Incarnation(bytes(8)), 1, [], bytes(24))
    first = documents.next_manifest(None, key, identity.signing_public, Incarnation(bytes(8)), 10, ())
    second = documents.next_manifest(first, key, identity.signing_public, Incarnation(bytes(8)), 20, (entry,))
    assert (first.manifest_seq, first.prev, first.last_number) == (1, bytes(32), 0)
    assert (second.manifest_seq, second.prev, second.last_number) == (2, first.hash, 1)


def test_an_older_manifest_is_a_rollback() -> None:  # accepts: 004.15, 004.16
    content = bytes.fromhex(_FILE["manifests"][0]["bytes"])
    assert documents.open_vault_manifest(_KEY, _NODE, content, 1).manifest_seq == 1
    with pytest.raises(RollbackError):
        documents.open_vault_manifest(_KEY, _NODE, content, 2)


def test_the_key_names_itself_and_is_not_shown() -> None:  # accepts: 002.32
    assert _KEY.key_id.hex() == _FILE["vault"]["key_id"]
    assert repr(_KEY.key) not in repr(_KEY)


def test_objects_stand_where_the_source_document_puts_them() -> None:  # accepts: 004.02
    key = documents.manifest_key(VaultId(bytes(16)), NodeId(b"\x01" * 16))
    assert key == f"vaults/{'00' * 16}/objects/manifests/{'01' * 16}.hxman"
    assert key.startswith(documents.manifest_prefix(VaultId(bytes(16))))
    assert documents.segment_key(VaultId(bytes(16)), NodeId(b"\x01" * 16), 255, Incarnation(bytes(8))) == (
        f"vaults/{'00' * 16}/objects/segments/{'01' * 16}/00000000000000ff-{'00' * 8}.hxseg"
    )


@pytest.mark.parametrize(
    "key", ["", "x.hxman", "a/b.txt", f"a/{'0' * 31}.hxman", f"a/{'G' * 32}.hxman", "../../.hxman"]
)
def test_a_key_that_is_no_manifests_names_no_node(key: str) -> None:
    with pytest.raises(MalformedError):
        documents.node_of_manifest_key(key)


def test_clear_headers_hold_a_magic_and_the_keys_id_only() -> None:  # accepts: 004.22
    for part, magic in (("segments", b"HXSEG\x01"), ("manifests", b"HXMAN\x01")):
        content = bytes.fromhex(_FILE[part][0]["bytes"])
        assert content[:14] == magic + _KEY.key_id


def test_an_oversize_object_is_refused_unopened() -> None:
    with pytest.raises(LimitError):
        documents.open_vault_manifest(_KEY, _NODE, bytes(8 * 1024 * 1024 + 1))


@pytest.mark.slow
def test_the_largest_segment_by_number_of_records_opens() -> None:
    records = [SegmentRecord(n, b"m") for n in range(20_000)]
    entry, content = documents.seal_segment(
        _KEY, _COLLECTOR.signing_public, 1, Incarnation(bytes(8)), 1, records, bytes(24)
    )
    assert len(documents.open_segment(_KEY, _NODE, entry, content)) == 20_000


def _landed(bodies: Sequence[bytes], number: int = 1) -> SegmentPart:
    return SegmentPart(number, 1, tuple([SegmentRecord(1, body, number, index) for index, body in enumerate(bodies)]))


@pytest.mark.slow
def test_the_largest_merged_segment_by_number_of_records_opens() -> None:
    parts = [_landed([b"m"] * 10_000), _landed([b""] * 10_000, 2)]
    entry, content = segments.seal_merged(_KEY, _COLLECTOR.signing_public, parts)
    assert documents.open_parts(_KEY, _NODE, entry, content) == tuple(parts)
    assert len(content) < 1_000


@pytest.mark.slow
def test_a_packed_segment_stays_within_what_a_reader_inflates() -> None:
    mib = bytes(1_000_000)
    opened = [OpenedSegment((_landed([mib], number),)) for number in range(1, 41)]
    count = segments.fitting(opened)
    assert count == 33
    parts = [part for each in opened[:count] for part in each.parts]
    entry, content = segments.seal_merged(_KEY, _COLLECTOR.signing_public, parts)
    assert documents.open_parts(_KEY, _NODE, entry, content) == tuple(parts)
