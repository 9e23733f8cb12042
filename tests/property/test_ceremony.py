"""A relay that drops, repeats, reorders, reflects and changes what two pairing devices say: never more than an end."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from covey.core.ids import GroupId
from covey.core.pairing.ceremony import Admitted, Ending, InviterMet, RefusalReceived
from covey.core.pairing.invite import Invite
from covey.core.pairing.inviter import Inviter
from covey.core.pairing.joiner import Joiner
from covey.core.pairing.messages import Admission, InviterIntroduction, JoinerIntroduction, Password
from covey.core.pairing.preview import GroupPreview
from covey.errors import RemoteError
from covey.limits.pairing import INVITE_US, PAIRING_RESEND_US
from tests.fleet import identity

ANN, BEN = identity("ann"), identity("ben")
GROUP = GroupId(bytes(32))
CODE = b"42-abandon-zoo-river"
ADMISSION = Admission("", "", "a password", Invite(GROUP, ANN.keys, bytes(16), INVITE_US, ""))

_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["speak", "deliver", "change", "accept"]),
        st.booleans(),  # to the inviter
        st.integers(0, 2**16),
    ),
    max_size=40,
)


class _Pair:
    def __init__(self) -> None:
        own = InviterIntroduction(ANN.keys, "ann", GROUP, GroupPreview("", 1, ()))
        self.inviting = Inviter(ANN, own, {Password.CODE: CODE}, INVITE_US, random.Random("ann").randbytes)
        theirs = JoinerIntroduction(BEN.keys, "ben", needs_credential=True)
        self.joining = Joiner(BEN, theirs, (Password.CODE, CODE), INVITE_US, random.Random("ben").randbytes)
        self.now_us = 0
        self.said: list[bytes] = []
        self.events: list[InviterMet | Admitted] = []

    def deliver(self, raw: bytes, to_inviter: bool) -> None:
        with suppress(RemoteError):
            (self.inviting if to_inviter else self.joining).receive_message(raw, self.now_us)
        self.said += self.inviting.messages_to_send(self.now_us)
        while (event := self.joining.next_event()) is not None:
            if not isinstance(event, RefusalReceived):
                self.events.append(event)

    def speak(self) -> list[bytes]:
        self.now_us += PAIRING_RESEND_US
        said = list(self.joining.messages_to_send(self.now_us))
        self.said += said
        return said

    def accept(self) -> None:
        if self.inviting.met is not None and self.inviting.ending is None and not self.inviting.admitted:
            self.inviting.accept(ADMISSION)
            self.said += self.inviting.messages_to_send(self.now_us)

    def check(self) -> None:
        """What holds whatever the relay does."""
        if self.inviting.met is not None:
            assert self.inviting.met.joiner.keys == BEN.keys
        for event in self.events:
            if isinstance(event, InviterMet):
                assert event.inviter.keys == ANN.keys
                assert self.inviting.met is not None
                assert event.verifier == self.inviting.met.verifier
            else:
                assert event.admission == ADMISSION
                assert self.inviting.admitted
        assert len(self.events) <= 2


@given(_STEPS)
def test_whatever_the_relay_does_nobody_else_is_believed(steps: list[tuple[str, bool, int]]) -> None:
    pair = _Pair()
    for what, to_inviter, number in steps:
        if what == "speak":
            for raw in pair.speak():
                pair.deliver(raw, to_inviter)
        elif what == "accept":
            pair.accept()
        elif pair.said:
            forwarded = bytearray(pair.said[number % len(pair.said)])
            if what == "change":
                forwarded[number % len(forwarded)] ^= 1 << number % 8
            pair.deliver(bytes(forwarded), to_inviter)
        pair.check()


@pytest.mark.slow
@given(_STEPS)
def test_a_ceremony_survives_loss_repetition_and_reordering(steps: list[tuple[str, bool, int]]) -> None:
    pair = _Pair()
    for what, to_inviter, number in steps:
        if what == "speak":
            pair.speak()
        elif what == "accept":
            pair.accept()
        elif what == "deliver" and pair.said:
            pair.deliver(pair.said[number % len(pair.said)], to_inviter)
        pair.check()
    for _ in range(4):
        for raw in pair.speak():
            before = len(pair.said)
            pair.deliver(raw, True)
            pair.accept()
            for answer in pair.said[before:]:
                pair.deliver(answer, False)
    assert [type(event) for event in pair.events] == [InviterMet, Admitted]
    pair.joining.stored()
    for raw in pair.speak():
        pair.deliver(raw, True)
    assert (pair.inviting.ending, pair.joining.ending) == (Ending.PAIRED, Ending.PAIRED)


@given(st.binary(max_size=300), st.booleans())
def test_any_bytes_are_refused(raw: bytes, to_inviter: bool) -> None:
    pair = _Pair()
    pair.deliver(raw, to_inviter)
    assert (pair.inviting.met, pair.inviting.ending, pair.joining.ending) == (None, None, None)
