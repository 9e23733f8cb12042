"""The ceremony by which two devices that share a short secret learn to trust each other's keys
(docs/protocol/groups.md, section 36).

The joiner (`joiner.py`) sends and repeats messages, the inviter (`inviter.py`) answers; so either may start first, and
a relay may drop, repeat and reorder messages. The rules:

    1. Only a proof that its sender knows the secret occupies the code. Before that the inviter stores nothing about
       anybody, and answers all.
    2. The joiner proves first. A wrong proof is a guess: `PAIRING_TRIES` at once, then one each `PAIRING_TRY_US`.
       Further proofs wait, and the next one to be tried is drawn at random. A message that is no proof is no guess, and
       costs no attempt.
    3. A message that anybody could have written ends nothing: a refusal in the clear, a wrong answer, a wrong welcome.
       The joiner proves itself to as many answers as it may make guesses, until one of them proves itself.
    4. Both are bound to their keys before either has seen what the words that people compare depend on.
    5. Everything that one side believes of the other arrived under the key that both have proved.
    6. A side that receives nothing for `PAIRING_SILENCE_US` ends the ceremony; so does the inviter when the code
       expires.

This module holds what the two machines have in common: how a ceremony ends, and its events for the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from covey.core.pairing.messages import Admission, InviterIntroduction, JoinerIntroduction, Reason
from covey.limits.pairing import PAIRING_TRIES, PAIRING_TRY_US


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


REASONS = {
    Ending.TAKEN: Reason.TAKEN,
    Ending.WRONG_CODE: Reason.WRONG_CODE,
    Ending.EXPIRED: Reason.EXPIRED,
    Ending.CANCELLED: Reason.CANCELLED,
    Ending.INTERRUPTED: Reason.CANCELLED,
    Ending.DECLINED: Reason.DECLINED,
    Ending.FAILED: Reason.FAILED,
}
"""What the inviter tells the joiner. A joiner that is gone is told nothing."""

ENDINGS = {
    Reason.TAKEN: Ending.TAKEN,
    Reason.WRONG_CODE: Ending.WRONG_CODE,
    Reason.EXPIRED: Ending.EXPIRED,
    Reason.CANCELLED: Ending.CANCELLED,
    Reason.DECLINED: Ending.DECLINED,
    Reason.FAILED: Ending.FAILED,
}
"""What the joiner makes of a reason."""


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
class RefusalReceived:
    """Somebody at the rendezvous refuses this joiner; it may be the inviter, and ends nothing. Told once."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Admitted:
    """The inviter's person has accepted. Store the admission, then call `Joiner.stored`."""

    admission: Admission


def tries_until(first_try_at_us: int, now_us: int) -> int:
    """Return how many guesses may have been made by now, when the first one came then (rule 2)."""
    return PAIRING_TRIES + max(0, now_us - first_try_at_us) // PAIRING_TRY_US
