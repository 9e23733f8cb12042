"""The side of a pairing that shows a code and answers (rules: `ceremony.py`; transitions: `INVITER` below)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.pairing.ceremony import REASONS, Ending, JoinerMet
from covey.core.pairing.messages import (
    Admission,
    Answer,
    CeremonyKeys,
    Farewell,
    InviterIntroduction,
    JoinerIntroduction,
    Offer,
    Outcome,
    Parting,
    Password,
    Proof,
    Reason,
    Refusal,
    RendezvousMessage,
    Welcome,
    from_wire,
    inviter_commitment,
    joiner_commitment,
    read_parting,
    refused,
    to_wire,
)
from covey.core.pake import Pake, Side
from covey.core.transitions import Transitions, first_over, follow
from covey.errors import InviteError, LocalError, MalformedError, RemoteError
from covey.limits.pairing import PAIRING_SILENCE_US


@dataclass(frozen=True, slots=True)
class Waiting:
    """No joiner has the code yet."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A joiner has the code, and has to prove that it knows the secret."""

    offer: Offer
    pake: Pake
    answer: Answer


@dataclass(frozen=True, slots=True)
class _Proved:
    """The joiner has proved it; `replies` are what its proof is answered with, however often it comes."""

    offer: Offer
    proof: Proof
    keys: CeremonyKeys
    met: JoinerMet
    replies: tuple[RendezvousMessage, ...]


class Comparing(_Proved):
    """Two people compare the verifier words."""

    __slots__ = ()


class Admitting(_Proved):
    """The person has accepted: the joiner gets what it needs, until it says that it is stored."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Over:
    """The code is used up; `last` is the state in which it ended."""

    ending: Ending
    last: Waiting | Answered | Comparing | Admitting


State = Waiting | Answered | Comparing | Admitting | Over


class Event(Enum):
    """What happens to an inviter."""

    OFFER = "offer"
    PROOF = "proof"
    WRONG_PROOF = "proof that fails"
    FAREWELL = "farewell"
    ACCEPT = "the person accepts"
    END = "ended on this side"
    SILENCE = "silence"
    TIME_UP = "the code's time is up"


INVITER: Transitions[Event] = {
    Waiting: {Event.OFFER: Answered, Event.END: Over, Event.TIME_UP: Over},
    Answered: {
        Event.OFFER: Answered,  # said again: answered again
        Event.PROOF: Comparing,
        Event.WRONG_PROOF: Over,
        Event.END: Over,
        Event.SILENCE: Over,
        Event.TIME_UP: Over,
    },
    Comparing: {
        Event.OFFER: Comparing,  # late: ignored
        Event.PROOF: Comparing,  # said again: answered again
        Event.ACCEPT: Admitting,
        Event.FAREWELL: Over,
        Event.END: Over,
        Event.SILENCE: Over,
        Event.TIME_UP: Over,
    },
    Admitting: {  # whom a person has accepted may come with its invite when the code's time is over
        Event.OFFER: Admitting,
        Event.PROOF: Admitting,
        Event.FAREWELL: Over,
        Event.END: Over,
        Event.SILENCE: Over,
    },
    Over: {Event.END: Over},  # ignored: it has one ending
}


class Inviter:
    """The side that shows a code; `ending` says that it is over, `met` who has proved to know the secret."""

    def __init__(
        self,
        identity: Identity,
        own: InviterIntroduction,
        passwords: Mapping[Password, bytes],
        expires_at_us: int,
        rng: Callable[[int], bytes],
    ) -> None:
        """Begin to wait for a joiner until a time of the monotonic clock."""
        self._identity = identity
        self._own = own
        self._passwords = passwords
        self._expires_at_us = expires_at_us
        self._rng = rng
        self._state: State = Waiting()
        self._received_at_us = 0
        self._out: deque[RendezvousMessage] = deque()

    @property
    def ending(self) -> Ending | None:
        """How it ended; None while it goes on."""
        return self._state.ending if isinstance(self._state, Over) else None

    @property
    def begun(self) -> bool:
        """Whether a joiner has the code: what it has heard lives in this process alone."""
        return not isinstance(self._reached, Waiting)

    @property
    def password(self) -> Password | None:
        """Which secret the joiner says that it knows."""
        return None if isinstance(self._reached, Waiting) else self._reached.offer.password

    @property
    def met(self) -> JoinerMet | None:
        """Who has proved to know the secret."""
        return self._reached.met if isinstance(self._reached, Comparing | Admitting) else None

    @property
    def admitted(self) -> bool:
        """Whether the person has accepted the joiner."""
        return isinstance(self._reached, Admitting)

    @property
    def _reached(self) -> Waiting | Answered | Comparing | Admitting:
        return self._state.last if isinstance(self._state, Over) else self._state

    # -- what comes -----------------------------------------------------------------------------------------------

    def receive_message(self, raw: bytes, now_us: int) -> None:
        """Take a message of the rendezvous in.

        Raises:
            RemoteError: it breaks a rule. `ending` says whether the code is so used up.
        """
        message, state = from_wire(raw), self._state
        if isinstance(state, Over):
            raise InviteError("the code is used up")
        if isinstance(message, Offer):
            self._receive_offer(state, message, now_us)
        elif isinstance(state, Waiting) or message.session != state.offer.session:
            raise InviteError("another device's ceremony")
        elif isinstance(message, Proof):
            self._receive_proof(state, message, now_us)
        elif not isinstance(message, Farewell):
            raise MalformedError("a message that an inviter sends")
        elif isinstance(state, Answered):
            raise InviteError("a farewell before the proof")
        else:
            parting = read_parting(state.keys.open(Side.JOINER, Farewell.KIND, message.sealed))
            paired = parting is Parting.STORED and isinstance(state, Admitting)
            self._move(Event.FAREWELL, Over(Ending.PAIRED if paired else Ending.LEFT, state))

    def _receive_offer(self, state: Waiting | Answered | Comparing | Admitting, offer: Offer, now_us: int) -> None:
        if isinstance(state, Waiting):
            state = self._answer(offer)
        elif offer.session != state.offer.session:
            self._out.append(Refusal(offer.session, Reason.TAKEN))
            raise InviteError("another device has the code already")
        self._move(Event.OFFER, state)
        if isinstance(state, Answered):
            self._received_at_us = now_us
            self._out.append(state.answer)

    def _answer(self, offer: Offer) -> Answered:
        password = self._passwords.get(offer.password)
        if password is None:
            self._out.append(Refusal(offer.session, Reason.WRONG_CODE))
            raise InviteError("a secret that was not given out")
        pake = Pake(Side.INVITER, password, self._rng)
        commitment = inviter_commitment(offer.session, pake.element, self._own.keys)
        return Answered(offer, pake, Answer(offer.session, pake.element, commitment))

    def _receive_proof(self, state: Answered | Comparing | Admitting, proof: Proof, now_us: int) -> None:
        if isinstance(state, Answered):
            try:
                state = self._believe(state, proof)
            except RemoteError:
                self._end(Event.WRONG_PROOF, Ending.WRONG_CODE)
                raise
        elif proof != state.proof:
            raise InviteError("a second proof")
        self._move(Event.PROOF, state)
        self._received_at_us = now_us
        self._out.extend(state.replies)

    def _believe(self, state: Answered, proof: Proof) -> Comparing:
        """Check what the joiner says; it has this one guess."""
        key = state.pake.finish(proof.element)
        keys = CeremonyKeys.derive(key, proof.session, state.answer.commitment)
        if not crypto.same(proof.confirmation, keys.confirmation(Side.JOINER)):
            raise InviteError("the code is not this one")
        introduction, signature = keys.introduced(Side.JOINER, Proof.KIND, proof.sealed)
        joiner = JoinerIntroduction.from_wire(introduction)
        keys.check(Side.JOINER, introduction, signature, joiner.keys)
        if joiner_commitment(proof.element, joiner.keys) != proof.session:
            raise InviteError("keys other than the ones it was bound to")
        sealed = keys.introduce(Side.INVITER, Welcome.KIND, self._own.to_wire(), self._identity)
        welcome = Welcome(proof.session, keys.confirmation(Side.INVITER), sealed)
        met = JoinerMet(joiner, keys.verifier(self._own.keys, joiner.keys))
        return Comparing(state.offer, proof, keys, met, (welcome,))

    # -- what this side decides -----------------------------------------------------------------------------------

    def accept(self, admission: Admission) -> None:
        """Give the joiner what it needs; the person has accepted it, and its invite is stored.

        Raises:
            LocalError: there is nobody to accept.
        """
        state = self._state
        if not isinstance(state, Comparing):
            raise LocalError("nobody waits to be accepted")
        outcome = _outcome(state.keys, admission.to_wire())
        replies = (*state.replies, outcome)
        self._move(Event.ACCEPT, Admitting(state.offer, state.proof, state.keys, state.met, replies))
        self._out.append(outcome)

    def end(self, ending: Ending) -> None:
        """End it, and say so. What stood in an outcome stays."""
        self._end(Event.END, ending)

    def _end(self, event: Event, ending: Ending) -> None:
        state = self._state
        if isinstance(state, Over):
            self._move(event, state)
            return
        self._move(event, Over(ending, state))
        reason = REASONS.get(ending)
        if reason is None:
            return
        if isinstance(state, Answered):
            self._out.append(Refusal(state.offer.session, reason))
        elif isinstance(state, Comparing):
            self._out.append(_outcome(state.keys, refused(reason)))

    def _move(self, event: Event, state: State) -> None:
        self._state = follow(INVITER, self._state, event, state)

    # -- what goes, and when --------------------------------------------------------------------------------------

    def messages_to_send(self, now_us: int) -> Iterator[bytes]:  # noqa: ARG002 - as every machine; an inviter answers at once
        """Yield what goes to the joiner now."""
        while self._out:
            yield to_wire(self._out.popleft())

    def handle_deadline(self, now_us: int) -> None:
        """End what has waited too long."""
        clocks = ((Event.SILENCE, self._received_at_us + PAIRING_SILENCE_US), (Event.TIME_UP, self._expires_at_us))
        over = first_over(INVITER, self._state, clocks, now_us)
        if over is not None:
            self._end(over, Ending.VANISHED if over is Event.SILENCE else Ending.EXPIRED)


def _outcome(keys: CeremonyKeys, content: bytes) -> Outcome:
    return Outcome(keys.session, keys.seal(Side.INVITER, Outcome.KIND, content))
