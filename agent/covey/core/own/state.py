"""The state of a personal group: groups and preferences (docs/protocol/history.md, "A person's devices").

1. For a group or a preference, the last operation that counts holds, by height and id.
2. An operation that leaves or erases a group counts only while its author is a member: a removed device orders nothing
   more, whatever follows its operations.
3. If there are more groups or preferences than the bounds allow, the first announced ones count.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.personal import Holding, OwnGroup, Preference
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.limits.personal import MAXIMUM_OWN_GROUPS, MAXIMUM_PREFERENCES

if TYPE_CHECKING:
    from covey.core.records.history import OperationRecords


@dataclass(frozen=True, slots=True)
class KnownGroup:
    """A group of the person's: its state, the device and time of the announcement, and the operation.

    `created`: an own device has said that it created the group.
    """

    group_id: GroupId
    holding: Holding
    title: str
    author: DeviceKey
    made_at_us: int
    operation: OperationId
    created: bool = False


@dataclass(frozen=True, slots=True)
class PersonalState:
    """The person's groups by id, and what they prefer by (group, key); no group: everywhere."""

    groups: dict[GroupId, KnownGroup]
    preferences: dict[tuple[GroupId | None, str], str]


def personal_state(
    operations: OperationRecords, personal: GroupId, void: Collection[OperationId], members: Collection[DeviceKey]
) -> PersonalState:
    """Return the state that a history results in; `members` are those of the personal group now."""
    groups: dict[GroupId, KnownGroup] = {}
    for stored in operations.of_kind(personal, OperationKind.OWN_GROUP):
        operation = read_operation(stored.raw, verify=False)
        body = read_body(operation)
        assert isinstance(body, OwnGroup), "of that kind"
        orders = body.holding is not Holding.HELD
        if stored.id in void or (orders and operation.author not in members):
            continue
        if body.group_id == personal or (body.group_id not in groups and len(groups) >= MAXIMUM_OWN_GROUPS):
            continue
        earlier = groups.get(body.group_id)
        created = body.created or (earlier is not None and earlier.created)
        groups[body.group_id] = KnownGroup(
            body.group_id, body.holding, body.title, operation.author, operation.made_at_us, stored.id, created
        )
    return PersonalState(groups, _preferences(operations, personal, void))


def _preferences(
    operations: OperationRecords, personal: GroupId, void: Collection[OperationId]
) -> dict[tuple[GroupId | None, str], str]:
    found: dict[tuple[GroupId | None, str], str | None] = {}
    for stored in operations.of_kind(personal, OperationKind.PREFERENCE):
        body = read_body(read_operation(stored.raw, verify=False))
        assert isinstance(body, Preference), "of that kind"
        place = body.group_id, body.key
        if stored.id not in void and (place in found or len(found) < MAXIMUM_PREFERENCES):
            found[place] = body.value
    return {place: value for place, value in found.items() if value is not None}
