"""Stored state of open invites, joins and pairing sessions.

The command at the keyboard and the agent at the relay are two processes: each reads here what the other has written.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from covey.core.crypto import DeviceKeys
from covey.core.ids import DeviceKey, GroupId
from covey.core.pairing.preview import GroupPreview


@dataclass(frozen=True, slots=True)
class OpenInvite:
    """An invite as its issuer remembers it; `bound_to` is the only device that may use it, or None for any.

    `prepared_for` is the device's label for an invite in a file, None for one that a person hands over; `request` the
    JOIN body of a device that waits to be admitted with others (`gathering.py`).
    """

    secret_hash: bytes
    group_id: GroupId
    expires_at_us: int
    capabilities: tuple[str, ...]
    used_by: DeviceKey | None
    bound_to: DeviceKey | None = None
    prepared_for: str | None = None
    request: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Replacement:
    """A member that the newcomer with an invite replaces, and the label that it then has."""

    secret_hash: bytes
    group_id: GroupId
    replaced: DeviceKey
    label: str


@dataclass(frozen=True, slots=True)
class PendingJoin:
    """A group that this device has asked to join, and a device whose answer counts.

    Of an invite that is the inviter alone. `label` is what a public group's newcomer calls itself, who asks several
    members; None where there is an invite.
    """

    group_id: GroupId
    inviter: DeviceKeys
    expires_at_us: int
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Pairing:
    """A code that this device has given out, and its state.

    `code` is None without words, if the invite's URI is the only secret. `accepts` is the person's decision, None so
    far. `verifier` are places in the list of words; `ended` says how it ended, None before.
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
    """Operators that the joiner is to obey, if its person agrees."""
    prepared: bool = False
    """Whether its invite is in a file, with its own account at the relay, which still exists."""


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


@dataclass(frozen=True, slots=True)
class UnknownGroup:
    """A group that this device is addressed in, and does not hold; `asked_at_us` is 0 before it has asked."""

    group_id: GroupId
    author: DeviceKey
    seen_at_us: int
    asked_at_us: int


@dataclass(frozen=True, slots=True)
class InviteWish:
    """A device asks to be let into a group of this one."""

    group_id: GroupId
    device: DeviceKey
    seen_at_us: int
