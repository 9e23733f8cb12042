"""vault.json: a node's segments and its vault manifest, and what a reader refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from covey.core import crypto
from covey.core.actions.results import CommandState, OrderResult
from covey.core.crypto import Identity
from covey.core.history.bodies import GroupProfile
from covey.core.history.orders import CommandOrder, SettingOrder
from covey.core.ids import LinkSeq, VaultId, node_id
from covey.core.orders.selector import EVERYBODY
from covey.core.settings.states import ReportedSetting, SettingReport, SettingState
from covey.core.vault import documents, merging, packing, segments
from covey.core.vault.documents import SegmentEntry, SegmentPart, SegmentRange, SegmentRecord, Tombstone, VaultManifest
from covey.core.vault.keys import VaultKey
from covey.core.vault.landed_records import landed_manifest
from covey.core.vault.merging import Replaced
from covey.core.wire import columns
from covey.core.wire.deflate import deflate
from covey.core.wire.message import MessageType, write_message
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, INCARNATION, NOW_US, cbor, flip, keys, seeded
from tests.vectors.makers.groups import WITH_CAROL
from tests.vectors.makers.orders import said

KEY = VaultKey(VaultId(seeded("vault id", 16)), seeded("vault key"))
OTHER_KEY = VaultKey(KEY.vault_id, seeded("another vault key"))
_COLLECTOR = BOB
NODE = node_id(_COLLECTOR.signing_public)
_HEADER_BYTES, _NONCE_BYTES = 14, 24


def _message(seq: LinkSeq, body: bytes) -> bytes:
    return write_message(
        ALICE, MessageType.TELEMETRY, BOB.signing_public, GROUP_ID, INCARNATION, seq, seq, NOW_US, body
    )


def _nonce(label: str) -> bytes:
    return seeded(f"nonce of {label}", _NONCE_BYTES)


_RECORDS = {
    1: [
        SegmentRecord(NOW_US + 1, _message(LinkSeq(1), b"one")),
        SegmentRecord(NOW_US + 2, _message(LinkSeq(2), b"two")),
    ],
    2: [SegmentRecord(NOW_US + 9, _message(LinkSeq(3), b"three"))],
}

_SETTING = said(ALICE, SettingOrder(EVERYBODY, "app.mode", "eco"))
_COMMAND = said(ALICE, CommandOrder(EVERYBODY, "reboot", {}, seeded("once", 16)))


def _report(kind: MessageType, body: bytes, seq: int) -> bytes:
    return write_message(
        CAROL, kind, BOB.signing_public, GROUP_ID, INCARNATION, LinkSeq(seq), LinkSeq(seq), NOW_US, body
    )


_ORDERS = [
    SegmentRecord(NOW_US + 1, _SETTING.raw),
    SegmentRecord(NOW_US + 2, _COMMAND.raw),
    SegmentRecord(
        NOW_US + 3,
        _report(
            MessageType.SETTING_REPORT,
            SettingReport((ReportedSetting("app.mode", _SETTING.id, SettingState.APPLIED),)).to_wire(),
            1,
        ),
    ),
    SegmentRecord(
        NOW_US + 4,
        _report(
            MessageType.ORDER_RESULT,
            OrderResult(_COMMAND.id, CommandState.DONE, NOW_US, NOW_US + 2, NOW_US + 1, exit=0).to_wire(),
            2,
        ),
    ),
]
"""What was ordered, and what became of it: operations stand among messages."""

_MEMBERSHIPS = [
    SegmentRecord(NOW_US + 5, landed_manifest(WITH_CAROL)),
    SegmentRecord(NOW_US + 6, said(CAROL, GroupProfile("Pumpen")).raw),
]
_CREATED_US = {1: NOW_US + 12, 2: NOW_US + 11}
"""Not before the records arrived; a merged segment's is the highest, whatever the order."""


def _segment(number: int, key: VaultKey = KEY) -> tuple[SegmentEntry, bytes]:
    nonce = _nonce(f"segment {number}")
    return documents.seal_segment(
        key, BOB.signing_public, number, INCARNATION, _CREATED_US[number], _RECORDS[number], nonce
    )


def resealed(kind: str, binding: list[object], plaintext: object) -> bytes:
    """Seal any plaintext as a segment, manifest or range would be."""
    magics = {"segment": b"HXSEG\x01", "manifest": b"HXMAN\x01", "range": b"HXRNG\x01", "tombstone": b"HXTMB\x01"}
    header = magics[kind] + KEY.key_id
    nonce = _nonce("resealed")
    raw = plaintext if isinstance(plaintext, bytes) else cbor(plaintext)
    return header + nonce + crypto.aead_seal(raw, header + cbor(binding), nonce, KEY.key)


def _manifests() -> tuple[VaultManifest, VaultManifest]:
    first = documents.next_manifest(None, KEY, BOB.signing_public, INCARNATION, NOW_US + 10, (_segment(1)[0],))
    second = documents.next_manifest(first, KEY, BOB.signing_public, INCARNATION, NOW_US + 20, (_segment(2)[0],))
    return first, second


def _range() -> tuple[SegmentRange, bytes]:
    entries = tuple(_segment(number)[0] for number in _RECORDS)
    return documents.seal_range(KEY, BOB.signing_public, entries, _nonce("range"))


def _folded() -> VaultManifest:
    """A third manifest, which names the segments of the second in a range."""
    second = _manifests()[1]
    return documents.next_manifest(second, KEY, BOB.signing_public, INCARNATION, NOW_US + 30, (), _range()[0])


def _ranges() -> list[dict[str, Any]]:
    named, content = _range()
    binding: list[object] = ["covey/1 range", KEY.vault_id, NODE, named.first, named.last]
    entries = [_segment(number)[0].to_wire() for number in _RECORDS]

    def listed(raw: bytes) -> SegmentRange:
        return replace(named, size=len(raw), hash=crypto.digest(b"covey/1 range", raw))

    refused = [
        ("not the bytes that are named", "decryption", named, flip(content, -1)),
        ("a bit flipped, and named so", "decryption", listed(flip(content, -1)), flip(content, -1)),
    ]
    for name, code, raw in (
        ("sealed for another range", "decryption", resealed("range", [*binding[:4], 3], entries)),
        ("sealed as a manifest", "malformed", resealed("manifest", binding, entries)),
        ("a segment missing", "malformed", resealed("range", binding, entries[:1])),
        ("segments out of order", "malformed", resealed("range", binding, entries[::-1])),
        ("no list", "malformed", resealed("range", binding, 7)),
    ):
        refused.append((name, code, listed(raw), raw))
    good = {
        "name": "range 1 to 2",
        "object_key": documents.range_key(KEY.vault_id, NODE, named),
        "nonce": _nonce("range").hex(),
        "range": _named(named),
        "entries": [described_entry(_segment(number)[0]) for number in _RECORDS],
        "bytes": content.hex(),
        "code": None,
    }
    return [
        good,
        *(
            {"name": name, "range": _named(listed_as), "bytes": raw.hex(), "code": code}
            for name, code, listed_as, raw in refused
        ),
    ]


def parts_of_vault() -> list[SegmentPart]:
    """Return what was landed at positions 1 and 2."""
    return [SegmentPart(number, _CREATED_US[number], tuple(records)) for number, records in _RECORDS.items()]


def packed(before: list[object], **fields: object) -> tuple[int, int, bytes]:
    """Return a packed segment of positions 1 and 2, with other fields than it should have."""
    messages = [each.message for number in _RECORDS for each in _RECORDS[number]]
    good: dict[str, object] = {
        "parts": [[part.number, part.created_at_us, len(part.records)] for part in parts_of_vault()],
        "received": columns.written([each.received_at_us for number in _RECORDS for each in _RECORDS[number]]),
        "places": columns.written([0, 1, 2]),
        "lengths": columns.written([len(each) for each in messages]),
        "messages": b"".join(messages),
    }
    content = cbor([*before, *(good | fields).values()])
    return 2, len(content), deflate(content)


def _merged() -> list[dict[str, Any]]:
    entry, content = segments.seal_merged(KEY, BOB.signing_public, parts_of_vault())
    binding: list[object] = ["covey/1 merged segment", KEY.vault_id, NODE, 1, 2]
    parts = parts_of_vault()

    def listed(raw: bytes) -> SegmentEntry:
        return replace(entry, size=len(raw), hash=crypto.digest(b"covey/1 segment", raw))

    def of_parts(*parts: SegmentPart) -> bytes:
        return resealed("segment", binding, [2, *packing.pack(parts, 0, [])])

    shapes = [
        ("version 1", "malformed", resealed("segment", binding, [1, *packing.pack(parts, 0, [])])),
        ("a part missing", "malformed", of_parts(parts[0])),
        ("parts out of order", "malformed", of_parts(*parts[::-1])),
        ("a part twice", "malformed", of_parts(parts[0], parts[0])),
        ("a lying number of records", "malformed", of_parts(parts[0], SegmentPart(2, NOW_US, ()))),
        ("sealed for other positions", "decryption", resealed("segment", [*binding[:3], 2, 3], packed([0, []]))),
        ("sealed as a plain segment", "decryption", _segment(2)[1]),
        *((name, code, resealed("segment", binding, shape)) for name, code, shape in _wrongly_packed()),
    ]

    def good(name: str, raw: bytes) -> dict[str, Any]:
        return {
            "name": name,
            "object_key": documents.entry_key(KEY.vault_id, NODE, listed(raw)),
            "entry": described_entry(listed(raw)),
            "parts": [
                [part.number, part.created_at_us, [[each.received_at_us, each.message.hex()] for each in part.records]]
                for part in parts_of_vault()
            ],
            "bytes": raw.hex(),
            "code": None,
        }

    moved = packed(
        [0, []],
        places=columns.written([2, 0, 1]),
        lengths=columns.written([len(_RECORDS[2][0].message), *(len(each.message) for each in _RECORDS[1])]),
        messages=b"".join([_RECORDS[2][0].message, *(each.message for each in _RECORDS[1])]),
    )
    refused = [
        {"name": name, "entry": described_entry(listed(raw)), "bytes": raw.hex(), "code": code}
        for name, code, raw in shapes
    ]
    return [
        good("segments 1 and 2", content),
        good("packed in another order", resealed("segment", binding, moved)),
        *refused,
    ]


def _wrongly_packed() -> list[tuple[str, str, object]]:
    """Return plaintexts of packed merged segments that a reader refuses."""
    none: list[object] = [0, []]
    version, size, deflated = packed(none)
    long = bytes(1_000_001)
    one = [[1, NOW_US, 1], [2, NOW_US, 0]]
    return [
        ("packed: version 5", "malformed", [5, size, deflated]),
        ("packed: it inflates to more", "limit", [version, size - 1, deflated]),
        ("packed: it inflates to less", "malformed", [version, size + 1, deflated]),
        ("packed: the stream does not end", "malformed", [version, size, deflated[:-1]]),
        ("packed: bytes after the stream", "malformed", [version, size, deflated + b"\0"]),
        ("packed: no stream", "malformed", [version, size, b"\xff" * 8]),
        ("packed: nothing says how much", "malformed", [version, deflated]),
        ("packed: too much", "malformed", [version, 33_554_433, deflated]),
        ("packed: something was erased", "malformed", packed([NOW_US, []])),
        ("packed: a field more", "malformed", packed([*none, 0])),
        ("packed: parts out of order", "malformed", packed(none, parts=[[2, NOW_US, 1], [1, NOW_US, 2]])),
        ("packed: parts of fewer records", "malformed", packed(none, parts=[[1, NOW_US, 1], [2, NOW_US, 1]])),
        ("packed: a time is missing", "malformed", packed(none, received=columns.written([NOW_US, NOW_US]))),
        ("packed: a negative time", "malformed", packed(none, received=columns.written([-1, NOW_US, NOW_US]))),
        ("packed: a place twice", "malformed", packed(none, places=columns.written([0, 1, 1]))),
        ("packed: a place that there is not", "malformed", packed(none, places=columns.written([0, 1, 3]))),
        ("packed: lengths of more", "malformed", packed(none, lengths=columns.written([300, 300, 300]))),
        (
            "packed: a negative length",
            "malformed",
            packed(
                none,
                parts=[[1, NOW_US, 1], [2, NOW_US, 1]],
                received=columns.written([NOW_US, NOW_US]),
                places=columns.written([0, 1]),
                lengths=columns.written([-1, 4]),
                messages=b"abc",
            ),
        ),
        (
            "packed: a message that is too long",
            "limit",
            packed(
                none,
                parts=one,
                received=columns.written([NOW_US]),
                places=columns.written([0]),
                lengths=columns.written([len(long)]),
                messages=long,
            ),
        ),
    ]


def _tombstone() -> tuple[Tombstone, bytes]:
    replaced = Replaced((_segment(1)[0], _segment(2)[0]), (_range()[0],))
    return merging.seal_tombstone(KEY, BOB.signing_public, replaced, NOW_US + 50)


def _tombstones() -> list[dict[str, Any]]:
    named, content = _tombstone()
    entries = [_segment(number)[0].to_wire() for number in _RECORDS]
    binding: list[object] = ["covey/1 tombstone", KEY.vault_id, NODE, 1, 2]

    def listed(raw: bytes) -> Tombstone:
        return replace(named, size=len(raw), hash=crypto.digest(b"covey/1 grave", raw))

    def described(each: Tombstone) -> dict[str, Any]:
        return {
            "first": each.first,
            "last": each.last,
            "hash": each.hash.hex(),
            "size": each.size,
            "created_at_us": each.created_at_us,
        }

    good = {
        "name": "segments 1 and 2 and their range",
        "object_key": documents.tombstone_key(KEY.vault_id, NODE, named),
        "tombstone": described(named),
        "segments": [described_entry(_segment(number)[0]) for number in _RECORDS],
        "ranges": [_named(_range()[0])],
        "bytes": content.hex(),
        "code": None,
    }
    refused = [
        ("not the bytes that are named", "decryption", named, flip(content, -1)),
        ("a bit flipped, and named so", "decryption", listed(flip(content, -1)), flip(content, -1)),
    ]
    for name, code, raw in (
        ("sealed for other positions", "decryption", resealed("tombstone", [*binding[:4], 3], [entries, []])),
        ("no ranges", "malformed", resealed("tombstone", binding, [entries])),
        ("sealed as a range", "malformed", resealed("range", binding, [entries, []])),
    ):
        refused.append((name, code, listed(raw), raw))
    return [
        good,
        *(
            {"name": name, "tombstone": described(as_named), "bytes": raw.hex(), "code": code}
            for name, code, as_named, raw in refused
        ),
    ]


def compacted() -> VaultManifest:
    """A fourth manifest, which lists a merged segment in the place of both."""
    entry, _ = segments.seal_merged(KEY, BOB.signing_public, parts_of_vault())
    return documents.rewritten_manifest(_folded(), KEY, NOW_US + 60, (), (entry,), (_tombstone()[0],))


def _named(named: SegmentRange) -> dict[str, Any]:
    return {"first": named.first, "last": named.last, "hash": named.hash.hex(), "size": named.size}


def described_entry(entry: SegmentEntry) -> dict[str, Any]:
    """Return what a vector says of an entry."""
    return {
        "number": entry.number,
        "incarnation": entry.incarnation.hex(),
        "hash": entry.hash.hex(),
        "size": entry.size,
        "created_at_us": entry.created_at_us,
        "records": entry.records,
        "covers": entry.covers,
    }


def _good(name: str, number: int, created_us: int, records: list[SegmentRecord]) -> dict[str, Any]:
    nonce = _nonce(f"segment {number}")
    entry, content = documents.seal_segment(KEY, BOB.signing_public, number, INCARNATION, created_us, records, nonce)
    return {
        "name": name,
        "object_key": documents.segment_key(KEY.vault_id, NODE, number, INCARNATION),
        "nonce": nonce.hex(),
        "entry": described_entry(entry),
        "records": [[each.received_at_us, each.message.hex()] for each in records],
        "bytes": content.hex(),
        "code": None,
    }


def _segments() -> list[dict[str, Any]]:
    entries = [_good(f"segment {number}", number, _CREATED_US[number], records) for number, records in _RECORDS.items()]
    entries.append(_good("orders, and what became of them", 3, NOW_US + 13, _ORDERS))
    entries.append(_good("a manifest, and what its group is called", 4, NOW_US + 14, _MEMBERSHIPS))
    entry, content = _segment(1)

    def listed(raw: bytes) -> SegmentEntry:
        """The entry, were the manifest to list these bytes."""
        return replace(entry, size=len(raw), hash=crypto.digest(b"covey/1 segment", raw))

    binding: list[object] = ["covey/1 segment", KEY.vault_id, NODE, 1, INCARNATION]
    two = [[NOW_US, b"m"], [NOW_US, b"n"]]
    shapes = [
        ("version 2", "malformed", resealed("segment", binding, [2, NOW_US, two])),
        ("a lying number of records", "malformed", resealed("segment", binding, [1, NOW_US, two[:1]])),
        ("a record without its time", "malformed", resealed("segment", binding, [1, NOW_US, [[b"m"], [b"n"]]])),
        ("a byte after it", "malformed", resealed("segment", binding, cbor([1, NOW_US, two]) + b"\x00")),
        (
            "sealed for another number",
            "decryption",
            resealed("segment", [*binding[:3], 2, INCARNATION], [1, 0, two]),
        ),
        (
            "sealed for another node",
            "decryption",
            resealed("segment", [*binding[:2], bytes(16), *binding[3:]], [1, 0, two]),
        ),
        (
            "sealed for another vault",
            "decryption",
            resealed("segment", [binding[0], bytes(16), *binding[2:]], [1, 0, two]),
        ),
        (
            "sealed for another incarnation",
            "decryption",
            resealed("segment", [*binding[:4], bytes(8)], [1, 0, two]),
        ),
        ("sealed as a manifest", "malformed", resealed("manifest", binding, [1, NOW_US, two])),
        ("sealed with another vault key", "decryption", _segment(1, OTHER_KEY)[1]),
        ("a bit of the ciphertext flipped, and listed so", "decryption", flip(content, -1)),
        ("a bit of the nonce flipped, and listed so", "decryption", flip(content, _HEADER_BYTES)),
        ("a bit of the key's id flipped, and listed so", "decryption", flip(content, 6)),
        ("another format in the magic", "malformed", flip(content, 5, 1)),
        ("cut inside the nonce, and listed so", "malformed", content[:30]),
        ("empty, and listed so", "malformed", b""),
    ]
    refused = [(name, code, listed(raw), raw) for name, code, raw in shapes]
    refused += [
        ("not the bytes that are listed", "decryption", entry, flip(content, -1)),
        ("cut", "decryption", entry, content[:-1]),
        ("longer than listed", "decryption", entry, content + b"\x00"),
        ("another segment's bytes", "decryption", entry, _segment(2)[1]),
    ]
    return entries + [
        {"name": name, "entry": described_entry(listed_as), "bytes": raw.hex(), "code": code}
        for name, code, listed_as, raw in refused
    ]


def signed_manifest(fields: list[object], signer: Identity = _COLLECTOR) -> bytes:
    """Sign and seal any fields as a manifest would be."""
    document = cbor(fields)
    signed = cbor([crypto.sign(b"covey/1 vault manifest", document, signer), document])
    return resealed("manifest", ["covey/1 vault manifest", KEY.vault_id, NODE], signed)


def manifest_fields(listed: list[Any]) -> dict[str, object]:
    """Return a manifest's fields, in order: the second of the node's, listing these entries."""
    return {
        "version": 1,
        "vault_id": KEY.vault_id,
        "node_id": NODE,
        "signing_public": BOB.signing_public,
        "incarnation": INCARNATION,
        "manifest_seq": 2,
        "prev": _manifests()[1].prev,
        "created_at_us": NOW_US,
        "ranges": [],
        "segments": listed,
        "tombstones": [],
        "capabilities": {"format_version": 0, "supports": ["segments", "tombstones"]},
        "erasures": [],
    }


def _manifest_entries() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for manifest in (*_manifests(), _folded(), compacted()):
        label = f"manifest {manifest.manifest_seq}"
        entries.append(
            {
                "name": label,
                "object_key": documents.manifest_key(KEY.vault_id, NODE),
                "nonce": _nonce(label).hex(),
                "incarnation": INCARNATION.hex(),
                "manifest_seq": manifest.manifest_seq,
                "prev": manifest.prev.hex(),
                "hash": manifest.hash.hex(),
                "created_at_us": manifest.created_at_us,
                "ranges": [_named(named) for named in manifest.ranges],
                "segments": [described_entry(entry) for entry in manifest.segments],
                "tombstones": [each.to_wire() for each in manifest.tombstones] and [_tombstones()[0]["tombstone"]],
                "floor": manifest.manifest_seq,
                "bytes": documents.seal_vault_manifest(KEY, manifest, _COLLECTOR, _nonce(label)).hex(),
                "code": None,
            }
        )
    second = _manifests()[1]
    listed = [entry.to_wire() for entry in second.segments]
    good = manifest_fields(listed)

    def changed(**fields: object) -> list[object]:
        return list((good | fields).values())

    content = bytes.fromhex(entries[1]["bytes"])
    by_other = documents.seal_vault_manifest(OTHER_KEY, second, BOB, _nonce("other"))
    by_carol = documents.next_manifest(None, KEY, CAROL.signing_public, INCARNATION, NOW_US, ())
    rows: list[tuple[str, str, int, bytes]] = [
        ("rule 1: a bit flipped", "decryption", 0, flip(content, -1)),
        ("rule 1: another vault key", "decryption", 0, by_other),
        (
            "rule 1: another node's manifest under this key",
            "decryption",
            0,
            documents.seal_vault_manifest(KEY, by_carol, CAROL, _nonce("c")),
        ),
        ("rule 1: cut", "malformed", 0, content[:20]),
        ("rule 1: empty", "malformed", 0, b""),
        ("rule 1: a segment under this key", "malformed", 0, _segment(1)[1]),
        ("rule 2: names another vault", "wrong_vault", 0, signed_manifest(changed(vault_id=bytes(16)))),
        ("rule 2: names another node", "wrong_vault", 0, signed_manifest(changed(node_id=bytes(16)))),
        (
            "rule 3: a key that does not give this node id",
            "wrong_vault",
            0,
            signed_manifest(changed(signing_public=CAROL.signing_public), CAROL),
        ),
        ("rule 3: signed by another device", "signature", 0, signed_manifest(changed(), CAROL)),
        ("rule 4: below what was seen", "rollback", 3, content),
        ("rule 4: sequence 0", "rollback", 0, signed_manifest(changed(manifest_seq=0))),
        ("rule 5: a number missing", "malformed", 0, signed_manifest(changed(segments=listed[1:]))),
        ("rule 5: numbers descend", "malformed", 0, signed_manifest(changed(segments=listed[::-1]))),
        ("rule 5: a number twice", "malformed", 0, signed_manifest(changed(segments=[listed[0], listed[0]]))),
        (
            "rule 5: a range that does not begin at 1",
            "malformed",
            0,
            signed_manifest(changed(ranges=[[2, 2, bytes(32), 1]], segments=[])),
        ),
        (
            "rule 5: a range that ends before it begins",
            "malformed",
            0,
            signed_manifest(changed(ranges=[[1, 0, bytes(32), 1]])),
        ),
        (
            "rule 5: a range and a list that overlap",
            "malformed",
            0,
            signed_manifest(changed(ranges=[[1, 1, bytes(32), 1]])),
        ),
        (
            "rule 5: a segment that covers nothing",
            "malformed",
            0,
            signed_manifest(changed(segments=[[*listed[0][:6], 0]])),
        ),
        (
            "rule 5: a segment that begins before the first",
            "malformed",
            0,
            signed_manifest(changed(segments=[[*listed[0][:6], 2]])),
        ),
        (
            "rule 5: a merged segment and one that it replaces",
            "malformed",
            0,
            signed_manifest(changed(segments=[listed[0], [*listed[1][:6], 2]])),
        ),
        (
            "a tombstone of positions that nobody has",
            "malformed",
            0,
            signed_manifest(changed(tombstones=[[1, 3, bytes(32), 1, 0]])),
        ),
        ("version 2", "malformed", 0, signed_manifest(changed(version=2))),
        (
            "another vault format",
            "malformed",
            0,
            signed_manifest(changed(capabilities={"format_version": 1, "supports": []})),
        ),
        ("capabilities without a format", "malformed", 0, signed_manifest(changed(capabilities={"supports": []}))),
        ("a field missing", "malformed", 0, signed_manifest(changed()[:-1])),
        (
            "segment larger than allowed",
            "malformed",
            0,
            signed_manifest(changed(segments=[[1, INCARNATION, bytes(32), 2**26, 0, 1, 1]])),
        ),
    ]
    return entries + [
        {"name": name, "floor": floor, "bytes": raw.hex(), "code": code} for name, code, floor, raw in rows
    ]


def make() -> dict[str, Any]:
    """Return the file."""
    return {
        "about": "Section 13.",
        "keys": keys(),
        "vault": {"vault_id": KEY.vault_id.hex(), "key": KEY.key.hex(), "key_id": KEY.key_id.hex()},
        "node": {"device": "bob", "node_id": NODE.hex()},
        "segments": _segments(),
        "ranges": _ranges(),
        "merged": _merged(),
        "tombstones": _tombstones(),
        "manifests": _manifest_entries(),
    }
