"""Settings that operators set on this device, as programs get them, and what a program says of its own."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from covey.app.orders.documents import OrderedSettingDocument
from covey.config.ordered import APPLICATION_PREFIX
from covey.core.history.orders import Scalar
from covey.core.ids import device_name
from covey.core.settings.ordered import REFUSED_BY_PROGRAM
from covey.core.settings.states import SettingState, scalar
from covey.errors import RemoteError, UsageError
from covey.limits.orders import MAXIMUM_SETTING_KEY_BYTES
from covey.limits.settings import MAXIMUM_REPORTED_VALUE_BYTES, MAXIMUM_SETTING_WHY_BYTES

if TYPE_CHECKING:
    from covey.app.device.device import Device

_STATES = {"applied": SettingState.APPLIED, "refused": SettingState.REFUSED}
_WITHHELD = "the program logs why on the device; reports about secret values are not sent"
_OPERATION = re.compile(r"[0-9a-f]{64}")
_FIELDS = {"key", "operation", "state", "value", "why"}


@dataclass(frozen=True, slots=True)
class ProgramReport:
    """What a program says of a setting of its own."""

    key: str
    operation: str
    state: SettingState
    value: Scalar | None
    why: str


def ordered_settings(device: Device, *, secrets: bool = False) -> list[OrderedSettingDocument]:
    """Return the settings that operators gave a device, by key; secret values for its owner's programs only."""
    return [
        OrderedSettingDocument(
            key=each.key,
            value=None if each.held is None or (each.secret and not secrets) else each.held.value,
            secret=each.secret,
            state=each.state.name.lower(),  # type: ignore[arg-type]  # the names are the document's
            code=each.code,
            why=each.why,
            by=device_name(each.author),
            operation=each.operation.hex(),
            group_id=each.group_id.hex(),
            own=each.own,
        )
        for each in device.store.ordered_settings.all()
    ]


def read_report(body: bytes) -> ProgramReport:
    """Read what a program says.

    Raises:
        UsageError: it is not what is asked for.
    """
    try:
        found = json.loads(body)
    except ValueError as error:
        raise UsageError("the body is not JSON") from error
    if not isinstance(found, dict) or not {"key", "operation", "state"} <= set(found) <= _FIELDS:
        raise UsageError(
            f"a report must be a JSON object with {', '.join(sorted(_FIELDS))}; value and why are optional"
        )
    key, operation, state, why = found["key"], found["operation"], found["state"], found.get("why", "")
    if not all(isinstance(each, str) for each in (key, operation, state, why)) or state not in _STATES:
        raise UsageError("key, operation and why must be texts, and state must be applied or refused")
    if not _OPERATION.fullmatch(operation):
        raise UsageError("operation must be the 64 hex digits that came with the setting")
    if len(key) > MAXIMUM_SETTING_KEY_BYTES or not key.startswith(APPLICATION_PREFIX):
        raise UsageError(f"programs report only their own settings, {APPLICATION_PREFIX}…")
    if len(why) > MAXIMUM_SETTING_WHY_BYTES // 4:
        raise UsageError(f"why must have at most {MAXIMUM_SETTING_WHY_BYTES // 4} characters")
    if isinstance(found.get("value"), str) and len(found["value"]) > MAXIMUM_REPORTED_VALUE_BYTES // 4:
        raise UsageError(f"a text must have at most {MAXIMUM_REPORTED_VALUE_BYTES // 4} characters")
    try:
        said = found.get("value")
        value = None if said is None else scalar(int(said) if isinstance(said, float) and said.is_integer() else said)
    except (RemoteError, UnicodeEncodeError) as error:
        raise UsageError(f"value: {error}") from error
    return ProgramReport(key, operation, _STATES[state], value, why)


def report_setting(device: Device, report: ProgramReport) -> bool:
    """Keep what a program says of a setting, for the operators; return False where another operation asks by now."""
    with device.store.transaction():
        for each in device.store.ordered_settings.all():
            if (each.key, each.operation.hex()) != (report.key, report.operation):
                continue
            if each.code and each.code != REFUSED_BY_PROGRAM:
                return False  # the device itself has refused it
            code = REFUSED_BY_PROGRAM if report.state is SettingState.REFUSED else ""
            own, why = (None, _WITHHELD if report.why else "") if each.secret else (report.value, report.why)
            kept = replace(each, state=report.state, own=own, code=code, why=why)
            device.store.ordered_settings.put(kept, device.clock.wall_us())
            return True
    return False
