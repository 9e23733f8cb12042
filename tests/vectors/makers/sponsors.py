"""The lines of authors, which history.json lists: by whom a device was let in, and by whom that one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, Mode, Role, genesis, secret_id, sign_manifest
from covey.core.history.sponsors import Sponsors
from covey.core.ids import GroupId
from tests.vectors.makers.cast import ALICE, BOB, CAROL, MALLORY, identity, seeded

_DAVE = identity("dave")
_EPOCH, _NEXT_EPOCH = secret_id(seeded("epoch 1")), secret_id(seeded("epoch 2"))
_GUESTS = GroupId(seeded("guests of guests"))
_LED = GroupId(seeded("led by admins"))
_OPEN = GroupId(seeded("open to strangers"))


def _founded(group_id: GroupId, mode: Mode) -> GroupManifest:
    return sign_manifest(genesis(group_id, Member(ALICE.keys), _EPOCH, mode), ALICE)


def _let_in(before: GroupManifest, guest: Identity, by: Identity, role: Role = Role.MEMBER) -> GroupManifest:
    return sign_manifest(before.adding(Member(guest.keys, role=role)), by)


_GENESIS = _founded(_GUESTS, Mode.INVITES_ONLY)
_WITH_BOB = _let_in(_GENESIS, BOB, ALICE)
_WITH_CAROL = _let_in(_WITH_BOB, CAROL, BOB)
_WITH_DAVE = _let_in(_WITH_CAROL, _DAVE, CAROL)
_MALLORY_BY_BOB, _MALLORY_BY_ALICE = (_let_in(_WITH_DAVE, MALLORY, by) for by in (BOB, ALICE))
_AFTER_BOBS, _AFTER_ALICES = (
    sign_manifest(each.changing(replace(each.members[0], label="newer")), ALICE)
    for each in (_MALLORY_BY_BOB, _MALLORY_BY_ALICE)
)
_WITHOUT_BOB = sign_manifest(_WITH_DAVE.removing(BOB.signing_public, _NEXT_EPOCH), ALICE)
_BOB_READMITTED = _let_in(_WITHOUT_BOB, BOB, CAROL)
_LED_BY_BOTH = _let_in(_founded(_LED, Mode.ADMIN_INVITES), BOB, ALICE, Role.ADMIN)
_LED_WITH_CAROL = _let_in(_LED_BY_BOTH, CAROL, BOB)
_OPEN_GENESIS = _founded(_OPEN, Mode.PUBLIC)
_OPEN_WITH_BOB = _let_in(_OPEN_GENESIS, BOB, BOB)
_OPEN_WITH_CAROL = _let_in(_OPEN_WITH_BOB, CAROL, ALICE)
_MANIFESTS = (
    *(_GENESIS, _WITH_BOB, _WITH_CAROL, _WITH_DAVE, _MALLORY_BY_BOB, _MALLORY_BY_ALICE, _AFTER_BOBS, _AFTER_ALICES),
    *(_WITHOUT_BOB, _BOB_READMITTED, _LED_BY_BOTH, _LED_WITH_CAROL, _OPEN_GENESIS, _OPEN_WITH_BOB, _OPEN_WITH_CAROL),
)
_CASES = {
    "the founder": (ALICE, _WITH_DAVE),
    "let in by the founder": (BOB, _WITH_DAVE),
    "let in by one that the founder let in": (CAROL, _WITH_DAVE),
    "let in by one on the lowest level": (_DAVE, _WITH_DAVE),
    "let in by two rivals, of which the manifest is one": (MALLORY, _MALLORY_BY_BOB),
    "let in by two rivals, of which the manifest follows one": (MALLORY, _AFTER_BOBS),
    "let in by two rivals, of which the manifest follows the other": (MALLORY, _AFTER_ALICES),
    "let in by one that was removed since": (CAROL, _WITHOUT_BOB),
    "let in again, by a guest of its own": (BOB, _BOB_READMITTED),
    "let in by its guest, before it was let in again": (_DAVE, _BOB_READMITTED),
    "let in by an admin": (CAROL, _LED_WITH_CAROL),
    "let itself in": (BOB, _OPEN_WITH_CAROL),
    "let in by an admin of a public group": (CAROL, _OPEN_WITH_CAROL),
    "the founder of a public group": (ALICE, _OPEN_WITH_CAROL),
}


def lines() -> dict[str, Any]:
    """Return authors under manifests, each with its line: level, device in hex, version that let it in."""
    held = {each.hash: each for each in _MANIFESTS}
    sponsors = Sponsors(
        lambda _, named: held.get(named),
        lambda group_id, version: [
            each.raw for each in _MANIFESTS if (each.group_id, each.version) == (group_id, version)
        ],
    )
    return {
        "manifests": [each.raw.hex() for each in _MANIFESTS],
        "cases": [
            {
                "name": name,
                "author": author.signing_public.hex(),
                "manifest": named.hash.hex(),
                "line": [
                    [level, device.hex(), since]
                    for level, device, since in sponsors.line(named.group_id, author.signing_public, named.hash)
                ],
            }
            for name, (author, named) in _CASES.items()
        ],
    }
