"""The state of a setting on a device, and its report (docs/protocol/history.md, "Settings").

`SETTING_REPORT`: `[[key, operation, state, value, code, why], ...]`: every setting that operators have given its author
in this group, each key once, ascending. `operation` is the one that asks for it; `value` the value in use instead, or
the one that the setting's program reports, else null; `code` names the reason against it, `why` explains it to a
person.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from itertools import pairwise

from covey.core.history.orders import Scalar
from covey.core.ids import Incarnation, OperationId
from covey.core.wire import cbor
from covey.errors import LimitError, MalformedError
from covey.limits.message import MAXIMUM_COUNTER
from covey.limits.orders import MAXIMUM_SETTING_KEY_BYTES
from covey.limits.settings import (
    MAXIMUM_REPORTED_SETTINGS,
    MAXIMUM_REPORTED_VALUE_BYTES,
    MAXIMUM_SETTING_CODE_BYTES,
    MAXIMUM_SETTING_WHY_BYTES,
)

_OPERATION_BYTES = 32
_WORDS_BYTES = MAXIMUM_SETTING_CODE_BYTES + MAXIMUM_SETTING_WHY_BYTES
_ENTRY_BYTES = MAXIMUM_SETTING_KEY_BYTES + _OPERATION_BYTES + MAXIMUM_REPORTED_VALUE_BYTES + _WORDS_BYTES
_REPORT_BYTES = MAXIMUM_REPORTED_SETTINGS * (_ENTRY_BYTES + 16) + 16


class SettingState(IntEnum):
    """The state of an operator's setting on a device."""

    HANDED_OVER = 0
    """It is for a program of the device's owner, which has said nothing of it yet."""
    APPLIED = 1
    REFUSED = 2
    RESTARTING = 3
    """It holds from the agent's next start, which is at hand."""
    TRIED = 4
    """It holds, and goes back unless it proves itself in time."""
    REVERTED = 5
    REPLACED = 6
    """A later order of another group of the device holds."""


@dataclass(frozen=True, slots=True)
class ReportedSetting:
    """One setting, as a device reports it."""

    key: str
    operation: OperationId
    state: SettingState
    value: Scalar | None = field(default=None, repr=False)
    code: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class SettingReport:
    """All that a device has to say of the settings that it was given in a group."""

    settings: tuple[ReportedSetting, ...]

    def to_wire(self) -> bytes:
        """Return the body."""
        return cbor.encode_growing(
            [[each.key, each.operation, int(each.state), each.value, each.code, each.why] for each in self.settings]
        )

    @classmethod
    def from_wire(cls, body: bytes) -> SettingReport:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        found = cbor.many(_reported, MAXIMUM_REPORTED_SETTINGS)(cbor.decode_growing(body, _REPORT_BYTES))
        if any(before.key >= after.key for before, after in pairwise(found)):
            raise MalformedError("a report's keys must ascend and be distinct")
        return cls(found)


def _reported(value: object) -> ReportedSetting:
    key, operation, state, held, code, why = cbor.record(
        value,
        "reported setting",
        cbor.text(MAXIMUM_SETTING_KEY_BYTES),
        cbor.octets(_OPERATION_BYTES),
        cbor.uint(255),
        cbor.optional(scalar),
        cbor.text(MAXIMUM_SETTING_CODE_BYTES),
        cbor.text(MAXIMUM_SETTING_WHY_BYTES),
    )
    try:
        return ReportedSetting(key, operation, SettingState(state), held, code, why)
    except ValueError as error:
        raise MalformedError(f"setting state {state}: a newer Covey?") from error


def scalar(value: object) -> Scalar:
    """Read a text, a truth value, or a whole number; a number with a fraction is its decimal text.

    Raises:
        RemoteError: something else, or longer than may be reported.
    """
    if not isinstance(value, str | bool | int):
        raise MalformedError("not a text, boolean or integer")
    if isinstance(value, int) and not -MAXIMUM_COUNTER - 1 <= value <= MAXIMUM_COUNTER:
        raise LimitError("a number exceeds 64 bits")
    if isinstance(value, str) and len(value.encode()) > MAXIMUM_REPORTED_VALUE_BYTES:
        raise LimitError(f"a reported value has more than {MAXIMUM_REPORTED_VALUE_BYTES} bytes")
    return value


@dataclass(frozen=True, slots=True)
class KeptReport:
    """A device's report as it came: the message's place among its author's, and its body."""

    incarnation: Incarnation
    seq: int
    received_at_us: int
    body: bytes = field(repr=False)
