"""Which collectors take the readings of a group, and which would take over: as each member chooses (vault.md)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.group.manifest import COLLECTOR
from covey.core.ids import DeviceKey, device_name
from covey.core.membership.groups import collectors_for

if TYPE_CHECKING:
    from collections.abc import Collection

    from covey.core.group.manifest import GroupManifest


@dataclass(frozen=True, slots=True)
class GroupCollector:
    """A collector of a group.

    `members`: those that send it their readings, while each finds its first collector answering. `silent`: it has not
    answered this device, which therefore sends its own readings to another. `successors`: the collectors that take over
    these members' readings if it falls silent, by label or name; the one that takes over most members first.
    """

    device: str
    label: str
    members: int
    silent: bool
    successors: tuple[str, ...]


def group_collectors(group: GroupManifest, silent: Collection[DeviceKey]) -> tuple[GroupCollector, ...]:
    """Return the collectors of a group, those of most members first.

    `silent`: the collectors that do not answer this device.
    """
    collectors = {each.keys.signing_public: each for each in group.with_capability(COLLECTOR)}
    taken, next_ones = Counter[DeviceKey](), {key: Counter[DeviceKey]() for key in collectors}
    if len(collectors) == 1:  # mostly: nobody has a choice
        taken.update(dict.fromkeys(collectors, len(group.members)))
    elif collectors:
        for member in group.members:
            first, second, *_ = collectors_for(group, member.keys.signing_public)
            taken[first.keys.signing_public] += 1
            next_ones[first.keys.signing_public][second.keys.signing_public] += 1
    found = (
        GroupCollector(
            device_name(key),
            member.label,
            taken[key],
            key in silent,
            tuple(collectors[each].label or device_name(each) for each, _ in next_ones[key].most_common()),
        )
        for key, member in collectors.items()
    )
    return tuple(sorted(found, key=lambda each: (-each.members, each.device)))
