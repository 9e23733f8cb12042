"""The JSON of blobs, ephemeral messages, and of a person's own devices, groups and preferences, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from covey.app.documents import Count, DeviceName, GroupIdText, Says
from covey.core.presence.status import CONDITIONS


@dataclass(frozen=True, slots=True)
class ArrivedBlob:
    """A blob that has arrived."""

    id: Count
    author: Annotated[str, Says(pattern="^[0-9a-f]{64}$", description="signing key")]
    name: DeviceName
    group_id: GroupIdText
    sent_at_us: Annotated[int, Says(description="Unix microseconds, as the author's clock said")]
    received_at_us: Annotated[int, Says(description="Unix microseconds")]
    body: Annotated[str, Says(contentEncoding="base64")]


@dataclass(frozen=True, slots=True)
class SentEphemeral:
    """How many bytes were said, to how many members; who of them is there is not known."""

    bytes: Count
    recipients: Count


@dataclass(frozen=True, slots=True)
class QueuedBlob:
    """A blob is queued, for so many devices."""

    bytes: Count
    recipients: Count


@dataclass(frozen=True, slots=True)
class OwnDevice:
    """One of the person's devices; times are Unix microseconds of this device's clock."""

    device: Annotated[str, Says(description="its name: the beginning of its signing key")]
    label: str
    this: Annotated[bool, Says(description="whether it is the device that answers")]
    presence: Annotated[str | None, Says(description=f"one of {', '.join(CONDITIONS)}; null: the device that answers")]
    since_us: Annotated[int | None, Says(description="since when it is so")]
    seen_at_us: Annotated[int | None, Says(description="when something new came from it, to a minute; null: never")]
    groups: Annotated[tuple[str, ...], Says(description="ids of the groups that it shares with this device")]


@dataclass(frozen=True, slots=True)
class OwnGroupEntry:
    """A group of the person's, and what has become of it."""

    group_id: GroupIdText
    title: str
    state: Literal["held", "left", "erased"]
    member: Annotated[bool, Says(description="whether the device that answers is in it")]
    by: Annotated[str, Says(description="the device that said so")]
    made_at_us: Annotated[int, Says(description="when, by that device's clock")]


@dataclass(frozen=True, slots=True)
class OwnPreference:
    """How the person wants something, everywhere or for one group."""

    group_id: Annotated[GroupIdText | None, Says(description="null: everywhere")]
    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Own:
    """A person's devices, groups and preferences, as one of the devices knows them."""

    group_id: Annotated[str, Says(description="the personal group's")]
    devices: tuple[OwnDevice, ...]
    groups: tuple[OwnGroupEntry, ...]
    preferences: tuple[OwnPreference, ...]


@dataclass(frozen=True, slots=True)
class SetPreference:
    """A preference is as it was asked for, durably; the person's other devices are told."""

    preference: Annotated[OwnPreference | None, Says(description="null: there is none any more")]


@dataclass(frozen=True, slots=True)
class OwnGroupEvent:
    """One of the person's devices has said what has become of a group: it is as it is now."""

    group_id: Annotated[GroupIdText, Says(description="the personal group's")]
    at_us: Count
    group: OwnGroupEntry


@dataclass(frozen=True, slots=True)
class OwnPreferenceEvent:
    """One of the person's devices has set a preference: it is as it is now."""

    group_id: Annotated[GroupIdText, Says(description="the personal group's")]
    at_us: Count
    about: Annotated[GroupIdText | None, Says(description="the group that it is for; null: everywhere")]
    key: str
    value: Annotated[str | None, Says(description="null: none any more")]
