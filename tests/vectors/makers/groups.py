"""group_manifests.json: single documents, then what a device that trusts something does with what it is offered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import (
    BOARD,
    COLLECTOR,
    GroupManifest,
    Member,
    Mode,
    Role,
    genesis,
    secret_id,
    sign_manifest,
)
from covey.core.group.policy import Action, sign_vote
from covey.core.group.trust import GroupTrust
from covey.core.ids import GroupId, ManifestHash, NoisePublic
from covey.limits.group import (
    FOUNDER_ALLOWANCE,
    MEMBER_ALLOWANCE,
    RESERVED_PAGES,
    RESERVED_REMOVALS,
    STRANGER_ALLOWANCE,
)
from tests.vectors.makers import group_scenarios, rivals
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY, cbor, flip, identity, keys, seeded

_DOMAIN = b"covey/1 group manifest"


def _member(device: Identity, label: str = "", **fields: Any) -> Member:
    return Member(device.keys, label, **fields)


def _listed(manifest: GroupManifest, device: Identity) -> Member:
    member = manifest.member(device.signing_public)
    assert member is not None
    return member


_FIRST, _SECOND, _THIRD, _FOURTH = (seeded(f"epoch {number}") for number in range(1, 5))
"""Secrets of epochs."""


def _founded(creator: Identity, group_id: GroupId = GROUP_ID, mode: Mode = Mode.INVITES_ONLY, label: str = "") -> Any:
    invited = BOB.signing_public if mode is Mode.ONE_TO_ONE else None
    return sign_manifest(genesis(group_id, _member(creator, label), secret_id(_FIRST), mode, invited), creator)


def _ending(issuer: Identity, rivals: list[GroupManifest], like: GroupManifest, secret: bytes) -> GroupManifest:
    """The manifest that follows rivals, lists what `like` lists, and is paid for."""
    trust = GroupTrust(GROUP_ID, WITH_CAROL)
    for rival in rivals:
        trust.offer(rival)
    draft = trust.draft(secret_id(secret), issuer.signing_public)
    members = tuple(draft.member(each.keys.signing_public) or each for each in like.members)
    return sign_manifest(replace(draft, members=members), issuer)


def _unpaid(draft: GroupManifest, issuer: Identity, **allowances: int) -> GroupManifest:
    """Sign a draft as it is, except for these allowances, by name."""
    by_key = {identity(name).signing_public: left for name, left in allowances.items()}
    members = [replace(each, allowance=by_key.get(each.keys.signing_public, each.allowance)) for each in draft.members]
    return sign_manifest(replace(draft, members=tuple(members), before=None), issuer)


GENESIS = _founded(ALICE, label="workshop")
WITH_BOB = sign_manifest(GENESIS.adding(_member(BOB, "b\u00fcro", capabilities=(COLLECTOR,))), ALICE)
WITH_CAROL = sign_manifest(WITH_BOB.adding(_member(CAROL)), BOB)
WITHOUT_BOB = sign_manifest(WITH_CAROL.banning(BOB.signing_public, secret_id(_SECOND)), CAROL)
FORMER = sign_manifest(WITHOUT_BOB.adding(_member(MALLORY)), BOB)
"""By Bob, who was removed."""
STRANGER = sign_manifest(WITH_BOB.adding(_member(MALLORY)), MALLORY)
WITH_BOARD = sign_manifest(WITH_BOB.adding(_member(CAROL, "pump", capabilities=(BOARD,))), ALICE)
BY_BOARD = _unpaid(WITH_BOARD.removing(ALICE.signing_public, secret_id(_SECOND)), CAROL)
OTHER_GROUP = _founded(ALICE, GroupId(seeded("other group")))
STOLEN_GENESIS = _founded(MALLORY)
SKIPPING = sign_manifest(replace(WITH_CAROL, version=4), BOB)
WRONG_PREV = sign_manifest(replace(WITH_CAROL, prev=(ManifestHash(seeded("another past")),)), BOB)
EARLIER_EPOCH = sign_manifest(replace(WITHOUT_BOB.adding(_member(MALLORY)), epoch=1), CAROL)
SAME_EPOCH = sign_manifest(replace(WITH_CAROL.removing(BOB.signing_public, secret_id(_SECOND)), epoch=1), CAROL)
SAME_SECRET = sign_manifest(WITH_CAROL.removing(BOB.signing_public, secret_id(_FIRST)), CAROL)
NEW_SECRET = sign_manifest(replace(WITH_BOB.adding(_member(CAROL)), epoch_id=secret_id(_SECOND)), BOB)
RENEWED = sign_manifest(replace(WITH_CAROL.renewing(secret_id(_SECOND)), epoch=2), CAROL)
RENEWED_TWICE = sign_manifest(replace(WITH_CAROL.renewing(secret_id(_SECOND)), epoch=3), CAROL)
RENEWED_IN_NAME = sign_manifest(replace(WITH_CAROL.draft(), epoch=2), CAROL)
MISADDRESSED = sign_manifest(GENESIS.adding(Member(replace(BOB.keys, noise_public=MALLORY.noise_public))), ALICE)
UNLISTED = sign_manifest(replace(WITH_BOB, members=GENESIS.members, epoch=2, epoch_id=secret_id(_SECOND)), ALICE)
OLDER_MEMBER = sign_manifest(WITH_CAROL.changing(replace(WITH_CAROL.members[0], since=3)), BOB)
OTHERS_KEY = sign_manifest(
    WITH_CAROL.changing(replace(_listed(WITH_CAROL, BOB), keys=replace(BOB.keys, noise_public=MALLORY.noise_public))),
    CAROL,
)
_NEW_KEYS = [
    replace(BOB.keys, noise_public=NoisePublic(crypto.scalar_base(seeded(f"bob noise {place}")))) for place in (3, 4)
]
ROTATION, ROTATION_REPEATED = (
    sign_manifest(WITH_CAROL.changing(replace(_listed(WITH_CAROL, BOB), keys=keys)), BOB) for keys in _NEW_KEYS
)
"""By Bob, who does not know of the one when he issues the other."""
ROTATION_BACK = sign_manifest(ROTATION.changing(_listed(WITH_CAROL, BOB)), BOB)
KEY_TAKEN = sign_manifest(
    WITH_CAROL.adding(Member(replace(MALLORY.keys, noise_public=_NEW_KEYS[0].noise_public))), CAROL
)
PROMOTION = sign_manifest(WITH_CAROL.changing(replace(_listed(WITH_CAROL, BOB), role=Role.ADMIN)), CAROL)

# Alice removes Bob while Carol lets Mallory in.
REMOVES_BOB = sign_manifest(WITH_CAROL.removing(BOB.signing_public, secret_id(_SECOND)), ALICE)
ADDS_MALLORY = sign_manifest(WITH_CAROL.adding(_member(MALLORY)), CAROL)
BOTH = _ending(ALICE, [REMOVES_BOB, ADDS_MALLORY], ADDS_MALLORY.removing(BOB.signing_public, secret_id(_THIRD)), _THIRD)
"""Both are meant: Bob is out, Mallory in."""
ONE_ONLY = _ending(ALICE, [REMOVES_BOB, ADDS_MALLORY], REMOVES_BOB, _THIRD)

# Alice removes Bob while Bob, who does not know, lets Mallory in.
BOB_ADDS = sign_manifest(WITH_CAROL.adding(_member(MALLORY)), BOB)
BOB_ADDS_MORE = sign_manifest(BOB_ADDS.changing(replace(_listed(BOB_ADDS, BOB), label="still here")), BOB)

# Alice and Bob remove each other; Bob and Carol do.
REMOVES_ALICE = sign_manifest(WITH_CAROL.removing(ALICE.signing_public, secret_id(_THIRD)), BOB)
CAROL_REMOVES_ALICE = sign_manifest(WITH_CAROL.removing(ALICE.signing_public, secret_id(_FOURTH)), CAROL)
# Bob, whom Alice removes, removes Carol as well, who goes on; or lets Mallory in, who removes Alice.
CAROL_GOES_ON = sign_manifest(REMOVES_BOB.changing(replace(_listed(REMOVES_BOB, CAROL), label="still here")), CAROL)
REMOVES_CAROL_TOO = sign_manifest(REMOVES_ALICE.removing(CAROL.signing_public, secret_id(_FOURTH)), BOB)
MALLORY_REMOVES_ALICE = sign_manifest(BOB_ADDS.removing(ALICE.signing_public, secret_id(_FOURTH)), MALLORY)

# Two label changes, one of each member, at the same time; and two of the same.
LABEL_A = sign_manifest(WITH_CAROL.changing(replace(_listed(WITH_CAROL, ALICE), label="a")), ALICE)
LABEL_B = sign_manifest(WITH_CAROL.changing(replace(_listed(WITH_CAROL, BOB), label="b")), BOB)

ADMINS_GENESIS = _founded(ALICE, GroupId(seeded("admins' group")), Mode.ADMIN_INVITES)
ADMINS_BOB = sign_manifest(ADMINS_GENESIS.adding(_member(BOB, role=Role.ADMIN)), ALICE)
ADMINS_CAROL = sign_manifest(ADMINS_BOB.adding(_member(CAROL, role=Role.ADMIN)), BOB)
ADMINS_MALLORY = sign_manifest(ADMINS_CAROL.adding(_member(MALLORY)), ALICE)


def _vote(voter: Identity, action: Action = Action.BAN, target: Identity = MALLORY, since: int = 4) -> bytes:
    return sign_vote(ADMINS_GENESIS.group_id, action, target.signing_public, since, voter).raw


def _ban(issuer: Identity, *votes: bytes, target: Identity = MALLORY) -> GroupManifest:
    return sign_manifest(ADMINS_MALLORY.banning(target.signing_public, secret_id(_SECOND), votes), issuer)


BAN = _ban(ALICE, _vote(ALICE), _vote(BOB))
BAN_OF_CAROL = _ban(ALICE, _vote(ALICE, target=CAROL, since=3), _vote(BOB, target=CAROL, since=3), target=CAROL)
BAN_OF_ALICE = _ban(CAROL, _vote(CAROL, target=ALICE, since=1), _vote(BOB, target=ALICE, since=1), target=ALICE)
"""Of two admins who ban each other, with Bob's vote on both sides."""
BAN_BY_ANOTHER_VOTER = _ban(CAROL, _vote(ALICE), _vote(BOB))
BAN_BY_ONE = _ban(ALICE, _vote(ALICE))
BAN_BY_THE_TARGET = _ban(ALICE, _vote(BOB, target=BOB, since=2), _vote(ALICE, target=BOB, since=2), target=BOB)
BAN_BY_NO_ADMIN = _ban(ALICE, _vote(ALICE), _vote(MALLORY, target=BOB, since=2))
BAN_OF_ANOTHER = _ban(ALICE, _vote(ALICE), _vote(BOB, target=CAROL, since=3))
BAN_OF_EARLIER = _ban(ALICE, _vote(ALICE, since=3), _vote(BOB, since=3))
REMOVAL_WITHOUT_VOTES = sign_manifest(ADMINS_MALLORY.removing(MALLORY.signing_public, secret_id(_SECOND)), ALICE)
ADDED_BY_A_MEMBER = sign_manifest(ADMINS_MALLORY.adding(_member(identity("dave"))), MALLORY)
ADMINS_RENEWED_BY_A_MEMBER = sign_manifest(replace(ADMINS_MALLORY.renewing(secret_id(_SECOND)), epoch=2), MALLORY)
ADMINS_RENEWED = sign_manifest(replace(ADMINS_MALLORY.renewing(secret_id(_SECOND)), epoch=2), BOB)
ADMINS_ROTATION = sign_manifest(
    ADMINS_MALLORY.changing(
        replace(_listed(ADMINS_MALLORY, MALLORY), keys=replace(MALLORY.keys, noise_public=_NEW_KEYS[0].noise_public))
    ),
    MALLORY,
)
LEAVES = sign_manifest(ADMINS_MALLORY.removing(MALLORY.signing_public, secret_id(_SECOND)), MALLORY)
UNBAN = sign_manifest(
    BAN.unbanning(MALLORY.signing_public, (_vote(CAROL, Action.UNBAN, since=5), _vote(BOB, Action.UNBAN, since=5))),
    CAROL,
)
BACK = sign_manifest(UNBAN.adding(_member(MALLORY)), ALICE)
OLD_VOTES = sign_manifest(BACK.banning(MALLORY.signing_public, secret_id(_THIRD), (_vote(ALICE), _vote(BOB))), ALICE)

_DAVE = identity("dave")
"""Who is no member."""


def _keep_out(issuer: Identity, *epochs: int, before: GroupManifest = ADMINS_MALLORY) -> GroupManifest:
    """Dave banned with votes of Alice and Bob that name these epochs."""
    voters = zip((ALICE, BOB), epochs, strict=False)
    votes = tuple(_vote(voter, Action.KEEP_OUT, _DAVE, epoch) for voter, epoch in voters)
    secret = secret_id(seeded(f"epoch {before.epoch + 1}"))
    return sign_manifest(before.banning(_DAVE.signing_public, secret, votes), issuer)


KEPT_OUT = _keep_out(ALICE, 1, 1)
KEPT_OUT_BY_ONE = _keep_out(ALICE, 1)
KEPT_OUT_OF_ANOTHER_EPOCH = _keep_out(ALICE, 1, 2)
KEPT_OUT_WITHOUT_EPOCH = sign_manifest(replace(KEPT_OUT, epoch=1, epoch_id=secret_id(_FIRST)), ALICE)
KEPT_OUT_ENDED = sign_manifest(
    KEPT_OUT.unbanning(_DAVE.signing_public, tuple(_vote(each, Action.UNBAN, _DAVE, 5) for each in (ALICE, BOB))), BOB
)
KEPT_OUT_WITH_OLD_VOTES = _keep_out(ALICE, 1, 1, before=KEPT_OUT_ENDED)
DAVE_ADDED = sign_manifest(ADMINS_MALLORY.adding(_member(_DAVE)), BOB)
EQUALS_KEEP_OUT = sign_manifest(WITH_CAROL.banning(MALLORY.signing_public, secret_id(_FOURTH)), ALICE)

PAIR_GENESIS = _founded(ALICE, GroupId(seeded("pair")), Mode.ONE_TO_ONE)
PAIR = sign_manifest(PAIR_GENESIS.adding(_member(BOB)), ALICE)
PAIR_ROTATION = sign_manifest(PAIR.changing(replace(_listed(PAIR, BOB), keys=_NEW_KEYS[0])), BOB)
PAIR_CAROL = sign_manifest(PAIR_GENESIS.adding(_member(CAROL)), ALICE)
PAIR_REMOVAL = sign_manifest(PAIR.removing(BOB.signing_public, secret_id(_SECOND)), ALICE)

PUBLIC_GENESIS = _founded(ALICE, GroupId(seeded("public")), Mode.PUBLIC)
PUBLIC_BOB = sign_manifest(PUBLIC_GENESIS.adding(_member(BOB)), BOB)
PUBLIC_ADMIN = sign_manifest(PUBLIC_GENESIS.adding(_member(BOB, role=Role.ADMIN)), BOB)
PUBLIC_OTHER = sign_manifest(PUBLIC_GENESIS.adding(_member(CAROL)), BOB)


# What a manifest costs.
def _label(before: GroupManifest, device: Identity, label: str = "x") -> GroupManifest:
    return before.changing(replace(_listed(before, device), label=label))


_LEFT = _listed(WITH_CAROL, BOB).allowance
_RESERVE = RESERVED_PAGES + RESERVED_REMOVALS
_CARRIES_VOTES = replace(WITH_CAROL.removing(BOB.signing_public, secret_id(_SECOND)), votes=(b"x",))
POOR_BOB = _unpaid(_label(WITH_CAROL, BOB), BOB, bob=_RESERVE)
"""Bob pays more than he must, and keeps just what only removals may use."""
_GIFT = _listed(WITH_BOB, BOB).allowance - 2 - _RESERVE
PAYMENTS = {
    "bob pays nothing": _unpaid(_label(WITH_CAROL, BOB), BOB),
    "bob takes a page": _unpaid(_label(WITH_CAROL, BOB), BOB, bob=_LEFT + 1),
    "bob pays for his label": _unpaid(_label(WITH_CAROL, BOB), BOB, bob=_LEFT - 1),
    "bob pays with carol's allowance": _unpaid(_label(WITH_CAROL, BOB), BOB, bob=_LEFT - 1, carol=1),
    "bob pays for one page of two": _unpaid(WITH_CAROL.adding(_member(MALLORY)), BOB, bob=_LEFT - 1),
    "bob gives what he keeps": _unpaid(WITH_CAROL.adding(_member(MALLORY)), BOB, bob=_LEFT - 2, mallory=1),
    "bob gives a page": _unpaid(WITH_CAROL.adding(_member(MALLORY)), BOB, bob=_LEFT - 3, mallory=1),
    "bob is poor": POOR_BOB,
    "poor bob changes his label": _unpaid(_label(POOR_BOB, BOB, "y"), BOB, bob=_RESERVE - 1),
    "poor bob removes carol": _unpaid(
        POOR_BOB.removing(CAROL.signing_public, secret_id(_SECOND)), BOB, bob=_RESERVE - 1
    ),
    "poor bob removes carol for nothing": _unpaid(POOR_BOB.removing(CAROL.signing_public, secret_id(_SECOND)), BOB),
    "poor bob keeps mallory out": _unpaid(
        POOR_BOB.banning(MALLORY.signing_public, secret_id(_SECOND)), BOB, bob=_RESERVE - 1
    ),
    "poor bob leaves": _unpaid(POOR_BOB.removing(BOB.signing_public, secret_id(_SECOND)), BOB),
    "bob leaves with votes": _unpaid(_CARRIES_VOTES, BOB),
    "bob gives all to mallory": _unpaid(WITH_BOB.adding(_member(MALLORY)), BOB, bob=_RESERVE, mallory=_GIFT),
    "bob gives all to carol": _unpaid(WITH_BOB.adding(_member(CAROL)), BOB, bob=_RESERVE, carol=_GIFT),
    "admins: bob pays": _unpaid(_label(ADMINS_MALLORY, BOB), BOB, bob=1),
    "admins: bob changes his label": _unpaid(_label(ADMINS_MALLORY, BOB), BOB),
    "admins: mallory does not pay": _unpaid(_label(ADMINS_MALLORY, MALLORY), MALLORY),
    "admins: mallory changes her label": sign_manifest(_label(ADMINS_MALLORY, MALLORY), MALLORY),
    "admins: bob gives too much": _unpaid(
        ADMINS_MALLORY.adding(_member(identity("dave"))), BOB, dave=MEMBER_ALLOWANCE + 1
    ),
    "admins: bob gives the most": _unpaid(ADMINS_MALLORY.adding(_member(identity("dave"))), BOB, dave=MEMBER_ALLOWANCE),
    "public: bob takes too much": _unpaid(PUBLIC_GENESIS.adding(_member(BOB)), BOB, bob=STRANGER_ALLOWANCE + 1),
    "public: bob comes with votes": _unpaid(replace(PUBLIC_GENESIS.adding(_member(BOB)), votes=(b"x",)), BOB),
}
"""By what their issuers do."""

_ALL = PAYMENTS | {
    "genesis": GENESIS,
    "with bob": WITH_BOB,
    "with carol": WITH_CAROL,
    "without bob": WITHOUT_BOB,
    "by bob after his removal": FORMER,
    "by a stranger": STRANGER,
    "with a board": WITH_BOARD,
    "by a board": BY_BOARD,
    "genesis of another group": OTHER_GROUP,
    "genesis of this group by mallory": STOLEN_GENESIS,
    "version 4 after 2": SKIPPING,
    "version 3 after something else": WRONG_PREV,
    "version 5 with an earlier epoch": EARLIER_EPOCH,
    "a removal without a new epoch": SAME_EPOCH,
    "a removal with the old secret": SAME_SECRET,
    "an addition with a new secret": NEW_SECRET,
    "a new epoch and nothing else": RENEWED,
    "an epoch by two": RENEWED_TWICE,
    "a new epoch with the old secret": RENEWED_IN_NAME,
    "with bob under mallory's noise key": MISADDRESSED,
    "version 2 without bob": UNLISTED,
    "a member made younger": OLDER_MEMBER,
    "another's noise key": OTHERS_KEY,
    "bob rotates": ROTATION,
    "bob rotates to another key": ROTATION_REPEATED,
    "bob takes his first key again": ROTATION_BACK,
    "carol adds mallory under bob's new key": KEY_TAKEN,
    "an admin among equals": PROMOTION,
    "alice removes bob": REMOVES_BOB,
    "carol adds mallory": ADDS_MALLORY,
    "bob out, mallory in": BOTH,
    "bob out, mallory forgotten": ONE_ONLY,
    "bob adds mallory": BOB_ADDS,
    "bob goes on": BOB_ADDS_MORE,
    "bob removes alice": REMOVES_ALICE,
    "carol removes alice": CAROL_REMOVES_ALICE,
    "carol goes on without bob": CAROL_GOES_ON,
    "bob removes carol, too": REMOVES_CAROL_TOO,
    "mallory removes alice": MALLORY_REMOVES_ALICE,
    "alice is labelled": LABEL_A,
    "bob is labelled": LABEL_B,
    "admins: genesis": ADMINS_GENESIS,
    "admins: with bob": ADMINS_BOB,
    "admins: with carol": ADMINS_CAROL,
    "admins: with mallory": ADMINS_MALLORY,
    "admins: mallory banned": BAN,
    "admins: carol banned": BAN_OF_CAROL,
    "admins: alice banned": BAN_OF_ALICE,
    "admins: banned by an issuer who did not vote": BAN_BY_ANOTHER_VOTER,
    "admins: banned by one of three": BAN_BY_ONE,
    "admins: bob votes about himself": BAN_BY_THE_TARGET,
    "admins: mallory votes": BAN_BY_NO_ADMIN,
    "admins: a vote about carol": BAN_OF_ANOTHER,
    "admins: votes about an earlier mallory": BAN_OF_EARLIER,
    "admins: removal without votes": REMOVAL_WITHOUT_VOTES,
    "admins: addition by a member": ADDED_BY_A_MEMBER,
    "admins: a new epoch by a member": ADMINS_RENEWED_BY_A_MEMBER,
    "admins: a new epoch": ADMINS_RENEWED,
    "admins: mallory rotates": ADMINS_ROTATION,
    "admins: mallory leaves": LEAVES,
    "admins: mallory unbanned": UNBAN,
    "admins: mallory is back": BACK,
    "admins: banned with old votes": OLD_VOTES,
    "admins: dave kept out": KEPT_OUT,
    "admins: dave kept out by one": KEPT_OUT_BY_ONE,
    "admins: dave kept out with a vote of another epoch": KEPT_OUT_OF_ANOTHER_EPOCH,
    "admins: dave kept out in the same epoch": KEPT_OUT_WITHOUT_EPOCH,
    "admins: dave may come again": KEPT_OUT_ENDED,
    "admins: dave kept out with old votes": KEPT_OUT_WITH_OLD_VOTES,
    "admins: with dave": DAVE_ADDED,
    "alice keeps mallory out": EQUALS_KEEP_OUT,
    "pair: genesis": PAIR_GENESIS,
    "pair: with bob": PAIR,
    "pair: bob rotates": PAIR_ROTATION,
    "pair: with carol": PAIR_CAROL,
    "pair: bob removed": PAIR_REMOVAL,
    "public: genesis": PUBLIC_GENESIS,
    "public: bob lets himself in": PUBLIC_BOB,
    "public: bob makes himself an admin": PUBLIC_ADMIN,
    "public: bob lets carol in": PUBLIC_OTHER,
}


def _document(**changed: object) -> list[object]:
    fields: dict[str, object] = {
        "format": 1,
        "group_id": GROUP_ID,
        "version": 2,
        "prev": [GENESIS.hash],
        "mode": 2,
        "invited": None,
        "members": [each.to_wire() for each in WITH_BOB.members],
        "banned": [],
        "epoch": 1,
        "epoch_id": secret_id(_FIRST),
        "votes": [],
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
        zip(
            ("signing", "noise", "name", "label", "role", "capabilities", "since", "allowance"),
            GENESIS.members[0].to_wire(),
            strict=True,
        )
    )
    fields.update(changed)
    return _document(version=1, prev=[], members=[list(fields.values())])


def _alone(*, mode: int, role: int, invited: Identity | None = None) -> list[object]:
    """A genesis of another mode."""
    document = _with_member(role=role)
    return [*document[:4], mode, invited.signing_public if invited else None, *document[6:]]


def _refused() -> list[tuple[str, str, bytes]]:
    members = [each.to_wire() for each in WITH_BOB.members]
    same_noise = [members[0], [members[1][0], members[0][1], *members[1][2:]]]
    low, high = sorted((CAROL.signing_public, MALLORY.signing_public))
    return [
        ("rule 1: signature with a bit flipped", "signature", flip(WITH_BOB.raw, 10)),
        ("rule 1: document with a bit flipped", "signature", flip(WITH_BOB.raw, -40)),
        ("rule 1: signed as a message", "signature", _signed(_document(), b"covey/1 message")),
        ("rule 1: the issuer is not the signer", "signature", _signed(_document(issuer=BOB.signing_public))),
        ("rule 2: version 0", "malformed", _signed(_document(version=0, prev=[]))),
        (
            "rule 2: genesis with something before it",
            "malformed",
            _signed([*_with_member()[:3], [seeded("x")], *_with_member()[4:]]),
        ),
        ("rule 2: version 2 with nothing before it", "malformed", _signed(_document(prev=[]))),
        ("rule 3: members unsorted", "malformed", _signed(_document(members=members[::-1]))),
        ("rule 3: a signing key twice", "malformed", _signed(_document(members=[members[0], members[0]]))),
        ("rule 3: a noise key twice", "malformed", _signed(_document(members=same_noise))),
        ("rule 3: nobody", "limit", _signed(_document(members=[]))),
        ("rule 3: banned keys unsorted", "malformed", _signed(_document(banned=[[high, 2], [low, 2]]))),
        ("rule 3: a banned key twice", "malformed", _signed(_document(banned=[[low, 2], [low, 2]]))),
        ("rule 3: a member who is banned", "malformed", _signed(_document(banned=[[BOB.signing_public, 2]]))),
        ("rule 2: unsorted hashes", "malformed", _signed(_document(prev=sorted([GENESIS.hash, bytes(32)])[::-1]))),
        ("rule 2: a hash twice", "malformed", _signed(_document(prev=[GENESIS.hash, GENESIS.hash]))),
        ("rule 2: seventeen hashes", "limit", _signed(_document(prev=[bytes([each]) * 32 for each in range(17)]))),
        ("rule 6: a member of the future", "malformed", _signed(_with_member(since=2))),
        ("rule 6: a member of before the group", "malformed", _signed(_with_member(since=0))),
        ("rule 6: a ban of the future", "malformed", _signed(_document(banned=[[low, 3]]))),
        ("rule 8: a founder with less", "malformed", _signed(_with_member(allowance=FOUNDER_ALLOWANCE - 1))),
        ("rule 8: a founder with more", "malformed", _signed(_with_member(allowance=FOUNDER_ALLOWANCE + 1))),
        ("an allowance below 0", "malformed", _signed(_with_member(allowance=-1))),
        ("no allowance", "malformed", _signed(_with_member(allowance=None))),
        ("rule 7: one-to-one with nobody", "malformed", _signed(_document(mode=0))),
        ("rule 7: one-to-one with oneself", "malformed", _signed(_alone(mode=0, role=1, invited=ALICE))),
        ("rule 7: invited where all are", "malformed", _signed(_document(invited=BOB.signing_public))),
        ("rule 5: an admin among equals", "malformed", _signed(_with_member(role=1))),
        ("rule 5: no admin where admins invite", "malformed", _signed(_alone(mode=1, role=0))),
        ("votes unsorted", "malformed", _signed(_document(votes=[b"b", b"a"]))),
        ("a vote of 257 bytes", "limit", _signed(_document(votes=[bytes(257)]))),
        ("version beyond 63 bits", "malformed", _signed(_document(version=2**64 - 1))),
        ("rule 4: a name that lies", "malformed", _signed(_with_member(name="00000000"))),
        ("rule 4: a name in capitals", "malformed", _signed(_with_member(name=GENESIS.members[0].name.upper()))),
        ("rule 5: genesis with two members", "malformed", _signed(_document(version=1, prev=[]))),
        (
            "rule 5: genesis of somebody else",
            "malformed",
            _signed(_document(version=1, prev=[], members=[members[0 if members[0][0] == BOB.signing_public else 1]])),
        ),
        ("label of 65 bytes", "limit", _signed(_with_member(label="\u00e9" * 32 + "x"))),
        ("unknown role", "malformed", _signed(_with_member(role=7))),
        ("capabilities unsorted", "malformed", _signed(_with_member(capabilities=["b", "a"]))),
        ("a capability twice", "malformed", _signed(_with_member(capabilities=["a", "a"]))),
        ("nine capabilities", "limit", _signed(_with_member(capabilities=[f"c{number}" for number in range(9)]))),
        ("capability of 33 bytes", "limit", _signed(_with_member(capabilities=["c" * 33]))),
        ("noise key of 31 bytes", "malformed", _signed(_with_member(noise=bytes(31)))),
        ("rule 3: a noise key of small order", "malformed", _signed(_with_member(noise=bytes(32)))),
        ("rule 3: a noise key that is not reduced", "malformed", _signed(_with_member(noise=b"\xff" * 32))),
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
        "bytes": manifest.raw.hex(),
        "hash": manifest.hash.hex(),
        "group_id": manifest.group_id.hex(),
        "version": manifest.version,
        "prev": [each.hex() for each in manifest.prev],
        "mode": int(manifest.mode),
        "invited": manifest.invited.hex() if manifest.invited else None,
        "members": [
            {
                "signing_public": each.keys.signing_public.hex(),
                "noise_public": each.keys.noise_public.hex(),
                "name": each.name,
                "label": each.label,
                "role": int(each.role),
                "capabilities": list(each.capabilities),
                "since": each.since,
                "allowance": each.allowance,
            }
            for each in manifest.members
        ],
        "banned": [[each.signing_public.hex(), each.since] for each in manifest.banned],
        "epoch": manifest.epoch,
        "epoch_id": manifest.epoch_id.hex(),
        "votes": [vote.hex() for vote in manifest.votes],
        "issuer": manifest.issuer.hex(),
        "code": None,
    }


def make() -> dict[str, Any]:
    """Return the file."""
    chains = [
        ("genesis alone", ["genesis"], None),
        ("four versions", ["genesis", "with bob", "with carol", "without bob"], None),
        ("nothing", [], "malformed"),
        ("without its genesis", ["with bob", "with carol"], "genesis"),
        ("with a hole", ["genesis", "with carol"], "version_gap"),
        ("with a version twice", ["genesis", "with bob", "with bob"], "rollback"),
        (
            "with a conflict",
            ["genesis", "with bob", "with carol", "alice removes bob", "carol adds mallory", "bob out, mallory in"],
            None,
        ),
        ("by a stranger", ["genesis", "with bob", "by a stranger"], "unknown_issuer"),
        ("by a board", ["genesis", "with bob", "with a board", "by a board"], "unknown_issuer"),
        ("with another group's genesis", ["genesis of another group", "with bob"], "genesis"),
    ]
    return {
        "about": "Section 35. `manifests` are named by `trust` and `chains`. `agreements`: a device "
        "that holds all manifests, and one that begins with the one at index `begins`, believe the same.",
        "keys": keys(),
        "manifests": [_describe(name, manifest) for name, manifest in _ALL.items()],
        "refused": [{"name": name, "bytes": raw.hex(), "code": code} for name, code, raw in _refused()],
        "trust": group_scenarios.make(),
        "chains": [{"name": name, "chain": chain, "code": code} for name, chain, code in chains],
        "agreements": rivals.agreements(),
    }
