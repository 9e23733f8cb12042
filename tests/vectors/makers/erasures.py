"""erasures.json: thinned segments, and the vault manifest that says what was erased; and what a reader refuses.

Vault, node and what was landed are those of vault.json.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from covey.core import crypto
from covey.core.ids import Incarnation, OperationId
from covey.core.vault import documents, packing, segments
from covey.core.vault.documents import Erasure, SegmentEntry, SegmentPart, VaultManifest
from covey.core.vault.segments import ErasedNumbers, OpenedSegment
from covey.core.wire import columns
from tests.vectors.makers.cast import ALICE, BOB, CAROL, INCARNATION, NOW_US, seeded
from tests.vectors.makers.vault import (
    KEY,
    NODE,
    compacted,
    described_entry,
    manifest_fields,
    packed,
    parts_of_vault,
    resealed,
    signed_manifest,
)


def _thinned() -> tuple[SegmentEntry, bytes]:
    """Segments 1 and 2 without what Carol has sent, and with one message of Alice's left."""
    return segments.seal_thinned(KEY, BOB.signing_public, (1, 2), NOW_US + 12, _left())


def _left() -> OpenedSegment:
    numbers = [
        (CAROL.signing_public, Incarnation(bytes(8)), ((1, 3), (5, 5))),
        (ALICE.signing_public, INCARNATION, ((7, 7),)),
    ]
    erased = tuple([ErasedNumbers(*each) for each in sorted(numbers)])
    return OpenedSegment((parts_of_vault()[1],), NOW_US + 65, erased)


def _thinned_entries() -> list[dict[str, Any]]:
    entry, content = _thinned()
    binding: list[object] = ["covey/1 thinned segment", KEY.vault_id, NODE, 1, 2]
    parts = parts_of_vault()
    erased = [each.to_wire() for each in _left().erased]
    author, incarnation, _ = erased[0]

    def listed(raw: bytes) -> SegmentEntry:
        return replace(entry, size=len(raw), hash=crypto.digest(b"covey/1 segment", raw))

    def sealed(parts: Sequence[SegmentPart], erased: list[Any], version: int = 2) -> bytes:
        return resealed("segment", binding, [version, *packing.pack(parts, NOW_US, erased)])

    shapes = [
        ("version 1", "malformed", sealed(parts[1:], erased, 1)),
        ("parts out of order", "malformed", sealed([parts[1], parts[0]], erased)),
        ("a part that it does not stand for", "malformed", sealed([replace(parts[1], number=3)], erased)),
        ("an empty part", "malformed", sealed([SegmentPart(1, NOW_US, ()), parts[1]], erased)),
        ("a lying number of records", "malformed", sealed(parts, erased)),
        ("authors out of order", "malformed", sealed(parts[1:], erased[::-1])),
        ("an author twice", "malformed", sealed(parts[1:], [erased[0], erased[0]])),
        ("no numbers", "malformed", sealed(parts[1:], [[author, incarnation, []]])),
        ("number 0", "malformed", sealed(parts[1:], [[author, incarnation, [[0, 1]]]])),
        ("ranges that touch", "malformed", sealed(parts[1:], [[author, incarnation, [[1, 2], [3, 4]]]])),
        ("a range that ends before it begins", "malformed", sealed(parts[1:], [[author, incarnation, [[2, 1]]]])),
        (
            "sealed for other positions",
            "decryption",
            resealed("segment", [*binding[:3], 2, 3], [2, *packing.pack(parts[1:], NOW_US, erased)]),
        ),
        (
            "sealed as a merged segment",
            "decryption",
            segments.seal_merged(KEY, BOB.signing_public, parts_of_vault())[1],
        ),
        *(
            (f"packed: {name}", "malformed", resealed("segment", binding, packed([NOW_US, said], **one_part)))
            for name, said, one_part in (
                ("authors out of order", erased[::-1], _packed_part()),
                ("ranges that touch", [[author, incarnation, [[1, 2], [3, 4]]]], _packed_part()),
                ("an empty part", erased, _packed_part() | {"parts": [[1, NOW_US, 0], [2, NOW_US, 1]]}),
                ("a lying number of records", erased, {}),
            )
        ),
    ]
    refused = [
        {"name": name, "entry": described_entry(listed(raw)), "bytes": raw.hex(), "code": code}
        for name, code, raw in shapes
    ]
    return [
        _described("segments 1 and 2, of which one message is left", entry, content),
        *refused,
    ]


def _packed_part() -> dict[str, object]:
    """Return the fields of a packed segment that holds what is left."""
    (part,) = _left().parts
    (record,) = part.records
    return {
        "parts": [[part.number, part.created_at_us, 1]],
        "received": columns.written([record.received_at_us]),
        "places": columns.written([0]),
        "lengths": columns.written([len(record.message)]),
        "messages": record.message,
    }


def _described(name: str, entry: SegmentEntry, content: bytes) -> dict[str, Any]:
    return {
        "name": name,
        "object_key": documents.entry_key(KEY.vault_id, NODE, entry),
        "entry": described_entry(entry),
        "erased_at_us": _left().erased_at_us,
        "parts": [
            [part.number, part.created_at_us, [[each.received_at_us, each.message.hex()] for each in part.records]]
            for part in _left().parts
        ],
        "erased": [
            [each.author.hex(), each.incarnation.hex(), [list(span) for span in each.numbers]]
            for each in _left().erased
        ],
        "bytes": content.hex(),
        "code": None,
    }


def _erased() -> VaultManifest:
    """A fifth manifest: Carol's data was erased, on the word of a note, and what is old is being erased."""
    erasures = (
        Erasure(None, NOW_US - 10, 1),
        Erasure(CAROL.signing_public, NOW_US + 64, 2, OperationId(seeded("note", 32)), NOW_US + 66),
    )
    return documents.rewritten_manifest(compacted(), KEY, NOW_US + 70, (), (_thinned()[0],), (), erasures)


def _erasure(erasure: Erasure) -> dict[str, Any]:
    return {
        "author": erasure.author.hex() if erasure.author else None,
        "until_us": erasure.until_us,
        "last": erasure.last,
        "note": erasure.note.hex() if erasure.note else None,
        "completed_at_us": erasure.completed_at_us,
    }


def _wrong_erasures() -> list[tuple[str, list[object]]]:
    """Return manifests whose erasures are not as they should be."""
    good = manifest_fields([described.to_wire() for described in compacted().segments])
    of_all, of_carol = [each.to_wire() for each in _erased().erasures]
    thinned = [_thinned()[0].to_wire()]

    def saying(erasures: list[object], **fields: object) -> list[object]:
        return list((good | fields | {"erasures": erasures}).values())

    return [
        ("version 2", saying([of_carol], version=2)),
        ("without the field", list(good.values())[:-1]),
        ("authors descend", saying([of_carol, of_all])),
        ("an author twice", saying([of_carol, of_carol])),
        ("of positions that nobody has", saying([[*of_carol[:2], 3, *of_carol[3:]]])),
        ("a thinned segment that none reaches", saying([of_all], segments=thinned)),
        ("a thinned segment where nothing was erased", saying([], segments=thinned)),
        ("a key that is none", saying([[b"carol", *of_carol[1:]]])),
    ]


def _manifests() -> list[dict[str, Any]]:
    manifest, nonce = _erased(), seeded("nonce of manifest 5", 24)
    good = {
        "name": "manifest 5",
        "nonce": nonce.hex(),
        "manifest_seq": manifest.manifest_seq,
        "created_at_us": manifest.created_at_us,
        "prev": manifest.prev.hex(),
        "hash": manifest.hash.hex(),
        "segments": [described_entry(entry) for entry in manifest.segments],
        "erasures": [_erasure(each) for each in manifest.erasures],
        "bytes": documents.seal_vault_manifest(KEY, manifest, BOB, nonce).hex(),
        "code": None,
    }
    refused = [
        {"name": name, "bytes": signed_manifest(fields).hex(), "code": "malformed"}
        for name, fields in _wrong_erasures()
    ]
    return [good, *refused]


def make() -> dict[str, Any]:
    """Return the file."""
    return {
        "about": 'Section 13, "Erasing".',
        "segments": _thinned_entries(),
        "manifests": _manifests(),
    }
