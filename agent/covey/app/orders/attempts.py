"""Orders by those who have no say on this device: who, what stands against it, how often, since when."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.device.pins import pins
from covey.core.ids import device_name
from covey.core.orders import attempts as judgement

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.core.ids import GroupId, OperationId

WHY = {
    judgement.NO_OPERATOR: "who is no operator here",
    judgement.REMOVED: "who had been removed from the group when it was heard of",
    judgement.TOO_FEW: "an operator with whom too few others agree",
}
"""What stands against orders, after who gave them."""

_MINUTE_US = 60_000_000
_SETTLES_US = {judgement.NO_OPERATOR: 5 * _MINUTE_US, judgement.REMOVED: 0, judgement.TOO_FEW: 24 * 60 * _MINUTE_US}
"""From its coming to its being told of: the addition of an operator comes in the same catch-up or the next one, and
who is to agree has slept once. What is void came too late already."""


@dataclass(frozen=True, slots=True)
class AttemptEntry:
    """The orders of one author that nobody obeys here, for one reason: a code, and in words.

    Times are microseconds since 1970, when the first and the last one came, by this device's clock; `last` is the id
    of the last one.
    """

    author: str
    name: str
    label: str
    code: str
    why: str
    count: int
    first_us: int
    last_us: int
    last: str


@dataclass(frozen=True, slots=True)
class Attempts:
    """What is told of a group, by author and code; `open` says that something came that is not to be told yet."""

    entries: tuple[AttemptEntry, ...]
    open: bool


def attempts(device: Device, manifest: GroupManifest) -> Attempts:
    """Return who gave orders in a group without a say here; what may yet come to count is told once it had its time.

    Raises:
        ConfigurationError: what is pinned is no key.
    """
    group_id, now_us = manifest.group_id, device.clock.wall_us()
    void = device.node.history.standing(group_id).void
    found = judgement.attempts(device.store.operations, group_id, pins(device, group_id), void)
    if not found:
        return Attempts((), open=False)
    from covey.app.groups.groups import labels_in  # few groups have any: it spares the memory

    labels, entries, waits = labels_in(device, manifest), [], False
    for (author, code), made in found.items():
        settled = len(made)
        if _SETTLES_US[code]:
            settled = bisect_right(
                made, now_us - _SETTLES_US[code], key=lambda each: _came_us(device, group_id, each.id)
            )
        waits |= settled < len(made)
        if settled:
            last = made[settled - 1].id
            entries.append(
                AttemptEntry(
                    *(author.hex(), device_name(author), labels.label(author), code, WHY[code], settled),
                    *(_came_us(device, group_id, made[0].id), _came_us(device, group_id, last), last.hex()),
                )
            )
    return Attempts(tuple(entries), waits)


def _came_us(device: Device, group_id: GroupId, operation_id: OperationId) -> int:
    return device.store.operations.stored_at_us(group_id, operation_id)
