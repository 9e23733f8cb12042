"""What programs get of the settings that operators gave, field by field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from covey.app.documents import DeviceName, GroupIdText, Says

Scalar = str | bool | int


SettingStateText = Literal["handed_over", "applied", "refused", "restarting", "tried", "reverted"]


@dataclass(frozen=True, slots=True)
class OrderedSettingDocument:
    """A setting that an operator gave this device, and what has become of it."""

    key: str
    value: Annotated[Scalar | None, Says(description="what operators want to hold; null: the device's own value")]
    secret: Annotated[bool, Says(description="the value is never shown: only `/v1/settings` has it, for programs")]
    state: SettingStateText
    code: Annotated[str, Says(description="what stood against it, for programs; empty: nothing")]
    why: Annotated[str, Says(description="the same for people")]
    by: DeviceName
    operation: Annotated[str, Says(pattern="^[0-9a-f]{64}$", description="which asks for it, in the group's history")]
    group_id: GroupIdText
    own: Annotated[Scalar | None, Says(description="what the program whose setting it is has said that it has")]


@dataclass(frozen=True, slots=True)
class ReportedSettingDocument:
    """A program's report is kept, and goes to the operators."""

    reported: Annotated[bool, Says(description="false: another operation asks for the setting by now")]
