"""What is durable of ceremonies and of invitations to further groups, as dataclasses and one Protocol.

The person at the keyboard and the agent that speaks with the relay are two processes: each reads here what the other
has written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

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
    preview: GroupPreview | None
    """What its inviter says of the group; None where a worn card has changed it."""


@dataclass(frozen=True, slots=True)
class InvitedOperator:
    """A device whose orders this one obeys, because a person has accepted it with the invite of `inviter`."""

    operator: DeviceKey
    inviter: DeviceKey
    pinned_at_us: int
