"""The side of a pairing that types the code and speaks first (rules: `ceremony.py`; transitions: `JOINER` below)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from covey.core import crypto
from covey.core.crypto import DeviceKeys, Identity
from covey.core.pairing.ceremony import ENDINGS, Admitted, Ending, InviterMet, RefusalReceived, tries_until
from covey.core.pairing.messages import (
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
    Welcome,
    from_wire,
    inviter_commitment,
    joiner_commitment,
    parting_content,
    read_outcome,
    to_wire,
)
from covey.core.pake import Pake, Side
from covey.core.transitions import Transitions, first_over, follow
from covey.errors import InviteError, LimitError, LocalError, MalformedError, RemoteError
from covey.limits.pairing import PAIRING_LINE, PAIRING_RESEND_US, PAIRING_SILENCE_US

_ENTROPY_BYTES = 64
"""Of SPAKE2's scalar: one element for all answers, from any author."""

JoinerNews = InviterMet | Admitted | RefusalReceived
"""What a joiner tells the device around it."""


@dataclass(frozen=True, slots=True)
class Seeking:
    """Nobody has answered yet; `messages` are what this side repeats, here as in each state."""

    messages: tuple[Offer]


@dataclass(frozen=True, slots=True)
class _Answered:
    """One answer, and the proof for its author that this side knows the secret."""

    answer: Answer
    keys: CeremonyKeys
    proof: Proof


@dataclass(frozen=True, slots=True)
class Proving:
    """Some have answered, and have to prove that they know the secret, as this side does: the inviter among them."""

    answered: tuple[_Answered, ...]

    @property
    def messages(self) -> tuple[Proof, ...]:
        """A proof for each."""
        return tuple(each.proof for each in self.answered)


@dataclass(frozen=True, slots=True)
class _Proved:
    """One of them has proved it: the inviter."""

    messages: tuple[Proof]
    answer: Answer
    keys: CeremonyKeys
    inviter: InviterIntroduction


class Comparing(_Proved):
    """Two people compare the verifier words."""

    __slots__ = ()


class Storing(_Proved):
    """The inviter's person has accepted: what the inviter gave is being stored."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Over:
    """It has ended; an inviter that has met this side is told so as long as it is asked for."""

    ending: Ending
    messages: tuple[Farewell, ...] = ()


State = Seeking | Proving | Comparing | Storing | Over


class Event(Enum):
    """What happens to a joiner."""

    ANSWER = "answer"
    WRONG_ANSWER = "wrong answer"
    WELCOME = "welcome"
    WRONG_WELCOME = "wrong welcome"
    ADMISSION = "outcome, admitted"
    DECLINE = "outcome, declined"
    REFUSAL = "refusal"
    STORED = "the membership is stored"
    LEAVE = "this side leaves"
    SILENCE = "silence"
    TIME_UP = "the code expires"


JOINER: Transitions[Event] = {
    Seeking: {
        Event.ANSWER: Proving,
        Event.WRONG_ANSWER: Seeking,  # anybody may have written it
        Event.REFUSAL: Seeking,
        Event.LEAVE: Over,
        Event.TIME_UP: Over,
    },
    Proving: {
        Event.ANSWER: Proving,  # said again: a sign of life; another one: it may be the inviter's
        Event.WRONG_ANSWER: Proving,
        Event.WELCOME: Comparing,
        Event.WRONG_WELCOME: Proving,
        Event.REFUSAL: Proving,
        Event.LEAVE: Over,
        Event.SILENCE: Over,
        Event.TIME_UP: Over,
    },
    Comparing: {
        Event.ANSWER: Comparing,  # said again: ignored
        Event.WELCOME: Comparing,  # said again: a sign of life
        Event.REFUSAL: Comparing,  # ignored: from here on the inviter speaks under the key
        Event.ADMISSION: Storing,
        Event.DECLINE: Over,
        Event.LEAVE: Over,
        Event.SILENCE: Over,
        Event.TIME_UP: Over,
    },
    Storing: {
        Event.ANSWER: Storing,
        Event.WELCOME: Storing,
        Event.REFUSAL: Storing,
        Event.ADMISSION: Storing,
        Event.DECLINE: Over,
        Event.STORED: Over,
        Event.LEAVE: Over,
        Event.SILENCE: Over,
        Event.TIME_UP: Over,
    },
    Over: {Event.LEAVE: Over},  # ignored, as is whatever comes from the rendezvous
}


class Joiner:
    """The side that types the code. `pinned` are the inviter's keys, where a URI has told them."""

    def __init__(
        self,
        identity: Identity,
        own: JoinerIntroduction,
        password: tuple[Password, bytes],
        deadline_us: int,
        rng: Callable[[int], bytes],
        pinned: DeviceKeys | None = None,
    ) -> None:
        """Begin to look for the inviter, until a time of the monotonic clock.

        Raises:
            ConfigurationError: SPAKE2 is not installed.
        """
        self._identity = identity
        self._own = own
        self._pinned = pinned
        self._deadline_us = deadline_us
        self._password = password[1]
        self._entropy = rng(_ENTROPY_BYTES)
        self._element = Pake(Side.JOINER, password[1], lambda _: self._entropy).element
        self._session = joiner_commitment(self._element, own.keys)
        self._state: State = Seeking((Offer(self._session, password[0]),))
        self._send_at_us = 0
        self._received_at_us = 0
        self._answered_at_us = 0
        self._tries = 0
        """To how many answers this side has proved itself, since it began to."""
        self._refused: Reason | None = None
        self._events: deque[JoinerNews] = deque()

    @property
    def ending(self) -> Ending | None:
        """How it ended; None while it runs."""
        return self._state.ending if isinstance(self._state, Over) else None

    @property
    def left(self) -> bool:
        """Whether it was this side that ended it."""
        return isinstance(self._state, Over) and bool(self._state.messages)

    @property
    def answered(self) -> bool:
        """Whether anybody has answered at all."""
        return not isinstance(self._state, Seeking)

    # -- what comes -----------------------------------------------------------------------------------------------

    def receive_message(self, raw: bytes, now_us: int) -> None:
        """Take a message of the rendezvous in.

        Raises:
            RemoteError: it breaks a rule, which ends nothing.
        """
        message, state = from_wire(raw), self._state
        if isinstance(state, Over):
            return
        if message.session != self._session:
            raise InviteError("the message belongs to another device's session")
        if isinstance(message, Answer):
            self._receive_answer(state, message, now_us)
        elif isinstance(message, Welcome):
            self._receive_welcome(state, message, now_us)
        elif isinstance(message, Outcome):
            self._receive_outcome(state, message, now_us)
        elif isinstance(message, Refusal):
            self._receive_refusal(state, message)
        else:
            raise MalformedError("the message is one that a joiner sends")

    def _receive_refusal(self, state: Seeking | Proving | Comparing | Storing, refusal: Refusal) -> None:
        """Note an unproved refusal: it becomes the ending if nobody proves more in time."""
        if isinstance(state, Seeking | Proving) and self._refused is None:
            self._refused = refusal.reason
            self._events.append(RefusalReceived(refusal.reason))
        self._move(Event.REFUSAL, state)

    def _receive_answer(self, state: Seeking | Proving | Comparing | Storing, answer: Answer, now_us: int) -> None:
        if isinstance(state, Comparing | Storing):
            if answer != state.answer:
                raise InviteError("the inviter already answered")
            self._move(Event.ANSWER, state)
            return
        answered = state.answered if isinstance(state, Proving) else ()
        if all(each.answer != answer for each in answered):
            if not answered:
                self._answered_at_us, self._tries = now_us, 0
            if self._tries >= tries_until(self._answered_at_us, now_us):
                raise LimitError("too many answers")
            answered = (*answered, self._answer(state, answer))[-PAIRING_LINE:]  # the inviter answers again
            self._tries += 1
            self._send_at_us = now_us
        self._move(Event.ANSWER, Proving(answered))
        self._received_at_us = now_us

    def _answer(self, state: Seeking | Proving, answer: Answer) -> _Answered:
        try:
            key = Pake(Side.JOINER, self._password, lambda _: self._entropy).finish(answer.element)
        except RemoteError:
            self._move(Event.WRONG_ANSWER, state)
            raise
        keys = CeremonyKeys.derive(key, self._session, answer.commitment)
        sealed = keys.introduce(Side.JOINER, Proof.KIND, self._own.to_wire(), self._identity)
        return _Answered(answer, keys, Proof(self._session, self._element, keys.confirmation(Side.JOINER), sealed))

    def _receive_welcome(self, state: Seeking | Proving | Comparing | Storing, welcome: Welcome, now_us: int) -> None:
        if isinstance(state, Seeking):
            raise InviteError("the welcome came before the proof")
        if isinstance(state, Proving):
            try:
                found, inviter = self._believe(state, welcome)
            except RemoteError:
                self._move(Event.WRONG_WELCOME, state)
                raise
            self._events.append(InviterMet(inviter, found.keys.verifier(inviter.keys, self._own.keys)))
            state = Comparing((found.proof,), found.answer, found.keys, inviter)
        self._move(Event.WELCOME, state)
        self._received_at_us = now_us

    def _believe(self, state: Proving, welcome: Welcome) -> tuple[_Answered, InviterIntroduction]:
        found = next(
            (
                each
                for each in state.answered
                if crypto.same(welcome.confirmation, each.keys.confirmation(Side.INVITER))
            ),
            None,
        )
        if found is None:
            raise InviteError("the code is not this one")
        keys = found.keys
        introduction, signature = keys.introduced(Side.INVITER, Welcome.KIND, welcome.sealed)
        inviter = InviterIntroduction.from_wire(introduction)
        keys.check(Side.INVITER, introduction, signature, inviter.keys)
        if inviter_commitment(self._session, found.answer.element, inviter.keys) != found.answer.commitment:
            raise InviteError("the keys differ from those the code was bound to")
        if self._pinned is not None and inviter.keys != self._pinned:
            raise InviteError("the keys differ from the invite's")
        return found, inviter

    def _receive_outcome(self, state: Seeking | Proving | Comparing | Storing, outcome: Outcome, now_us: int) -> None:
        if isinstance(state, Seeking | Proving):
            raise InviteError("the outcome came before the welcome")  # it comes again, after that
        found = read_outcome(state.keys.open(Side.INVITER, Outcome.KIND, outcome.sealed))
        self._received_at_us = now_us
        if isinstance(found, Reason):
            self._move(Event.DECLINE, Over(ENDINGS[found]))
            return
        if found.invite.inviter != state.inviter.keys or found.invite.group_id != state.inviter.group_id:
            raise InviteError("the invite is not the inviter's own")
        if isinstance(state, Comparing):
            self._events.append(Admitted(found))
        self._move(Event.ADMISSION, Storing(state.messages, state.answer, state.keys, state.inviter))

    def next_event(self) -> JoinerNews | None:
        """Return what happened, oldest first."""
        return self._events.popleft() if self._events else None

    # -- what this side decides -----------------------------------------------------------------------------------

    def stored(self) -> None:
        """End it well: what the inviter gave is durable here.

        Raises:
            LocalError: the inviter gave nothing, or it is over.
        """
        state = self._state
        if not isinstance(state, Storing):
            raise LocalError("nothing has been received that could be stored")
        self._part(Event.STORED, Over(Ending.PAIRED, (_farewell(state.keys, Parting.STORED),)))

    def leave(self) -> None:
        """End it before it is done."""
        state = self._state
        if isinstance(state, Over):
            self._move(Event.LEAVE, state)
        elif isinstance(state, Comparing | Storing):
            self._part(Event.LEAVE, Over(Ending.CANCELLED, (_farewell(state.keys, Parting.LEAVES),)))
        else:
            self._move(Event.LEAVE, Over(Ending.CANCELLED))

    def _part(self, event: Event, state: Over) -> None:
        self._move(event, state)
        self._send_at_us = 0

    def _move(self, event: Event, state: State) -> None:
        self._state = follow(JOINER, self._state, event, state)

    # -- what goes, and when --------------------------------------------------------------------------------------

    def messages_to_send(self, now_us: int) -> Iterator[bytes]:
        """Yield what goes to the inviter now; once more after `PAIRING_RESEND_US`, until it is over."""
        messages = self._state.messages
        if messages and now_us >= self._send_at_us:
            self._send_at_us = now_us + PAIRING_RESEND_US
            yield from map(to_wire, messages)

    def handle_deadline(self, now_us: int) -> None:
        """End what has waited too long."""
        clocks = ((Event.SILENCE, self._received_at_us + PAIRING_SILENCE_US), (Event.TIME_UP, self._deadline_us))
        over = first_over(JOINER, self._state, clocks, now_us)
        if over is None:
            return
        ending = Ending.VANISHED if over is Event.SILENCE else Ending.EXPIRED
        if self._refused is not None and isinstance(self._state, Seeking | Proving):
            ending = ENDINGS[self._refused]  # nobody has proved more
        self._move(over, Over(ending))


def _farewell(keys: CeremonyKeys, parting: Parting) -> Farewell:
    return Farewell(keys.session, keys.seal(Side.JOINER, Farewell.KIND, parting_content(parting)))
