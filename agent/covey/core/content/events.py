"""Events of requested files."""

from __future__ import annotations

from dataclasses import dataclass

from covey.core.ids import ContentHash, DeviceKey, GroupId


@dataclass(frozen=True, slots=True)
class FileArrived:
    """A file that this device asked for is here whole; `holder` gave the end of it, None: no member by message.

    `size` counts the sealed bytes.
    """

    group_id: GroupId
    content: ContentHash
    size: int
    holder: DeviceKey | None


@dataclass(frozen=True, slots=True)
class FileDamaged:
    """The disk has changed a file that was here whole, as a request for it showed; it is fetched again.

    `size` counts the sealed bytes.
    """

    group_id: GroupId
    content: ContentHash
    size: int


@dataclass(frozen=True, slots=True)
class FileRefused:
    """All parts of a file are what its author said, and the file is not: it was deleted, and is not asked for again."""

    group_id: GroupId
    content: ContentHash
    author: DeviceKey
