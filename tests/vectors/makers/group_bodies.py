"""group_messages.json: the bodies of messages about a group, and the signed votes and Revokes in them."""

from __future__ import annotations

from typing import Any

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.messages import Bundle, pull_to_wire
from covey.core.group.policy import Action, sign_vote
from covey.core.group.revocation import sign_revoke
from covey.limits.group import MAXIMUM_MEMBERS
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY, NAMES, cbor, flip, identity, keys, seeded
from tests.vectors.makers.groups import ADMINS_GENESIS, GENESIS, WITH_BOB, WITH_CAROL

_VOTE, _REVOKE = b"covey/1 vote", b"covey/1 revoke"

Fields = dict[str, object]


def _signed(domain: bytes, signer: Identity, fields: Fields | bytes) -> bytes:
    content = fields if isinstance(fields, bytes) else cbor(list(fields.values()))
    return cbor([crypto.sign(domain, content, signer), content])


def _name(public: bytes) -> str:
    return next(name for name in NAMES if identity(name).signing_public == public)


def _votes() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for action, target, since, voter in [
        (Action.BAN, MALLORY, 4, ALICE),
        (Action.BAN, MALLORY, 2**63 - 1, BOB),
        (Action.UNBAN, MALLORY, 5, CAROL),
        (Action.BAN, BOB, 2, BOB),
        (Action.KEEP_OUT, MALLORY, 1, ALICE),
    ]:
        vote = sign_vote(ADMINS_GENESIS.group_id, action, target.signing_public, since, voter)
        entries.append(
            {
                "name": f"{_name(vote.voter)}: {action.name.lower()} {_name(vote.target)}, since {since}",
                "bytes": vote.raw.hex(),
                "group_id": vote.group_id.hex(),
                "action": int(action),
                "target": _name(vote.target),
                "since": since,
                "voter": _name(vote.voter),
                "code": None,
            }
        )
    fields: Fields = {
        "version": 1,
        "group_id": ADMINS_GENESIS.group_id,
        "action": 0,
        "target": MALLORY.signing_public,
        "since": 4,
        "voter": ALICE.signing_public,
    }
    good = bytes.fromhex(entries[0]["bytes"])
    refused = [
        ("signature with a bit flipped", "signature", flip(good, 10)),
        ("another since", "signature", flip(good, good.index(MALLORY.signing_public) + 32)),
        ("signed as a message", "signature", _signed(b"covey/1 message", ALICE, fields)),
        ("by another than it names", "signature", _signed(_VOTE, BOB, fields)),
        ("unknown action", "malformed", _signed(_VOTE, ALICE, fields | {"action": 3})),
        ("version 2", "malformed", _signed(_VOTE, ALICE, fields | {"version": 2})),
        ("target of 31 bytes", "malformed", _signed(_VOTE, ALICE, fields | {"target": bytes(31)})),
        ("since beyond 63 bits", "malformed", _signed(_VOTE, ALICE, fields | {"since": 2**63})),
        ("a byte after the vote", "malformed", good + b"\x00"),
        ("cut", "malformed", good[:-1]),
        ("longer than any", "limit", cbor([bytes(64), bytes(256)])),
    ]
    return entries + _refused(refused)


def _revokes() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for name, manifest, issuer in [("of three by bob", WITH_CAROL, BOB), ("of one", GENESIS, ALICE)]:
        revoke = sign_revoke(manifest, issuer)
        entries.append(
            {
                "name": name,
                "bytes": revoke.raw.hex(),
                "group_id": revoke.group_id.hex(),
                "epoch": revoke.epoch,
                "version": revoke.version,
                "targets": [_name(target) for target in revoke.targets],
                "issuer": _name(issuer.signing_public),
                "code": None,
            }
        )
    fields: Fields = {
        "format": 1,
        "group_id": GROUP_ID,
        "epoch": 1,
        "version": 3,
        "targets": [member.keys.signing_public for member in WITH_CAROL.members],
        "issuer": BOB.signing_public,
    }
    good = bytes.fromhex(entries[0]["bytes"])
    crowd = [number.to_bytes(32, "big") for number in range(MAXIMUM_MEMBERS + 1)]
    refused = [
        ("signature with a bit flipped", "signature", flip(good, 10)),
        ("a target exchanged", "signature", good.replace(CAROL.signing_public, MALLORY.signing_public)),
        ("signed as a vote", "signature", _signed(_VOTE, BOB, fields)),
        ("by another than it names", "signature", _signed(_REVOKE, MALLORY, fields)),
        ("format 2", "malformed", _signed(_REVOKE, BOB, fields | {"format": 2})),
        ("version beyond 63 bits", "malformed", _signed(_REVOKE, BOB, fields | {"version": 2**63})),
        ("epoch beyond 63 bits", "malformed", _signed(_REVOKE, BOB, fields | {"epoch": 2**63})),
        ("target of 31 bytes", "malformed", _signed(_REVOKE, BOB, fields | {"targets": [bytes(31)]})),
        ("1,001 targets", "limit", _signed(_REVOKE, BOB, fields | {"targets": crowd})),
        ("a byte after it", "malformed", good + b"\x00"),
        ("cut", "malformed", good[:-1]),
    ]
    return entries + _refused(refused)


def _bundles() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for name, manifests, secrets in [
        ("a manifest", (WITH_BOB.raw,), ()),
        ("for a newcomer", (GENESIS.raw, WITH_BOB.raw), (seeded("epoch 1"),)),
        ("nothing", (), ()),
    ]:
        body = Bundle(manifests, secrets).to_wire()
        parts = {"manifests": [raw.hex() for raw in manifests], "secrets": [secret.hex() for secret in secrets]}
        entries.append({"name": name, "bytes": body.hex(), **parts, "code": None})
    refused = [
        ("secret of 31 bytes", "malformed", cbor([[], [bytes(31)]])),
        ("seventeen secrets", "limit", cbor([[], [bytes(32)] * 17])),
        ("a manifest as text", "malformed", cbor([["x"], []])),
        ("a field missing", "malformed", cbor([[]])),
        ("1,025 manifests", "limit", cbor([[b""] * 1_025, []])),
        ("a byte after it", "malformed", cbor([[], []]) + b"\x00"),
    ]
    return entries + _refused(refused)


def _pulls() -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = [
        {"name": f"from version {version}", "bytes": pull_to_wire(version).hex(), "from_version": version, "code": None}
        for version in (0, 1, 4, 2**63 - 1)
    ]
    refused = [
        ("negative", "malformed", cbor([-1])),
        ("beyond 63 bits", "malformed", cbor([2**63])),
        ("a field too many", "malformed", cbor([1, 1])),
        ("no array", "malformed", cbor(1)),
        ("longer than any", "limit", cbor([1, bytes(64)])),
    ]
    return entries + _refused(refused)


def _refused(rows: list[tuple[str, str, bytes]]) -> list[dict[str, Any]]:
    return [{"name": name, "bytes": body.hex(), "code": code} for name, code, body in rows]


def make() -> dict[str, Any]:
    """Return the file."""
    return {
        "about": "Section 35: bodies of GROUP_VOTE, REVOKE, GROUP_MANIFEST and GROUP_PULL.",
        "keys": keys(),
        "votes": _votes(),
        "revokes": _revokes(),
        "manifests": _bundles(),
        "pulls": _pulls(),
    }
