"""The bodies of operators' operations: operator changes, settings, commands, approvals; and of reports about orders.

Any member may write these, and all members accept them: each device judges for itself whether one counts
(`core/orders/authority.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from covey.core import crypto
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import ID_BYTES
from covey.core.ids import KEY_BYTES, DeviceKey, OperationId, device_name
from covey.core.orders.roll_out import RollOut
from covey.core.orders.selector import Selector
from covey.core.wire import cbor
from covey.errors import LimitError, MalformedError
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES
from covey.limits.orders import (
    MAXIMUM_ACTION_BYTES,
    MAXIMUM_ARGUMENT_BYTES,
    MAXIMUM_ARGUMENT_NAME_BYTES,
    MAXIMUM_ARGUMENTS,
    MAXIMUM_SEALED_BYTES,
    MAXIMUM_SETTING_KEY_BYTES,
    MAXIMUM_SETTING_VALUE_BYTES,
    MAXIMUM_WAVES,
)

ONCE_BYTES = 16
_COMMAND_FIELDS = 6
_PLAN = b"covey/1 plan"
_ONCE = 1
"""The key of an extension map under which a setting has its once-id."""
_WAVE = 1
"""The key of an extension map under which a command says which wave of its release it is."""

OF_GROUP = frozenset({"group", "file"})
"""A release's arguments that differ from group to group."""

Scalar: TypeAlias = str | bool | int
"""What a setting's value is on the wire; a number with a fraction is its decimal text, for there are no floats."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9_-]*[a-z0-9])?")
_KEY = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@dataclass(frozen=True, slots=True)
class OperatorChange(OperationBody):
    """A device becomes an operator, or stops to be one; `label` is what people call it."""

    key: DeviceKey
    label: str
    added: bool
    kind = OperationKind.OPERATOR

    def to_wire(self) -> bytes:
        """Return the body `[key, label, added]`."""
        return cbor.encode_growing([self.key, self.label, self.added])

    @classmethod
    def from_wire(cls, body: bytes) -> OperatorChange:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        return cls(
            *cbor.record(
                cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES),
                "operator",
                cbor.octets(KEY_BYTES),
                cbor.text(MAXIMUM_LABEL_BYTES),
                cbor.boolean,
            )
        )

    def shown(self) -> dict[str, Any]:
        """Return the operator that it adds or removes."""
        who = f"{device_name(self.key)} {self.label}".rstrip()
        return {"text": f"{who} is {'added' if self.added else 'removed'}"}

    def order_row(self) -> dict[str, Any]:
        """Return the device, and whether it is added."""
        return {"subject": self.key.hex(), "value": self.added, "secret": False}


@dataclass(frozen=True, slots=True)
class SettingOrder(OperationBody):
    """The ordered value of a setting for the selector's devices; None: the value without this order.

    For a secret value, `sealed` has its bytes (`core/settings/secrets.py`). `once` is drawn at random and tells an
    operator which orders are of one plan (`core/orders/plans.py`).
    """

    selector: Selector
    key: str
    value: Scalar | None = field(default=None, repr=False)
    sealed: bytes | None = field(default=None, repr=False)
    once: bytes | None = None
    kind = OperationKind.SETTING

    def to_wire(self) -> bytes:
        """Return the body `[selector, key, value / null, sealed / null, ? {1: once}]`."""
        extensions = None if self.once is None else {_ONCE: self.once}
        return cbor.encode_growing([self.selector.to_wire(), self.key, self.value, self.sealed], extensions)

    @classmethod
    def from_wire(cls, body: bytes) -> SettingOrder:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        fields, extensions = cbor.read_growing(body, MAXIMUM_OPERATION_BODY_BYTES)
        selector, key, value, sealed = cbor.record(
            fields,
            "setting",
            Selector.from_wire,
            cbor.text(MAXIMUM_SETTING_KEY_BYTES),
            cbor.optional(read_scalar),
            cbor.optional(cbor.octets_to(MAXIMUM_SEALED_BYTES)),
        )
        if not _KEY.fullmatch(key):
            raise MalformedError("a setting's key must be lower-case letters, digits, _ and -, separated by dots")
        if value is not None and sealed is not None:
            raise MalformedError("a setting's value must be either open or sealed")
        once = extensions.get(_ONCE)
        is_once = isinstance(once, bytes) and len(once) == ONCE_BYTES  # an odd key: anything else is ignored
        return cls(selector, key, value, sealed, once if is_once else None)

    def shown(self) -> dict[str, Any]:
        """Return key and value."""
        value = "(sealed)" if self.sealed is not None else "(unset)" if self.value is None else str(self.value)
        return {"text": f"{self.key} = {value}"}

    def subject(self) -> bytes:
        """Return the key."""
        return self.key.encode()

    def target(self) -> tuple[Selector, str | None]:
        """Return its targets, and the key."""
        return self.selector, self.key

    def plan_fields(self) -> list[object] | None:
        """Return key and value."""
        return None if self.once is None else [self.once, self.key, self.value, self.sealed is not None]

    def order_row(self) -> dict[str, Any]:
        """Return key, value and targets."""
        return {
            "subject": self.key,
            "value": self.value,
            "secret": self.sealed is not None,
            "selector": self.selector.in_tables(),
        }


def read_scalar(value: object) -> Scalar:
    """Read a setting's value.

    Raises:
        RemoteError: it is none, or beyond a bound.
    """
    if isinstance(value, str):
        return cbor.text(MAXIMUM_SETTING_VALUE_BYTES)(value)
    if isinstance(value, bool):
        return value
    return cbor.integer(value)


@dataclass(frozen=True, slots=True)
class CommandOrder(OperationBody):
    """An action that the selector's devices are to run, once.

    `once` are 16 random bytes: a device runs an order with them at most once, in any group and operation. After
    `deadline_us` (by its own clock) it does nothing. `sealed` holds secret arguments (`core/actions/secrets.py`).
    `roll_out` is the plan of its waves, for operators that start the next one, which could not seal secrets again.
    `wave` counts from 1: operations in several groups can be one wave of a release.
    """

    selector: Selector
    action: str
    arguments: Mapping[str, str] = field(repr=False)
    once: bytes
    deadline_us: int | None = None
    sealed: bytes | None = field(default=None, repr=False)
    roll_out: RollOut | None = None
    wave: int = 1
    kind = OperationKind.COMMAND

    def to_wire(self) -> bytes:
        """Return the body.

        It is `[selector, action, {name: value}, once, deadline / null, sealed / null, ? roll-out, ? {1: wave}]`.
        """
        fields = [self.selector.to_wire(), self.action, dict(self.arguments), self.once, self.deadline_us, self.sealed]
        if self.roll_out is None:
            return cbor.encode_growing(fields)
        later = {_WAVE: self.wave} if self.wave > 1 else None
        return cbor.encode_growing([*fields, self.roll_out.to_wire()], later)

    @property
    def plan_id(self) -> bytes | None:
        """Return what all waves of one plan have in common, and nothing else has: a digest; None: it is no wave."""
        if self.roll_out is None:
            return None
        plan = [self.action, dict(self.arguments), self.once, self.deadline_us, self.roll_out.to_wire()]
        return crypto.digest(_PLAN, cbor.encode(plan))

    @classmethod
    def from_wire(cls, body: bytes) -> CommandOrder:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        value, extensions = cbor.read_growing(body, MAXIMUM_OPERATION_BODY_BYTES)
        in_waves = isinstance(value, list) and len(value) > _COMMAND_FIELDS
        fields: list[Any] = cbor.record(
            value,
            "command",
            Selector.from_wire,
            _name(MAXIMUM_ACTION_BYTES),
            arguments_from_wire,
            cbor.octets(ONCE_BYTES),
            cbor.optional(cbor.uint()),
            cbor.optional(cbor.octets_to(MAXIMUM_SEALED_BYTES)),
            *([RollOut.from_wire] if in_waves else []),
        )
        wave: Any = extensions.get(_WAVE)
        is_wave = in_waves and type(wave) is int and 1 <= wave <= MAXIMUM_WAVES  # an odd key: anything else is ignored
        order = replace(cls(*fields), wave=wave if is_wave else 1)
        if order.sealed is not None and order.roll_out is not None:
            raise MalformedError("a command in waves must not have sealed arguments")
        return order

    def shown(self) -> dict[str, Any]:
        """Return the action and its open arguments."""
        arguments = "".join(f" {name}={value}" for name, value in self.arguments.items())
        hidden = " (and sealed arguments)" if self.sealed is not None else ""
        return {"text": f"{self.action}{arguments}{hidden}"}

    def subject(self) -> bytes | None:
        """Return the plan that it is a wave of."""
        return self.plan_id

    def target(self) -> tuple[Selector, str | None]:
        """Return its targets."""
        return self.selector, None

    def plan_fields(self) -> list[object] | None:
        """Return the command; of a wave the bounds of its release, without what differs from group to group."""
        if self.roll_out is None:
            return [self.once, self.action, dict(self.arguments), self.deadline_us, self.sealed is not None]
        arguments = {name: value for name, value in self.arguments.items() if name not in OF_GROUP}
        return [self.once, self.action, arguments, self.deadline_us, self.roll_out.to_wire()[1:]]

    def order_row(self) -> dict[str, Any]:
        """Return the action, its open arguments, targets, and deadline."""
        return {
            "subject": self.action,
            "value": dict(sorted(self.arguments.items())),
            "secret": self.sealed is not None,
            "selector": self.selector.in_tables(),
            "deadline": self.deadline_us,
            "once": self.once.hex(),
        }


def _name(maximum: int) -> cbor.Read[str]:
    read_text = cbor.text(maximum)

    def read(value: object) -> str:
        name = read_text(value)
        if not _NAME.fullmatch(name):
            raise MalformedError("a name must be lower-case letters and digits, with _ and - between them")
        return name

    return read


def arguments_from_wire(value: object) -> dict[str, str]:
    """Read a command's arguments.

    Raises:
        RemoteError: malformed or beyond a bound.
    """
    if type(value) is not dict:
        raise MalformedError("arguments must be a map")
    if len(value) > MAXIMUM_ARGUMENTS:
        raise LimitError(f"more than {MAXIMUM_ARGUMENTS} arguments")
    name, text = _name(MAXIMUM_ARGUMENT_NAME_BYTES), cbor.text(MAXIMUM_ARGUMENT_BYTES)
    return {name(key): text(each) for key, each in value.items()}


@dataclass(frozen=True, slots=True)
class Approval(OperationBody):
    """Its author agrees with an order, or with a change of operators."""

    order: OperationId
    kind = OperationKind.APPROVAL

    def to_wire(self) -> bytes:
        """Return the body `[order]`."""
        return cbor.encode_growing([self.order])

    @classmethod
    def from_wire(cls, body: bytes) -> Approval:
        """Parse the body.

        Raises:
            RemoteError: malformed.
        """
        return cls(
            *cbor.record(cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES), "approval", cbor.octets(ID_BYTES))
        )

    def shown(self) -> dict[str, Any]:
        """Return the order that is approved."""
        return {"text": "approved", "about": self.order.hex()}

    def subject(self) -> bytes:
        """Return the order."""
        return self.order

    def order_row(self) -> dict[str, Any]:
        """Return the order."""
        return {"subject": self.order.hex(), "secret": False}


@dataclass(frozen=True, slots=True)
class Obeying(OperationBody):
    """From here on its author obeys commands: those that follow this, directly or not."""

    kind = OperationKind.OBEYING

    def to_wire(self) -> bytes:
        """Return the body, which is empty."""
        return cbor.encode_growing([])

    @classmethod
    def from_wire(cls, body: bytes) -> Obeying:
        """Parse the body.

        Raises:
            RemoteError: malformed.
        """
        cbor.record(cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES), "obeying")
        return cls()

    def shown(self) -> dict[str, Any]:
        """Return that its author obeys."""
        return {"text": "obeys commands from here on"}
