"""Operations between a person's devices in their personal group (docs/protocol/history.md, "A person's devices")."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.ids import GROUP_ID_BYTES, GroupId, PlanId
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.group import MAXIMUM_GROUPS
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES, MAXIMUM_TITLE_BYTES
from covey.limits.personal import (
    MAXIMUM_PLAN_ORDER_BYTES,
    MAXIMUM_PLAN_TEXT_BYTES,
    MAXIMUM_PREFERENCE_KEY_BYTES,
    MAXIMUM_PREFERENCE_VALUE_BYTES,
)


class Holding(IntEnum):
    """The state of a person's group."""

    HELD = 0
    LEFT = 1
    ERASED = 2


_OWN_GROUP_FIELDS = 3


@dataclass(frozen=True, slots=True)
class OwnGroup(OperationBody):
    """The state of a group, which its author calls `title`; `created`: the author created the group."""

    group_id: GroupId
    holding: Holding
    title: str = ""
    created: bool = False
    kind = OperationKind.OWN_GROUP

    def to_wire(self) -> bytes:
        """Return the body `[group_id, holding, title, ? true]`."""
        created = [True] if self.created else []
        return cbor.encode_growing([self.group_id, int(self.holding), self.title, *created])

    @classmethod
    def from_wire(cls, body: bytes) -> OwnGroup:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        value = cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES)
        has_created = isinstance(value, list) and len(value) > _OWN_GROUP_FIELDS
        group_id, holding, title, *created = cbor.record(
            value,
            "own group",
            cbor.octets(GROUP_ID_BYTES),
            cbor.uint(),
            cbor.text(MAXIMUM_TITLE_BYTES),
            *([cbor.boolean] if has_created else []),
        )
        if created == [False]:
            raise MalformedError("that an own group was not created by the author is said by leaving it out")
        if holding not in Holding.__members__.values():
            raise MalformedError("unknown state of a group: a newer Covey?")
        return cls(GroupId(group_id), Holding(holding), title, bool(created))

    def shown(self) -> dict[str, Any]:
        """Return which group is held, left or erased."""
        group = f"group {self.group_id.hex()[:8]} {self.title}".rstrip()
        return {"text": f"{group} is {self.holding.name.lower()}"}


FLEET, IN_FLEET, NOT_IN_FLEET = "fleet", "yes", "no"
"""The preference that says whether a group belongs to the person's fleet, and its values."""


@dataclass(frozen=True, slots=True)
class Preference(OperationBody):
    """How a person wants something, everywhere or for one group; None: no longer."""

    group_id: GroupId | None
    key: str
    value: str | None = field(repr=False)
    kind = OperationKind.PREFERENCE

    def to_wire(self) -> bytes:
        """Return the body `[group_id / null, key, value / null]`."""
        return cbor.encode_growing([self.group_id, self.key, self.value])

    @classmethod
    def from_wire(cls, body: bytes) -> Preference:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        group_id, key, value = cbor.record(
            cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES),
            "preference",
            cbor.optional(cbor.octets(GROUP_ID_BYTES)),
            cbor.text(MAXIMUM_PREFERENCE_KEY_BYTES),
            cbor.optional(cbor.text(MAXIMUM_PREFERENCE_VALUE_BYTES)),
        )
        if not key:
            raise MalformedError("a preference must have a key")
        return cls(None if group_id is None else GroupId(group_id), key, value)

    def shown(self) -> dict[str, Any]:
        """Return the key, its value and the group."""
        value = "(unset)" if self.value is None else self.value
        return {
            "text": f"{self.key} = {value}" + ("" if self.group_id is None else f" for group {self.group_id.hex()[:8]}")
        }


PLAN_ID_BYTES = 32
_PLAN_FIELDS = 4


@dataclass(frozen=True, slots=True)
class FleetPlan(OperationBody):
    """What its author did in several groups at once: the plan's id, what it is in words, and the groups, ascending.

    `given` is the kind of the plan's operations, one in each group; None: a member was removed from the groups. `order`
    is the body of an order for all groups, from which another own device can give it in a group that lacks it.
    """

    id: PlanId
    given: int | None
    text: str
    groups: tuple[GroupId, ...]
    order: bytes | None = field(default=None, repr=False)
    kind = OperationKind.PLAN

    def to_wire(self) -> bytes:
        """Return the body `[id, kind / null, text, [1* group_id], ? order]`."""
        fields = [self.id, self.given, self.text, list(self.groups)]
        return cbor.encode_growing(fields if self.order is None else [*fields, self.order])

    @classmethod
    def from_wire(cls, body: bytes) -> FleetPlan:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        value = cbor.decode_growing(body, MAXIMUM_OPERATION_BODY_BYTES)
        has_order = isinstance(value, list) and len(value) > _PLAN_FIELDS
        plan_id, given, text, groups, *order = cbor.record(
            value,
            "plan",
            cbor.octets(PLAN_ID_BYTES),
            cbor.optional(cbor.uint(255)),
            cbor.text(MAXIMUM_PLAN_TEXT_BYTES),
            cbor.many(cbor.octets(GROUP_ID_BYTES), MAXIMUM_GROUPS),
            *([cbor.octets_to(MAXIMUM_PLAN_ORDER_BYTES)] if has_order else []),
        )
        if not groups or list(groups) != sorted(set(groups)):
            raise MalformedError("a plan's groups must ascend and be distinct, at least one")
        return cls(PlanId(plan_id), given, text, tuple(map(GroupId, groups)), *order)

    def shown(self) -> dict[str, Any]:
        """Return what was done, and in how many groups."""
        groups = "1 group" if len(self.groups) == 1 else f"{len(self.groups)} groups"
        return {"text": f"{self.text} in {groups} (plan {self.id.hex()[:8]})"}
