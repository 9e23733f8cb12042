"""receipts.json: a batch whose readings can be proven, its receipts, and what proves nothing (section 38).

`alice` is the device; `body` is that of the message in which she sent the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from covey.core import crypto
from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, numbered
from covey.core.telemetry.decoding import read_batch
from covey.core.vault import receipts
from covey.core.vault.receipts import SALT_BYTES, sign_rows, write_receipt
from covey.core.wire.cbor import decode
from tests.vectors import to_json
from tests.vectors.makers.cast import ALICE, BOB, BOOT_ID, NOW_US, cbor, keys, seeded

_SALT = seeded("rows", SALT_BYTES)
_BOOTED_US = 3_600_000_000
_CLOCK = ClockReading(BOOT_ID, _BOOTED_US, NOW_US, ClockKind.SYNCHRONISED)
_FIELDS = ("head", "signature", "statement", "index", "salt", "row", "path", "manifest")
_ALTERED = 1
"""The reading whose receipt the refused ones are made of."""


def _batch() -> bytes:
    builder = BatchBuilder()
    at = _BOOTED_US - 60_000_000
    for second, value in enumerate((20.5, 20.75, -3.0)):
        builder.add("temperature", "Cel", at + second * 1_000_000, value)
    builder.add("counter", "", at, 2**60)
    builder.add("door", "", at, True)
    builder.add("ratio", "", at, 1 / 3)
    builder.add("state", "", at, "gr\u00fcn")
    builder.add("raw", "", at, b"\0\xff")
    return builder.body(_CLOCK)


def _receipt(index: int) -> bytes:
    batch = _batch()
    return write_receipt(ALICE.signing_public, read_batch(batch), sign_rows(ALICE, batch, _SALT), index)


def _refused() -> Iterator[tuple[str, str, bytes]]:
    fields = dict(zip(_FIELDS, decode(_receipt(_ALTERED), 2048), strict=True))
    row, path = fields["row"], fields["path"]
    name, unit, kind, scale, time_us, value = decode(row, 2048)

    def receipt(**changed: object) -> bytes:
        assert changed.keys() <= fields.keys()
        return cbor([*(fields | changed).values()])

    def changed_row(*changed: object) -> bytes:
        return receipt(row=cbor([*changed]))

    yield "another value", "malformed", changed_row(name, unit, kind, scale, time_us, value + 1)
    yield "another scale", "malformed", changed_row(name, unit, kind, scale - 1, time_us, value)
    yield "another time", "malformed", changed_row(name, unit, kind, scale, time_us + 1, value)
    yield "another name", "malformed", changed_row("pressure", unit, kind, scale, time_us, value)
    yield "another place", "malformed", receipt(index=0)
    yield "a place beyond the batch", "malformed", receipt(index=8)
    yield "the last place that any batch has", "malformed", receipt(index=15_999)
    yield "another salt", "malformed", receipt(salt=bytes(SALT_BYTES))
    yield "a short path", "malformed", receipt(path=path[:-1])
    yield "a long path", "malformed", receipt(path=[*path, bytes(32)])
    yield "a turned path", "malformed", receipt(path=path[::-1])
    yield "a path that is no list", "malformed", receipt(path=b"".join(path))
    yield "a path of halves", "malformed", receipt(path=[each[:16] for each in path])
    yield "an inner node in the place of a leaf", "malformed", receipt(salt=path[1][:16], row=path[1][16:])
    yield "another beginning", "malformed", receipt(head="covey/1 receipts")
    yield "one field more", "malformed", cbor([*fields.values(), 0])
    yield "bytes after it", "malformed", receipt() + b"\0"
    yield "nothing", "malformed", b""
    yield "longer than a receipt may be", "limit", receipt(row=bytes(2_000))
    yield "another place in a batch of one", "malformed", _alone(row, 1)
    long = cbor(["n", "", 3, 0, 1, "x" * 1_200])
    assert len(_alone(long)) < 2_048
    yield "longer with its extension map", "limit", cbor([*decode(_alone(long), 2_048), {1: bytes(900)}])
    yield "another signature", "signature", receipt(signature=bytes(64))
    yield "a statement that nobody signed", "signature", receipt(statement=fields["statement"][:-1] + b"\0")
    of_bob = crypto.sign(b"covey/1 rows", fields["statement"], BOB)
    yield "a signature of another device", "signature", receipt(signature=of_bob)
    of_message = crypto.sign(b"covey/1 message", fields["statement"], ALICE)
    yield "a signature under another domain", "signature", receipt(signature=of_message)
    yield "a field that must be understood", "unsupported", cbor([*fields.values(), {2: 5}])
    for what, statement in (
        ("a statement of another version", [2, ALICE.signing_public, BOOT_ID, 0, 0, 0, 1, bytes(32)]),
        ("a statement of no readings", [1, ALICE.signing_public, BOOT_ID, 0, 0, 0, 0, bytes(32)]),
        ("a statement of another clock", [1, ALICE.signing_public, BOOT_ID, 3, 0, 0, 1, bytes(32)]),
    ):
        yield what, "malformed", _signed(cbor(statement), row)
    named = cbor([1, BOB.signing_public, BOOT_ID, 0, 0, 0, 1, receipts._leaf(bytes(SALT_BYTES), row)])
    yield "a statement that names another device", "signature", _signed(named, row)
    for what, shape in (
        ("a reading without a name", ["", "u", 0, 0, 1, 1]),
        ("a reading of an unknown kind", ["n", "u", 5, 0, 1, 1]),
        ("a boolean with a scale", ["n", "u", 1, 1, 1, True]),
        ("a scale of ten", ["n", "u", 0, 10, 1, 1]),
        ("a decimal that is text", ["n", "u", 0, 0, 1, "1"]),
        ("a boolean that is a number", ["n", "u", 1, 0, 1, 1]),
        ("a float that is infinite", ["n", "u", 2, 0, 1, b"\x7f\xf0" + bytes(6)]),
        ("a float of seven bytes", ["n", "u", 2, 0, 1, bytes(7)]),
        ("text that is bytes", ["n", "u", 3, 0, 1, b"text"]),
        ("data that is text", ["n", "u", 4, 0, 1, "data"]),
        ("a time that is text", ["n", "u", 0, 0, "1", 1]),
        ("a unit that is a number", ["n", 1, 0, 0, 1, 1]),
        ("a reading without a value", ["n", "u", 0, 0, 1]),
    ):
        yield f"{what}, though its device signed it", "malformed", _alone(cbor(shape))


def _alone(row: bytes, index: int = 0) -> bytes:
    """Return a receipt of a batch of one reading, whatever that is."""
    leaf = receipts._leaf(bytes(SALT_BYTES), row)
    return _signed(cbor([1, ALICE.signing_public, BOOT_ID, 0, 0, 0, 1, leaf]), row, index)


def _signed(statement: bytes, row: bytes, index: int = 0) -> bytes:
    signature = crypto.sign(b"covey/1 rows", statement, ALICE)
    return cbor(["covey/1 receipt", signature, statement, index, bytes(SALT_BYTES), row, [], None])


def make() -> dict[str, Any]:
    """Return the file."""
    batch = _batch()
    accepted = [
        {
            "name": f"reading {index}: {name}",
            "code": None,
            "bytes": _receipt(index).hex(),
            "reading": [name, unit, time_us, to_json(value)],
        }
        for index, (name, unit, time_us, value) in enumerate(read_batch(batch).readings())
    ]
    grown = cbor([*decode(_receipt(_ALTERED), 2048), {1: 5}])
    accepted.append(accepted[_ALTERED] | {"name": "a field that nobody knows", "bytes": grown.hex()})
    refused = [{"name": name, "code": code, "bytes": raw.hex()} for name, code, raw in _refused()]
    return {
        "keys": keys(),
        "salt": _SALT.hex(),
        "body": numbered(1, batch, None, sign_rows(ALICE, batch, _SALT)).hex(),
        "vectors": [*accepted, *refused],
    }
