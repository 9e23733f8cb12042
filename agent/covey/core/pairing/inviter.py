"""The side of a pairing that shows a code and answers (rules: `ceremony.py`; transitions: `INVITER` below)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.pairing.ceremony import REASONS, Ending, JoinerMet, tries_until
from covey.core.pairing.messages import (
    HASH_BYTES,
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
from covey.errors import InviteError, LimitError, LocalError, MalformedError, RemoteError
from covey.limits.pairing import PAIRING_LINE, PAIRING_SILENCE_US

_SEED_BYTES = 64


@dataclass(frozen=True, slots=True)
class Waiting:
    """Nobody has proved to know the secret yet: proofs that wait for their try, and the last of those that failed."""

    line: tuple[Proof, ...] = ()
    failed: tuple[Proof, ...] = ()
    tries: int = 0
    first_try_at_us: int = 0


@dataclass(frozen=True, slots=True)
class _Proved:
    """The joiner has proved it; `replies` are what its proof is answered with, however often it comes."""

    password: Password
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
    last: Waiting | Comparing | Admitting


State = Waiting | Comparing | Admitting | Over


class Event(Enum):
    """What can happen to an inviter."""

    OFFER = "offer"
    PROOF = "proof"
    WAITING_PROOF = "proof before the next attempt is allowed"
    WRONG_PROOF = "wrong proof"
    FAREWELL = "farewell"
    ACCEPT = "the person accepts"
    END = "this side ends it"
    SILENCE = "silence"
    TIME_UP = "the code expires"


INVITER: Transitions[Event] = {
    Waiting: {
        Event.OFFER: Waiting,  # answered, and forgotten
        Event.PROOF: Comparing,
        Event.WAITING_PROOF: Waiting,
        Event.WRONG_PROOF: Waiting,
        Event.END: Over,
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
        self._seed = rng(_SEED_BYTES)
        self._state: State = Waiting()
        self._received_at_us = 0
        self._out: deque[RendezvousMessage] = deque()

    @property
    def ending(self) -> Ending | None:
        """How it ended; None while it runs."""
        return self._state.ending if isinstance(self._state, Over) else None

    @property
    def begun(self) -> bool:
        """Whether anybody has tried the code: what this process knows of that ends with it."""
        return not isinstance(self._reached, Waiting) or bool(self._reached.tries)

    @property
    def wrong_tries(self) -> int:
        """How many guesses of the code were wrong, as long as nobody has proved to know it."""
        return self._reached.tries if isinstance(self._reached, Waiting) else 0

    @property
    def password(self) -> Password | None:
        """Which secret the joiner has proved to know."""
        return None if isinstance(self._reached, Waiting) else self._reached.password

    @property
    def met(self) -> JoinerMet | None:
        """Who has proved to know the secret."""
        return self._reached.met if isinstance(self._reached, Comparing | Admitting) else None

    @property
    def admitted(self) -> bool:
        """Whether the person has accepted the joiner."""
        return isinstance(self._reached, Admitting)

    @property
    def _reached(self) -> Waiting | Comparing | Admitting:
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
            self._receive_offer(state, message)
        elif isinstance(message, Proof) and isinstance(state, Waiting):
            self._receive_proof(state, message, now_us)
        elif isinstance(state, Waiting) or message.session != state.proof.session:
            raise InviteError("the message belongs to another device's session")
        elif isinstance(message, Proof):
            self._repeat_replies(state, message, now_us)
        elif isinstance(message, Farewell):
            parting = read_parting(state.keys.open(Side.JOINER, Farewell.KIND, message.sealed))
            paired = parting is Parting.STORED and isinstance(state, Admitting)
            self._move(Event.FAREWELL, Over(Ending.PAIRED if paired else Ending.LEFT, state))
        else:
            raise MalformedError("the message is one that an inviter sends")

    def _receive_offer(self, state: Waiting | Comparing | Admitting, offer: Offer) -> None:
        if isinstance(state, Waiting):
            if offer.password not in self._passwords:
                self._out.append(Refusal(offer.session, Reason.WRONG_CODE))
                raise InviteError("the secret was not given out")
            self._out.append(self._exchange(offer.session, offer.password)[1])
        elif offer.session != state.proof.session:
            self._out.append(Refusal(offer.session, Reason.TAKEN))
            raise InviteError("another device already has the code")
        self._move(Event.OFFER, state)

    def _exchange(self, session: bytes, password: Password) -> tuple[Pake, Answer]:
        """Return this side of a session's exchange, always the same, so that none is stored."""

        def entropy(size: int) -> bytes:
            return session_entropy(self._seed, session, password, size)

        pake = Pake(Side.INVITER, self._passwords[password], entropy)
        return pake, Answer(session, pake.element, inviter_commitment(session, pake.element, self._own.keys))

    def _receive_proof(self, state: Waiting, proof: Proof, now_us: int) -> None:
        if proof in state.failed:
            self._out.append(Refusal(proof.session, Reason.WRONG_CODE))
            raise InviteError("the proof has already failed")
        if Password.URI in self._passwords:  # which nobody guesses
            try:
                self._claim(self._believe(proof, Password.URI), now_us)
            except MalformedError:
                raise
            except RemoteError:
                if Password.CODE not in self._passwords:
                    self._out.append(Refusal(proof.session, Reason.WRONG_CODE))
                    raise
            else:
                return
        if proof not in state.line:
            if len(state.line) >= PAIRING_LINE:
                raise LimitError("too many proofs are waiting")
            self._exchange(proof.session, Password.CODE)[0].finish(proof.element)  # what is no element is no guess
            self._move(Event.WAITING_PROOF, replace(state, line=(*state.line, proof)))
        if (error := self._try_next(now_us).get(proof)) is not None:
            raise error
        if isinstance(self._state, Waiting):
            self._out.append(self._exchange(proof.session, Password.CODE)[1])  # a sign of life for who waits

    def _try_next(self, now_us: int) -> Mapping[Proof, RemoteError]:
        """Try waiting proofs while guesses are left (rule 2); return the errors of wrong ones."""
        wrong: dict[Proof, RemoteError] = {}
        while isinstance(state := self._state, Waiting) and state.line:
            first_at_us = state.first_try_at_us if state.tries else now_us
            if state.tries >= tries_until(first_at_us, now_us):
                break
            proof = state.line[int.from_bytes(self._rng(2), "big") % len(state.line)]
            line = tuple(each for each in state.line if each != proof)
            try:
                self._claim(self._believe(proof, Password.CODE), now_us)
            except RemoteError as error:
                wrong[proof] = error
                failed = (*state.failed, proof)[-PAIRING_LINE:]
                self._move(Event.WRONG_PROOF, Waiting(line, failed, state.tries + 1, first_at_us))
                # Somebody else may have answered that joiner before us: here is what it has to answer to.
                self._out.append(self._exchange(proof.session, Password.CODE)[1])
                self._out.append(Refusal(proof.session, Reason.WRONG_CODE))
        return wrong

    def _claim(self, state: Comparing, now_us: int) -> None:
        self._move(Event.PROOF, state)
        self._received_at_us = now_us
        self._out.extend(state.replies)

    def _repeat_replies(self, state: Comparing | Admitting, proof: Proof, now_us: int) -> None:
        if proof != state.proof:
            raise InviteError("the device already sent a proof")
        self._move(Event.PROOF, state)
        self._received_at_us = now_us
        self._out.extend(state.replies)

    def _believe(self, proof: Proof, password: Password) -> Comparing:
        """Check what a joiner says of one of the secrets.

        Raises:
            MalformedError: its element is none.
            RemoteError: it does not know the secret, or is not who it says.
        """
        pake, answer = self._exchange(proof.session, password)
        keys = CeremonyKeys.derive(pake.finish(proof.element), proof.session, answer.commitment)
        if not crypto.same(proof.confirmation, keys.confirmation(Side.JOINER)):
            raise InviteError("the code is not this one")
        introduction, signature = keys.introduced(Side.JOINER, Proof.KIND, proof.sealed)
        joiner = JoinerIntroduction.from_wire(introduction)
        keys.check(Side.JOINER, introduction, signature, joiner.keys)
        if joiner_commitment(proof.element, joiner.keys) != proof.session:
            raise InviteError("the keys differ from those the code was bound to")
        sealed = keys.introduce(Side.INVITER, Welcome.KIND, self._own.to_wire(), self._identity)
        welcome = Welcome(proof.session, keys.confirmation(Side.INVITER), sealed)
        met = JoinerMet(joiner, keys.verifier(self._own.keys, joiner.keys))
        return Comparing(password, proof, keys, met, (welcome,))

    # -- what this side decides -----------------------------------------------------------------------------------

    def accept(self, admission: Admission) -> None:
        """Give the joiner what it needs; the person has accepted it, and its invite is stored.

        Raises:
            LocalError: there is nobody to accept.
        """
        state = self._state
        if not isinstance(state, Comparing):
            raise LocalError("no device is waiting to be accepted")
        outcome = _outcome(state.keys, admission.to_wire())
        replies = (*state.replies, outcome)
        self._move(Event.ACCEPT, Admitting(state.password, state.proof, state.keys, state.met, replies))
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
        if isinstance(state, Waiting):
            self._out.extend(Refusal(proof.session, reason) for proof in state.line)
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
        """Let who waits have their try, and end what has waited too long."""
        self._try_next(now_us)
        clocks = ((Event.SILENCE, self._received_at_us + PAIRING_SILENCE_US), (Event.TIME_UP, self._expires_at_us))
        over = first_over(INVITER, self._state, clocks, now_us)
        if over is not None:
            self._end(over, Ending.VANISHED if over is Event.SILENCE else Ending.EXPIRED)


def _outcome(keys: CeremonyKeys, content: bytes) -> Outcome:
    return Outcome(keys.session, keys.seal(Side.INVITER, Outcome.KIND, content))


def session_entropy(seed: bytes, session: bytes, password: Password, size: int) -> bytes:
    """Return what a session's element is drawn from: fresh for each session, and nothing to keep of any."""
    blocks = range(-(-size // HASH_BYTES))
    named = seed + session + bytes([password])
    return b"".join(crypto.digest(b"covey/1 pair x", named + bytes([block])) for block in blocks)[:size]
