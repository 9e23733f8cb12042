"""`INVITER` and `JOINER`: in each state each event leads where the table says, or is refused and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from covey.core.pairing import inviter, joiner
from covey.core.pairing.ceremony import Ending
from covey.core.pairing.inviter import INVITER, Inviter
from covey.core.pairing.joiner import JOINER, Joiner
from covey.core.pairing.messages import (
    Answer,
    Farewell,
    Offer,
    Outcome,
    Proof,
    Reason,
    Refusal,
    RendezvousMessage,
    Welcome,
    from_wire,
    refused,
    to_wire,
)
from covey.core.pake import Side
from covey.errors import LocalError, RemoteError
from covey.limits.pairing import INVITE_US, PAIRING_SILENCE_US, PAIRING_TRIES
from tests.meeting import START_US, Meeting, admission
from tests.meeting import inviter as new_inviter
from tests.meeting import joiner as new_joiner


class Script(Meeting):
    """A meeting that went well, with its messages at hand, and two machines that are taken part of that way."""

    def __init__(self) -> None:
        super().__init__(new_inviter(), new_joiner())
        self.said: dict[type[RendezvousMessage], bytes] = {}

    def keep(self, *messages: bytes) -> bytes:
        """Keep messages by their kind; return the last."""
        self.said.update({type(from_wire(raw)): raw for raw in messages})
        return messages[-1]

    def go(self, *, upto: int) -> Script:
        """Take so many steps: offer, answer, proof, welcome, acceptance, outcome, farewell."""
        steps: list[Callable[[], object]] = [
            lambda: self.keep(*self.to_inviter(self.keep(*self.from_joiner()))),
            lambda: self.to_joiner(self.said[Answer]),
            lambda: self.keep(*self.to_inviter(self.keep(*self.from_joiner()))),
            lambda: self.to_joiner(self.said[Welcome]),
            lambda: (self.inviting.accept(admission()), self.keep(*self.inviting.messages_to_send(self.now_us))),
            lambda: self.to_joiner(self.said[Outcome]),
            lambda: (self.joining.stored(), self.keep(*self.from_joiner())),
        ]
        for step in steps[:upto]:
            step()
        return self


WHOLE = Script().go(upto=7).said
"""Every message of a meeting; with the same seeds each other meeting has the same ones."""

[OFFER, PROOF, FAREWELL] = [WHOLE[kind] for kind in (Offer, Proof, Farewell)]
SESSION = from_wire(OFFER).session
LATE_US = START_US + INVITE_US


def _wrong_proof(machine: Inviter) -> None:
    proof = from_wire(PROOF)
    assert isinstance(proof, Proof)
    machine.receive_message(to_wire(replace(proof, confirmation=bytes(32))), START_US)


def _waiting_proof(machine: Inviter) -> None:
    proof = from_wire(PROOF)
    assert isinstance(proof, Proof)
    for number in range(PAIRING_TRIES + 1):
        with suppress(RemoteError):
            machine.receive_message(to_wire(replace(proof, confirmation=bytes([number] * 32))), START_US)


def _silence(machine: Inviter | Joiner) -> None:
    deadline = machine._received_at_us + PAIRING_SILENCE_US
    machine.handle_deadline(deadline)


def _time_up(machine: Inviter | Joiner) -> None:
    machine._received_at_us = LATE_US
    machine.handle_deadline(LATE_US)


INVITER_EVENTS: Mapping[inviter.Event, Callable[[Inviter], None]] = {
    inviter.Event.OFFER: lambda machine: machine.receive_message(OFFER, LATE_US),
    inviter.Event.PROOF: lambda machine: machine.receive_message(PROOF, LATE_US),
    inviter.Event.WAITING_PROOF: _waiting_proof,
    inviter.Event.WRONG_PROOF: _wrong_proof,
    inviter.Event.FAREWELL: lambda machine: machine.receive_message(FAREWELL, LATE_US),
    inviter.Event.ACCEPT: lambda machine: machine.accept(admission()),
    inviter.Event.END: lambda machine: machine.end(Ending.CANCELLED),
    inviter.Event.SILENCE: _silence,
    inviter.Event.TIME_UP: _time_up,
}
INVITER_STATES: Mapping[type, Callable[[], Inviter]] = {
    inviter.Waiting: lambda: Script().inviting,
    inviter.Comparing: lambda: Script().go(upto=3).inviting,
    inviter.Admitting: lambda: Script().go(upto=5).inviting,
    inviter.Over: lambda: _over(Script().go(upto=3).inviting),
}


def _over(machine: Inviter) -> Inviter:
    machine.end(Ending.DECLINED)
    return machine


@pytest.mark.parametrize("event", inviter.Event)
@pytest.mark.parametrize("state", INVITER)
def test_the_inviter_goes_where_its_table_says(state: type, event: inviter.Event) -> None:
    machine = INVITER_STATES[state]()
    before = machine._state
    assert type(before) is state
    with suppress(RemoteError, LocalError):
        INVITER_EVENTS[event](machine)
    if (following := INVITER[state].get(event)) is None:
        assert machine._state is before
    else:
        assert type(machine._state) is following


@pytest.mark.parametrize("event", [inviter.Event.OFFER, inviter.Event.PROOF, inviter.Event.FAREWELL])
@pytest.mark.parametrize("state", INVITER)
def test_a_message_that_the_table_does_not_have_is_refused(state: type, event: inviter.Event) -> None:
    machine = INVITER_STATES[state]()
    if event in INVITER[state]:
        INVITER_EVENTS[event](machine)
    else:
        with pytest.raises(RemoteError):
            INVITER_EVENTS[event](machine)


def _wrong_answer(machine: Joiner) -> None:
    machine.receive_message(to_wire(Answer(SESSION, bytes(32), bytes(32))), START_US)


def _wrong_welcome(machine: Joiner) -> None:
    machine.receive_message(to_wire(Welcome(SESSION, bytes(32), bytes(40))), START_US)


def _decline(machine: Joiner) -> None:
    state: Any = machine._state
    other: Any = Script().go(upto=4).joining._state
    keys = getattr(state, "keys", None) or other.keys
    machine.receive_message(to_wire(Outcome(SESSION, keys.seal(Side.INVITER, Outcome.KIND, refused(Reason.FAILED)))), 0)


JOINER_EVENTS: Mapping[joiner.Event, Callable[[Joiner], None]] = {
    joiner.Event.ANSWER: lambda machine: machine.receive_message(WHOLE[Answer], START_US),
    joiner.Event.WRONG_ANSWER: _wrong_answer,
    joiner.Event.WELCOME: lambda machine: machine.receive_message(WHOLE[Welcome], START_US),
    joiner.Event.WRONG_WELCOME: _wrong_welcome,
    joiner.Event.ADMISSION: lambda machine: machine.receive_message(WHOLE[Outcome], START_US),
    joiner.Event.DECLINE: _decline,
    joiner.Event.REFUSAL: lambda machine: machine.receive_message(to_wire(Refusal(SESSION, Reason.TAKEN)), START_US),
    joiner.Event.STORED: lambda machine: machine.stored(),
    joiner.Event.LEAVE: lambda machine: machine.leave(),
    joiner.Event.SILENCE: _silence,
    joiner.Event.TIME_UP: _time_up,
}
JOINER_STATES: Mapping[type, int] = {
    joiner.Seeking: 1,
    joiner.Proving: 2,
    joiner.Comparing: 4,
    joiner.Storing: 6,
    joiner.Over: 7,
}


@pytest.mark.parametrize("event", joiner.Event)
@pytest.mark.parametrize("state", JOINER)
def test_the_joiner_goes_where_its_table_says(state: type, event: joiner.Event) -> None:
    machine = Script().go(upto=JOINER_STATES[state]).joining
    before = machine._state
    assert type(before) is state
    with suppress(RemoteError, LocalError):
        JOINER_EVENTS[event](machine)
    if (following := JOINER[state].get(event)) is None:
        assert machine._state == before
    else:
        assert type(machine._state) is following


@pytest.mark.parametrize("event", [joiner.Event.ANSWER, joiner.Event.WELCOME, joiner.Event.ADMISSION])
@pytest.mark.parametrize("state", JOINER)
def test_a_message_out_of_turn_is_refused_until_it_is_over(state: type, event: joiner.Event) -> None:
    machine = Script().go(upto=JOINER_STATES[state]).joining
    if event in JOINER[state] or state is joiner.Over:
        JOINER_EVENTS[event](machine)
    else:
        with pytest.raises(RemoteError):
            JOINER_EVENTS[event](machine)


@pytest.mark.parametrize("state", INVITER)
def test_only_clocks_that_the_table_has_run(state: type) -> None:
    clocks = {inviter.Event.SILENCE, inviter.Event.TIME_UP} & set(INVITER[state])
    machine = INVITER_STATES[state]()
    before = machine._state
    machine.handle_deadline(10**18)
    assert (machine._state == before) == (not clocks)
