"""heads.json: digests of groups, what is shared, and reports (docs/protocol/groups.md, section 24)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from covey.core.ids import GroupId, ManifestHash, OperationId
from covey.core.wire.heads import GroupHead, agree, head_digest, history_digest, shared_digest
from covey.limits.group import MAXIMUM_GROUPS
from tests.vectors.makers.cast import ALICE, GROUP_ID, cbor, seeded

_ONE, _OTHER = GroupId(GROUP_ID), GroupId(seeded("another group"))


def _digests() -> list[dict[str, Any]]:
    hashes = [ManifestHash(seeded(f"head {number}")) for number in range(3)]
    return [
        {"name": name, "heads": [each.hex() for each in heads], "digest": head_digest(heads).hex()}
        for name, heads in (("one head", hashes[:1]), ("three, in any order", hashes))
    ]


def _histories() -> list[dict[str, Any]]:
    ids = [OperationId(seeded(f"operation {number}")) for number in range(3)]
    rows: tuple[tuple[str, list[OperationId]], ...] = (("nothing was said", []), ("three, in any order", ids))
    return [
        {"name": name, "heads": [each.hex() for each in heads], "digest": history_digest(heads).hex()}
        for name, heads in rows
    ]


def _shared() -> list[dict[str, Any]]:
    one, other = GroupHead(_ONE, 7, seeded("digest", 16)), GroupHead(_OTHER, 9, seeded("other digest", 16))
    said = [replace(each, history=seeded(f"history {each.version}", 16)) for each in (one, other)]
    rows: list[tuple[str, list[GroupHead]]] = [
        ("nothing", []),
        ("one group", [one]),
        ("two groups", [one, other]),
        ("two groups and their histories", said),
    ]
    return [
        {
            "name": name,
            "groups": [
                [each.group_id.hex(), each.digest.hex(), None if each.history is None else each.history.hex()]
                for each in heads
            ],
            "shared": shared_digest(heads).hex(),
        }
        for name, heads in rows
    ]


def _agreements() -> list[dict[str, Any]]:
    mine, theirs, none = seeded("mine", 16), seeded("theirs", 16), bytes(16)
    rows = (
        ("the same", mine + none, mine + none),
        ("other manifests", mine + none, theirs + none),
        ("a version without heads", mine + none, none + none),
        ("a version with histories", mine + none, mine + theirs),
        ("other histories", mine + mine, mine + theirs),
    )
    return [
        {"name": name, "one": one.hex(), "other": other.hex(), "agree": agree(GroupId(one), GroupId(other))}
        for name, one, other in rows
    ]


def _bodies() -> list[dict[str, Any]]:
    head = [_ONE, 7, seeded("digest", 16)]
    many = [[seeded(f"group {number}"), 1, bytes(16)] for number in range(MAXIMUM_GROUPS + 1)]
    rows: list[tuple[str, str | None, object]] = [
        ("nothing", None, [False, []]),
        ("one group", None, [False, [head]]),
        ("an answer is asked for", None, [True, [head, [_OTHER, 2**63 - 1, bytes(16)]]]),
        ("with a history", None, [False, [[*head, seeded("history", 16)]]]),
        ("with tags", None, [False, [head], True]),
        ("with the author's noise key", None, [True, [head], True, ALICE.noise_public]),
        ("without tags, with the author's noise key", None, [True, [head], False, ALICE.noise_public]),
        ("a noise key of 31 bytes", "malformed", [True, [head], True, ALICE.noise_public[:31]]),
        ("a noise key of small order", "malformed", [True, [head], True, bytes(32)]),
        ("a history of 15 bytes", "malformed", [False, [[*head, bytes(15)]]]),
        ("as many as allowed", None, [False, many[:-1]]),
        ("one too many", "limit", [False, many]),
        ("longer than any", "limit", [False, [], bytes(65_536)]),
        ("a group twice", "malformed", [False, [head, head]]),
        ("a digest of 15 bytes", "malformed", [False, [[_ONE, 7, bytes(15)]]]),
        ("a group id of 31 bytes", "malformed", [False, [[_ONE[:31], 7, bytes(16)]]]),
        ("a negative version", "malformed", [False, [[_ONE, -1, bytes(16)]]]),
        ("a number for an answer", "malformed", [0, [head]]),
        ("a field missing", "malformed", [False]),
        ("a field of a head missing", "malformed", [False, [head[:2]]]),
        ("no array", "malformed", {}),
    ]
    extended: list[tuple[str, object, object]] = [
        ("what a later version adds", [False, [[*head, bytes(16), b"else"]], b"more"], [False, [[*head, bytes(16)]]]),
        ("and that after the key", [True, [], True, ALICE.noise_public, 1], [True, [], True, ALICE.noise_public]),
    ]
    return [
        {"name": name, "bytes": cbor(fields).hex(), "code": code}
        | ({"report": _readable(fields), "exact": True} if code is None else {})
        for name, code, fields in rows
    ] + [
        {"name": name, "bytes": cbor(fields).hex(), "code": None, "report": _readable(read), "exact": False}
        for name, fields, read in extended
    ]


def _readable(fields: object) -> object:
    if isinstance(fields, list):
        return [_readable(each) for each in fields]
    return fields.hex() if isinstance(fields, bytes) else fields


def make() -> dict[str, Any]:
    """Return the file."""
    return {
        "about": "Section 24. A body that is not exact is read, and written otherwise.",
        "digests": _digests(),
        "histories": _histories(),
        "shared": _shared(),
        "agreements": _agreements(),
        "bodies": _bodies(),
    }
