"""What is durable of ceremonies and of invitations to further groups, as dataclasses and one Protocol.

The person at the keyboard and the agent that speaks with the relay are two processes: each reads here what the other
has written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from covey.core.crypto import DeviceKeys
from covey.core.ids import DeviceKey, GroupId
from covey.core.pairing.preview import GroupPreview


@dataclass(frozen=True, slots=True)
class Pairing:
    """A code that this device has given out, and what has become of it.

    `code` is None where there are no words, and the invite's URI is the only secret. `accepts` is what the person has
    decided, None so far. `verifier` are places in the list of words; `ended` says how it ended, None before.
    """

    secret_hash: bytes
    number: int
    code: str | None = field(repr=False)
    secret: bytes = field(repr=False)
    expires_at_us: int
    accepts: bool | None = None
    joiner: DeviceKey | None = None
    label: str = ""
    verifier: tuple[int, ...] = ()
    lacks_account: bool = False
    minted: bool = False
    ended: str | None = None
    operators: tuple[DeviceKey, ...] = ()
    """Whom the joiner is to obey, if its person agrees."""
    prepared: bool = False
    """Whether its invite stands in a file, with an account at the relay of its own, which is still there."""


@dataclass(frozen=True, slots=True)
class GroupRequest:
    """An invitation to a further group that waits for a person."""

    group_id: GroupId
    inviter: DeviceKeys
    secret: bytes = field(repr=False)
    expires_at_us: int
    received_at_us: int
    preview: GroupPreview | None = None
    """What its inviter says of the group."""


@dataclass(frozen=True, slots=True)
class InvitedOperator:
    """A device whose orders this one obeys, because a person has accepted it with the invite of `inviter`."""

    operator: DeviceKey
    inviter: DeviceKey
    pinned_at_us: int


class PairingRecords(Protocol):
    """The durable state of ceremonies."""

    def all(self) -> list[Pairing]:
        """Return the ceremonies that go on, and the last ones that have ended."""

    def open(self, pairing: Pairing, now_us: int) -> None:
        """Remember a code, and forget those that ended long ago."""

    def note_joiner(self, pairing: Pairing) -> None:
        """Remember who has proved to know the secret."""

    def decide(self, secret_hash: bytes, accepts: bool) -> None:
        """Remember what the person has decided."""

    def note_minted(self, secret_hash: bytes, minted: bool) -> None:
        """Remember that the joiner was given an account that is to go again if it never joins; or that this is over."""

    def note_account_gone(self, secret_hash: bytes) -> None:
        """Remember that the account at the relay that stands in an invite's file is no more."""

    def end(self, secret_hash: bytes, ended: str) -> None:
        """Note how a ceremony has ended, once, and forget its secrets."""
