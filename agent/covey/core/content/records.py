"""What the exchange of files reads and writes of the durable state."""

from __future__ import annotations

from dataclasses import dataclass

from covey.core.ids import ContentHash, DeviceKey, GroupId


@dataclass(frozen=True, slots=True)
class WantedFile:
    """A file that this device asks for: `sealed_size` bytes, offered in a group by `author`."""

    hash: ContentHash
    index: ContentHash
    sealed_size: int
    group_id: GroupId
    author: DeviceKey
