"""`covey.core.pairing.ceremony`: bytes that are replayed, cut, flipped, too long or of another version."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.pairing.ceremony import Admitted, InviterMet
from covey.core.pairing.inviter import Inviter
from covey.core.pairing.messages import (
    InviterIntroduction,
    Password,
    Proof,
    from_wire,
    to_wire,
)
from covey.core.wire import cbor
from covey.errors import (
    LimitError,
    MalformedError,
)
from covey.limits.pairing import (
    INVITE_US,
    MAXIMUM_RENDEZVOUS_BYTES,
)
from tests.meeting import ANN, CODE, GROUP, SHOWN, START_US, Meeting, admission, inviter, joiner, rng


def test_replays_and_reflections_change_nothing(meeting: Meeting) -> None:
    met = meeting.met()
    for raw in list(meeting.seen):  # to everybody, old ones and one's own
        meeting.to_inviter(raw)
        meeting.to_joiner(raw)
    assert (meeting.inviting.ending, meeting.joining.ending) == (None, None)
    assert {error.code for error in meeting.refused} == {"malformed"}
    meeting.inviting.accept(admission())
    meeting.flush()
    [event] = meeting.events()
    assert event == Admitted(admission())
    assert met.verifier


def test_an_earlier_ceremony_replayed_is_a_wrong_try(meeting: Meeting) -> None:
    meeting.met()
    own = InviterIntroduction(ANN.keys, "ann", GROUP, SHOWN)
    later = Inviter(ANN, own, {Password.CODE: CODE}, START_US + INVITE_US, rng("later"))
    replayed = Meeting(later, joiner("carol"))
    for raw in meeting.seen:
        replayed.to_inviter(raw)
    assert (later.met, later.ending, later.wrong_tries) == (None, None, 1)


def test_a_second_proof_of_who_has_proved_is_refused(meeting: Meeting) -> None:
    meeting.round()
    [proof] = meeting.from_joiner()
    meeting.to_inviter(proof)
    known = from_wire(proof)
    assert isinstance(known, Proof)
    meeting.to_inviter(to_wire(Proof(known.session, known.element, bytes(32), known.sealed)))
    assert [str(error) for error in meeting.refused] == ["the device already sent a proof"]
    assert meeting.inviting.met is not None
    assert meeting.inviting.ending is None


def test_every_truncation_is_refused_before_the_machine_moves(meeting: Meeting) -> None:
    [offer] = meeting.from_joiner()
    [answer] = meeting.to_inviter(offer)
    for cut in range(len(answer)):
        meeting.to_joiner(answer[:cut])
    meeting.to_joiner(answer)
    [proof] = meeting.from_joiner()
    for cut in range(len(proof)):
        meeting.to_inviter(proof[:cut])
    [welcome] = meeting.to_inviter(proof)
    for cut in range(len(welcome)):
        meeting.to_joiner(welcome[:cut])
    meeting.to_joiner(welcome)
    assert [type(event) for event in meeting.events()] == [InviterMet]
    assert {error.code for error in meeting.refused} == {"malformed"}


@pytest.mark.parametrize("bit", range(0, 264 * 8, 89))
def test_a_flipped_bit_at_most_ends_it(bit: int) -> None:
    meeting = Meeting(inviter(), joiner())
    meeting.round()
    [proof] = meeting.from_joiner()
    changed = bytearray(proof)
    changed[bit // 8 % len(proof)] ^= 1 << bit % 8
    meeting.to_inviter(bytes(changed))
    assert meeting.inviting.met is None
    assert len(meeting.refused) == 1


def test_too_long_is_refused_before_parsing(meeting: Meeting) -> None:
    with pytest.raises(LimitError):
        meeting.inviting.receive_message(bytes(MAXIMUM_RENDEZVOUS_BYTES + 1), START_US)


def test_an_element_that_is_none_is_no_try() -> None:
    for element in (bytes(32), b"\x01" + bytes(31), b"\xff" * 32):
        meeting = Meeting(inviter(), joiner())
        meeting.round()
        [raw] = meeting.from_joiner()
        proof = from_wire(raw)
        assert isinstance(proof, Proof)
        with pytest.raises(MalformedError):
            meeting.inviting.receive_message(
                to_wire(Proof(proof.session, element, proof.confirmation, proof.sealed)), 1
            )
        assert (meeting.inviting.ending, meeting.inviting.wrong_tries) == (None, 0)


def test_a_message_of_another_version_is_refused(meeting: Meeting) -> None:
    zeros = bytes(32)
    items: tuple[Any, ...] = ([2, 1, zeros, 0], [1, 9, zeros], [1], {}, [1, True, zeros, 0], [1, 1, zeros, 2])
    for item in items:
        with pytest.raises(MalformedError):
            meeting.inviting.receive_message(cbor.encode(item), START_US)
