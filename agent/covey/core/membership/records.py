"""What the machines of membership read and write of the durable state: a small Protocol for each family of tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from covey.core.crypto import DeviceKeys
from covey.core.ids import DeviceKey, GroupId

if TYPE_CHECKING:
    pass


@dataclass(frozen=True, slots=True)
class OpenInvite:
    """An invite as its issuer remembers it; `bound_to` is the one device that may use it, where it is not anybody's.

    `prepared_for` is what the device is to be called whose file it stands in, None for one that a person hands over;
    `request` the body of the JOIN of a device that waits to be let in with others (`gathering.py`).
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
class PendingJoin:
    """A group that this device has asked to join, and a device whose answer counts.

    Of an invite that is the inviter alone. `label` is what a public group's newcomer calls itself, who asks several
    members; None where there is an invite.
    """

    group_id: GroupId
    inviter: DeviceKeys
    expires_at_us: int
    label: str | None = None
