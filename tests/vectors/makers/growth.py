"""growth.json: structures with extension maps, as newer devices send them, and manifests of later judging rules."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, genesis, secret_id, sign_manifest
from covey.core.history.bodies import Note
from covey.core.ids import LinkSeq
from covey.core.wire.message import Acknowledgement, MessageType
from covey.core.wire.sequences import SequenceSet
from covey.limits.group import FOUNDER_ALLOWANCE
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, INCARNATION, NOW_US, cbor, keys, seeded

_ODD: dict[object, object] = {1001: "what a newer device adds"}
_LONGEST: dict[object, object] = {1001: bytes(1_024 - 7)}
"""1,024 bytes: one for the map, three for the key, three for the string's head."""

MAPS: list[tuple[str, str | None, dict[object, object]]] = [
    ("an odd key", None, _ODD),
    ("several odd keys", None, {1001: True, 1003: [1, {2: b""}]}),
    ("as long as it may be", None, _LONGEST),
    ("one byte too long", "limit", {1001: bytes(1_024 - 6)}),
    ("an even key", "unsupported", {1000: 1}),
    ("an even key among odd ones", "unsupported", {1000: 1, 1001: 2}),
    ("suite 2", "unsupported", {2: 2}),
    ("a key for private use", None, {61_441: 1}),
    ("an even key for private use", "unsupported", {61_442: 1}),
    ("no key", "malformed", {}),
    ("key 0", "malformed", {0: 1}),
    ("a key beyond all", "malformed", {65_537: 1}),
    ("a key as text", "malformed", {"1001": 1}),
]


def _signed(domain: bytes, fields: list[Any], signer: Identity = ALICE) -> bytes:
    content = cbor(fields)
    return cbor([crypto.sign(domain, content, signer), content])


def _founded() -> GroupManifest:
    return sign_manifest(genesis(GROUP_ID, Member(ALICE.keys, "a"), secret_id(seeded("epoch 1"))), ALICE)


_GENESIS = _founded()


def _structures() -> dict[str, tuple[str | None, list[Any]]]:
    """Return fields by the name of their structure, with the domain by which they are signed, None where not."""
    member = _GENESIS.members[0].to_wire()
    document = [1, GROUP_ID, 1, [], 2, None, [member], [], 1, _GENESIS.epoch_id, [], ALICE.signing_public]
    note = Note("text/plain", b"hello").to_wire()
    log = [ALICE.signing_public, INCARNATION, 1, None]
    blob = [ALICE.signing_public, BOB.signing_public, GROUP_ID, INCARNATION, 7, 3, NOW_US, b"hello"]
    return {
        "message": ("covey/1 message", [1, int(MessageType.BLOB), *blob]),
        "operation": ("covey/1 operation", [1, GROUP_ID, *log, [], 1, _GENESIS.hash, NOW_US, 1, note]),
        "group manifest": ("covey/1 group manifest", document),
        "vote": ("covey/1 vote", [1, GROUP_ID, 0, BOB.signing_public, 2, ALICE.signing_public]),
        "revoke": ("covey/1 revoke", [1, GROUP_ID, 1, 1, [ALICE.signing_public], ALICE.signing_public]),
        "ACK": (None, [INCARNATION, [41, []]]),
        "LINK": (None, [seeded("link tag", 8), seeded("link key")]),
        "LOSS": (None, [1, [[5, 9]], []]),
        "RESUME": (None, [[1, 4]]),
        "JOIN": (None, [seeded("secret", 16), ALICE.noise_public, "pi"]),
        "GROUP_PULL": (None, [3]),
        "GROUP_MANIFEST": (None, [[], []]),
        "PRESENCE": (None, [5, 0, 60, [3]]),
        "HEADS": (None, [False, [[GROUP_ID, 7, bytes(16)]]]),
        "OPERATIONS": (None, [[], 0]),
        "HISTORY_PULL": (None, [[], []]),
        "EPHEMERAL": (None, [NOW_US, b"typing"]),
        "FORWARD": (None, [BOB.signing_public, b"an envelope"]),
        "note": (None, ["text/plain", b"hello", None, None]),
        "setting": (None, [[0], "telemetry.interval_s", 10, None]),
    }


def _vectors() -> list[dict[str, Any]]:
    entries = []
    for structure, (domain, fields) in _structures().items():
        for name, code, extensions in MAPS:
            too_long = structure in {"JOIN", "vote"} and extensions is _LONGEST  # of these less is kept
            content = [*fields, extensions]
            raw = cbor(content) if domain is None else _signed(domain.encode(), content)
            entry = {"name": f"{structure}: {name}", "structure": structure, "bytes": raw.hex()}
            entries.append({**entry, "code": "limit" if too_long else code})
    return entries


def _acknowledgements() -> list[dict[str, Any]]:
    """Return acknowledgements that name messages which their recipient could not use."""
    made = Acknowledgement(INCARNATION, SequenceSet(41, ((44, 44),)), None, (LinkSeq(7), LinkSeq(44)))
    rows: list[tuple[str, str | None, bytes]] = [
        ("two of them", None, made.to_wire()),
        ("one that has not come", "malformed", cbor([INCARNATION, [41, []], {1: [42]}])),
        ("descending", "malformed", cbor([INCARNATION, [41, []], {1: [8, 7]}])),
        ("one twice", "malformed", cbor([INCARNATION, [41, []], {1: [7, 7]}])),
        ("as many as it may name", None, cbor([INCARNATION, [99, []], {1: list(range(1, 65))}])),
        ("one too many", "limit", cbor([INCARNATION, [99, []], {1: list(range(1, 66))}])),
        ("no list", "malformed", cbor([INCARNATION, [41, []], {1: 7}])),
    ]
    return [
        {"name": name, "bytes": raw.hex(), "code": code}
        | ({} if code else {"unsupported": list(Acknowledgement.from_wire(raw).unsupported)})
        for name, code, raw in rows
    ]


def _announcing(device: Identity, **said: Any) -> Member:
    """Return a member that announces features and known rules."""
    extensions = {key: value for key, value in {1: said.get("features"), 3: said.get("rules")}.items() if value}
    return Member(device.keys, "", since=1, extensions=cbor(extensions) if extensions else b"")


def _trust() -> list[dict[str, Any]]:
    """Return what a device that knows rules of version 1 alone makes of manifests that follow one that it holds."""
    alice, bob = (_announcing(each, features=[1, 2, 3], rules=9) for each in (ALICE, BOB))
    founder = replace(alice, allowance=FOUNDER_ALLOWANCE)
    founded = sign_manifest(replace(_GENESIS, members=(founder,), raw=b""), ALICE)
    both = sign_manifest(founded.adding(bob), ALICE)
    carol = sign_manifest(both.adding(_announcing(CAROL)), ALICE)

    def changed(member: Member, issuer: Identity, extensions: bytes) -> GroupManifest:
        listed = both.member(member.keys.signing_public)
        assert listed is not None
        return sign_manifest(both.changing(replace(listed, extensions=extensions)), issuer)

    newer = cbor({1: [1, 2, 3, 77], 3: 9, 1001: "more"})
    raised = sign_manifest(replace(both.draft(), rules=9), ALICE)
    unknown = _signed(b"covey/1 group manifest", _with_rules(carol, 9), ALICE)
    named_one = _signed(b"covey/1 group manifest", _with_rules(carol, 1), ALICE)
    rows: list[tuple[str, str | None, GroupManifest, bytes]] = [
        ("announces what a newer build supports", None, both, changed(alice, ALICE, newer).raw),
        ("announces for another member", "not_allowed", both, changed(bob, ALICE, newer).raw),
        ("announces nothing any more", None, both, changed(alice, ALICE, b"").raw),
        ("announces features out of order", "malformed", both, changed(alice, ALICE, cbor({1: [2, 1]})).raw),
        ("announces a feature beyond all", "malformed", both, changed(alice, ALICE, cbor({1: [65_536]})).raw),
        ("announces too many features", "limit", both, changed(alice, ALICE, cbor({1: list(range(33))})).raw),
        ("announces too much", "limit", both, changed(alice, ALICE, cbor({1001: bytes(123)})).raw),
        ("announces rules of version 1, which all know", "malformed", both, changed(alice, ALICE, cbor({3: 1})).raw),
        ("a member's record with an even key", "unsupported", both, changed(alice, ALICE, cbor({1000: 1})).raw),
        ("rules from the future, which all announce", "unsupported", both, raised.raw),
        ("rules from the future, which one does not announce", "malformed", carol, unknown),
        ("rules of version 1, which nobody names", "malformed", carol, named_one),
    ]
    return [
        {"name": name, "held": held.raw.hex(), "bytes": offered.hex(), "code": code}
        for name, code, held, offered in rows
    ]


def _with_rules(held: GroupManifest, rules: int) -> list[Any]:
    """Return the document of the next manifest of a group, which names a version of rules."""
    next_one = held.draft()
    members = [member.to_wire() for member in next_one.members]
    place = [1, next_one.group_id, next_one.version, list(next_one.prev), 2, None, members, [], next_one.epoch]
    return [*place, next_one.epoch_id, [], ALICE.signing_public, {4: rules}]


def make() -> dict[str, Any]:
    """Return the file."""
    return {
        "about": "Structures as newer devices send them: extension maps, announcements and later judging rules.",
        "keys": keys(),
        "vectors": _vectors(),
        "acknowledgements": _acknowledgements(),
        "trust": _trust(),
    }
