"""`covey.core.pairing.ceremony`: two machines, and a relay between them that does what it likes."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from covey.core.crypto import DeviceKeys, Identity
from covey.core.ids import GroupId
from covey.core.pairing.ceremony import Admitted, Ending, InviterMet, RefusalReceived
from covey.core.pairing.invite import Invite
from covey.core.pairing.inviter import Inviter
from covey.core.pairing.joiner import Joiner
from covey.core.pairing.messages import (
    Admission,
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
from covey.core.wire import cbor
from covey.errors import (
    DecryptionError,
    InviteError,
    LimitError,
    MalformedError,
    RemoteError,
    SignatureError,
)
from covey.limits.pairing import (
    INVITE_US,
    MAXIMUM_RENDEZVOUS_BYTES,
    PAIRING_LINE,
    PAIRING_RESEND_US,
    PAIRING_SILENCE_US,
    PAIRING_TRIES,
    PAIRING_TRY_US,
)
from tests.fleet import identity

ANN, BEN, EVE = (identity(name) for name in ("ann", "ben", "eve"))
GROUP = GroupId(bytes(range(32)))
CODE = b"42-abandon-zoo"
START_US = 5_000_000


def rng(seed: str) -> Callable[[int], bytes]:
    return random.Random(seed).randbytes


def inviter(name: str = "ann", code: bytes = CODE) -> Inviter:
    own = InviterIntroduction(identity(name).keys, name, GROUP)
    return Inviter(identity(name), own, {Password.CODE: code}, START_US + INVITE_US, rng(f"inviter {name}"))


def joiner(name: str = "ben", code: bytes = CODE, **options: Any) -> Joiner:
    device: Identity = options.pop("identity", identity(name))
    own = JoinerIntroduction(options.pop("keys", device.keys), name, needs_credential=True)
    password = (options.pop("kind", Password.CODE), code)
    return Joiner(device, own, password, START_US + INVITE_US, rng(f"joiner {name}"), **options)


def proof_of(inviting: Inviter, name: str = "ben", code: bytes = CODE) -> bytes:
    """Return what a joiner proves itself with."""
    meeting = Meeting(inviting, joiner(name, code))
    meeting.round()
    [proof] = meeting.from_joiner()
    return proof


def admission(by: Identity = ANN) -> Admission:
    invite = Invite(GROUP, by.keys, bytes(16), START_US + INVITE_US, "")
    return Admission("mqtts://relay.example", "-----BEGIN CERTIFICATE-----", "secret password", invite)


class Meeting:
    """Two machines and their clock."""

    def __init__(self, inviting: Inviter, joining: Joiner) -> None:
        self.inviting, self.joining, self.now_us = inviting, joining, START_US
        self.seen: list[bytes] = []
        self.refused: list[RemoteError] = []
        self._refusals: list[RefusalReceived] = []

    def from_joiner(self) -> list[bytes]:
        """Let the time of the next message come, and return it."""
        self.now_us += PAIRING_RESEND_US
        return list(self.joining.messages_to_send(self.now_us))

    def to_inviter(self, raw: bytes) -> list[bytes]:
        """Deliver; return the answers."""
        self.seen.append(raw)
        try:
            self.inviting.receive_message(raw, self.now_us)
        except RemoteError as error:
            self.refused.append(error)
        return list(self.inviting.messages_to_send(self.now_us))

    def to_joiner(self, raw: bytes) -> None:
        """Deliver."""
        self.seen.append(raw)
        try:
            self.joining.receive_message(raw, self.now_us)
        except RemoteError as error:
            self.refused.append(error)

    def round(self) -> None:
        """Let the joiner speak once, and hear the answers."""
        for raw in self.from_joiner():
            for answer in self.to_inviter(raw):
                self.to_joiner(answer)

    def flush(self) -> None:
        """Carry what the inviter says by itself."""
        for raw in self.inviting.messages_to_send(self.now_us):
            self.to_joiner(raw)

    def events(self) -> Iterator[InviterMet | Admitted]:
        """Take what the joiner has to tell of who has proved to know the secret; keep what others say."""
        while (event := self.joining.next_event()) is not None:
            if isinstance(event, RefusalReceived):
                self._refusals.append(event)
            else:
                yield event

    @property
    def refusals(self) -> list[RefusalReceived]:
        """What others say."""
        assert list(self.events()) == []
        return self._refusals

    def met(self) -> InviterMet:
        """Come as far as the verifier."""
        self.round()
        self.round()
        [event] = self.events()
        assert isinstance(event, InviterMet)
        return event


@pytest.fixture
def meeting() -> Meeting:
    return Meeting(inviter(), joiner())


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


def test_whoever_comes_second_is_refusals() -> None:
    joining = joiner()
    for _ in range(3):  # nobody listens: the relay forgets them
        assert len(list(Meeting(inviter(), joining).from_joiner())) == 1
        joining._send_at_us = 0
    meeting = Meeting(inviter(), joining)
    assert meeting.met().inviter.keys == ANN.keys


def test_what_the_relay_loses_is_said_again(meeting: Meeting) -> None:
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


def test_a_wrong_code_costs_a_try_and_no_more() -> None:
    meeting = Meeting(inviter(), joiner(code=b"42-abandon-zero"))
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
    guessing = [Meeting(inviting, joiner(f"stranger {place}", b"42-abandon-able")) for place in range(strangers)]
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
def test_a_guesser_has_few_tries_in_a_codes_life() -> None:
    inviting, tries, now_us = inviter(), 0, START_US
    proof = from_wire(proof_of(inviting))
    assert isinstance(proof, Proof)
    while inviting.ending is None:
        with contextlib.suppress(RemoteError):
            inviting.receive_message(to_wire(replace(proof, confirmation=now_us.to_bytes(32, "big"))), now_us)
        tries = max(tries, inviting.wrong_tries)
        now_us += PAIRING_TRY_US // 4
        inviting.handle_deadline(now_us)
        list(inviting.messages_to_send(now_us))
    assert tries == PAIRING_TRIES + INVITE_US // PAIRING_TRY_US - 1
    assert inviting.met is None


@pytest.mark.slow
def test_who_has_the_uri_waits_for_no_guesser() -> None:
    own = InviterIntroduction(ANN.keys, "ann", GROUP)
    secrets = {Password.CODE: CODE, Password.URI: bytes(range(16))}
    inviting = Inviter(ANN, own, secrets, START_US + INVITE_US, rng("both"))
    proof = from_wire(proof_of(inviting, "eve", b"42-abandon-able"))
    assert isinstance(proof, Proof)
    for number in range(PAIRING_TRIES + PAIRING_LINE + 5):
        with contextlib.suppress(RemoteError):
            inviting.receive_message(to_wire(replace(proof, confirmation=bytes([number] * 32))), START_US)
    list(inviting.messages_to_send(START_US))
    meeting = Meeting(inviting, joiner(code=bytes(range(16)), kind=Password.URI))
    assert meeting.met()
    assert inviting.password is Password.URI


def test_a_joiner_finds_the_inviter_among_forged_answers() -> None:
    meeting = Meeting(inviter(), joiner())
    [offer] = meeting.from_joiner()
    [answer] = meeting.to_inviter(offer)
    session = from_wire(offer).session
    for number in range(PAIRING_TRIES - 1):
        forged = Pake(Side.INVITER, b"42-abandon-able", rng(f"eve {number}"))
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
        forged = Pake(Side.INVITER, b"42-abandon-able", rng(f"eve {number}"))
        meeting.to_joiner(to_wire(Answer(from_wire(offer).session, forged.element, bytes(32))))
    assert len(meeting.from_joiner()) == PAIRING_TRIES
    assert [error.code for error in meeting.refused] == ["limit"] * 5


def test_who_was_answered_by_somebody_else_first_hears_the_inviter() -> None:
    """A stranger answers before the inviter comes: what proves the joiner to the one is no proof for the other."""
    meeting = Meeting(inviter(), joiner())
    [offer] = meeting.from_joiner()
    forged = Pake(Side.INVITER, b"42-abandon-able", rng("eve"))
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


def test_who_comes_second_is_refusals_until_the_first_has_proved(meeting: Meeting) -> None:
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


def test_who_vanishes_half_way_ends_it(meeting: Meeting) -> None:
    meeting.met()
    for machine in (meeting.inviting, meeting.joining):
        machine.handle_deadline(meeting.now_us + PAIRING_SILENCE_US - 1)
        assert machine.ending is None
        machine.handle_deadline(meeting.now_us + PAIRING_SILENCE_US)
        assert machine.ending is Ending.VANISHED
    assert not meeting.inviting.admitted
    assert list(meeting.inviting.messages_to_send(meeting.now_us)) == []


def test_who_has_proved_nothing_holds_nobody_up(meeting: Meeting) -> None:
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
    later = Inviter(
        ANN, InviterIntroduction(ANN.keys, "ann", GROUP), {Password.CODE: CODE}, START_US + INVITE_US, rng("later")
    )
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
    assert [str(error) for error in meeting.refused] == ["a second proof"]
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


def test_a_uri_pins_the_inviters_keys() -> None:
    meeting = Meeting(inviter("eve"), joiner(pinned=ANN.keys))
    meeting.round()
    meeting.round()
    assert list(meeting.events()) == []
    assert [str(error) for error in meeting.refused] == ["keys other than the invite's"]


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
    sealed = keys.introduce(Side.INVITER, Welcome.KIND, InviterIntroduction(EVE.keys, "", GROUP).to_wire(), EVE)
    with pytest.raises(InviteError, match="bound to"):
        joining.receive_message(to_wire(Welcome(session, keys.confirmation(Side.INVITER), sealed)), START_US)
    assert (joining.ending, joining.next_event()) == (None, None)


def test_only_the_inviters_own_invite_is_taken(meeting: Meeting) -> None:
    meeting.met()
    meeting.inviting.accept(admission(by=EVE))
    meeting.flush()
    assert list(meeting.events()) == []
    assert [str(error) for error in meeting.refused] == ["an invite that is not the inviter's own"]


def test_secrets_are_not_shown() -> None:
    assert "secret password" not in repr(admission())
    keys = CeremonyKeys.derive(bytes(32), bytes(32), bytes(32))
    assert repr(keys.root) not in repr(keys)
    assert repr(Pake(Side.JOINER, CODE, rng("x"))) == "Pake(...)"


def test_a_message_of_another_version_is_refused(meeting: Meeting) -> None:
    zeros = bytes(32)
    items: tuple[Any, ...] = ([2, 1, zeros, 0], [1, 9, zeros], [1], {}, [1, True, zeros, 0], [1, 1, zeros, 2])
    for item in items:
        with pytest.raises(MalformedError):
            meeting.inviting.receive_message(cbor.encode(item), START_US)
