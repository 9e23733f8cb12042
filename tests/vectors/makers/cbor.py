"""cbor.json: what the strict reader accepts, byte for byte, and what it refuses and how."""

from __future__ import annotations

from typing import Any

from tests.vectors import to_json

# Values with their encodings from RFC 8949, appendix A, where it has them; the others by hand.
ACCEPTED: list[tuple[str, object, str]] = [
    ("zero", 0, "00"),
    ("the largest in the head", 23, "17"),
    ("one byte", 24, "1818"),
    ("one byte, largest", 255, "18ff"),
    ("two bytes", 256, "190100"),
    ("two bytes, largest", 65_535, "19ffff"),
    ("four bytes", 65_536, "1a00010000"),
    ("four bytes, largest", 2**32 - 1, "1affffffff"),
    ("eight bytes", 2**32, "1b0000000100000000"),
    ("the largest", 2**63 - 1, "1b7fffffffffffffff"),
    ("minus one", -1, "20"),
    ("minus one hundred", -100, "3863"),
    ("the smallest", -(2**63), "3b7fffffffffffffff"),
    ("no bytes", b"", "40"),
    ("bytes", bytes.fromhex("01020304"), "4401020304"),
    ("24 bytes", bytes(24), "5818" + "00" * 24),
    ("no text", "", "60"),
    ("text", "IETF", "6449455446"),
    ("text, escaped", '"\\', "62225c"),
    ("text of two bytes", "\u00fc", "62c3bc"),
    ("text of four bytes", "\U00010151", "64f0908591"),
    ("empty array", [], "80"),
    ("nested array", [1, [2, 3], [4, 5]], "8301820203820405"),
    ("25 items", list(range(1, 26)), "98190102030405060708090a0b0c0d0e0f101112131415161718181819"),
    ("empty map", {}, "a0"),
    ("map by integer", {1: 2, 3: 4}, "a201020304"),
    ("map by text", {"a": 1, "b": [2, 3]}, "a26161016162820203"),
    ("map by text, shorter key first", {"b": 1, "aa": 2}, "a2616201626161" + "02"),
    ("map by bytes", {b"\x00": 1, b"\x01": 2}, "a2410001410102"),
    ("false", False, "f4"),
    ("true", True, "f5"),
    ("null", None, "f6"),
    ("nested as deep as allowed", [[[[[[[[1]]]]]]]], "81" * 8 + "01"),
]

REFUSED: list[tuple[str, str, str]] = [
    ("nothing", "malformed", ""),
    ("a byte after the item", "malformed", "0000"),
    ("an item after the array", "malformed", "8100f6"),
    ("integer not minimal, one byte", "malformed", "1817"),
    ("integer not minimal, two bytes", "malformed", "1900ff"),
    ("integer not minimal, four bytes", "malformed", "1a0000ffff"),
    ("integer not minimal, eight bytes", "malformed", "1b00000000ffffffff"),
    ("negative integer not minimal", "malformed", "3800"),
    ("length not minimal, bytes", "malformed", "5801ff"),
    ("length not minimal, text", "malformed", "780161"),
    ("length not minimal, array", "malformed", "980101"),
    ("length not minimal, map", "malformed", "b8010102"),
    ("integer beyond 63 bits", "malformed", "1b8000000000000000"),
    ("negative integer beyond 63 bits", "malformed", "3b8000000000000000"),
    ("big number", "malformed", "c249010000000000000000"),
    ("tag: time", "malformed", "c11a514b67b0"),
    ("tag: CBOR itself", "malformed", "d9d9f700"),
    ("tag: shared reference", "malformed", "d81c8100"),
    ("half float", "malformed", "f93c00"),
    ("single float", "malformed", "fa47c35000"),
    ("double float", "malformed", "fb3ff199999999999a"),
    ("not a number", "malformed", "f97e00"),
    ("undefined", "malformed", "f7"),
    ("simple value", "malformed", "f0"),
    ("simple value in two bytes", "malformed", "f8ff"),
    ("false in two bytes", "malformed", "f814"),
    ("break alone", "malformed", "ff"),
    ("indefinite bytes", "malformed", "5f41004101ff"),
    ("indefinite text", "malformed", "7f61616162ff"),
    ("indefinite array", "malformed", "9f0102ff"),
    ("indefinite map", "malformed", "bf0102ff"),
    ("reserved head 28", "malformed", "1c"),
    ("reserved head 30", "malformed", "9e"),
    ("text that is not UTF-8", "malformed", "61ff"),
    ("text that is overlong UTF-8", "malformed", "62c080"),
    ("text that is a surrogate", "malformed", "63eda080"),
    ("map with a key twice", "malformed", "a201020103"),
    ("map with a text key twice", "malformed", "a2616101616102"),
    ("map unsorted", "malformed", "a203040102"),
    ("map unsorted by text length", "malformed", "a262616102616201"),
    ("map with two types of key", "malformed", "a201026161" + "03"),
    ("map with integers of both signs, RFC 8949's order", "malformed", "a21818022001"),
    ("map with integers of both signs, RFC 7049's order", "malformed", "a22001181802"),
    ("map with a boolean key", "malformed", "a1f401"),
    ("map with a null key", "malformed", "a1f601"),
    ("map with an array for a key", "malformed", "a1810102"),
    ("map with a map for a key", "malformed", "a1a001"),
    ("map without its last value", "malformed", "a101"),
    ("cut inside a head", "malformed", "1901"),
    ("cut inside bytes", "malformed", "44010203"),
    ("cut inside text", "malformed", "6461"),
    ("cut inside an array", "malformed", "820102"[:4]),
    ("lying length: bytes of 4 GiB", "malformed", "5affffffff00"),
    ("lying length: text of 16 EiB", "malformed", "7bffffffffffffffff61"),
    ("lying length: array of 2**32", "malformed", "9affffffff00"),
    ("lying length: array of 2**64 - 1", "malformed", "9bffffffffffffffff00"),
    ("lying length: map of 2**63", "malformed", "bb800000000000000000"),
    ("nested one too deep", "limit", "81" * 9 + "01"),
    ("nested one too deep, empty", "limit", "81" * 8 + "80"),
    ("nested far too deep", "limit", "81" * 500 + "01"),
    ("nested maps", "limit", "a100" * 9 + "00"),
]


def make() -> dict[str, Any]:
    """Return the file."""
    vectors: list[dict[str, Any]] = [
        {"name": name, "bytes": encoded, "code": None, "value": to_json(value)} for name, value, encoded in ACCEPTED
    ]
    vectors += [{"name": name, "bytes": encoded, "code": code} for name, code, encoded in REFUSED]
    vectors.append(
        {"name": "as many items as allowed", "bytes": "99ffff", "bytes_repeat": ["00", 65_535], "code": None}
    )
    vectors.append(
        {"name": "one item too many", "bytes": "9a00010000", "bytes_repeat": ["00", 65_536], "code": "limit"}
    )
    return {"about": "Section 1. Read with a maximum of 1,000,000 bytes.", "vectors": vectors}
