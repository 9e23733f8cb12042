"""Two machines that pair, and their clock: for whatever the relay between them does."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from covey.core.crypto import Identity
from covey.core.ids import GroupId
from covey.core.pairing.ceremony import Admitted, InviterMet, RefusalReceived
from covey.core.pairing.invite import Invite
from covey.core.pairing.inviter import Inviter
from covey.core.pairing.joiner import Joiner
from covey.core.pairing.messages import (
    Admission,
    InviterIntroduction,
    JoinerIntroduction,
    Password,
)
from covey.core.pairing.preview import GroupPreview
from covey.errors import (
    RemoteError,
)
from covey.limits.pairing import (
    INVITE_US,
    PAIRING_RESEND_US,
)
from tests.fleet import identity

ANN, BEN, EVE = (identity(name) for name in ("ann", "ben", "eve"))
GROUP = GroupId(bytes(range(32)))
SHOWN = GroupPreview("", 1, ())
CODE = b"42-abandon-zoo-river"
START_US = 5_000_000


def rng(seed: str) -> Callable[[int], bytes]:
    return random.Random(seed).randbytes


def inviter(name: str = "ann", code: bytes = CODE, valid_us: int = INVITE_US) -> Inviter:
    own = InviterIntroduction(identity(name).keys, name, GROUP, SHOWN)
    return Inviter(identity(name), own, {Password.CODE: code}, START_US + valid_us, rng(f"inviter {name}"))


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
