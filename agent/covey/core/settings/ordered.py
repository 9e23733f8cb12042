"""The settings that operators gave a device, as stored: the only part that a device without any needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from covey.core.history.orders import Scalar
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.settings.states import ReportedSetting, SettingState
from covey.limits.settings import MAXIMUM_REPORTED_VALUE_BYTES

REFUSED_BY_PROGRAM = "program"


@dataclass(frozen=True, slots=True)
class HeldValue:
    """A value that holds, whose it is, and whether it is never to be shown or told."""

    value: Scalar = field(repr=False)
    author: DeviceKey
    secret: bool = False


@dataclass(frozen=True, slots=True)
class OrderedSetting:
    """A setting that operators gave this device, and its state.

    `held` is the operators' value in use, None for the device's own; `before` is the value to revert to; `own` the
    value that its program reports.
    """

    key: str
    group_id: GroupId
    operation: OperationId
    author: DeviceKey
    state: SettingState
    held: HeldValue | None
    before: HeldValue | None = None
    code: str = ""
    why: str = ""
    tries: int = 0
    own: Scalar | None = field(default=None, repr=False)

    @property
    def unproven(self) -> bool:
        """Whether it goes back unless it proves itself."""
        return self.state in {SettingState.RESTARTING, SettingState.TRIED}

    @property
    def taken_up(self) -> bool:
        """Whether what holds is what the order asks for, whatever a program says of it."""
        refused = self.state is SettingState.REFUSED and self.code != REFUSED_BY_PROGRAM
        return not refused and self.state is not SettingState.REVERTED

    @property
    def secret(self) -> bool:
        """Whether what holds is never to be shown or told."""
        return self.held is not None and self.held.secret

    @property
    def reported(self) -> ReportedSetting:
        """Return it as it is told to others."""
        value = self.own
        if self.state in {SettingState.REFUSED, SettingState.REVERTED} and value is None and self.held is not None:
            value = self.held.value
        if self.secret or (isinstance(value, str) and len(value.encode()) > MAXIMUM_REPORTED_VALUE_BYTES):
            value = None
        return ReportedSetting(self.key, self.operation, self.state, value, self.code, self.why)
