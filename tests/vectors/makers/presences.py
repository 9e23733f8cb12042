"""presences.json: bodies of PRESENCE, a signed one, and what a receiver makes of several."""

from __future__ import annotations

from typing import Any

from covey.core.ids import GroupId, LinkSeq
from covey.core.presence.status import State
from covey.core.wire.message import MessageType, write_message
from tests.vectors.makers.cast import ALICE, BOB, INCARNATION, NOW_US, cbor, keys

_BEAT = [1_789_000_007, 0, 300, [1_789_000_001, 1_789_000_004]]


def _bodies() -> list[dict[str, Any]]:
    last = 2**63 - 1
    rows: list[tuple[str, str | None, list[Any]]] = [
        ("here, by two relays", None, _BEAT),
        ("here, by as many as allowed", None, [last, 0, 86_400, [*range(1, 8), last - 1]]),
        ("going", None, [8, 1, 300, []]),
        ("asleep, for the longest time", None, [8, 3, 691_200, []]),
        ("a will", None, [4, 2, 1, []]),
        ("one connection too many", "limit", [20, 0, 300, [*range(1, 10)]]),
        ("longer than any", "limit", [20, 0, 300, [1], bytes(128)]),
        ("here without a connection", "malformed", [8, 0, 300, []]),
        ("going with a connection", "malformed", [8, 1, 300, [4]]),
        ("a will with a connection", "malformed", [8, 2, 300, [8]]),
        ("connections that descend", "malformed", [8, 0, 300, [4, 3]]),
        ("a connection twice", "malformed", [8, 0, 300, [4, 4]]),
        ("a connection that is not below the counter", "malformed", [8, 0, 300, [8]]),
        ("no interval", "malformed", [8, 0, 0, [4]]),
        ("asleep with a connection", "malformed", [8, 3, 300, [4]]),
        ("an interval of more than eight days", "malformed", [8, 0, 691_201, [4]]),
        ("unknown state", "malformed", [8, 4, 300, []]),
        ("negative", "malformed", [-8, 0, 300, [4]]),
        ("a field missing", "malformed", [8, 0, 300]),
        ("a field too many", "malformed", [8, 0, 300, [4], 0]),
        ("with what the link has cost", None, [*_BEAT, {1: [81_220, 1_204_877, 2_410_000, [3_000_000, 1]]}]),
        ("the same, asleep, with a budget of each day", None, [8, 3, 3_600, [], {1: [0, 0, None, [20_000, 0]]}]),
        ("a cost without a forecast and a budget", None, [8, 0, 300, [4], {1: [last, last, None, None]}]),
        ("a cost, and what a newer device tells", None, [8, 0, 300, [4], {1: [1, 2, 3, None], 3: "more"}]),
        ("a will with a cost, which tells none", None, [4, 2, 1, [], {1: [1, 2, 3, None]}]),
        ("a negative cost", "malformed", [8, 0, 300, [4], {1: [-1, 2, 3, None]}]),
        ("a cost that is no number of bytes", "malformed", [8, 0, 300, [4], {1: [1.5, 2, 3, None]}]),
        ("a cost beyond any counter", "malformed", [8, 0, 300, [4], {1: [last + 1, last + 1, None, None]}]),
        ("a cost with a field missing", "malformed", [8, 0, 300, [4], {1: [1, 2, 3]}]),
        ("a budget of no bytes", "malformed", [8, 0, 300, [4], {1: [1, 2, 3, [0, 1]]}]),
        ("a budget of a year", "malformed", [8, 0, 300, [4], {1: [1, 2, 3, [100, 2]]}]),
    ]
    return [_body(*each) for each in rows]


def _body(name: str, code: str | None, fields: list[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name, "bytes": cbor(fields).hex(), "code": code}
    if code is not None:
        return found
    reported = fields[4].get(1) if len(fields) > 4 and fields[1] != State.GONE else None
    return found | {"presence": fields[:4], "cost": reported}


def _stories() -> list[dict[str, Any]]:
    """Return presences in order of arrival, each with whether it holds, and the state in the end."""
    rows: list[tuple[str, list[tuple[list[object], bool]], str]] = [
        ("gone by its will", [([7, 0, 300, [4]], True), ([4, 2, 300, []], True)], "gone"),
        ("a will before any beat", [([4, 2, 300, []], False)], "unknown"),
        (
            "a will that is late",
            [([7, 0, 300, [4]], True), ([9, 0, 300, [8]], True), ([4, 2, 300, []], False)],
            "online",
        ),
        (
            "back, and the will replayed",
            [
                ([7, 0, 300, [4]], True),
                ([4, 2, 300, []], True),
                ([9, 0, 300, [8]], True),
                ([4, 2, 300, []], False),
                ([7, 0, 300, [4]], False),
            ],
            "online",
        ),
        ("one of two relays lost", [([7, 0, 300, [4, 5]], True), ([4, 2, 300, []], True)], "online"),
        (
            "both relays lost",
            [([7, 0, 300, [4, 5]], True), ([4, 2, 300, []], True), ([5, 2, 300, []], True)],
            "gone",
        ),
        ("on purpose", [([7, 0, 300, [4]], True), ([8, 1, 300, []], True), ([4, 2, 300, []], False)], "stopped"),
        ("asleep, and a will that is late", [([7, 3, 3_600, []], True), ([4, 2, 300, []], False)], "asleep"),
        ("a beat twice", [([7, 0, 300, [4]], True), ([7, 0, 300, [4]], False)], "online"),
        ("beats in another order", [([8, 1, 300, []], True), ([7, 0, 300, [4]], False)], "stopped"),
    ]
    return [
        {
            "name": name,
            "presences": [{"bytes": cbor(fields).hex(), "holds": holds} for fields, holds in reported],
            "condition": condition,
        }
        for name, reported, condition in rows
    ]


def make() -> dict[str, Any]:
    """Return the file."""
    raw = write_message(
        ALICE,
        MessageType.PRESENCE,
        BOB.signing_public,
        GroupId(bytes(32)),
        INCARNATION,
        0,
        LinkSeq(0),
        NOW_US,
        cbor(_BEAT),
    )
    return {
        "about": "Section 22.",
        "keys": keys(),
        "vectors": [{"name": "a beat", "author": "alice", "recipient": "bob", "bytes": raw.hex(), "code": None}],
        "bodies": _bodies(),
        "stories": _stories(),
    }
