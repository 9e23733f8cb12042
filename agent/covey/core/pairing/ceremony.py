"""The ceremony by which two devices that share a short secret come to trust each other's keys (docs/protocol.md, 10).

The joiner speaks and repeats itself, the inviter answers; so either may come first, and a relay may drop, repeat and
reorder what it likes. The rules:

    1. The first offer has the code; another one's is refused.
    2. One guess: the joiner proves first that it knows the secret. A proof that fails ends the code for good.
    3. Both are bound to their keys before either has seen what the words that people compare depend on.
    4. What either believes of the other stood under the key that both have proved.
    5. Whoever hears nothing for `PAIRING_SILENCE_US` ends it, and so does the inviter when the code's time is up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from covey.core import crypto
from covey.core.crypto import DeviceKeys, Identity
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
    parting_content,
    read_outcome,
    read_parting,
    refused,
    to_wire,
)
from covey.core.pake import Pake, Side
from covey.errors import InviteError, MalformedError, RemoteError
from covey.limits import PAIRING_RESEND_US, PAIRING_SILENCE_US


class Ending(Enum):
    """How a ceremony ended; the values are the codes that people and scripts see."""

    PAIRED = "paired"
    WRONG_CODE = "wrong_code"
    TAKEN = "code_taken"
    DECLINED = "declined"
    EXPIRED = "code_expired"
    CANCELLED = "cancelled"
    VANISHED = "vanished"
    LEFT = "left"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


_REASONS = {
    Ending.TAKEN: Reason.TAKEN,
    Ending.WRONG_CODE: Reason.WRONG_CODE,
    Ending.EXPIRED: Reason.EXPIRED,
    Ending.CANCELLED: Reason.CANCELLED,
    Ending.INTERRUPTED: Reason.CANCELLED,
    Ending.DECLINED: Reason.DECLINED,
    Ending.FAILED: Reason.FAILED,
}
"""What the inviter tells the joiner. A joiner that is gone is told nothing."""

_ENDINGS = {
    Reason.TAKEN: Ending.TAKEN,
    Reason.WRONG_CODE: Ending.WRONG_CODE,
    Reason.EXPIRED: Ending.EXPIRED,
    Reason.CANCELLED: Ending.CANCELLED,
    Reason.DECLINED: Ending.DECLINED,
    Reason.FAILED: Ending.FAILED,
}


@dataclass(frozen=True, slots=True)
class JoinerMet:
    """The joiner knows the secret. `verifier` are places in the list of words."""

    joiner: JoinerIntroduction
    verifier: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InviterMet:
    """The inviter knows the secret."""

    inviter: InviterIntroduction
    verifier: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Admitted:
    """The inviter's person has accepted. Store it, then call `Joiner.stored`."""

    admission: Admission


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
        """Begin to wait for a joiner until a time of the wall clock."""
        self.ending: Ending | None = None
        self.met: JoinerMet | None = None
        self.admitted = False
        self._identity = identity
        self._own = own
        self._passwords = passwords
        self._expires_at_us = expires_at_us
        self._rng = rng
        self._offer: Offer | None = None
        self._pake: Pake | None = None
        self._answer: Answer | None = None
        self._proof: Proof | None = None
        self._keys: CeremonyKeys | None = None
        self._replies: list[RendezvousMessage] = []
        self._heard_at_us = 0
        self._out: deque[RendezvousMessage] = deque()

    @property
    def begun(self) -> bool:
        """Whether a joiner has the code: what it has heard lives in this process alone."""
        return self._offer is not None

    @property
    def password(self) -> Password | None:
        """Which secret the joiner says that it knows."""
        return None if self._offer is None else self._offer.password

    def receive(self, raw: bytes, now_us: int) -> None:
        """Take a message of the rendezvous in.

        Raises:
            RemoteError: it breaks a rule. `ending` says whether the code is so used up.
        """
        message = from_wire(raw)
        if self.ending is not None:
            raise InviteError("the code is used up")
        if isinstance(message, Offer):
            self._receive_offer(message, now_us)
        elif self._offer is None or message.session != self._offer.session:
            raise InviteError("another device's ceremony")
        elif isinstance(message, Proof):
            self._receive_proof(message, now_us)
        elif isinstance(message, Farewell):
            self._receive_farewell(message)
        else:
            raise MalformedError("a message that an inviter sends")

    def _receive_offer(self, offer: Offer, now_us: int) -> None:
        if self._offer is None:
            password = self._passwords.get(offer.password)
            if password is None:
                self._out.append(Refusal(offer.session, Reason.WRONG_CODE))
                raise InviteError("a secret that was not given out")
            self._offer, self._heard_at_us = offer, now_us
            self._pake = Pake(Side.INVITER, password, self._rng)
            commitment = inviter_commitment(offer.session, self._pake.element, self._own.keys)
            self._answer = Answer(offer.session, self._pake.element, commitment)
        elif offer.session != self._offer.session:
            self._out.append(Refusal(offer.session, Reason.TAKEN))
            raise InviteError("another device has the code already")
        if self._proof is None:
            assert self._answer is not None
            self._heard_at_us = now_us
            self._out.append(self._answer)

    def _receive_proof(self, proof: Proof, now_us: int) -> None:
        if self._proof is None:
            self._proof = proof
            try:
                self._believe(proof)
            except RemoteError:
                self.end(Ending.WRONG_CODE)
                raise
        elif proof != self._proof:
            raise InviteError("a second proof")
        self._heard_at_us = now_us
        self._out.extend(self._replies)

    def _believe(self, proof: Proof) -> None:
        """Check what the joiner says; it has this one guess."""
        assert self._pake is not None
        assert self._answer is not None
        key = self._pake.finish(proof.element)
        keys = CeremonyKeys.derive(key, proof.session, self._answer.commitment)
        if not crypto.same(proof.confirmation, keys.confirmation(Side.JOINER)):
            raise InviteError("the code is not this one")
        introduction, signature = keys.introduced(Side.JOINER, Proof.KIND, proof.sealed)
        joiner = JoinerIntroduction.from_wire(introduction)
        keys.check(Side.JOINER, introduction, signature, joiner.keys)
        if joiner_commitment(proof.element, joiner.keys) != proof.session:
            raise InviteError("keys other than the ones it was bound to")
        sealed = keys.introduce(Side.INVITER, Welcome.KIND, self._own.to_wire(), self._identity)
        self._keys = keys
        self._replies.append(Welcome(proof.session, keys.confirmation(Side.INVITER), sealed))
        self.met = JoinerMet(joiner, keys.verifier(self._own.keys, joiner.keys))

    def _receive_farewell(self, farewell: Farewell) -> None:
        if self._keys is None:
            raise InviteError("a farewell before the proof")
        parting = read_parting(self._keys.open(Side.JOINER, Farewell.KIND, farewell.sealed))
        self.ending = Ending.PAIRED if parting is Parting.STORED and self.admitted else Ending.LEFT

    def accept(self, admission: Admission) -> None:
        """Give the joiner what it needs; the person has accepted it, and its invite is stored."""
        assert self.met is not None
        self.admitted = True
        self._conclude(admission.to_wire())

    def end(self, ending: Ending) -> None:
        """End it, and say so. What stood in an outcome stays."""
        if self.ending is not None:
            return
        self.ending = ending
        reason = _REASONS.get(ending)
        if reason is None or self._offer is None or self.admitted:
            return
        if self._keys is not None:
            self._conclude(refused(reason))
        else:
            self._out.append(Refusal(self._offer.session, reason))

    def _conclude(self, content: bytes) -> None:
        assert self._keys is not None
        sealed = self._keys.seal(Side.INVITER, Outcome.KIND, content)
        self._replies.append(Outcome(self._keys.session, sealed))
        self._out.append(self._replies[-1])

    def messages_to_send(self) -> Iterator[bytes]:
        """Yield what goes to the joiner now."""
        while self._out:
            yield to_wire(self._out.popleft())

    def handle_deadline(self, now_us: int) -> None:
        """End what has waited too long. An accepted joiner that falls silent may still come with its invite."""
        if self.ending is not None:
            return
        if self._offer is not None and now_us - self._heard_at_us >= PAIRING_SILENCE_US:
            self.end(Ending.VANISHED)
        elif now_us >= self._expires_at_us and not self.admitted:
            self.end(Ending.EXPIRED)


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
        self.ending: Ending | None = None
        self._identity = identity
        self._own = own
        self._pinned = pinned
        self._deadline_us = deadline_us
        self._pake = Pake(Side.JOINER, password[1], rng)
        self._session = joiner_commitment(self._pake.element, own.keys)
        self._answer: Answer | None = None
        self._keys: CeremonyKeys | None = None
        self._inviter: InviterIntroduction | None = None
        self._admission: Admission | None = None
        self._message: RendezvousMessage = Offer(self._session, password[0])
        self._send_at_us = 0
        self._heard_at_us = 0
        self._events: deque[InviterMet | Admitted] = deque()

    @property
    def left(self) -> bool:
        """Whether it was this side that ended it."""
        return isinstance(self._message, Farewell)

    @property
    def answered(self) -> bool:
        """Whether anybody has answered at all."""
        return self._answer is not None

    def receive(self, raw: bytes, now_us: int) -> None:
        """Take a message of the rendezvous in.

        Raises:
            RemoteError: it breaks a rule. `ending` says whether that was the end.
        """
        message = from_wire(raw)
        if self.ending is not None:
            return
        if message.session != self._session:
            raise InviteError("another device's ceremony")
        if isinstance(message, Answer):
            self._receive_answer(message, now_us)
        elif isinstance(message, Welcome):
            self._receive_welcome(message, now_us)
        elif isinstance(message, Outcome):
            self._receive_outcome(message, now_us)
        elif isinstance(message, Refusal):
            if self._inviter is None:  # from then on the inviter speaks under the key
                self.ending = _ENDINGS[message.reason]
        else:
            raise MalformedError("a message that a joiner sends")

    def _receive_answer(self, answer: Answer, now_us: int) -> None:
        if self._answer is not None:
            if answer != self._answer:
                raise InviteError("a second answer")
            return
        self._answer = answer
        try:
            keys = CeremonyKeys.derive(self._pake.finish(answer.element), self._session, answer.commitment)
        except RemoteError:
            self.ending = Ending.WRONG_CODE
            raise
        self._keys = keys
        sealed = keys.introduce(Side.JOINER, Proof.KIND, self._own.to_wire(), self._identity)
        self._message = Proof(self._session, self._pake.element, keys.confirmation(Side.JOINER), sealed)
        self._send_at_us = self._heard_at_us = now_us

    def _receive_welcome(self, welcome: Welcome, now_us: int) -> None:
        if self._keys is None or self._answer is None:
            raise InviteError("a welcome before the proof")
        if self._inviter is not None:
            self._heard_at_us = now_us
            return
        try:
            inviter = self._believe(welcome, self._keys, self._answer)
        except RemoteError:
            self.ending = Ending.WRONG_CODE
            raise
        self._inviter, self._heard_at_us = inviter, now_us
        self._events.append(InviterMet(inviter, self._keys.verifier(inviter.keys, self._own.keys)))

    def _believe(self, welcome: Welcome, keys: CeremonyKeys, answer: Answer) -> InviterIntroduction:
        if not crypto.same(welcome.confirmation, keys.confirmation(Side.INVITER)):
            raise InviteError("the code is not this one")
        introduction, signature = keys.introduced(Side.INVITER, Welcome.KIND, welcome.sealed)
        inviter = InviterIntroduction.from_wire(introduction)
        keys.check(Side.INVITER, introduction, signature, inviter.keys)
        if inviter_commitment(self._session, answer.element, inviter.keys) != answer.commitment:
            raise InviteError("keys other than the ones it was bound to")
        if self._pinned is not None and inviter.keys != self._pinned:
            raise InviteError("keys other than the invite's")
        return inviter

    def _receive_outcome(self, outcome: Outcome, now_us: int) -> None:
        if self._inviter is None or self._keys is None:
            raise InviteError("an outcome before the welcome")  # it comes again, after that
        found = read_outcome(self._keys.open(Side.INVITER, Outcome.KIND, outcome.sealed))
        self._heard_at_us = now_us
        if isinstance(found, Reason):
            self.ending = _ENDINGS[found]
        elif found.invite.inviter != self._inviter.keys or found.invite.group_id != self._inviter.group_id:
            raise InviteError("an invite that is not the inviter's own")
        elif self._admission is None:
            self._admission = found
            self._events.append(Admitted(found))

    def next_event(self) -> InviterMet | Admitted | None:
        """Return what happened, oldest first."""
        return self._events.popleft() if self._events else None

    def stored(self) -> None:
        """End it well: what the inviter gave is durable here."""
        assert self._admission is not None
        self.ending = Ending.PAIRED
        self._part(Parting.STORED)

    def leave(self) -> None:
        """End it before it is done."""
        if self.ending is None:
            self.ending = Ending.CANCELLED
            if self._inviter is not None:
                self._part(Parting.LEAVES)

    def _part(self, parting: Parting) -> None:
        assert self._keys is not None
        sealed = self._keys.seal(Side.JOINER, Farewell.KIND, parting_content(parting))
        self._message = Farewell(self._session, sealed)
        self._send_at_us = 0

    def messages_to_send(self, now_us: int) -> Iterator[bytes]:
        """Yield what goes to the inviter now; once more after `PAIRING_RESEND_US`, until it is over."""
        over = self.ending is not None and not isinstance(self._message, Farewell)
        if not over and now_us >= self._send_at_us:
            self._send_at_us = now_us + PAIRING_RESEND_US
            yield to_wire(self._message)

    def handle_deadline(self, now_us: int) -> None:
        """End what has waited too long."""
        if self.ending is not None:
            return
        if self._answer is not None and now_us - self._heard_at_us >= PAIRING_SILENCE_US:
            self.ending = Ending.VANISHED
        elif now_us >= self._deadline_us:
            self.ending = Ending.EXPIRED
