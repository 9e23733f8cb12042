"""What programs get of what happens to a device, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from covey.app.documents import Count, GroupIdText, Says
from covey.app.groups.documents import OwnGroupEvent, OwnPreferenceEvent
from covey.app.history.documents import DeviceKeyText, HistoryEntry, OperationIdText
from covey.app.orders.documents import OrderedSettingDocument, Scalar, SettingStateText


@dataclass(frozen=True, slots=True)
class NamedMember:
    """A member that came or went."""

    device: DeviceKeyText
    label: str


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """A change of a group by a version of its manifest. Of very many members only the first are named."""

    group_id: GroupIdText
    at_us: Count
    version: Count
    epoch: Annotated[Count, Says(description="generation of the group's secret; each removal starts a new one")]
    by: Annotated[DeviceKeyText, Says(description="issuer")]
    members: Annotated[Count, Says(description="number of members; 0: unknown")] = 0
    added: tuple[NamedMember, ...] = ()
    removed: tuple[NamedMember, ...] = ()
    conflict: Annotated[bool, Says(description="members hold conflicting versions and will agree on one")] = False


@dataclass(frozen=True, slots=True)
class InvitationEvent:
    """A change of an invitation to a further group; `device` is the invited one (`sent`), else the inviter.

    A device that accepts asks to join: `group_joined` reports success. A declined invitation is reported to nobody
    else.
    """

    group_id: GroupIdText
    at_us: Count
    device: DeviceKeyText
    state: Literal["sent", "received", "accepted", "declined"]


@dataclass(frozen=True, slots=True)
class VoteEvent:
    """An admin, perhaps this device's own, votes; with the first one the vote is open.

    With `votes` as many as are `needed` it has passed here; elsewhere a `group_changed` shows that it has.
    """

    group_id: GroupIdText
    at_us: Count
    action: Literal["ban", "keep_out", "unban"]
    target: Annotated[str, Says(description="key of the device, or hash of the banned invite")]
    voter: DeviceKeyText
    votes: Count
    needed: Count


@dataclass(frozen=True, slots=True)
class SettingEvent:
    """A setting that an operator gave this device, as it is now; null: no operator asks for it any more."""

    key: str
    at_us: Count
    setting: OrderedSettingDocument | None


@dataclass(frozen=True, slots=True)
class ReportedSettingEvent:
    """A reported change of one setting on another device."""

    key: str
    operation: OperationIdText
    state: SettingStateText
    value: Scalar | None
    code: str
    why: str


@dataclass(frozen=True, slots=True)
class SettingReportEvent:
    """What another device last reported of the settings that operators gave it."""

    group_id: GroupIdText
    at_us: Count
    device: DeviceKeyText
    settings: tuple[ReportedSettingEvent, ...]


@dataclass(frozen=True, slots=True)
class OrderResultEvent:
    """What a device, perhaps this one, has reported of a command; `order` is the command's operation.

    `exit` is the program's exit code, or below 0 the signal that ended it. One that is not `judged` came before the
    command: that it was for that device is not shown yet.
    """

    group_id: GroupIdText
    at_us: Count
    order: OperationIdText
    device: DeviceKeyText
    state: Literal["done", "stopped", "refused", "unknown"]
    exit: int | None
    code: str
    why: str
    output_bytes: Count
    judged: bool


@dataclass(frozen=True, slots=True)
class EphemeralEvent:
    """What a member has said to those who are there now, and nobody keeps; `said_at_us` by its author's clock.

    It comes once: not to who begins to read later, nor to who resumes. What is UTF-8 is `text`, anything else `content`
    in base64.
    """

    group_id: GroupIdText
    author: DeviceKeyText
    label: str
    said_at_us: Count
    text: str | None = None
    content: Annotated[str | None, Says(contentEncoding="base64")] = None


@dataclass(frozen=True, slots=True)
class Missed:
    """Events after the named one are no longer available: read again what you keep."""


EVENTS: dict[str, type] = {
    "operation": HistoryEntry,
    "group_joined": GroupEvent,
    "group_changed": GroupEvent,
    "group_removed": GroupEvent,
    "group_destroyed": GroupEvent,
    "invitation": InvitationEvent,
    "vote": VoteEvent,
    "setting": SettingEvent,
    "setting_report": SettingReportEvent,
    "order_result": OrderResultEvent,
    "own_group": OwnGroupEvent,
    "preference": OwnPreferenceEvent,
    "ephemeral": EphemeralEvent,
    "missed": Missed,
}
"""What the data of each type of event is."""
