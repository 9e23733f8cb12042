"""What programs get of a group's history, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from covey.app.documents import Count, GroupIdText, Says

EVENT_ID = "^[0-9a-f]{8}-[0-9]{1,18}$"
EventIdText = Annotated[str, Says(pattern=EVENT_ID, description="where to resume the stream of events")]
OperationIdText = Annotated[str, Says(pattern="^[0-9a-f]{64}$", description="an operation's id")]


DeviceKeyText = Annotated[str, Says(pattern="^[0-9a-f]{64}$", description="a device's signing key")]


HISTORY_PAGE_ENTRIES = 256
"""Of one page of a history, at most."""


HISTORY_CURSOR = r"^([0-9]{1,18})\.([0-9]{1,18})\.([0-9a-f]{64})$"
"""What had arrived, and the height and id of the last operation that was looked at."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One operation as people and programs read it; times are microseconds since 1970.

    `made_at_us` is what its author's clock said, `stored_at_us` when it came here by ours. One that is `void` changes
    nothing: its author was removed before any member received it. One of a `fork` proves that its author is not honest.
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
    event: Annotated[EventIdText, Says(description="later entries follow this event")]
