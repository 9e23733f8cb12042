"""`covey.core.pairing.ceremony`: strangers at the meeting place, who guess, forge and get in the way."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from covey.core.pairing.ceremony import Ending, InviterMet, RefusalReceived
from covey.core.pairing.inviter import Inviter
from covey.core.pairing.messages import (
    Answer,
    InviterIntroduction,
    Offer,
    Password,
    Proof,
    Reason,
    Refusal,
    Welcome,
    from_wire,
    to_wire,
)
from covey.core.pake import Pake, Side
from covey.errors import (
    RemoteError,
)
from covey.limits.pairing import (
    INVITE_US,
    PAIRING_LINE,
    PAIRING_SILENCE_US,
    PAIRING_TRIES,
    PAIRING_TRY_US,
)
from tests.meeting import ANN, BEN, CODE, GROUP, SHOWN, START_US, Meeting, inviter, joiner, proof_of, rng


def test_a_wrong_code_costs_one_try() -> None:
    meeting = Meeting(inviter(), joiner(code=b"42-abandon-zero-river"))
    for _ in range(3):
        meeting.round()
    assert (meeting.inviting.ending, meeting.joining.ending) == (None, None)
    assert meeting.inviting.wrong_tries == 1  # said again, it is no further guess
    assert {error.code for error in meeting.refused} == {"invite"}
    assert list(meeting.events()) == []
    assert meeting.refusals == [RefusalReceived(Reason.WRONG_CODE)]
    assert meeting.inviting.met is None
    assert Meeting(meeting.inviting, joiner()).met()
    meeting.joining.handle_deadline(meeting.now_us + PAIRING_SILENCE_US)
    assert meeting.joining.ending is Ending.WRONG_CODE  # nobody has proved anything else in time


@pytest.mark.slow
def test_a_code_outlives_what_is_no_proof() -> None:
    """38 bytes took a code away from the one who had it."""
    meeting = Meeting(inviter(), joiner())
    for number in range(20):
        offer = to_wire(Offer(bytes([number]) * 32, Password.CODE))
        assert len(offer) == 38
        assert len(meeting.to_inviter(offer)) == 1
        assert meeting.to_inviter(to_wire(Proof(bytes(32), bytes(32), bytes(32), bytes(40)))) == []
    assert meeting.inviting.wrong_tries == 0
    assert meeting.met().inviter.keys == ANN.keys


@pytest.mark.slow
@pytest.mark.parametrize("strangers", [1, PAIRING_TRIES - 1, PAIRING_TRIES, PAIRING_TRIES + 2])
def test_strangers_who_guess_delay_the_joiner_by_a_minute_each_at_most(strangers: int) -> None:
    inviting = inviter()
    guessing = [Meeting(inviting, joiner(f"stranger {place}", b"42-abandon-able-river")) for place in range(strangers)]
    meeting = Meeting(inviting, joiner())
    for _ in range(2):
        for each in [*guessing, meeting]:  # whose proofs come first
            each.round()
    until_us = meeting.now_us + max(0, strangers - PAIRING_TRIES + 1) * PAIRING_TRY_US
    while inviting.met is None and meeting.now_us <= until_us:
        inviting.handle_deadline(meeting.now_us)
        meeting.joining.handle_deadline(meeting.now_us)
        meeting.flush()
        meeting.round()
    assert inviting.met is not None
    assert inviting.met.joiner.keys == BEN.keys
    meeting.round()
    assert [type(event) for event in meeting.events()] == [InviterMet]


@pytest.mark.slow
def test_a_stranger_that_guesses_all_the_time_does_not_keep_the_joiner_out() -> None:
    """Two wrong proofs a second, 0.6 kB/s, once blocked every code for as long as they went on."""
    inviting = inviter()
    proof = from_wire(proof_of(inviting, "eve", b"42-abandon-able-river"))
    assert isinstance(proof, Proof)
    for number in range(1_000, 1_000 + PAIRING_TRIES + PAIRING_LINE):
        with contextlib.suppress(RemoteError):
            inviting.receive_message(to_wire(replace(proof, confirmation=number.to_bytes(32, "big"))), START_US)
    list(inviting.messages_to_send(START_US))
    assert inviting.wrong_tries == PAIRING_TRIES, "the others wait in line"
    meeting = Meeting(inviting, joiner())
    for number in range(120):
        guess = to_wire(replace(proof, confirmation=number.to_bytes(32, "big")))
        with contextlib.suppress(RemoteError):
            inviting.receive_message(guess, meeting.now_us)
        list(inviting.messages_to_send(meeting.now_us))
        meeting.now_us += PAIRING_TRY_US
        inviting.handle_deadline(meeting.now_us)
        meeting.joining.handle_deadline(meeting.now_us)
        meeting.round()
        if inviting.met is not None:
            break
    assert inviting.met is not None
    assert inviting.met.joiner.keys == BEN.keys


@pytest.mark.slow
def test_a_guesser_has_few_tries_in_a_codes_life() -> None:
    valid_us = 60 * PAIRING_TRY_US
    inviting, tries, now_us = inviter(valid_us=valid_us), 0, START_US
    proof = from_wire(proof_of(inviting))
    assert isinstance(proof, Proof)
    while inviting.ending is None:
        with contextlib.suppress(RemoteError):
            inviting.receive_message(to_wire(replace(proof, confirmation=now_us.to_bytes(32, "big"))), now_us)
        tries = max(tries, inviting.wrong_tries)
        now_us += PAIRING_TRY_US // 4
        inviting.handle_deadline(now_us)
        list(inviting.messages_to_send(now_us))
    assert tries == PAIRING_TRIES + valid_us // PAIRING_TRY_US - 1
    assert inviting.met is None


@pytest.mark.slow
def test_a_joiner_with_the_uri_waits_for_no_guesser() -> None:
    own = InviterIntroduction(ANN.keys, "ann", GROUP, SHOWN)
    secrets = {Password.CODE: CODE, Password.URI: bytes(range(16))}
    inviting = Inviter(ANN, own, secrets, START_US + INVITE_US, rng("both"))
    proof = from_wire(proof_of(inviting, "eve", b"42-abandon-able-river"))
    assert isinstance(proof, Proof)
    for number in range(PAIRING_TRIES + PAIRING_LINE + 5):
        with contextlib.suppress(RemoteError):
            inviting.receive_message(to_wire(replace(proof, confirmation=bytes([number] * 32))), START_US)
    list(inviting.messages_to_send(START_US))
    meeting = Meeting(inviting, joiner(code=bytes(range(16)), kind=Password.URI))
    assert meeting.met()
    assert inviting.password is Password.URI


@pytest.mark.slow
def test_a_joiner_finds_the_inviter_among_forged_answers() -> None:
    meeting = Meeting(inviter(), joiner())
    [offer] = meeting.from_joiner()
    [answer] = meeting.to_inviter(offer)
    session = from_wire(offer).session
    for number in range(PAIRING_TRIES - 1):
        forged = Pake(Side.INVITER, b"42-abandon-able-river", rng(f"eve {number}"))
        meeting.to_joiner(to_wire(Answer(session, forged.element, bytes(32))))
    meeting.to_joiner(to_wire(Answer(session, bytes(32), bytes(32))))  # no element: as if it were not there
    meeting.to_joiner(answer)
    meeting.to_joiner(to_wire(Welcome(session, bytes(32), bytes(40))))
    for _ in range(2):
        meeting.round()
    assert [type(event) for event in meeting.events()] == [InviterMet]


def test_forged_answers_are_guesses_too() -> None:
    meeting = Meeting(inviter(), joiner())
    [offer] = meeting.from_joiner()
    for number in range(PAIRING_TRIES + 5):
        forged = Pake(Side.INVITER, b"42-abandon-able-river", rng(f"eve {number}"))
        meeting.to_joiner(to_wire(Answer(from_wire(offer).session, forged.element, bytes(32))))
    assert len(meeting.from_joiner()) == PAIRING_TRIES
    assert [error.code for error in meeting.refused] == ["limit"] * 5


def test_a_joiner_answered_by_a_stranger_hears_the_inviter() -> None:
    """A stranger answers before the inviter comes: what proves the joiner to the one is no proof for the other."""
    meeting = Meeting(inviter(), joiner())
    [offer] = meeting.from_joiner()
    forged = Pake(Side.INVITER, b"42-abandon-able-river", rng("eve"))
    meeting.to_joiner(to_wire(Answer(from_wire(offer).session, forged.element, bytes(32))))
    for _ in range(2):
        meeting.round()
    assert [type(event) for event in meeting.events()] == [InviterMet]


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize("rounds", [0, 1])
def test_a_forged_refusal_ends_nobody(meeting: Meeting, reason: Reason, rounds: int) -> None:
    for _ in range(rounds):
        meeting.round()
    for _ in range(3):
        meeting.to_joiner(to_wire(Refusal(meeting.joining._session, reason)))
    meeting.joining.handle_deadline(meeting.now_us)
    for _ in range(2 - rounds):
        meeting.round()
    assert [type(event) for event in meeting.events()] == [InviterMet]
    assert meeting.refusals == [RefusalReceived(reason)]


def test_a_second_joiner_is_refused_until_the_first_has_proved(meeting: Meeting) -> None:
    second = Meeting(meeting.inviting, joiner("carol"))
    for _ in range(2):
        meeting.round()
        second.round()
    assert [type(event) for event in meeting.events()] == [InviterMet]
    assert second.joining.ending is None
    third = Meeting(meeting.inviting, joiner("dan"))
    third.round()
    assert third.refusals == [RefusalReceived(Reason.TAKEN)]
    assert {error.code for error in third.refused} == {"invite"}


def test_a_secret_that_was_not_given_out_is_refused() -> None:
    meeting = Meeting(inviter(), joiner(kind=Password.URI))
    meeting.round()
    assert meeting.refusals == [RefusalReceived(Reason.WRONG_CODE)]
    assert meeting.inviting.ending is None
    assert Meeting(meeting.inviting, joiner()).met()
