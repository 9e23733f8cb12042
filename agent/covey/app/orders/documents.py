"""What programs get of the settings that operators gave, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from covey.app.documents import DeviceName, GroupIdText, Says

Scalar = str | bool | int


SettingStateText = Literal["handed_over", "applied", "refused", "restarting", "tried", "reverted", "replaced"]


@dataclass(frozen=True, slots=True)
class OrderedSettingDocument:
    """A setting that an operator gave this device, and its state."""

    key: str
    value: Annotated[Scalar | None, Says(description="value that operators ordered; null: the device's own value")]
    secret: Annotated[bool, Says(description="never shown except to programs at `/v1/settings`")]
    state: SettingStateText
    code: Annotated[str, Says(description="reason code if it was not applied; empty: applied")]
    why: Annotated[str, Says(description="the reason, for people")]
    by: DeviceName
    operation: Annotated[
        str, Says(pattern="^[0-9a-f]{64}$", description="operation in the group's history that ordered it")
    ]
    group_id: GroupIdText
    own: Annotated[Scalar | None, Says(description="value that the program reported")]


@dataclass(frozen=True, slots=True)
class ReportedSettingDocument:
    """A program's report is kept, and goes to the operators."""

    reported: Annotated[bool, Says(description="false: a later operation replaced this one")]
