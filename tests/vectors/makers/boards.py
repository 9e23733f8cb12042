"""boards.json: messages of the line, datagrams, results that boards sign, and firmware that they take or refuse."""

from __future__ import annotations

from typing import Any

from covey.core import crypto
from covey_boards.images import read_image, sign_image, write_image
from covey_boards.shared import line_orders, messages
from covey_boards.shared.datagrams import Datagrams
from tests.vectors.makers.cast import ALICE, BOB, MALLORY, NOW_US, cbor, keys, seeded

_RESULT_DOMAIN = b"covey/1 board result"
_KEY, _GROUP, _ENVELOPE, _SIGNATURE = (
    seeded("key"),
    seeded("group"),
    b"\x83\x01\x41\x00\x41\x00",
    seeded("signature", 64),
)

_MESSAGES: list[tuple[str, bytes, str | None]] = [
    ("IDENTIFY", cbor([1, _KEY, _GROUP, _SIGNATURE, bytes(32), "covey-board 0.2.0"]), None),
    ("CARRY", cbor([2, _KEY, _ENVELOPE]), None),
    ("ALARM", cbor([8, _KEY, _ENVELOPE]), None),
    ("ALARM with a number", cbor([8, _KEY, _ENVELOPE, 1]), "malformed"),
    ("REPORT", cbor([3, [["readings", 7]]]), None),
    ("TROUBLE", cbor([4, "covey.json: what of intervall?"]), None),
    ("RESULT", cbor([5, b"result", _SIGNATURE]), None),
    ("PROGRESS", cbor([6, _KEY, 0, 1_024, ""]), None),
    ("PROGRESS in a state that is none", cbor([6, _KEY, 5, 1_024, ""]), "malformed"),
    ("SLEEP", cbor([7, 600_000]), None),
    ("SLEEP that has ended", cbor([7, 0]), None),
    ("SLEEP of more than a day", cbor([7, 86_400_001]), "malformed"),
    ("SLEEP without an end", cbor([7]), "malformed"),
    ("TIME", cbor([16, 1_789_000_000_000_000, True]), None),
    ("ENROL", cbor([17, _GROUP, _KEY, _KEY]), None),
    ("DELIVER", cbor([18, _ENVELOPE]), None),
    ("RESTART", cbor([19]), None),
    ("OPERATORS", cbor([20, 2, [_KEY, _GROUP]]), None),
    ("OPERATORS of whom five are needed", cbor([20, 5, [_KEY]]), "malformed"),
    ("ORDER", cbor([21, [b"operation", b"approval"]]), None),
    ("FIRMWARE", cbor([22, b"announced"]), None),
    ("PART", cbor([23, 1_024, b"contents"]), None),
    ("of no kind", cbor([99]), "malformed"),
    ("no array", cbor("SLEEP"), "malformed"),
]


def _datagrams() -> list[dict[str, Any]]:
    hello, data = bytes.fromhex("00020107") + seeded("hello", 20).replace(b"\0", b"\1") + b"\0", b"\0\3ab\0"
    first, other = Datagrams(b"strm"), Datagrams(b"next")
    one, two, three = (first.wrapped(each) for each in (hello, data, data))
    cases = [
        ("a stream begins with a HELLO", one, hello),
        ("the next but one of it", three, data),
        ("one that was overtaken", two, b""),
        ("one that comes twice", three, b""),
        ("another stream that begins with none", other.wrapped(data), b""),
        ("another stream", other.wrapped(hello), hello),
        ("what is left of the one before", first.wrapped(data), b""),
        ("too short", b"strm\1", b""),
    ]
    receiver = Datagrams(b"here")
    for name, raw, frames in cases:
        assert receiver.frames_of(raw) == frames, name
    return [{"name": name, "bytes": raw.hex(), "frames": frames.hex(), "code": None} for name, raw, frames in cases]


def _results() -> list[dict[str, Any]]:
    done = cbor([seeded("order"), 2, 0, b"3 litres", False, *3 * [NOW_US], True, "", ""])
    signed = crypto.sign(_RESULT_DOMAIN, done, BOB)
    entries = [
        ("done", signed, None),
        ("signed under another domain", crypto.sign(b"covey/1 board", done, BOB), "signature"),
    ]
    entries.append(("signed by another board", crypto.sign(_RESULT_DOMAIN, done, MALLORY), "signature"))
    return [
        {"name": name, "board": "bob", "bytes": done.hex(), "signature": signature.hex(), "code": code}
        for name, signature, code in entries
    ]


def _firmware() -> list[dict[str, Any]]:
    files = {"core.py": b"new core " * 100, "messages.py": b"SOFTWARE = 'newer'\n"}
    alone = write_image(files, "", 0, ALICE)
    cases = [
        ("signed by one, and one is needed", alone, 1, ""),
        ("signed by one of two", alone, 2, "1 of 2 operators have signed it"),
        ("signed by one of two and a stranger", sign_image(alone, MALLORY), 2, "1 of 2 operators have signed it"),
        ("signed by two of two", sign_image(alone, BOB), 2, ""),
        ("signed by a stranger", write_image(files, "", 0, MALLORY), 1,
         "it is signed by none of the operators that this board has pinned"),
    ]  # fmt: skip
    return [
        {
            "name": name,
            "pinned": ["alice", "bob"],
            "threshold": threshold,
            "bytes": raw.hex(),
            "announced": read_image(raw).announced.hex(),
            "digest": read_image(raw).digest.hex(),
            "outcome": "refused" if why else None,
            "why": why,
        }
        for name, raw, threshold, why in cases
    ]


def make() -> dict[str, Any]:
    """Return the file's content."""
    return {
        "keys": keys(),
        "messages": [{"name": name, "bytes": raw.hex(), "code": code} for name, raw, code in _MESSAGES],
        "datagrams": _datagrams(),
        "results": _results(),
        "firmware": _firmware(),
    }


assert messages.IDENTIFY == 1, "the numbers above"
assert line_orders.SLEEP == 7, "the numbers above"
