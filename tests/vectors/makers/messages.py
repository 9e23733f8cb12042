"""messages.json: signed messages, and the bodies of acknowledgements and losses."""

from __future__ import annotations

from typing import Any

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.ids import GroupId, LinkSeq
from covey.core.routing.forwarding import Forward
from covey.core.wire.message import Acknowledgement, Loss, LossReason, MessageType, write_message
from covey.core.wire.sequences import SequenceSet
from covey.limits.board import MAXIMUM_BOARD_MESSAGE_BYTES
from covey.limits.ephemeral import MAXIMUM_EPHEMERAL_BYTES
from tests.vectors.makers.cast import (
    ALICE,
    BOB,
    CAROL,
    GROUP_ID,
    INCARNATION,
    MALLORY,
    NOW_US,
    cbor,
    flip,
    keys,
    seeded,
)

_DOMAIN = b"covey/1 message"
_GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493  # of Ed25519, RFC 8032 section 5.1
_ACK_BODY = Acknowledgement(INCARNATION, SequenceSet(20, ((22, 24),))).to_wire()

Fields = list[object]


def _fields(**changed: object) -> Fields:
    fields: dict[str, object] = {
        "version": 1,
        "type": int(MessageType.BLOB),
        "author": ALICE.signing_public,
        "recipient": BOB.signing_public,
        "group_id": GROUP_ID,
        "incarnation": INCARNATION,
        "seq": 7,
        "link_seq": 3,
        "sent_at_us": NOW_US,
        "body": b"hello",
    }
    fields.update(changed)
    return list(fields.values())


def _signed(fields: Fields | bytes, signer: Identity = ALICE, domain: bytes = _DOMAIN) -> bytes:
    """Sign whatever this is."""
    content = fields if isinstance(fields, bytes) else cbor(fields)
    return cbor([crypto.sign(domain, content, signer), content])


def _valid() -> list[dict[str, Any]]:
    entries = []
    for kind, group_id, seq, link_seq, body in [
        (MessageType.BLOB, GROUP_ID, 7, 3, b"hello"),
        (MessageType.BLOB, GROUP_ID, 2**40 - 1, 2**40 - 1, b""),
        (MessageType.GROUP_MANIFEST, GROUP_ID, 1, 1, b"any bytes; the type's own reader looks at them"),
        (MessageType.JOIN, GROUP_ID, 1, 1, cbor([seeded("secret", 16), ALICE.noise_public, "pi"])),
        (MessageType.LINK, bytes(32), 2, 2, cbor([seeded("link tag", 16), seeded("link key")])),
        (MessageType.TELEMETRY, GROUP_ID, 8, 4, b"a batch"),
        (MessageType.LOSS, bytes(32), 9, 5, Loss(LossReason.OUTBOX_FULL, ((1, 2), (4, 4)), ((7, 7),)).to_wire()),
        (MessageType.ACK, bytes(32), 0, 0, _ACK_BODY),
        (MessageType.HEADS, seeded("shared", 16) + bytes(16), 0, 0, cbor([False, [[GROUP_ID, 7, bytes(16)]]])),
        (MessageType.EPHEMERAL, GROUP_ID, 0, 0, cbor([NOW_US, b"typing"])),
        (MessageType.FORWARD, GROUP_ID, 10, 6, Forward(BOB.signing_public, b"an envelope").to_wire()),
        (MessageType.FORWARD, bytes(32), 0, 0, Forward(CAROL.signing_public, b"an envelope").to_wire()),
    ]:
        raw = write_message(
            ALICE, kind, BOB.signing_public, GroupId(group_id), INCARNATION, seq, LinkSeq(link_seq), NOW_US, body
        )
        entries.append(
            {
                "name": f"{kind.name.lower().replace('_', ' ')} {seq}",
                "type": int(kind),
                "author": "alice",
                "recipient": "bob",
                "group_id": group_id.hex(),
                "incarnation": INCARNATION.hex(),
                "seq": seq,
                "link_seq": link_seq,
                "sent_at_us": NOW_US,
                "body": body.hex(),
                "bytes": raw.hex(),
                "code": None,
            }
        )
    return entries


def _refused() -> list[tuple[str, str, bytes]]:
    good = cbor(_fields())
    signature = crypto.sign(_DOMAIN, good, ALICE)
    scalar = int.from_bytes(signature[32:], "little") + _GROUP_ORDER
    malleable = signature[:32] + scalar.to_bytes(32, "little")
    identity_point = b"\x01" + bytes(31)
    return [
        ("signature with a bit flipped", "signature", cbor([flip(signature, 5), good])),
        ("signature that adds the group order", "signature", cbor([malleable, good])),
        ("signature of zeros", "signature", cbor([bytes(64), good])),
        (
            "author of small order",
            "signature",
            cbor([identity_point + bytes(32), cbor(_fields(author=identity_point))]),
        ),
        ("signed by another device", "signature", _signed(_fields(), MALLORY)),
        ("signed without a domain", "signature", _signed(_fields(), domain=b"")),
        ("signed as a group manifest", "signature", _signed(_fields(), domain=b"covey/1 group manifest")),
        ("redirected", "signature", cbor([signature, cbor(_fields(recipient=CAROL.signing_public))])),
        ("claimed by another author", "signature", cbor([signature, cbor(_fields(author=MALLORY.signing_public))])),
        ("relabelled as telemetry", "signature", cbor([signature, cbor(_fields(type=9))])),
        ("moved to another group", "signature", cbor([signature, cbor(_fields(group_id=seeded("other")))])),
        ("moved to another incarnation", "signature", cbor([signature, cbor(_fields(incarnation=bytes(8)))])),
        ("renumbered", "signature", cbor([signature, cbor(_fields(seq=8))])),
        ("renumbered on the link", "signature", cbor([signature, cbor(_fields(link_seq=4))])),
        ("antedated", "signature", cbor([signature, cbor(_fields(sent_at_us=0))])),
        ("body changed", "signature", cbor([signature, cbor(_fields(body=b"hullo"))])),
        ("signature of 63 bytes", "malformed", cbor([signature[:63], good])),
        ("no signature", "malformed", good),
        ("cut", "malformed", cbor([signature, good])[:-1]),
        ("a byte after the message", "malformed", cbor([signature, good]) + b"\x00"),
        ("a byte after the signed part", "malformed", _signed(good + b"\x00")),
        ("signed part not minimal", "malformed", _signed(b"\x8a\x18\x01" + good[2:])),
        ("version 2", "malformed", _signed(_fields(version=2))),
        ("unknown type", "unsupported", _signed(_fields(type=0xFE))),
        ("unknown type without sequences", "unsupported", _signed(_fields(type=0xFE, seq=0, link_seq=0))),
        ("unknown type without a link sequence", "malformed", _signed(_fields(type=0xFE, link_seq=0))),
        ("a field missing", "malformed", _signed(_fields()[:-1])),
        ("a field too many", "malformed", _signed([*_fields(), 0])),
        ("author of 31 bytes", "malformed", _signed(_fields(author=ALICE.signing_public[:31]))),
        ("group id of 16 bytes", "malformed", _signed(_fields(group_id=bytes(16)))),
        ("incarnation of 7 bytes", "malformed", _signed(_fields(incarnation=bytes(7)))),
        ("negative sequence", "malformed", _signed(_fields(seq=-1))),
        ("boolean sequence", "malformed", _signed(_fields(seq=True))),
        ("body as text", "malformed", _signed(_fields(body="hello"))),
        ("forward without a sequence", "malformed", _signed(_fields(type=15, seq=0))),
        ("forward without a link sequence", "malformed", _signed(_fields(type=15, link_seq=0))),
        ("blob without sequences", "malformed", _signed(_fields(seq=0, link_seq=0))),
        ("blob without a sequence", "malformed", _signed(_fields(seq=0))),
        ("blob without a link sequence", "malformed", _signed(_fields(link_seq=0))),
        ("acknowledgement with sequences", "malformed", _signed(_fields(type=8, body=_ACK_BODY))),
        ("heads with sequences", "malformed", _signed(_fields(type=0x15))),
        ("ephemeral message with sequences", "malformed", _signed(_fields(type=0x18))),
        ("acknowledgement with a sequence", "malformed", _signed(_fields(type=8, link_seq=0, body=_ACK_BODY))),
    ]


def _acknowledgements() -> list[dict[str, Any]]:
    many = [[10 * number, 10 * number + 1] for number in range(1, 66)]
    last = 2**40 - 1
    rows: list[tuple[str, str | None, object]] = [
        ("nothing yet", None, [0, []]),
        ("contiguous", None, [41, []]),
        ("everything there is", None, [last, []]),
        ("one hole", None, [41, [[43, 43]]]),
        ("several holes", None, [0, [[2, 5], [7, 7], [9, last]]]),
        ("as many ranges as allowed", None, [3, many[:64]]),
        ("one range too many", "limit", [3, many]),
        ("range that touches", "malformed", [41, [[42, 50]]]),
        ("range that overlaps", "malformed", [41, [[40, 50]]]),
        ("ranges that touch", "malformed", [0, [[2, 5], [6, 7]]]),
        ("ranges that overlap", "malformed", [0, [[2, 5], [4, 7]]]),
        ("ranges that descend", "malformed", [0, [[7, 8], [2, 5]]]),
        ("range that is empty", "malformed", [0, [[5, 4]]]),
        ("range from zero", "malformed", [0, [[0, 4]]]),
        ("range of one number", "malformed", [0, [[2]]]),
        ("negative", "malformed", [-1, []]),
        ("beyond 63 bits", "malformed", [2**63, []]),
        ("no ranges", "malformed", [41]),
    ]
    entries: list[dict[str, Any]] = [
        {"name": name, "bytes": cbor([INCARNATION, received]).hex(), "code": code} for name, code, received in rows
    ]
    for entry, (_, code, received) in zip(entries, rows, strict=True):
        if code is None:
            entry["incarnation"], entry["received"] = INCARNATION.hex(), received
    entries += [
        {"name": "incarnation of 7 bytes", "bytes": cbor([bytes(7), [0, []]]).hex(), "code": "malformed"},
        {"name": "longer than any", "bytes": cbor([INCARNATION, [0, []], bytes(12_000)]).hex(), "code": "limit"},
    ]
    return entries


def _imprints() -> list[dict[str, Any]]:
    """Return what follows the ranges in an acknowledgement."""
    rows: list[tuple[str, str | None, object]] = [
        ("none", None, []),
        ("of one number", None, [[41, b"abcd"]]),
        ("of a run, and of numbers by themselves", None, [[1, b"abcdABCD"], [4, bytes(4)], [41, b"abcd"]]),
        ("as many as allowed", None, [[1, bytes(range(256)) * 16]]),
        ("one too many", "limit", [[1, bytes(4 * 1_024)], [2_000, b"abcd"]]),
        ("as many runs as allowed", None, [[2 * number, b"abcd"] for number in range(1, 257)]),
        ("one run too many", "limit", [[2 * number, b"abcd"] for number in range(1, 258)]),
        ("of number zero", "malformed", [[0, b"abcd"]]),
        ("beyond all numbers", "malformed", [[2**40 - 1, b"abcdABCD"]]),
        ("of nothing", "malformed", [[41, b""]]),
        ("five bytes", "malformed", [[41, b"abcde"]]),
        ("runs that overlap", "malformed", [[1, b"abcdABCD"], [2, b"abcd"]]),
        ("runs that descend", "malformed", [[4, b"abcd"], [1, b"abcd"]]),
        ("as text", "malformed", [[41, "abcd"]]),
        ("no runs", "malformed", {}),
    ]
    return [
        {"name": name, "bytes": cbor([INCARNATION, [41, []], runs]).hex(), "code": code}
        | ({} if code else {"imprints": [[first, run.hex()] for first, run in runs]})  # type: ignore[attr-defined]
        for name, code, runs in rows
    ]


def _losses() -> list[dict[str, Any]]:
    many = [[10 * number, 10 * number + 1] for number in range(1, 66)]
    last = 2**40 - 1
    rows: list[tuple[str, str | None, object]] = [
        *((reason.name.lower().replace("_", " "), None, [int(reason), [[5, 9]], [[41, 45]]]) for reason in LossReason),
        ("one message", None, [1, [[1, 1]], []]),
        ("all there could be", None, [4, [[1, last]], [[1, last]]]),
        ("several ranges", None, [2, [[1, 4], [6, 6], [9, 20]], [[3, 6], [8, 8]]]),
        ("an earlier incarnation", None, [4, [[5, 9]], [[41, 45]], INCARNATION]),
        ("as many ranges as allowed", None, [1, many[:64], many[:64]]),
        ("one range too many", "limit", [1, many, []]),
        ("one range of numbers too many", "limit", [1, [[5, 9]], many]),
        ("nothing", "malformed", [1, [], []]),
        ("numbers alone", "malformed", [1, [], [[41, 45]]]),
        ("from zero", "malformed", [1, [[0, 4]], []]),
        ("numbers from zero", "malformed", [1, [[5, 9]], [[0, 4]]]),
        ("empty", "malformed", [1, [[5, 4]], []]),
        ("ranges that touch", "malformed", [1, [[5, 9], [10, 12]], []]),
        ("ranges that descend", "malformed", [1, [[8, 9], [5, 6]], []]),
        ("numbers that overlap", "malformed", [1, [[5, 9]], [[41, 43], [43, 45]]]),
        ("reason 0", "malformed", [0, [[5, 9]], []]),
        ("unknown reason", None, [200, [[5, 9]], []]),
        ("reason beyond all", "malformed", [256, [[5, 9]], []]),
        ("a field missing", "malformed", [1, [[5, 9]]]),
        ("a field too many", "malformed", [1, [[5, 9]], [], INCARNATION, 0]),
        ("an incarnation of 7 bytes", "malformed", [1, [[5, 9]], [], INCARNATION[:7]]),
        ("negative", "malformed", [1, [[-5, 9]], []]),
        ("longer than any", "limit", [1, [[5, 9]], [], bytes(2_560)]),
    ]
    return [
        {"name": name, "bytes": cbor(fields).hex(), "code": code}
        | ({"loss": _readable(fields)} if code is None else {})
        for name, code, fields in rows
    ]


def _readable(fields: object) -> list[object]:
    assert isinstance(fields, list)
    return [field.hex() if isinstance(field, bytes) else field for field in fields]


def _forwards() -> list[dict[str, Any]]:
    to, longest = BOB.signing_public, bytes(MAXIMUM_BOARD_MESSAGE_BYTES)
    rows: list[tuple[str, str | None, object]] = [
        ("an envelope", None, [to, b"an envelope"]),
        ("an empty one", None, [to, b""]),
        ("the longest", None, [to, longest]),
        ("a byte too long", "limit", [to, longest + b"\0"]),
        ("longer than any", "limit", [to, bytes(9_000)]),
        ("for a key of 31 bytes", "malformed", [to[:31], b"an envelope"]),
        ("for nobody", "malformed", [b"an envelope"]),
        ("an envelope as text", "malformed", [to, "an envelope"]),
        ("a field too many", "malformed", [to, b"an envelope", 0]),
    ]
    return [
        {"name": name, "bytes": cbor(fields).hex(), "code": code}
        | ({"to": "bob", "envelope": fields[1].hex()} if code is None else {})  # type: ignore[index]
        for name, code, fields in rows
    ]


def _ephemerals() -> list[dict[str, Any]]:
    longest = bytes(MAXIMUM_EPHEMERAL_BYTES)
    rows: list[tuple[str, str | None, list[object]]] = [
        ("a word", None, [NOW_US, b"typing"]),
        ("nothing", None, [0, b""]),
        ("the longest", None, [2**63 - 1, longest]),
        ("a byte too long", "limit", [NOW_US, longest + b"\0"]),
        ("longer than any", "limit", [NOW_US, bytes(2_000)]),
        ("as text", "malformed", [NOW_US, "typing"]),
        ("at no time", "malformed", [b"typing"]),
        ("before 1970", "malformed", [-1, b"typing"]),
        ("a field too many", "malformed", [NOW_US, b"typing", 0]),
    ]
    return [
        {"name": name, "bytes": cbor(fields).hex(), "code": code}
        | ({"said_at_us": fields[0], "content": bytes(fields[1]).hex()} if code is None else {})  # type: ignore[call-overload]  # bytes
        for name, code, fields in rows
    ]


def make() -> dict[str, Any]:
    """Return the file."""
    refused = [{"name": name, "bytes": raw.hex(), "code": code} for name, code, raw in _refused()]
    return {
        "about": "Sections 5 to 7, 19 and 30.",
        "keys": keys(),
        "vectors": _valid() + refused,
        "acknowledgements": _acknowledgements(),
        "imprints": _imprints(),
        "losses": _losses(),
        "forwards": _forwards(),
        "ephemerals": _ephemerals(),
    }
