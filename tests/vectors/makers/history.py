"""history.json: operations by themselves, then what a device that holds some of them does with another one."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import BOARD, Member, Mode, Role, genesis, secret_id, sign_manifest
from covey.core.history.bodies import GroupProfile, Merge, Note, Picture, Session
from covey.core.history.checkpoint import CheckpointPart
from covey.core.history.messages import NOTHING_ASKED, HistoryPull, OperationBundle
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.personal import Holding, OwnGroup
from covey.core.ids import GroupId, Incarnation, ManifestHash, OperationId
from covey.limits.history import LOGS_OF_ONE, MAXIMUM_OPERATION_BODY_BYTES, MAXIMUM_PARENTS
from tests.vectors.makers.cast import (
    ALICE,
    BOB,
    CAROL,
    GROUP_ID,
    INCARNATION,
    MALLORY,
    NOW_US,
    cbor,
    flip,
    keys,
    seeded,
)
from tests.vectors.makers.groups import GENESIS, WITH_BOB, WITH_CAROL, WITHOUT_BOB
from tests.vectors.makers.plans import SPEED
from tests.vectors.makers.sponsors import lines

_DOMAIN = b"covey/1 operation"
_EPOCH = secret_id(seeded("epoch 1"))
_WITH_A_BOARD = sign_manifest(WITH_CAROL.adding(Member(MALLORY.keys, capabilities=(BOARD,))), ALICE)
_FOUNDED = sign_manifest(genesis(GROUP_ID, Member(ALICE.keys), _EPOCH, Mode.ADMIN_INVITES), ALICE)
LED = sign_manifest(_FOUNDED.adding(Member(BOB.keys, role=Role.ADMIN)).adding(Member(CAROL.keys)), ALICE)
_PERSONAL = sign_manifest(genesis(GROUP_ID, Member(ALICE.keys), _EPOCH, Mode.PERSONAL), ALICE)
_MANIFESTS = (GENESIS, WITH_BOB, WITH_CAROL, WITHOUT_BOB, _WITH_A_BOARD, LED, _PERSONAL)
_NOTE = Note("text/plain", "Pumpe 3 klappert \N{WRENCH}".encode())


def _operation(author: Identity, number: int, *parents: Operation, **changed: Any) -> Operation:
    """Return an operation of the log that its author has; anything of it may be another."""
    height = 1 + max((parent.height for parent in parents), default=0)
    ids = tuple(sorted(parent.id for parent in parents))
    log = Log(author.signing_public, INCARNATION)
    before = next((each.id for each in parents if (each.log, each.number + 1) == (log, number)), None)
    previous = before or (None if number == 1 else OperationId(seeded(f"operation {number - 1}")))
    first = Operation(GROUP_ID, log, number, previous, ids, height, WITH_CAROL.hash, NOW_US, 1, _NOTE.to_wire())
    return sign_operation(replace(first, **changed), author)


FIRST = _operation(ALICE, 1)
SECOND = _operation(ALICE, 2, FIRST)
ANSWER = _operation(BOB, 1, FIRST, body=Note("text/plain", b"oiled", about=FIRST.id).to_wire())
EDITED = _operation(ALICE, 3, SECOND, body=Note("text/plain", b"pump 4", replaces=FIRST.id).to_wire())
MERGED = _operation(CAROL, 1, SECOND, ANSWER, kind=0, body=Merge().to_wire())
AFTER_REMOVAL = _operation(CAROL, 2, MERGED, manifest=WITHOUT_BOB.hash)
FORK = _operation(ALICE, 2, FIRST, made_at_us=NOW_US + 1)
_RIVALS = (_operation(ALICE, 2, FIRST, made_at_us=NOW_US + later) for later in count(2))
THIRD_RIVAL = next(each for each in _RIVALS if each.id > max(SECOND.id, FORK.id))
_LOWEST_RIVAL = next(each for each in _RIVALS if each.id < min(SECOND.id, FORK.id))

SESSION = _operation(ALICE, 1, kind=3, body=Session("https://meet.example/1", NOW_US).to_wire())
_PROFILE = GroupProfile("Pumpen", "", Picture("image/png", b"\x89PNG")).to_wire()
_NO_PICTURE = cbor(["", "", ["text/html", b"<script>"]])
_AHEAD = _operation(ALICE, 1, made_at_us=NOW_US + 10**15)
_NOT_ITSELF = _operation(BOB, 1, log=Log(BOB.signing_public, Incarnation(bytes(8))))
_ITS_OWN_PARENT = _operation(BOB, 1, _NOT_ITSELF, log=_NOT_ITSELF.log)
"""Names the id that it has until it names one: that of another operation."""
_LATER_HALF = _operation(CAROL, 1, _operation(BOB, 1, FIRST))
CYCLE = (_operation(BOB, 1, _LATER_HALF), _LATER_HALF)
"""Two that would follow each other if ids were no hashes; what they rest on is a third one."""
_HELD = OwnGroup(GROUP_ID, Holding.HELD).to_wire()
_CREATED = OwnGroup(GROUP_ID, Holding.HELD, created=True).to_wire()
_NOT_CREATED = cbor([GROUP_ID, 0, "", False])
_STATE = CheckpointPart(0, 1, seeded("state"), b"\x80").to_wire()
_ENDED = Session("https://meet.example/1", NOW_US, NOW_US + 60_000_000, SESSION.id).to_wire()
_TOO_SOON = Session("", NOW_US, NOW_US - 1, SESSION.id).to_wire()
_OF_NONE = cbor(["", 1, 2, None])


def _fields(**changed: object) -> bytes:
    fields: dict[str, object] = {
        "version": 1,
        "group_id": GROUP_ID,
        "author": ALICE.signing_public,
        "incarnation": INCARNATION,
        "number": 2,
        "previous": FIRST.id,
        "parents": [FIRST.id],
        "height": 2,
        "manifest": WITH_CAROL.hash,
        "made_at_us": NOW_US,
        "kind": 1,
        "body": _NOTE.to_wire(),
    }
    return cbor(list({**fields, **changed}.values()))


def _signed(document: bytes, signer: Identity = ALICE, domain: bytes = _DOMAIN) -> bytes:
    return cbor([crypto.sign(domain, document, signer), document])


def _accepted() -> list[dict[str, Any]]:
    named = {
        "the first operation": FIRST,
        "the second one of its log": SECOND,
        "a comment": ANSWER,
        "an edit": EDITED,
        "a merge": MERGED,
    }
    return [
        {
            "name": name,
            "code": None,
            "bytes": made.raw.hex(),
            "id": made.id.hex(),
            "author": made.author.hex(),
            "incarnation": made.log.incarnation.hex(),
            "number": made.number,
            "previous": None if made.previous is None else made.previous.hex(),
            "parents": [parent.hex() for parent in made.parents],
            "height": made.height,
            "manifest": made.manifest.hex(),
            "made_at_us": made.made_at_us,
            "kind": made.kind,
            "body": made.body.hex(),
        }
        for name, made in named.items()
    ]


def _refused() -> list[dict[str, Any]]:
    nine = sorted(seeded(f"parent {number}") for number in range(MAXIMUM_PARENTS + 1))
    documents = {
        ("another version", "malformed"): _fields(version=2),
        ("number 0", "malformed"): _fields(number=0, previous=None),
        ("the first of its log, after another", "malformed"): _fields(number=1),
        ("the second of its log, after none", "malformed"): _fields(previous=None),
        ("a parent twice", "malformed"): _fields(parents=[FIRST.id, FIRST.id]),
        ("parents not sorted", "malformed"): _fields(parents=nine[1::-1]),
        ("height 1 with a parent", "malformed"): _fields(height=1),
        ("height 2 without one", "malformed"): _fields(parents=[]),
        ("height 0", "malformed"): _fields(parents=[], height=0),
        ("a number beyond 2^40 - 1", "malformed"): _fields(number=2**40),
        ("nine parents", "limit"): _fields(parents=nine),
        ("a body too long", "limit"): _fields(body=bytes(MAXIMUM_OPERATION_BODY_BYTES + 1)),
    }
    raws = {name: _signed(document) for name, document in documents.items()}
    raws["by somebody else", "signature"] = _signed(_fields(), MALLORY)
    raws["signed as a message", "signature"] = _signed(_fields(), domain=b"covey/1 message")
    raws["a bit flipped", "signature"] = flip(SECOND.raw, len(SECOND.raw) - 1)
    raws["followed by a byte", "malformed"] = SECOND.raw + b"\x00"
    return [{"name": name, "code": code, "bytes": raw.hex()} for (name, code), raw in raws.items()]


def _scenario(
    name: str, outcome: str | None, offered: Operation, *held: Operation, follower: Operation | None = None
) -> dict[str, Any]:
    """Say what becomes of an operation; `outcome` is null where it is taken, `waits`, or the code of a rule.

    `follower` is an operation in its author's share that comes with it and follows it.
    """
    return {
        "name": name,
        "outcome": outcome,
        "held": [each.raw.hex() for each in held],
        "bytes": offered.raw.hex(),
        "follower": None if follower is None else follower.raw.hex(),
    }


def _bobs_log(number: int) -> Operation:
    return _operation(BOB, 1, log=Log(BOB.signing_public, Incarnation(number.to_bytes(8))))


def _scenarios() -> list[dict[str, Any]]:
    bobs = [_bobs_log(number) for number in range(LOGS_OF_ONE + 1)]
    follower = _operation(CAROL, 1, bobs[-1])
    carols = _operation(CAROL, 1, *bobs[:MAXIMUM_PARENTS])
    alone = _operation(ALICE, 1, FIRST, log=Log(ALICE.signing_public, Incarnation(bytes(8))))
    return [
        _scenario("the first operation", None, FIRST),
        _scenario("an answer", None, ANSWER, FIRST),
        _scenario("what it follows is not here", "waits", SECOND),
        _scenario("the one before in its log is not here", "waits", _operation(ALICE, 3, FIRST), FIRST),
        _scenario("its manifest is not here", "waits", _operation(ALICE, 1, manifest=ManifestHash(seeded("later")))),
        _scenario("a second log of the same author", None, alone, FIRST),
        _scenario("a fork, which is kept", None, FORK, FIRST, SECOND),
        _scenario("a third rival", "limit", THIRD_RIVAL, FIRST, SECOND, FORK),
        _scenario("a third rival with a lower id", None, _LOWEST_RIVAL, FIRST, SECOND, FORK),
        _scenario(
            "a third rival that another author follows",
            None,
            THIRD_RIVAL,
            FIRST,
            SECOND,
            FORK,
            follower=_operation(BOB, 1, THIRD_RIVAL),
        ),
        _scenario("the last log of an author's share", None, bobs[-2], *bobs[:-2]),
        _scenario("a log beyond its author's share", "limit", bobs[-1], *bobs[:-1]),
        _scenario("a log below those of its author's share", None, bobs[0], *bobs[1:]),
        _scenario("a log that another author follows", None, bobs[-1], *bobs[:-1], follower=follower),
        _scenario("a member's first log, whatever others have", None, carols, *bobs[:-1]),
        _scenario("a height that lies", "malformed", _operation(BOB, 1, FIRST, height=7), FIRST),
        _scenario("the first of its log, by a stranger", "not_a_member", _operation(MALLORY, 1)),
        _scenario("by a removed member, under what removed it", "not_a_member", _by_bob(), FIRST),
        _scenario(
            "by one before the removal, of what came after",
            "rollback",
            _late(),
            FIRST,
            SECOND,
            ANSWER,
            MERGED,
            AFTER_REMOVAL,
        ),
        _scenario("beside the one before it in its log", "malformed", _operation(ALICE, 2, previous=FIRST.id), FIRST),
        _scenario("after another's", "malformed", _operation(BOB, 2, FIRST, previous=FIRST.id), FIRST),
        _scenario("after the wrong number", "malformed", _operation(ALICE, 3, FIRST, previous=FIRST.id), FIRST),
        _scenario("of a kind that nobody knows", None, _operation(ALICE, 1, kind=200)),
        _scenario("a merge of one", None, _operation(BOB, 1, FIRST, kind=0, body=Merge().to_wire()), FIRST),
        _scenario("a note of no type", "malformed", _operation(ALICE, 1, body=Note("plain", b"").to_wire())),
        _scenario(
            "a note with a field more", "malformed", _operation(ALICE, 1, body=cbor(["a/b", b"", None, None, 0]))
        ),
        _scenario("a profile, where all are equal", None, _operation(BOB, 1, FIRST, kind=2, body=_PROFILE), FIRST),
        _scenario("a picture that is none", "malformed", _operation(ALICE, 1, kind=2, body=_NO_PICTURE)),
        _scenario("a session begins", None, SESSION),
        _scenario("a session ends", None, _operation(BOB, 1, SESSION, kind=3, body=_ENDED), SESSION),
        _scenario("a session ends before it begins", "malformed", _operation(ALICE, 1, kind=3, body=_TOO_SOON)),
        _scenario("a session that ends and names none", "malformed", _operation(ALICE, 1, kind=3, body=_OF_NONE)),
        _scenario(
            "of a personal group's kind, in another one", "not_allowed", _operation(ALICE, 1, kind=10, body=_HELD)
        ),
        _scenario("a personal group's kind in one", None, _in_personal(10, _HELD)),
        _scenario("a group that its author created", None, _in_personal(10, _CREATED)),
        _scenario("a group that its author did not create", "malformed", _in_personal(10, _NOT_CREATED)),
        _scenario("a preference without a key", "malformed", _in_personal(11, cbor([None, "", "dark"]))),
        _scenario("a plan in a personal group", None, _in_personal(14, SPEED.to_wire())),
        _scenario(
            "a plan in another group, where it is opaque", None, _operation(ALICE, 1, kind=14, body=SPEED.to_wire())
        ),
        _scenario("a plan that cannot be read", None, _in_personal(14, cbor([1]))),
        _scenario("a checkpoint in a personal group", "not_allowed", _in_personal(9, _STATE)),
        _scenario("a note by a board", "not_a_member", _operation(MALLORY, 1, manifest=_WITH_A_BOARD.hash)),
        _scenario("a checkpoint by an admin", None, _operation(BOB, 1, kind=9, body=_STATE, manifest=LED.hash)),
        _scenario("a checkpoint by no admin", "not_allowed", _by_no_admin(9, _STATE)),
        _scenario("a profile by no admin", "not_allowed", _by_no_admin(2, _PROFILE)),
        _scenario("a note by no admin", None, _by_no_admin(1, _NOTE.to_wire())),
        _scenario("a parent in the future", "malformed", _operation(BOB, 1, EDITED, height=3), FIRST, SECOND, EDITED),
        _scenario("a parent that its author dated later", None, _operation(BOB, 1, _AHEAD), _AHEAD),
        _scenario("a parent of itself", "waits", _ITS_OWN_PARENT),
        _scenario("a parent of itself, as far as that can be", None, _ITS_OWN_PARENT, _NOT_ITSELF),
        _scenario("one half of a cycle", "waits", CYCLE[0], FIRST),
        _scenario("the other half of a cycle", "waits", CYCLE[1], FIRST),
        _scenario("of another group", "not_for_us", _operation(ALICE, 1, group_id=GroupId(seeded("other group")))),
    ]


def _in_personal(kind: int, body: bytes) -> Operation:
    return _operation(ALICE, 1, kind=kind, body=body, manifest=_PERSONAL.hash)


def _by_no_admin(kind: int, body: bytes) -> Operation:
    return _operation(CAROL, 1, kind=kind, body=body, manifest=LED.hash)


def _by_bob() -> Operation:
    return _operation(BOB, 1, FIRST, manifest=WITHOUT_BOB.hash)


def _late() -> Operation:
    return _operation(BOB, 2, AFTER_REMOVAL, previous=ANSWER.id)


def _bodies() -> list[dict[str, Any]]:
    bundle = OperationBundle((FIRST.raw, SECOND.raw), more=1_060)
    pull = HistoryPull({FIRST.log: 2, ANSWER.log: 1}, (OperationId(seeded("wanted")),))
    twice = cbor([[[ALICE.signing_public, INCARNATION, 1], [ALICE.signing_public, INCARNATION, 2]], []])
    tagged = pull.with_tags(seeded("salt", 8))
    descending = cbor([bytes(8), False, bytes([2] * 4 + [1] * 4), 1, [0, 0], []])
    one_short = cbor([bytes(8), False, bytes([1] * 4 + [2] * 4), 1, [0], []])
    from_less = cbor([bytes(8), False, bytes([1] * 4 + [2] * 4), 1, [1, 2], []])
    behind = HistoryPull({FIRST.log: 2}, only=True).with_tags(seeded("salt", 8))
    return [
        {"name": "two operations, and more", "type": "OPERATIONS", "code": None, "bytes": bundle.to_wire().hex()},
        {"name": "no number", "type": "OPERATIONS", "code": "malformed", "bytes": cbor([[], True]).hex()},
        {"name": "how far it has come", "type": "HISTORY_PULL", "code": None, "bytes": pull.to_wire().hex()},
        {"name": "how far, with tags", "type": "HISTORY_PULL", "code": None, "bytes": tagged.to_wire().hex()},
        {"name": "of one log alone", "type": "HISTORY_PULL", "code": None, "bytes": behind.to_wire().hex()},
        {"name": "nothing", "type": "HISTORY_PULL", "code": None, "bytes": NOTHING_ASKED.to_wire().hex()},
        {"name": "not from the least", "type": "HISTORY_PULL", "code": "malformed", "bytes": from_less.hex()},
        {"name": "tags descending", "type": "HISTORY_PULL", "code": "malformed", "bytes": descending.hex()},
        {"name": "more tags than numbers", "type": "HISTORY_PULL", "code": "malformed", "bytes": one_short.hex()},
        {"name": "a log twice", "type": "HISTORY_PULL", "code": "malformed", "bytes": twice.hex()},
    ]


def make() -> dict[str, Any]:
    """Return the file."""
    return {
        "keys": keys(),
        "group_id": GROUP_ID.hex(),
        "manifests": [manifest.raw.hex() for manifest in _MANIFESTS],
        "operations": [*_accepted(), *_refused()],
        "scenarios": _scenarios(),
        "lines": lines(),
        "bodies": _bodies(),
    }
