"""What programs get of a group's history, and of what happens: the JSON of the local API, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from covey.app.documents import Count, GroupIdText, OrderedSettingDocument, Says, Scalar, SettingStateText
from covey.app.own_documents import OwnGroupEvent, OwnPreferenceEvent

OperationIdText = Annotated[str, Says(pattern="^[0-9a-f]{64}$", description="an operation's id")]
DeviceKeyText = Annotated[str, Says(pattern="^[0-9a-f]{64}$", description="a device's signing key")]
HISTORY_PAGE_ENTRIES = 256
"""Of one page of a history, at most."""
HISTORY_CURSOR = r"^([0-9]{1,18})\.([0-9]{1,18})\.([0-9a-f]{64})$"
"""What had arrived, and the height and id of the last operation that was looked at."""
EVENT_ID = "^[0-9a-f]{8}-[0-9]{1,18}$"
EventIdText = Annotated[str, Says(pattern=EVENT_ID, description="where to resume the stream of events")]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One operation as people and programs read it; times are microseconds since 1970.

    `made_at_us` is what its author's clock said, `stored_at_us` when it came here by ours. One that is `void` changes
    nothing: its author was removed before anybody knew of it. One of a `fork` proves that its author is not honest.
    A note of a text has `text`, any other one `content` in base64.
    """

    id: OperationIdText
    group_id: GroupIdText
    kind: str
    author: DeviceKeyText
    label: str
    height: Count
    number: Count
    made_at_us: Count
    stored_at_us: Count
    parents: tuple[str, ...]
    manifest: str
    void: bool = False
    fork: bool = False
    mime: str | None = None
    text: str | None = None
    content: Annotated[str | None, Says(contentEncoding="base64")] = None
    bytes: int = 0
    about: str | None = None
    replaces: str | None = None
    title: str | None = None
    uri: str | None = None
    started_at_us: int | None = None
    ended_at_us: int | None = None


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A window of a group's history, in the order that holds everywhere."""

    entries: tuple[HistoryEntry, ...]
    next: Annotated[str | None, Says(description="`after` of the next page; null: this was the last one")]
    event: Annotated[EventIdText, Says(description="what came after the first page's reading follows this event")]


@dataclass(frozen=True, slots=True)
class NamedMember:
    """A member that came or went."""

    device: DeviceKeyText
    label: str


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """What has become of a group, by a version of its manifest. Of very many members only the first are named."""

    group_id: GroupIdText
    at_us: Count
    version: Count
    epoch: Annotated[Count, Says(description="generation of the group's secret: one more with each removal")]
    by: Annotated[DeviceKeyText, Says(description="who issued it")]
    members: Annotated[Count, Says(description="how many there are; 0: not told")] = 0
    added: tuple[NamedMember, ...] = ()
    removed: tuple[NamedMember, ...] = ()
    conflict: Annotated[bool, Says(description="members disagree, which ends by itself")] = False


@dataclass(frozen=True, slots=True)
class InvitationEvent:
    """What has become of an invitation to a further group; `device` is who was invited (`sent`), else who invites.

    Who accepts asks to be let in: `group_joined` says that it was. Nobody else hears that one was declined.
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
    target: Annotated[str, Says(description="a device's key, or where an invite is kept out its hash")]
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
    """What has become of one setting on another device."""

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
    """Events after the one that was named are not to be had any more: read anew what you keep."""


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
