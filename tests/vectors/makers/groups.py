"""group_manifests.json: single documents, then what a device that trusts something does with what it is offered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from agent.core import crypto
from agent.core.crypto import Identity
from agent.core.group_manifest import COLLECTOR, GroupManifest, Member, genesis, sign_manifest
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY, cbor, flip, keys, seeded

_DOMAIN = b"covey/1 group manifest"


def _member(device: Identity, label: str = "", **fields: Any) -> Member:
    return Member(device.keys, label, **fields)


GENESIS = sign_manifest(genesis(GROUP_ID, _member(ALICE, "workshop")), ALICE)
WITH_BOB = sign_manifest(GENESIS.adding(_member(BOB, "b\u00fcro", capabilities=(COLLECTOR,))), ALICE)
WITH_CAROL = sign_manifest(WITH_BOB.adding(_member(CAROL)), BOB)
RIVAL = sign_manifest(WITH_BOB.adding(_member(CAROL)), ALICE)
"""Version 3 as well, by another member."""
WITHOUT_BOB = sign_manifest(
    replace(
        WITH_CAROL,
        version=4,
        prev=WITH_CAROL.hash,
        members=tuple(each for each in WITH_CAROL.members if each.keys != BOB.keys),
        banned=(BOB.signing_public,),
        epoch=2,
    ),
    CAROL,
)
FORMER = sign_manifest(WITHOUT_BOB.adding(_member(MALLORY)), BOB)
"""By Bob, who was removed."""
STRANGER = sign_manifest(WITH_BOB.adding(_member(MALLORY)), MALLORY)
OTHER_GROUP = sign_manifest(genesis(seeded("other group"), _member(ALICE)), ALICE)
STOLEN_GENESIS = sign_manifest(genesis(GROUP_ID, _member(MALLORY)), MALLORY)
SKIPPING = sign_manifest(replace(WITH_CAROL, version=4), BOB)
WRONG_PREV = sign_manifest(replace(WITH_CAROL, prev=seeded("another past")), BOB)
EARLIER_EPOCH = sign_manifest(WITHOUT_BOB.adding(_member(MALLORY)), CAROL)
EARLIER_EPOCH = sign_manifest(replace(EARLIER_EPOCH, epoch=1), CAROL)
UNLISTED = sign_manifest(replace(WITH_BOB, members=GENESIS.members), ALICE)

_ALL = {
    "genesis": GENESIS,
    "with bob": WITH_BOB,
    "with carol": WITH_CAROL,
    "rival of with carol": RIVAL,
    "without bob": WITHOUT_BOB,
    "by bob after his removal": FORMER,
    "by a stranger": STRANGER,
    "genesis of another group": OTHER_GROUP,
    "genesis of this group by mallory": STOLEN_GENESIS,
    "version 4 after 2": SKIPPING,
    "version 3 after something else": WRONG_PREV,
    "version 5 with an earlier epoch": EARLIER_EPOCH,
    "version 2 without bob": UNLISTED,
}


def _document(**changed: object) -> list[object]:
    fields: dict[str, object] = {
        "format": 1,
        "group_id": GROUP_ID,
        "version": 2,
        "prev": GENESIS.hash,
        "mode": 2,
        "members": [each.to_wire() for each in WITH_BOB.members],
        "banned": [],
        "epoch": 1,
        "issuer": ALICE.signing_public,
    }
    fields.update(changed)
    return list(fields.values())


def _signed(document: list[object] | bytes, domain: bytes = _DOMAIN) -> bytes:
    content = document if isinstance(document, bytes) else cbor(document)
    return cbor([crypto.sign(domain, content, ALICE), content])


def _with_member(**changed: object) -> list[object]:
    """A genesis whose only member is changed."""
    fields = dict(
        zip(("signing", "noise", "name", "label", "role", "capabilities"), GENESIS.members[0].to_wire(), strict=True)
    )
    fields.update(changed)
    return _document(version=1, prev=bytes(32), members=[list(fields.values())])


def _refused() -> list[tuple[str, str, bytes]]:
    members = [each.to_wire() for each in WITH_BOB.members]
    same_noise = [members[0], [members[1][0], members[0][1], *members[1][2:]]]
    low, high = sorted((CAROL.signing_public, MALLORY.signing_public))
    return [
        ("rule 1: signature with a bit flipped", "signature", flip(WITH_BOB.raw, 10)),
        ("rule 1: document with a bit flipped", "signature", flip(WITH_BOB.raw, -40)),
        ("rule 1: signed as a message", "signature", _signed(_document(), b"covey/1 message")),
        ("rule 1: the issuer is not the signer", "signature", _signed(_document(issuer=BOB.signing_public))),
        ("rule 2: version 0", "malformed", _signed(_document(version=0, prev=bytes(32)))),
        (
            "rule 2: genesis with something before it",
            "malformed",
            _signed([*_with_member()[:3], seeded("x"), *_with_member()[4:]]),
        ),
        ("rule 2: version 2 with nothing before it", "malformed", _signed(_document(prev=bytes(32)))),
        ("rule 3: members unsorted", "malformed", _signed(_document(members=members[::-1]))),
        ("rule 3: a signing key twice", "malformed", _signed(_document(members=[members[0], members[0]]))),
        ("rule 3: a noise key twice", "malformed", _signed(_document(members=same_noise))),
        ("rule 3: nobody", "limit", _signed(_document(members=[]))),
        ("rule 3: banned keys unsorted", "malformed", _signed(_document(banned=[high, low]))),
        ("rule 3: a banned key twice", "malformed", _signed(_document(banned=[low, low]))),
        ("rule 4: a name that lies", "malformed", _signed(_with_member(name="00000000"))),
        ("rule 4: a name in capitals", "malformed", _signed(_with_member(name=GENESIS.members[0].name.upper()))),
        ("rule 5: genesis with two members", "malformed", _signed(_document(version=1, prev=bytes(32)))),
        (
            "rule 5: genesis of somebody else",
            "malformed",
            _signed(
                _document(version=1, prev=bytes(32), members=[members[0 if members[0][0] == BOB.signing_public else 1]])
            ),
        ),
        ("label of 65 bytes", "limit", _signed(_with_member(label="\u00e9" * 32 + "x"))),
        ("unknown role", "malformed", _signed(_with_member(role=7))),
        ("capabilities unsorted", "malformed", _signed(_with_member(capabilities=["b", "a"]))),
        ("a capability twice", "malformed", _signed(_with_member(capabilities=["a", "a"]))),
        ("nine capabilities", "limit", _signed(_with_member(capabilities=[f"c{number}" for number in range(9)]))),
        ("capability of 33 bytes", "limit", _signed(_with_member(capabilities=["c" * 33]))),
        ("noise key of 31 bytes", "malformed", _signed(_with_member(noise=bytes(31)))),
        ("unknown format", "malformed", _signed(_document(format=2))),
        ("unknown mode", "malformed", _signed(_document(mode=9))),
        ("group id of 16 bytes", "malformed", _signed(_document(group_id=bytes(16)))),
        ("a field missing", "malformed", _signed(_document()[:-1])),
        ("a byte after the document", "malformed", _signed(cbor(_document()) + b"\x00")),
        ("a byte after the manifest", "malformed", WITH_BOB.raw + b"\x00"),
        ("cut", "malformed", WITH_BOB.raw[:-1]),
    ]


def _describe(name: str, manifest: GroupManifest) -> dict[str, Any]:
    return {
        "name": name,
        "manifest": manifest.raw.hex(),
        "hash": manifest.hash.hex(),
        "group_id": manifest.group_id.hex(),
        "version": manifest.version,
        "prev": manifest.prev.hex(),
        "mode": int(manifest.mode),
        "members": [
            {
                "signing_public": each.keys.signing_public.hex(),
                "noise_public": each.keys.noise_public.hex(),
                "name": each.name,
                "label": each.label,
                "role": int(each.role),
                "capabilities": list(each.capabilities),
            }
            for each in manifest.members
        ],
        "banned": [key.hex() for key in manifest.banned],
        "epoch": manifest.epoch,
        "issuer": manifest.issuer.hex(),
        "code": None,
    }


def _scenario(name: str, *offers: tuple[str, str], held: str | None = None, join: tuple[str, str] | None = None) -> Any:
    """`held`: what the device holds at first. `join`: (inviter, device) where it has asked to join instead."""
    return {
        "name": name,
        "held": held,
        "join": {"inviter": join[0], "device": join[1]} if join else None,
        "offers": [{"manifest": manifest, "outcome": outcome} for manifest, outcome in offers],
    }


def _trust() -> list[Any]:
    return [
        _scenario(
            "a chain", ("with bob", "accepted"), ("with carol", "accepted"), ("without bob", "accepted"), held="genesis"
        ),
        _scenario("rule 2: of another group", ("genesis of another group", "genesis"), held="genesis"),
        _scenario("rule 3: nobody asked", ("genesis", "genesis"), ("with bob", "genesis")),
        _scenario("rule 4: let in", ("with bob", "accepted"), ("with carol", "accepted"), join=("alice", "bob")),
        _scenario("rule 4: let in by a later version", ("with carol", "accepted"), join=("bob", "carol")),
        _scenario(
            "rule 4: by another member than the inviter",
            ("rival of with carol", "invite"),
            ("with carol", "accepted"),
            join=("bob", "carol"),
        ),
        _scenario(
            "rule 4: a stranger's genesis of the same group",
            ("genesis of this group by mallory", "invite"),
            join=("alice", "bob"),
        ),
        _scenario(
            "rule 4: does not list us",
            ("version 2 without bob", "invite"),
            ("with bob", "accepted"),
            join=("alice", "bob"),
        ),
        _scenario("rule 4: of another group", ("genesis of another group", "genesis"), join=("alice", "alice")),
        _scenario(
            "rule 5: by a stranger", ("by a stranger", "unknown_issuer"), ("with carol", "accepted"), held="with bob"
        ),
        _scenario("rule 5: by one who was removed", ("by bob after his removal", "unknown_issuer"), held="without bob"),
        _scenario(
            "rule 5: a genesis by a stranger", ("genesis of this group by mallory", "unknown_issuer"), held="genesis"
        ),
        _scenario("rule 6: the same again", ("with bob", "unchanged"), ("with bob", "unchanged"), held="with bob"),
        _scenario("rule 6: lower", ("genesis", "rollback"), ("with bob", "rollback"), held="with carol"),
        _scenario(
            "rule 6: equal and different",
            ("rival of with carol", "rollback"),
            ("without bob", "accepted"),
            held="with carol",
        ),
        _scenario(
            "rule 6: a jump",
            ("with carol", "version_gap"),
            ("with bob", "accepted"),
            ("with carol", "accepted"),
            held="genesis",
        ),
        _scenario("rule 6: a jump that names the held one", ("version 4 after 2", "version_gap"), held="with bob"),
        _scenario("rule 7: follows something else", ("version 3 after something else", "version_gap"), held="with bob"),
        _scenario("rule 7: follows the rival", ("without bob", "version_gap"), held="rival of with carol"),
        _scenario("rule 9: the epoch falls", ("version 5 with an earlier epoch", "rollback"), held="without bob"),
    ]


def make() -> dict[str, Any]:
    """Return the file."""
    chains = [
        ("genesis alone", ["genesis"], None),
        ("four versions", ["genesis", "with bob", "with carol", "without bob"], None),
        ("nothing", [], "malformed"),
        ("without its genesis", ["with bob", "with carol"], "genesis"),
        ("with a hole", ["genesis", "with carol"], "version_gap"),
        ("with a version twice", ["genesis", "with bob", "with bob"], "rollback"),
        ("with a conflict", ["genesis", "with bob", "with carol", "rival of with carol"], "rollback"),
        ("through a rival", ["genesis", "with bob", "rival of with carol", "without bob"], "version_gap"),
        ("by a stranger", ["genesis", "with bob", "by a stranger"], "unknown_issuer"),
        ("with another group's genesis", ["genesis of another group", "with bob"], "genesis"),
    ]
    return {
        "about": "docs/protocol.md, section 9. `manifests` are named by `trust` and `chains`.",
        "keys": keys(),
        "manifests": [_describe(name, manifest) for name, manifest in _ALL.items()],
        "refused": [{"name": name, "manifest": raw.hex(), "code": code} for name, code, raw in _refused()],
        "trust": _trust(),
        "chains": [{"name": name, "chain": chain, "code": code} for name, chain, code in chains],
    }
