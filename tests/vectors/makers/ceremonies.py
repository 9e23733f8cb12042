"""ceremonies.json: one pairing with fixed randomness, message by message, and messages to refuse."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from covey.core.pairing.invite import Code, Invite
from covey.core.pairing.inviter import Inviter, session_entropy
from covey.core.pairing.joiner import Joiner
from covey.core.pairing.messages import (
    Admission,
    Answer,
    CeremonyKeys,
    Farewell,
    InviterIntroduction,
    JoinerIntroduction,
    Outcome,
    Password,
    Proof,
    Reason,
    Refusal,
    RendezvousMessage,
    Welcome,
    from_wire,
    refused,
    to_wire,
)
from covey.core.pairing.preview import GroupPreview
from covey.core.pake import Pake, Side
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, NOW_US, cbor, flip, keys, seeded

CODE = Code(42, ("abandon", "zoo", "river"))
_SEED, _Y = seeded("spake2 inviter", 64), seeded("spake2 joiner", 64)
_SHOWN = GroupPreview("Pumps", 2, ((ALICE.signing_public, "barn"), (CAROL.signing_public, "")))
_OURS = InviterIntroduction(ALICE.keys, "barn", GROUP_ID, _SHOWN)
_THEIRS = JoinerIntroduction(BOB.keys, "greenhouse", needs_credential=True)
_INVITE = Invite(GROUP_ID, ALICE.keys, seeded("invite", 16), NOW_US + 3_600_000_000, "")
_ADMISSION = Admission("mqtts://broker.example", "-----BEGIN CERTIFICATE-----\n", "a password", _INVITE)


def _machines(password: bytes) -> tuple[Inviter, Joiner]:
    own = {Password.CODE: password}
    return (
        Inviter(ALICE, _OURS, own, NOW_US, lambda _: _SEED),
        Joiner(BOB, _THEIRS, (Password.CODE, password), NOW_US, lambda _: _Y),
    )


def conversation() -> list[RendezvousMessage]:
    """Return every message of a pairing that ends well, in order."""
    inviter, joiner = _machines(CODE.password)
    said: list[bytes] = []
    for _ in range(2):
        (raw,) = joiner.messages_to_send((len(said) + 1) * 2_000_000)
        inviter.receive_message(raw, 0)
        (answer,) = inviter.messages_to_send(0)
        joiner.receive_message(answer, 0)
        said += [raw, answer]
    inviter.accept(_ADMISSION)
    (outcome,) = inviter.messages_to_send(0)
    joiner.receive_message(outcome, 0)
    joiner.stored()
    (departure,) = joiner.messages_to_send(NOW_US)
    return [from_wire(raw) for raw in (*said, outcome, departure)]


def _derivation(said: list[RendezvousMessage]) -> tuple[CeremonyKeys, dict[str, Any]]:
    answer, proof = said[1], said[2]
    assert isinstance(answer, Answer)
    assert isinstance(proof, Proof)
    entropy = session_entropy(_SEED, answer.session, Password.CODE, 64)
    key = Pake(Side.INVITER, CODE.password, lambda _: entropy).finish(proof.element)
    derived = CeremonyKeys.derive(key, answer.session, answer.commitment)
    shown = {
        "code": str(CODE),
        "inviter": "alice",
        "joiner": "bob",
        "spake2": {
            "id_a": b"covey/1 inviter".hex(),
            "id_b": b"covey/1 joiner".hex(),
            "password": CODE.password.hex(),
            "inviter_entropy": entropy.hex(),
            "joiner_entropy": _Y.hex(),
            "inviter_element": answer.element.hex(),
            "joiner_element": proof.element.hex(),
            "key": key.hex(),
        },
        "session": answer.session.hex(),
        "inviter_commitment": answer.commitment.hex(),
        "root": derived.root.hex(),
        "inviter_confirmation": derived.confirmation(Side.INVITER).hex(),
        "joiner_confirmation": derived.confirmation(Side.JOINER).hex(),
        "inviter_key": derived._key(Side.INVITER).hex(),
        "joiner_key": derived._key(Side.JOINER).hex(),
        "verifier": list(derived.verifier(ALICE.keys, BOB.keys)),
    }
    return derived, shown


def _messages(said: list[RendezvousMessage], derived: CeremonyKeys) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for message in said:
        entry = {"name": type(message).__name__.lower(), "bytes": to_wire(message).hex(), "code": None}
        sealed = getattr(message, "sealed", None)
        if sealed is not None:
            side = Side.JOINER if isinstance(message, (Proof, Farewell)) else Side.INVITER
            entry["opened"] = derived.open(side, message.KIND, sealed).hex()
        entries.append(entry)
    declined = derived.seal(Side.INVITER, Outcome.KIND, refused(Reason.DECLINED))
    entries.append(
        {
            "name": "outcome, declined",
            "bytes": to_wire(Outcome(derived.session, declined)).hex(),
            "opened": refused(Reason.DECLINED).hex(),
            "code": None,
        }
    )
    named = replace(_OURS, operators=(CAROL.signing_public,)).to_wire()
    sealed = derived.introduce(Side.INVITER, Welcome.KIND, named, ALICE)
    entries.append(
        {
            "name": "welcome, with an operator",
            "bytes": to_wire(Welcome(derived.session, derived.confirmation(Side.INVITER), sealed)).hex(),
            "opened": derived.open(Side.INVITER, Welcome.KIND, sealed).hex(),
            "code": None,
        }
    )
    entries += [
        {
            "name": f"refusal, {reason.name.lower()}",
            "bytes": to_wire(Refusal(derived.session, reason)).hex(),
            "code": None,
        }
        for reason in Reason
    ]
    return entries


def _refused(said: list[RendezvousMessage], session: bytes) -> list[dict[str, Any]]:
    offer, answer, proof = (to_wire(message) for message in said[:3])
    cases = [
        ("nothing", "malformed", b""),
        ("cut", "malformed", proof[:-1]),
        ("a byte after it", "malformed", offer + b"\x00"),
        ("version 2", "malformed", cbor([2, 1, session, 0])),
        ("kind 0", "malformed", cbor([1, 0, session])),
        ("kind 8", "malformed", cbor([1, 8, session])),
        ("kind true", "malformed", cbor([1, True, session, 0])),
        ("a field missing", "malformed", cbor([1, 1, session])),
        ("a field too many", "malformed", cbor([1, 1, session, 0, 0])),
        ("session of 31 bytes", "malformed", cbor([1, 1, session[:31], 0])),
        ("a secret of kind 2", "malformed", cbor([1, 1, session, 2])),
        ("an element of 33 bytes", "malformed", cbor([1, 2, session, bytes(33), bytes(32)])),
        ("reason 0", "malformed", cbor([1, 7, session, 0])),
        ("reason 256", "malformed", cbor([1, 7, session, 256])),
        ("not an array", "malformed", cbor({})),
        ("not deterministic", "malformed", b"\x84\x18\x01" + offer[2:]),
        ("a flipped head", "malformed", flip(answer, 0, 5)),
        ("longer than any", "limit", cbor([1, 5, session, bytes(32_768)])),
    ]
    return [{"name": name, "bytes": raw.hex(), "code": code} for name, code, raw in cases]


def make() -> dict[str, Any]:
    """Return the file."""
    said = conversation()
    derived, shown = _derivation(said)
    return {
        "about": "Section 36. SPAKE2's scalars are the entropy, as a big-endian number, mod L.",
        "keys": keys(),
        "derivation": shown,
        "vectors": _messages(said, derived) + _refused(said, derived.session),
    }
