"""summaries.json: bodies of SUMMARY messages and what they say."""

from __future__ import annotations

import zlib
from typing import Any

from covey.core.telemetry.batch import BatchBuilder, ClockKind, ClockReading, Value
from covey.core.telemetry.decoding import read_batch
from covey.core.telemetry.summaries import Summariser, read_summary, summary_body
from covey.core.wire import cbor as wire
from covey.core.wire.deflate import inflate
from tests.vectors import to_json
from tests.vectors.makers.cast import BOOT_ID, NOW_US, cbor

_BOOTED_US = 3_600_000_000
_CLOCK = ClockReading(BOOT_ID, _BOOTED_US, NOW_US, ClockKind.SYNCHRONISED)
_MINUTE = 60_000_000
Row = tuple[str, str, int, Value]


def _kinds() -> list[tuple[str, ClockReading, int, list[Row]]]:
    at = _BOOTED_US - 10 * _MINUTE
    slow: list[Row] = [("temperature", "Cel", at + place * 20_000_000, 20 + place / 10) for place in range(12)]
    return [
        ("a slow sensor by the minute", _CLOCK, _MINUTE, slow),
        ("by five minutes", _CLOCK, 5 * _MINUTE, slow),
        (
            "doubles",
            _CLOCK,
            _MINUTE,
            [("x", "", at + place, value) for place, value in enumerate((0.1, 1 / 3, -1e300))],
        ),
        ("booleans", _CLOCK, _MINUTE, [("door", "", at + place, place != 1) for place in range(3)]),
        ("counters", _CLOCK, _MINUTE, [("n", "B", at + place, 2**61 - 1 - place) for place in range(100)]),
        (
            "from one end to the other",
            _CLOCK,
            _MINUTE,
            [("n", "", at + place, (1 - 2 * place) * (2**61 - 1)) for place in (0, 1)],
        ),
        ("texts and data", _CLOCK, _MINUTE, [("s", "", at, "idle"), ("s", "", at + 9, ""), ("d", "", at, b"\x00")]),
        (
            "every kind under one name, by an unsynchronised clock",
            ClockReading(BOOT_ID, _BOOTED_US, 1_000_000, ClockKind.UNSYNCHRONISED),
            _MINUTE,
            [
                ("m", "", at, b"\x01"),
                ("m", "", at, "one"),
                ("m", "", at, True),
                ("m", "", at, 1.5),
                ("m", "W", at, 1 / 3),
            ],
        ),
        (
            "wall times of the application",
            ClockReading(BOOT_ID, _BOOTED_US, NOW_US, ClockKind.ASSERTED),
            3_600_000_000,
            [("t", "Cel", NOW_US - 86_400_000_000, 1.5), ("t", "Cel", 0, 2.5)],
        ),
    ]


def _made(clock: ClockReading, window_us: int, rows: list[Row]) -> list[Any]:
    """Return the array of a summary, not compressed: what deflate makes of it is the sender's choice."""
    builder, summariser = BatchBuilder(), Summariser(window_us)
    for row in rows:
        builder.add(*row)
    summariser.add_batch(read_batch(builder.body(clock)))
    fields = wire.decode(summariser.summary().to_wire(), 1_000_000)
    assert isinstance(fields, list)
    if fields[7]:
        fields[9] = inflate(fields[9], fields[8], "summary")
        fields[7] = 0
    return fields


_FIELDS = ("format", "boot_id", "clock", "monotonic", "wall", "window", "windows", "codec", "inflated", "packed")
_COLUMNS = ("series", "firsts", "spans", "counts", "minima", "maxima", "first", "last", "sums", "high", "floats")


def _changed(columns: dict[str, object] | None = None, numbers: object = ((3, 5),), **fields: object) -> bytes:
    """Return a summary of two decimals and a text, in which something is changed."""
    inside = dict(
        zip(
            _COLUMNS,
            [
                [["d", "", 0, 1, 2], ["t", "", 3, 0, 1]],
                [1000, 1, b"\x00\x0a\x00"],
                [5, 1, b"\x00\x00\x00"],
                [2, 1, b"\x00\x01\x00"],
                [15, 1, b"\x00\x00"],
                [7, 1, b"\x00\x00"],
                [0, 1, b"\x00\x00"],
                [7, 1, b"\x00\x00"],
                [7, 1, b"\x00\x02"],
                [0, 1, b"\x00\x00"],
                b"",
            ],
            strict=True,
        )
    )
    packed = cbor(list((inside | (columns or {})).values()))
    values = [1, BOOT_ID, 0, _BOOTED_US, NOW_US, _MINUTE, 3, 0, len(packed), packed]
    outer = dict(zip(_FIELDS, values, strict=True)) | fields
    return cbor([[list(span) for span in numbers], list(outer.values())])  # type: ignore[attr-defined]


def _bomb(size: int) -> bytes:
    """Return at least so many zeros, deflated by hand in one fixed block (RFC 1951, 3.2.6): every library agrees."""
    zero, copy_258_from_1_before, end = "00110000", "11000101" + "00000", "0000000"
    bits = "110" + zero + copy_258_from_1_before * -(-size // 258) + end
    return int(bits[::-1], 2).to_bytes(-(-len(bits) // 8), "little")


def _refused() -> list[tuple[str, str, bytes]]:
    long = [1, 1, b"\x00" * 3]
    return [
        ("no numbers", "malformed", _changed(numbers=())),
        ("number 0", "malformed", _changed(numbers=((0, 2),))),
        ("ranges that touch", "malformed", _changed(numbers=((1, 2), (3, 4)))),
        ("65 ranges", "limit", _changed(numbers=[(3 * place + 1, 3 * place + 2) for place in range(65)])),
        ("another format", "malformed", _changed(format=2)),
        ("a window of no time", "malformed", _changed(window=0)),
        ("a window of more than a month", "malformed", _changed(window=31 * 86_400_000_000 + 1)),
        ("no windows", "malformed", _changed(windows=0)),
        ("more windows than there may be", "malformed", _changed(windows=4_097)),
        ("another number of windows", "malformed", _changed(windows=2)),
        ("a longer column", "malformed", _changed({"minima": long})),
        ("a shorter column", "malformed", _changed({"counts": [2, 1, b"\x00\x01"]})),
        ("series out of order", "malformed", _changed({"series": [["t", "", 3, 0, 1], ["d", "", 0, 1, 2]]})),
        ("a series without windows", "malformed", _changed({"series": [["d", "", 0, 1, 3], ["t", "", 3, 0, 0]]})),
        ("a series without a name", "malformed", _changed({"series": [["", "", 0, 1, 2], ["t", "", 3, 0, 1]]})),
        ("places of a text", "malformed", _changed({"series": [["d", "", 0, 1, 2], ["t", "", 3, 1, 1]]})),
        ("a window without readings", "malformed", _changed({"counts": [0, 1, b"\x00\x01\x00"]})),
        (
            "more readings than a window may have",
            "malformed",
            _changed({"counts": [2**32, 1, bytes(3)], "sums": [7, 1, bytes(2)]}),
        ),
        ("a window that ends before it begins", "malformed", _changed({"spans": [-1, 1, b"\x00\x00\x00"]})),
        ("a first value above the maximum", "malformed", _changed({"first": [8, 1, b"\x00\x00"]})),
        ("a last value below the minimum", "malformed", _changed({"last": [-1, 1, b"\x00\x00"]})),
        ("a sum above what so many readings can have", "malformed", _changed({"sums": [15, 1, b"\x00\x00"]})),
        ("a sum below what one maximum makes", "malformed", _changed({"sums": [6, 1, b"\x00\x00"]})),
        ("floats without a series", "malformed", _changed({"floats": bytes(40)})),
        ("more bytes than it says", "malformed", _changed(inflated=1)),
        ("a bomb", "limit", _changed(codec=1, packed=_bomb(600_000), inflated=524_288)),
    ]


def make() -> dict[str, Any]:
    """Return the file."""
    vectors = []
    for place, (name, clock, window_us, rows) in enumerate(_kinds()):
        numbers = [[1, 12], [14, 14]] if place else [[7, 7]]
        vectors.append(_described(name, cbor([numbers, _made(clock, window_us, rows)])))
    vectors.append(_described("by hand", _changed()))
    fields = _made(_CLOCK, _MINUTE, _kinds()[0][3])
    stored = zlib.compressobj(0, zlib.DEFLATED, -15)
    deflated = stored.compress(fields[9]) + stored.flush()
    vectors.append(
        _described("deflated, of stored blocks", summary_body([(1, 1)], cbor([*fields[:7], 1, fields[8], deflated])))
    )
    refused = [{"name": name, "bytes": raw.hex(), "code": code} for name, code, raw in _refused()]
    return {
        "about": "Section 11, Summaries. Each series is [name, unit, kind, scale, windows], each window "
        "[first time, last time, readings, sum, minimum, maximum, first, last], times as the clock counts them, "
        "values of decimals as integers.",
        "vectors": vectors + refused,
    }


def _described(name: str, body: bytes) -> dict[str, Any]:
    numbers, summary = read_summary(body)
    series = [
        [each.name, each.unit, int(each.kind), each.scale, [list(window) for window in each.windows]]
        for each in summary.series
    ]
    return {
        "name": name,
        "bytes": body.hex(),
        "numbers": to_json([list(span) for span in numbers]),
        "window_us": summary.window_us,
        "series": to_json(series),
        "code": None,
    }
