"""link_envelopes.json: the same key, tag and counter give these bytes; damaged ones fail like this."""

from __future__ import annotations

from typing import Any

from covey.core import crypto
from covey.core.ids import GroupId, Incarnation, LinkSeq
from covey.core.telemetry.batch import Alarm, BatchBuilder, ClockKind, ClockReading, numbered
from covey.core.wire import envelope
from covey.core.wire.cbor import decode
from covey.core.wire.message import Acknowledgement, MessageType, write_message
from covey.core.wire.note import write_note
from covey.core.wire.sequences import SequenceSet
from covey.core.wire.short import Implied, ImpliedBatch, shorten
from tests.vectors.makers.cast import ALICE, BOB, BOOT_ID, INCARNATION, NOW_US, cbor, flip, seeded

_KEY = seeded("link key")
_TAG = seeded("link tag", 8)
_COUNTER = 7
_NONCE = _TAG + _COUNTER.to_bytes(16)


def _sealed(padded: bytes) -> bytes:
    """Seal exactly these bytes, padded or not."""
    return cbor([2, _TAG, _COUNTER, crypto.secretbox_seal(padded, _NONCE, _KEY)])


def _refused() -> list[tuple[str, str, bytes]]:
    good = envelope.seal_by_link(b"covey", _KEY, _TAG, _COUNTER)
    ciphertext = good[-56:]
    return [
        ("another key", "decryption", envelope.seal_by_link(b"covey", seeded("another"), _TAG, _COUNTER)),
        ("a tag that nobody has told", "decryption", cbor([2, flip(_TAG, 0), _COUNTER, ciphertext])),
        ("another counter", "decryption", cbor([2, _TAG, _COUNTER + 1, ciphertext])),
        ("counter zero", "decryption", cbor([2, _TAG, 0, ciphertext])),
        ("a bit of the ciphertext flipped", "decryption", flip(good, -1)),
        ("a bit of the authenticator flipped", "decryption", flip(good, -56)),
        ("ciphertext cut", "decryption", cbor([2, _TAG, _COUNTER, ciphertext[:-1]])),
        ("ciphertext shorter than its authenticator", "decryption", cbor([2, _TAG, _COUNTER, ciphertext[:15]])),
        ("no ciphertext", "decryption", cbor([2, _TAG, _COUNTER, b""])),
        ("envelope cut", "malformed", good[:-1]),
        ("a byte after the envelope", "malformed", good + b"\x00"),
        ("form 3", "unsupported", cbor([3, _TAG, _COUNTER, ciphertext])),
        ("version 1 of the same shape", "malformed", cbor([1, _TAG, _COUNTER, ciphertext])),
        ("version not minimal", "malformed", b"\x84\x18\x02" + good[2:]),
        ("counter not minimal", "malformed", good[:11] + b"\x18\x07" + good[12:]),
        ("tag of 7 bytes", "malformed", cbor([2, _TAG[:7], _COUNTER, ciphertext])),
        ("tag of 9 bytes", "malformed", cbor([2, _TAG + b"\x00", _COUNTER, ciphertext])),
        ("negative counter", "malformed", cbor([2, _TAG, -1, ciphertext])),
        ("counter beyond 63 bits", "malformed", cbor([2, _TAG, 2**63, ciphertext])),
        ("counter as bytes", "malformed", cbor([2, _TAG, bytes(8), ciphertext])),
        ("ciphertext as text", "malformed", cbor([2, _TAG, _COUNTER, "x" * 56])),
        ("a field missing", "malformed", cbor([2, _TAG, ciphertext])),
        ("a field too many", "malformed", cbor([2, _TAG, _COUNTER, ciphertext, None])),
        ("not padded", "malformed", _sealed(b"covey")),
        ("only zeros inside", "malformed", _sealed(bytes(40))),
        ("padded to the next size", "malformed", _sealed(b"covey\x80".ljust(44, b"\0"))),
    ]


_NAMED = (seeded("link group"), seeded("link incarnation", 8))
_NAMES = ["temperature", "Cel", "humidity", "%RH", "co2", "ppm"]
_BATCH = ImpliedBatch(BOOT_ID, 3_600_000_000, NOW_US, cbor(_NAMES))
_BARE_BYTES = 64
"""No LINK without a group and an incarnation is longer."""


def _described_batch() -> dict[str, Any]:
    boot_id, monotonic_us, wall_us, names = _BATCH.fields()
    return {"boot_id": boot_id.hex(), "monotonic_us": monotonic_us, "wall_us": wall_us, "names": names.hex()}


def _batch_body(*readings: tuple[str, str, float], boot_id: bytes = BOOT_ID, alarm: Alarm | None = None) -> bytes:
    builder = BatchBuilder()
    for name, unit, value in readings:
        builder.add(name, unit, 3_659_000_000, value)
    clock = ClockReading(boot_id, 3_660_000_000, NOW_US + 60_000_007, ClockKind.SYNCHRONISED)
    return numbered(77, builder.body(clock), alarm)


def _links() -> list[dict[str, Any]]:
    rows: list[tuple[str, str | None, bytes]] = [
        ("a tag and a key", None, cbor([_TAG, _KEY])),
        ("a tag, a key, a group and an incarnation", None, cbor([_TAG, _KEY, *_NAMED])),
        ("a group without an incarnation", "malformed", cbor([_TAG, _KEY, _NAMED[0]])),
        ("a group of 16 bytes", "malformed", cbor([_TAG, _KEY, _NAMED[0][:16], _NAMED[1]])),
        ("an incarnation of 9 bytes", "malformed", cbor([_TAG, _KEY, _NAMED[0], _NAMED[1] + b"\x00"])),
        ("tag of 7 bytes", "malformed", cbor([_TAG[:7], _KEY])),
        ("key of 31 bytes", "malformed", cbor([_TAG, _KEY[:31]])),
        ("key of 33 bytes", "malformed", cbor([_TAG, _KEY + b"\x00"])),
        ("key as text", "malformed", cbor([_TAG, "x" * 32])),
        ("a field missing", "malformed", cbor([_TAG])),
        ("what batches leave out, too", None, cbor([_TAG, _KEY, *_NAMED, *_BATCH.fields()])),
        ("a boot without a clock", "malformed", cbor([_TAG, _KEY, *_NAMED, BOOT_ID])),
        ("a boot of 7 bytes", "malformed", cbor([_TAG, _KEY, *_NAMED, BOOT_ID[:7], *_BATCH.fields()[1:]])),
        ("a clock before the epoch", "malformed", cbor([_TAG, _KEY, *_NAMED, BOOT_ID, -1, 0, _BATCH.names])),
        ("a name without a unit", "malformed", cbor([_TAG, _KEY, *_NAMED, BOOT_ID, 0, 0, cbor(_NAMES[:-1])])),
        ("names as an array", "malformed", cbor([_TAG, _KEY, *_NAMED, BOOT_ID, 0, 0, _NAMES])),
        ("names of 2,049 bytes", "limit", cbor([_TAG, _KEY, *_NAMED, BOOT_ID, 0, 0, bytes(2_049)])),
        ("a field too many", "malformed", cbor([_TAG, _KEY, *_NAMED, *_BATCH.fields(), 0])),
        ("longer than any", "limit", cbor([_TAG, bytes(2_400)])),
    ]
    return [
        {"name": name, "bytes": body.hex(), "code": code}
        | ({"tag": _TAG.hex(), "key": _KEY.hex()} if code is None else {})
        | ({"named": [each.hex() for each in _NAMED if len(body) > _BARE_BYTES]} if code is None else {})
        | ({"batch": _described_batch()} if name.startswith("what batches") else {})
        for name, code, body in rows
    ]


_HEADS = GroupId(seeded("shared", 20) + bytes(12))
_ACKNOWLEDGED = Acknowledgement(INCARNATION, SequenceSet(20), {20: b"\x01\x02\x03\x04"}).to_wire()


def _notes() -> list[dict[str, Any]]:
    acknowledgement, beat, heads = MessageType.ACK, MessageType.PRESENCE, _HEADS
    body = cbor([1_800_000_001, 0, 300, [1_800_000_000]])
    shared = heads[:20]
    late = Acknowledgement(INCARNATION, SequenceSet(20), {18: b"\x05\x06\x07\x08"}).to_wire()
    scattered = Acknowledgement(INCARNATION, SequenceSet(20).add(22), {20: b"\x01\x02\x03\x04"}).to_wire()
    three = Acknowledgement(INCARNATION, SequenceSet(3), {each: bytes([each]) * 4 for each in (1, 2, 3)}).to_wire()
    good: list[tuple[str, MessageType, GroupId, bytes]] = [
        ("an acknowledgement", acknowledgement, heads, _ACKNOWLEDGED),
        ("an acknowledgement that says nothing of groups", acknowledgement, GroupId(bytes(32)), _ACKNOWLEDGED),
        ("a beat", beat, heads, body),
        ("an acknowledgement of all that ever came", acknowledgement, heads, three),
        ("an acknowledgement of what is not the newest", acknowledgement, heads, late),
        ("an acknowledgement with a gap", acknowledgement, heads, scattered),
        ("a body that its type's reader judges", beat, heads, b""),
    ]
    refused: list[tuple[str, str, bytes]] = [
        ("a type without notes", "unsupported", cbor([int(MessageType.HEADS), shared, cbor([False, []])])),
        ("a type that nobody knows", "unsupported", cbor([0xFF, shared, b""])),
        ("an even key", "unsupported", cbor([int(beat), shared, body, {1_000: 0}])),
        ("type beyond 255", "malformed", cbor([256, shared, body])),
        ("heads of 32 bytes", "malformed", cbor([int(beat), heads, body])),
        ("no heads", "malformed", cbor([int(beat), body])),
        ("body as an array", "malformed", cbor([int(beat), shared, [1_800_000_001, 0, 300, [1_800_000_000]]])),
        ("an empty map at the end", "malformed", cbor([int(beat), shared, body, {}])),
        ("a field too many", "malformed", cbor([int(beat), shared, body, None])),
        ("a byte after the note", "malformed", cbor([int(beat), shared, body]) + b"\x00"),
        ("nothing", "malformed", b""),
        ("a short beat", "malformed", cbor([int(beat), shared, INCARNATION, 20, bytes(4)])),
        ("short, without imprints", "malformed", cbor([int(acknowledgement), shared, INCARNATION, 20, b""])),
        ("short, with half an imprint", "malformed", cbor([int(acknowledgement), shared, INCARNATION, 20, bytes(2)])),
        ("short, of more than came", "malformed", cbor([int(acknowledgement), shared, INCARNATION, 2, bytes(12)])),
        ("short, of too many", "limit", cbor([int(acknowledgement), shared, INCARNATION, 9_999, bytes(4_100)])),
        ("short, and another field", "malformed", cbor([int(acknowledgement), shared, INCARNATION, 2, bytes(4), None])),
    ]
    rows = [
        {"name": name, "type": int(kind), "heads": said.hex(), "body": content.hex(), "bytes": raw.hex(), "code": None}
        for name, kind, said, content in good
        for raw in [write_note(kind, said, content)]
    ]
    odd = cbor([int(beat), shared, body, {1_001: 0}]).hex()
    known: dict[str, Any] = {"type": int(beat), "heads": heads.hex(), "body": body.hex()}
    rows.append({"name": "an odd key", **known, "bytes": odd, "code": None})
    return rows + [{"name": name, "bytes": raw.hex(), "code": code} for name, code, raw in refused]


def _shorts() -> list[dict[str, Any]]:
    implied = Implied(ALICE.signing_public, BOB.signing_public, GroupId(_NAMED[0]), Incarnation(_NAMED[1]), _BATCH)
    whole_batch = _batch_body(*[(name, unit, 1.5) for name, unit in zip(_NAMES[::2], _NAMES[1::2], strict=True)])
    place = LinkSeq(301)
    names = implied.recipient, implied.group_id, implied.incarnation
    rows: list[tuple[str, str | None, bytes, bytes]] = []
    for name, kind, body in (
        ("telemetry", MessageType.TELEMETRY, whole_batch),
        (
            "telemetry of two series, and one that is not implied",
            MessageType.TELEMETRY,
            _batch_body(("co2", "ppm", 412), ("pressure", "Pa", 1.5), ("humidity", "%RH", 40)),
        ),
        ("telemetry of another boot", MessageType.TELEMETRY, _batch_body(("co2", "ppm", 412), boot_id=bytes(8))),
        ("an alarm", MessageType.TELEMETRY, _batch_body(("co2", "ppm", 5_000), alarm=Alarm.RAISED)),
        ("telemetry that its reader judges", MessageType.TELEMETRY, seeded("body", 50)),
        ("a blob without content", MessageType.BLOB, b""),
    ):
        message = write_message(ALICE, kind, *names, 1_000, place, 1_800_000_000_000_000, body)
        rows.append((name, None, message, shorten(message, implied) or b""))
    good = rows[0][-1]
    signature, kind_number, *rest = decode(good, 1_000)
    other = flip(signature, 0)
    rows += [
        ("a signature of another message", "signature", b"", cbor([other, kind_number, *rest])),
        ("another link sequence", "signature", b"", cbor([signature, kind_number, rest[0], rest[1] + 1, *rest[2:]])),
        ("a signature of 63 bytes", "malformed", b"", cbor([signature[:63], kind_number, *rest])),
        ("type beyond 255", "malformed", b"", cbor([signature, 256, *rest])),
        ("link sequence beyond 40 bits", "malformed", b"", cbor([signature, kind_number, rest[0], 2**40, *rest[2:]])),
        *[
            (name, "malformed", b"", cbor([signature, kind_number, *rest[:3], cbor([77, batch])]))
            for name, batch in (
                ("an anchor as text", [0, "x", 0, None, 0, b""]),
                ("an anchor before the epoch", [0, -3_600_000_001, 0, None, 0, b""]),
                ("an anchor beyond 63 bits", [0, 2**63 - 1, 0, None, 0, b""]),
                ("names in bytes", [0, 1, 0, b"", 0, b""]),
                ("a place that the link does not name", [0, 1, 0, [0, 3], 0, b""]),
                ("a place below 0", [0, 1, 0, [-1], 0, b""]),
                ("a place that is true", [0, 1, 0, [True], 0, b""]),
                ("longer than a short message may be", [0, 1, 0, [2] * 1_200, 0, b""]),
            )
        ],
        ("body as text", "malformed", b"", cbor([signature, kind_number, *rest[:3], "x"])),
        ("a field missing", "malformed", b"", cbor([signature, kind_number, *rest[:3]])),
        ("a field too many", "malformed", b"", cbor([signature, kind_number, *rest, 0])),
        ("a byte after it", "malformed", b"", good + b"\x00"),
    ]
    known = {
        name: value.hex()
        for name, value in (
            ("author", implied.author),
            ("recipient", implied.recipient),
            ("group", implied.group_id),
            ("incarnation", implied.incarnation),
        )
    }
    return [
        {"name": name, **known, **_described_batch(), "message": message.hex(), "bytes": raw.hex(), "code": code}
        for name, code, message, raw in rows
    ]


def make() -> dict[str, Any]:
    """Return the file."""
    messages = [
        ("nothing", b"", 0),
        ("one byte", b"\x2a", 1),
        ("63 bytes fill the smallest size", seeded("63", 63), 23),
        ("64 bytes need the next", seeded("64", 64), 24),
        ("ends like padding", b"covey\x80\x00\x00", 65_536),
        ("the highest counter", b"covey", 2**63 - 1),
        ("1,000 bytes", b"".join(seeded(f"1000-{part}", 50) for part in range(20)), 300),
    ]
    vectors: list[dict[str, Any]] = [
        {
            "name": name,
            "counter": counter,
            "message": message.hex(),
            "bytes": envelope.seal_by_link(message, _KEY, _TAG, counter).hex(),
            "code": None,
        }
        for name, message, counter in messages
    ]
    vectors += [{"name": name, "bytes": raw.hex(), "code": code} for name, code, raw in _refused()]
    return {
        "about": "Section 4. The reader holds this key, by this tag; `links` are bodies of LINK, the rest plaintexts.",
        "key": _KEY.hex(),
        "tag": _TAG.hex(),
        "vectors": vectors,
        "links": _links(),
        "notes": _notes(),
        "shorts": _shorts(),
    }
