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
    sent_at_us: Annotated[int, Says(description="Unix microseconds by the author's clock")]
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
    this: Annotated[bool, Says(description="whether it is this device")]
    presence: Annotated[str | None, Says(description=f"one of {', '.join(CONDITIONS)}; null: this device")]
    since_us: Annotated[int | None, Says(description="start of this state")]
    seen_at_us: Annotated[int | None, Says(description="time of its last new message, to the minute; null: never")]
    groups: Annotated[tuple[str, ...], Says(description="ids of the groups shared with this device")]


@dataclass(frozen=True, slots=True)
class OwnGroupEntry:
    """A group of the person's, and its state."""

    group_id: GroupIdText
    title: str
    state: Literal["held", "left", "erased"]
    member: Annotated[bool, Says(description="whether this device is a member")]
    by: Annotated[str, Says(description="device that reported it")]
    made_at_us: Annotated[int, Says(description="time by that device's clock")]


@dataclass(frozen=True, slots=True)
class OwnPreference:
    """How the person wants something, everywhere or for one group."""

    group_id: Annotated[GroupIdText | None, Says(description="null: all groups")]
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
    """A preference is stored as requested; the person's other devices are informed."""

    preference: Annotated[OwnPreference | None, Says(description="null: unset")]


@dataclass(frozen=True, slots=True)
class OwnGroupEvent:
    """One of the person's devices has announced the state of a group: this is its state now."""

    group_id: Annotated[GroupIdText, Says(description="the personal group's")]
    at_us: Count
    group: OwnGroupEntry


@dataclass(frozen=True, slots=True)
class OwnPreferenceEvent:
    """One of the person's devices has set a preference: it is as it is now."""

    group_id: Annotated[GroupIdText, Says(description="the personal group's")]
    at_us: Count
    about: Annotated[GroupIdText | None, Says(description="group that it applies to; null: all groups")]
    key: str
    value: Annotated[str | None, Says(description="null: unset")]
