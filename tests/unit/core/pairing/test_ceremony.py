"""`covey.core.pairing.ceremony`: two machines, and a relay between them that does what it likes."""

from __future__ import annotations

import pytest

from covey.core.crypto import DeviceKeys
from covey.core.pairing.ceremony import Admitted, Ending, InviterMet
from covey.core.pairing.messages import (
    Answer,
    CeremonyKeys,
    InviterIntroduction,
    JoinerIntroduction,
    Offer,
    Outcome,
    Password,
    Proof,
    Reason,
    Refusal,
    Welcome,
    from_wire,
    inviter_commitment,
    joiner_commitment,
    to_wire,
)
from covey.core.pake import Pake, Side
from covey.errors import (
    DecryptionError,
    InviteError,
    SignatureError,
)
from covey.limits.pairing import (
    INVITE_US,
    PAIRING_RESEND_US,
    PAIRING_SILENCE_US,
)
from tests.meeting import ANN, BEN, CODE, EVE, GROUP, SHOWN, START_US, Meeting, admission, inviter, joiner, rng


def test_both_see_the_same_words_and_the_joiner_is_admitted(meeting: Meeting) -> None:  # accepts: 003.13
    met = meeting.met()
    assert meeting.inviting.met is not None
    assert met.verifier == meeting.inviting.met.verifier
    assert len(met.verifier) == 4
    assert (met.inviter.keys, met.inviter.label, met.inviter.group_id) == (ANN.keys, "ann", GROUP)
    assert meeting.inviting.met.joiner == JoinerIntroduction(BEN.keys, "ben", needs_credential=True)
    meeting.inviting.accept(admission())
    meeting.flush()
    assert list(meeting.events()) == [Admitted(admission())]
    meeting.joining.stored()
    meeting.round()
    assert (meeting.joining.ending, meeting.inviting.ending) == (Ending.PAIRED, Ending.PAIRED)
    assert not meeting.refused
    assert max(len(raw) for raw in meeting.seen) < 1_000
    assert all(bytes(BEN.signing_public) not in raw and b"password" not in raw for raw in meeting.seen)


def test_the_joiner_may_start_before_the_inviter() -> None:
    joining = joiner()
    for _ in range(3):  # nobody listens: the relay forgets them
        assert len(list(Meeting(inviter(), joining).from_joiner())) == 1
        joining._send_at_us = 0
    meeting = Meeting(inviter(), joining)
    assert meeting.met().inviter.keys == ANN.keys


def test_lost_ceremony_messages_are_repeated(meeting: Meeting) -> None:
    for _ in range(2):
        meeting.to_inviter(*meeting.from_joiner())  # the answer is lost
    meeting.round()
    for _ in range(2):
        meeting.to_inviter(*meeting.from_joiner())  # the welcome is lost
    meeting.inviting.accept(admission())
    list(meeting.inviting.messages_to_send(meeting.now_us))  # the outcome is lost
    meeting.round()
    assert [type(event) for event in meeting.events()] == [InviterMet, Admitted]


def test_an_outcome_before_the_welcome_comes_again(meeting: Meeting) -> None:
    meeting.round()
    [proof] = meeting.from_joiner()
    [welcome] = meeting.to_inviter(proof)
    meeting.inviting.accept(admission())
    [outcome] = meeting.inviting.messages_to_send(meeting.now_us)
    for raw in (outcome, welcome):
        meeting.to_joiner(raw)
    assert [type(event) for event in meeting.events()] == [InviterMet]
    meeting.round()
    assert [type(event) for event in meeting.events()] == [Admitted]


def test_a_vanished_partner_ends_the_ceremony(meeting: Meeting) -> None:
    meeting.met()
    for machine in (meeting.inviting, meeting.joining):
        machine.handle_deadline(meeting.now_us + PAIRING_SILENCE_US - 1)
        assert machine.ending is None
        machine.handle_deadline(meeting.now_us + PAIRING_SILENCE_US)
        assert machine.ending is Ending.VANISHED
    assert not meeting.inviting.admitted
    assert list(meeting.inviting.messages_to_send(meeting.now_us)) == []


def test_an_unproved_joiner_delays_nobody(meeting: Meeting) -> None:
    meeting.round()
    for machine in (meeting.inviting, meeting.joining):
        machine.handle_deadline(meeting.now_us + PAIRING_SILENCE_US)
    assert (meeting.inviting.ending, meeting.joining.ending) == (None, Ending.VANISHED)


def test_repetition_is_a_sign_of_life(meeting: Meeting) -> None:
    meeting.met()
    for _ in range(2 * PAIRING_SILENCE_US // PAIRING_RESEND_US):
        meeting.round()
        for machine in (meeting.inviting, meeting.joining):
            machine.handle_deadline(meeting.now_us)
    assert (meeting.inviting.ending, meeting.joining.ending) == (None, None)


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_a_code_lives_ten_minutes(meeting: Meeting, rounds: int) -> None:
    meeting.now_us = START_US + INVITE_US - 10_000_000
    for _ in range(rounds):
        meeting.round()
    meeting.inviting.handle_deadline(START_US + INVITE_US)
    assert meeting.inviting.ending is Ending.EXPIRED
    meeting.flush()
    meeting.joining.handle_deadline(START_US + INVITE_US)
    assert meeting.joining.ending is Ending.EXPIRED


@pytest.mark.parametrize(
    ("ending", "received"),
    [
        (Ending.CANCELLED, Ending.CANCELLED),
        (Ending.INTERRUPTED, Ending.CANCELLED),
        (Ending.DECLINED, Ending.DECLINED),
        (Ending.FAILED, Ending.FAILED),
    ],
)
def test_the_inviter_says_why_it_ends(meeting: Meeting, ending: Ending, received: Ending) -> None:
    meeting.met()
    meeting.inviting.end(ending)
    meeting.flush()
    assert (meeting.inviting.ending, meeting.joining.ending) == (ending, received)
    assert list(meeting.joining.messages_to_send(meeting.now_us + PAIRING_RESEND_US)) == []


def test_the_joiner_says_that_it_goes(meeting: Meeting) -> None:
    meeting.met()
    meeting.joining.leave()
    meeting.round()
    assert (meeting.joining.ending, meeting.inviting.ending) == (Ending.CANCELLED, Ending.LEFT)


def test_before_the_proof_it_goes_silently(meeting: Meeting) -> None:
    meeting.round()
    meeting.joining.leave()
    assert meeting.from_joiner() == []


def test_from_the_welcome_on_nobody_else_can_end_it(meeting: Meeting) -> None:
    meeting.met()
    session = from_wire(meeting.seen[0]).session
    for reason in Reason:
        meeting.to_joiner(to_wire(Refusal(session, reason)))
    for kind in (Outcome(session, bytes(40)), Welcome(session, bytes(32), bytes(40))):
        meeting.to_joiner(to_wire(kind))
    assert meeting.joining.ending is None
    assert [type(error) for error in meeting.refused] == [DecryptionError]


def test_a_uri_pins_the_inviters_keys() -> None:
    meeting = Meeting(inviter("eve"), joiner(pinned=ANN.keys))
    meeting.round()
    meeting.round()
    assert list(meeting.events()) == []
    assert [str(error) for error in meeting.refused] == ["the keys differ from the invite's"]


def test_nobody_gets_in_under_a_key_that_it_does_not_hold() -> None:
    """A joiner that names somebody else's signing key would get that one's account."""
    thief = joiner("eve", identity=EVE, keys=DeviceKeys(BEN.signing_public, EVE.noise_public))
    meeting = Meeting(inviter(), thief)
    meeting.round()
    meeting.round()
    assert (meeting.inviting.met, meeting.inviting.wrong_tries) == (None, 1)
    assert [type(error) for error in meeting.refused] == [SignatureError]


def test_keys_are_fixed_before_the_words_are_known() -> None:
    """Whoever could choose keys late would search for ones that give both people the same words."""
    inviting = inviter()
    pake = Pake(Side.JOINER, CODE, rng("late"))
    session = joiner_commitment(pake.element, BEN.keys)
    inviting.receive_message(to_wire(Offer(session, Password.CODE)), START_US)
    answer = from_wire(*inviting.messages_to_send(START_US))
    assert isinstance(answer, Answer)
    keys = CeremonyKeys.derive(pake.finish(answer.element), session, answer.commitment)
    late = JoinerIntroduction(EVE.keys, "", needs_credential=False).to_wire()
    sealed = keys.introduce(Side.JOINER, Proof.KIND, late, EVE)
    with pytest.raises(InviteError, match="bound to"):
        inviting.receive_message(
            to_wire(Proof(session, pake.element, keys.confirmation(Side.JOINER), sealed)), START_US
        )
    assert (inviting.met, inviting.wrong_tries) == (None, 1)


def test_so_are_the_inviters() -> None:
    joining = joiner()
    [raw] = joining.messages_to_send(START_US)
    session = from_wire(raw).session
    pake = Pake(Side.INVITER, CODE, rng("late"))
    commitment = inviter_commitment(session, pake.element, ANN.keys)
    joining.receive_message(to_wire(Answer(session, pake.element, commitment)), START_US)
    [raw] = joining.messages_to_send(START_US)
    proof = from_wire(raw)
    assert isinstance(proof, Proof)
    keys = CeremonyKeys.derive(pake.finish(proof.element), session, commitment)
    sealed = keys.introduce(Side.INVITER, Welcome.KIND, InviterIntroduction(EVE.keys, "", GROUP, SHOWN).to_wire(), EVE)
    with pytest.raises(InviteError, match="bound to"):
        joining.receive_message(to_wire(Welcome(session, keys.confirmation(Side.INVITER), sealed)), START_US)
    assert (joining.ending, joining.next_event()) == (None, None)


def test_only_the_inviters_own_invite_is_taken(meeting: Meeting) -> None:
    meeting.met()
    meeting.inviting.accept(admission(by=EVE))
    meeting.flush()
    assert list(meeting.events()) == []
    assert [str(error) for error in meeting.refused] == ["the invite is not the inviter's own"]


def test_secrets_are_not_shown() -> None:
    assert "secret password" not in repr(admission())
    keys = CeremonyKeys.derive(bytes(32), bytes(32), bytes(32))
    assert repr(keys.root) not in repr(keys)
    assert repr(Pake(Side.JOINER, CODE, rng("x"))) == "Pake(...)"
