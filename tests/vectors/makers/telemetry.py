"""telemetry.json: batches with the readings that went in and those that come out."""

from __future__ import annotations

import struct
import zlib
from typing import Any

from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, Value, numbered
from covey.core.telemetry.decoding import read_telemetry
from tests.vectors import to_json
from tests.vectors.makers.cast import BOOT_ID, NOW_US, cbor

_NUMBERS = {3: 23, 4: 24, 5: 256, 6: 65_536, 7: 2**32, 8: 2**63 - 1}
"""Of some batches: where their encoding gets longer."""

Row = tuple[str, str, int, Value]
_BOOTED_US = 3_600_000_000  # one hour before the anchor
_SYNCHRONISED = ClockReading(BOOT_ID, _BOOTED_US, NOW_US, ClockKind.SYNCHRONISED)
_UNSYNCHRONISED = ClockReading(BOOT_ID, _BOOTED_US, 1_000_000, ClockKind.UNSYNCHRONISED)
_ASSERTED = ClockReading(BOOT_ID, _BOOTED_US, NOW_US, ClockKind.ASSERTED)


def _batches() -> list[tuple[str, ClockReading, list[Row]]]:
    at = _BOOTED_US - 60_000_000
    minute: list[Row] = [
        ("urn:dev:mac:0024befffe804ff1:temperature", "Cel", at + second * 1_000_000, 20.0 + (second // 7) / 10)
        for second in range(60)
    ]
    return [
        ("no readings", _SYNCHRONISED, []),
        ("one decimal", _SYNCHRONISED, [("temperature", "Cel", at, 21.5)]),
        ("a whole number", _SYNCHRONISED, [("count", "", at, 7), ("count", "", at + 1, -7.0)]),
        ("a minute of a slow sensor", _SYNCHRONISED, minute),
        ("nine places", _SYNCHRONISED, [("lat", "lat", at, 48.123456789), ("lat", "lat", at, -0.000000001)]),
        ("floats", _SYNCHRONISED, [("x", "", at + place, value) for place, value in enumerate([0.1, 1 / 3, 2.5e-10])]),
        (
            "floats at the edges",
            _SYNCHRONISED,
            [("x", "", at, value) for value in (5e-324, -1.7976931348623157e308, 1.7976931348623157e308, 2.0**53, 0.0)],
        ),
        ("largest decimals", _SYNCHRONISED, [("n", "", at, 2.0**53 - 1), ("n", "", at, 1 - 2.0**53)]),
        ("whole numbers that no double holds", _SYNCHRONISED, [("n", "", at, 2**53 + 1), ("n", "", at, 1 - 2**61)]),
        ("booleans", _SYNCHRONISED, [("door", "", at, True), ("door", "", at + 5, False), ("door", "", at + 9, True)]),
        (
            "text",
            _SYNCHRONISED,
            [("state", "", at, "idle"), ("state", "", at, ""), ("state", "", at, "\u00fc\U0001f426")],
        ),
        ("data", _SYNCHRONISED, [("raw", "", at, b"\x00\xff"), ("raw", "", at, b"")]),
        (
            "every kind under one name",
            _UNSYNCHRONISED,
            [
                ("m", "", at, b"\x01"),
                ("m", "", at, "one"),
                ("m", "", at, True),
                ("m", "", at, 1.5),
                ("m", "W", at, 1 / 3),
            ],
        ),
        ("an unsynchronised clock", _UNSYNCHRONISED, [("t", "Cel", at, 1.5), ("t", "Cel", _BOOTED_US, 2.5)]),
        (
            "wall times of the application",
            _ASSERTED,
            [("t", "Cel", NOW_US - 86_400_000_000, 1.5), ("t", "Cel", 0, 2.5)],
        ),
        ("times that go back and forth", _ASSERTED, [("t", "", time, 0.0) for time in (2**59 - 1, 0, 2**58, 1)]),
        ("the longest name and unit", _SYNCHRONISED, [("n" * 128, "u" * 32, at, 1.0)]),
    ]


def _columns(**changed: object) -> list[object]:
    """Two decimals, one boolean, one float and one text; as `_outer` wraps them."""
    fields: dict[str, object] = {
        "shape": b"\x02\x04\x14\x02\x29\x3d",
        "times": b"\xd0\x0f\x01\x00",
        "numbers": b"\x1e\x02\x02",
        "floats": struct.pack("<d", 0.1),
        "texts": ["x"],
    }
    fields.update(changed)
    return list(fields.values())


_NAMES = ["d", "", "b", "", "f", "", "t", ""]


def _outer(columns: list[object] | bytes, **changed: object) -> bytes:
    inside = columns if isinstance(columns, bytes) else cbor(columns)
    fields: dict[str, object] = {
        "format": 1,
        "boot_id": BOOT_ID,
        "clock": 0,
        "monotonic": _BOOTED_US,
        "wall": NOW_US,
        "names": cbor(_NAMES),
        "inflated": 0,
        "packed": inside,
    }
    fields.update(changed)
    return numbered(1, cbor(list(fields.values())))


def _named(*texts: object) -> dict[str, bytes]:
    return {"names": cbor([*texts, *_NAMES[len(texts) :]])}


def _deflate(content: bytes) -> bytes:
    return zlib.compress(content, 9, -15)


def _refused() -> list[tuple[str, str, bytes]]:
    inside = cbor(_columns())
    deflated = _deflate(inside)
    bomb = _deflate(bytes(2_000_000))
    said = {"inflated": len(inside)}
    unshaped = _columns()
    return [
        ("zip bomb that says its size", "malformed", _outer(inside, packed=bomb, inflated=2_000_000)),
        ("zip bomb that lies about its size", "limit", _outer(inside, **said, packed=bomb)),
        ("inflates to one byte more", "limit", _outer(inside, **said, packed=_deflate(inside + b"\x00"))),
        ("inflates to one byte less", "malformed", _outer(inside, **said, packed=_deflate(inside[:-1]))),
        ("deflate stream cut", "malformed", _outer(inside, **said, packed=deflated[:-3])),
        ("something after the deflate stream", "malformed", _outer(inside, **said, packed=deflated + b"\x00")),
        ("not a deflate stream", "malformed", _outer(inside, **said, packed=b"\xff" * 20)),
        ("nothing where a deflate stream should be", "malformed", _outer(inside, **said, packed=b"")),
        ("a length of what is not packed", "malformed", _outer(inside, inflated=len(inside))),
        ("unknown format", "malformed", _outer(inside, format=2)),
        ("unknown clock", "malformed", _outer(inside, clock=3)),
        ("boot id of 7 bytes", "malformed", _outer(inside, boot_id=bytes(7))),
        ("time before the epoch", "malformed", _outer(inside, wall=-1)),
        ("more readings than allowed", "limit", _outer(_columns(shape=b"\x02\x80\xfa\x01\x14\x02\x29\x3d"))),
        ("a field missing", "malformed", cbor([1, [1, BOOT_ID, 0, 0, 0, b"\x80", 0]])),
        ("no number", "malformed", _outer(inside)[2:]),
        ("number 0", "malformed", b"\x82\x00" + _outer(inside)[2:]),
        ("a negative number", "malformed", b"\x82\x20" + _outer(inside)[2:]),
        ("a number that is not minimal", "malformed", b"\x82\x18\x01" + _outer(inside)[2:]),
        ("a number and no batch", "malformed", cbor([1])),
        ("a batch as bytes", "malformed", cbor([1, _outer(inside)[2:]])),
        ("something after the batch", "malformed", b"\x83\x01" + _outer(inside)[2:] + b"\x00"),
        ("an alarm of no kind", "malformed", b"\x83" + _outer(inside)[1:] + cbor({1: 0})),
        ("an alarm in words", "malformed", b"\x83" + _outer(inside)[1:] + cbor({1: "on"})),
        ("an alarm of 256", "malformed", b"\x83" + _outer(inside)[1:] + cbor({1: 256})),
        ("columns not deterministic", "malformed", _outer(b"\x98\x05" + inside[1:])),
        ("a byte after the columns", "malformed", _outer(inside + b"\x00")),
        ("a column missing", "malformed", _outer(unshaped[:2])),
        ("a column too many", "malformed", _outer([*unshaped, []])),
        ("floats and no texts", "malformed", _outer(unshaped[:4])),
        ("one time too few", "malformed", _outer(_columns(times=b"\xd0\x0f\x01"))),
        ("one time too many", "malformed", _outer(_columns(times=b"\xd0\x0f\x01\x00\x00"))),
        ("one number too few", "malformed", _outer(_columns(numbers=b"\x1e\x02"))),
        ("one number too many", "malformed", _outer(_columns(numbers=b"\x1e\x02\x02\x02"))),
        ("a number that does not end", "malformed", _outer(_columns(numbers=b"\x1e\x02\x02\x82"))),
        ("a number in two bytes that needs one", "malformed", _outer(_columns(numbers=b"\x9e\x00\x02\x02"))),
        ("a number of ten bytes", "malformed", _outer(_columns(numbers=b"\xff" * 9 + b"\x01\x02\x02"))),
        ("one float too few", "malformed", _outer(_columns(floats=b""))),
        ("half a float", "malformed", _outer(_columns(floats=bytes(4)))),
        ("one text too many", "malformed", _outer(_columns(texts=["x", "y"]))),
        ("bytes where text should be", "malformed", _outer(_columns(texts=[b"x"]))),
        ("a number where text should be", "malformed", _outer(_columns(texts=[1]))),
        ("text longer than allowed", "limit", _outer(_columns(texts=["x" * 4097]))),
        ("series out of order", "malformed", _outer(_columns(shape=b"\x14\x02\x02\x04\x29\x3d"))),
        ("series without a name", "malformed", _outer(inside, **_named(""))),
        ("series without readings", "malformed", _outer(_columns(shape=b"\x02\x00\x14\x02\x29\x3d"))),
        ("series of an unknown kind", "malformed", _outer(_columns(shape=b"\x02\x04\x14\x02\x29\x64\x02"))),
        ("places of a boolean", "malformed", _outer(_columns(shape=b"\x02\x04\x16\x02\x29\x3d"))),
        ("a first series like the one before", "malformed", _outer(_columns(shape=b"\x03\x14\x02\x29\x3d"))),
        ("a count that does not end", "malformed", _outer(_columns(shape=b"\x02\x04\x14\x02\x29\x3c\x82"))),
        ("a count in two bytes that needs one", "malformed", _outer(_columns(shape=b"\x02\x84\x00\x14\x02\x29\x3d"))),
        ("a negative count", "malformed", _outer(_columns(shape=b"\x02\x01\x14\x02\x29\x3d"))),
        ("fewer series than names", "malformed", _outer(_columns(shape=b"\x02\x04\x14\x02\x29"))),
        ("more series than names", "malformed", _outer(_columns(shape=b"\x02\x04\x14\x02\x29\x3d\x3d"))),
        ("a name without a unit", "malformed", _outer(inside, names=cbor(_NAMES[:-1]))),
        ("names that are not deterministic", "malformed", _outer(inside, names=b"\x98\x08" + cbor(_NAMES)[1:])),
        ("a number where a name should be", "malformed", _outer(inside, **_named(1))),
        ("name of 129 bytes", "limit", _outer(inside, **_named("d" * 129))),
        ("unit of 33 bytes", "limit", _outer(inside, **_named("d", "u" * 33))),
        (
            "1,025 series",
            "limit",
            _outer(
                [b"\x00\x02" + b"\x01" * 1_024, b"\x00", bytes(1_025)],
                names=cbor(["d", ""] * 1_025),
            ),
        ),
    ]


def make() -> dict[str, Any]:
    """Return the file."""
    vectors: list[dict[str, Any]] = []
    for place, (name, clock, rows) in enumerate(_batches()):
        builder = BatchBuilder()
        for row in rows:
            builder.add(*row)
        body = numbered(_NUMBERS.get(place, place + 1), builder.body(clock))
        vectors.append(_described(name, body) | {"readings": to_json(rows)})
    for name, alarm in (
        ("an alarm begins", 1),
        ("an alarm ends", 2),
        ("an alarm without an end", 3),
        ("an alarm of a newer kind", 9),
    ):
        vectors.append(_described(name, b"\x83" + _outer(_columns())[1:] + cbor({1: alarm})))
    vectors.append(_described("a field that a newer device adds", b"\x83" + _outer(_columns())[1:] + cbor({3: "x"})))
    vectors.append(_described("five series by hand", _outer(_columns())))
    inside = cbor(_columns())
    vectors.append(_described("deflated by hand", _outer(inside, inflated=len(inside), packed=_deflate(inside))))
    vectors.append(_described("a boolean of 2 is true", _outer(_columns(numbers=b"\x1e\x02\x04"))))
    empty: list[object] = [b"\x00\x02", b"\x00", b"\x0e", b"", []]
    vectors.append(_described("empty columns that are not left out", _outer(empty, names=cbor(["n", ""]))))
    refused = [{"name": name, "bytes": raw.hex(), "code": code} for name, code, raw in _refused()]
    return {
        "about": "Sections 11 and 12. `readings` went in; `decoded` comes out, in index order, "
        "as [name, unit, wall time in microseconds, value]. What a deflate stream looks like is the sender's choice.",
        "vectors": vectors + refused,
    }


def _described(name: str, body: bytes) -> dict[str, Any]:
    number, batch = read_telemetry(body)
    return {
        "name": name,
        "number": number,
        "clock": {
            "boot_id": batch.clock.boot_id.hex(),
            "monotonic_us": batch.clock.monotonic_us,
            "wall_us": batch.clock.wall_us,
            "kind": int(batch.clock.kind),
        },
        "bytes": body.hex(),
        "series": [[each.name, each.unit, int(each.kind), each.scale, each.count] for each in batch.series],
        "alarm": 0 if batch.alarm is None else int(batch.alarm),
        "decoded": to_json(list(batch.readings())),
        "code": None,
    }
