"""`covey.core.pairing.messages`: the committed vectors, from SPAKE2's randomness to each message's bytes."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.crypto import DeviceKeys
from covey.core.ids import DeviceKey, NoisePublic
from covey.core.pairing.messages import CeremonyKeys, from_wire, inviter_commitment, joiner_commitment, to_wire
from covey.core.pake import Pake, Side
from covey.errors import RemoteError
from tests.vectors import load, vectors
from tests.vectors.makers.ceremonies import conversation

_FILE = load("ceremonies")
_DERIVATION = _FILE["derivation"]


def _keys(role: str) -> DeviceKeys:
    found = _FILE["keys"][_DERIVATION[role]]
    return DeviceKeys(
        DeviceKey(bytes.fromhex(found["signing_public"])), NoisePublic(bytes.fromhex(found["noise_public"]))
    )


def test_both_sides_derive_the_same() -> None:
    spake2 = {name: bytes.fromhex(value) for name, value in _DERIVATION["spake2"].items()}
    inviter = Pake(Side.INVITER, spake2["password"], lambda _: spake2["inviter_entropy"])
    joiner = Pake(Side.JOINER, spake2["password"], lambda _: spake2["joiner_entropy"])
    assert (inviter.element, joiner.element) == (spake2["inviter_element"], spake2["joiner_element"])
    assert inviter.finish(joiner.element) == joiner.finish(inviter.element) == spake2["key"]
    session = joiner_commitment(joiner.element, _keys("joiner"))
    commitment = inviter_commitment(session, inviter.element, _keys("inviter"))
    assert (session.hex(), commitment.hex()) == (_DERIVATION["session"], _DERIVATION["inviter_commitment"])
    derived = CeremonyKeys.derive(spake2["key"], session, commitment)
    assert derived.root.hex() == _DERIVATION["root"]
    assert derived.confirmation(Side.INVITER).hex() == _DERIVATION["inviter_confirmation"]
    assert derived.confirmation(Side.JOINER).hex() == _DERIVATION["joiner_confirmation"]
    assert list(derived.verifier(_keys("inviter"), _keys("joiner"))) == _DERIVATION["verifier"]


def test_the_machines_write_these_bytes() -> None:
    accepted = [vector["bytes"] for vector in _FILE["vectors"] if vector["code"] is None]
    assert [to_wire(message).hex() for message in conversation()] == accepted[:6]


@pytest.mark.parametrize("vector", vectors("ceremonies"))
def test_messages(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            from_wire(raw)
        assert caught.value.code == vector["code"]
        return
    message = from_wire(raw)
    assert to_wire(message) == raw
    if "opened" in vector:
        derived = CeremonyKeys(message.session, bytes.fromhex(_DERIVATION["root"]))
        side = Side.JOINER if vector["name"] in {"proof", "farewell"} else Side.INVITER
        assert derived.open(side, message.KIND, message.sealed).hex() == vector["opened"]  # type: ignore[union-attr]
