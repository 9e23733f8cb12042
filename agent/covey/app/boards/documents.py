"""The documents of boards for programs, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from covey.app.documents import Age, Says


@dataclass(frozen=True, slots=True)
class BoardStatus:
    """A board on one of this machine's ports."""

    port: str
    device: Annotated[str, Says(pattern="^([0-9a-f]{8})?$", description="device name; empty: not identified")]
    label: str
    software: str
    enrolled: bool
    up: bool
    seconds: Age | None
    trouble: Annotated[str, Says(description="last error since its start; empty: none")]
