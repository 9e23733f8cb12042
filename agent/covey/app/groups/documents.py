"""What programs get of blobs and ephemeral messages, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from covey.app.documents import Count, DeviceName, GroupIdText, Says


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
