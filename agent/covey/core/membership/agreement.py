"""The devices that last reported the same heads as this device, group by group: shown by `covey check` (ADR 43)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from covey.core.group.manifest import GroupManifest
from covey.core.group.trust import GroupTrust
from covey.core.ids import DeviceKey, GroupId
from covey.core.wire.heads import GroupHead, HeadsReport, agree, head_digest, of_histories, of_manifests
from covey.errors import RemoteError


class SaidHeads(NamedTuple):
    """What a device has last said of the groups that it shares with this one, and the report that it then gave."""

    said: GroupId
    report: bytes | None
    since_us: int
    seen_at_us: int

    @property
    def heads(self) -> tuple[GroupHead, ...]:
        """What its report names; nothing where there is none, or none that is understood."""
        try:
            return HeadsReport.from_wire(self.report).heads if self.report is not None else ()
        except RemoteError:
            return ()


@dataclass(frozen=True, slots=True)
class Agreement:
    """The other members of a group, boards apart: those last heard with the same heads, with others, and never.

    Of those with others, when they were first heard so, by the wall clock.
    """

    same: tuple[DeviceKey, ...]
    others: dict[DeviceKey, int]
    never: tuple[DeviceKey, ...]

    @property
    def whole(self) -> bool:
        """Say whether everybody was last heard with the same."""
        return not self.others and not self.never


def agreement(
    trust: GroupTrust,
    own: DeviceKey,
    said_to: dict[DeviceKey, GroupId],
    last_said: dict[DeviceKey, SaidHeads],
    changed_at_us: int,
) -> Agreement:
    """Return who agrees on a group. `said_to` is what this device says to each member; `changed_at_us`, when the group
    last changed here: nobody can have differed for longer."""
    assert trust.current is not None
    same, others, never = [], {}, []
    for member in trust.current.members:
        device = member.keys.signing_public
        if device == own or member.is_board:
            continue
        last = last_said.get(device)
        if last is None:
            never.append(device)
        elif _same(trust, said_to[device], last):
            same.append(device)
        else:
            others[device] = max(last.since_us, changed_at_us)
    return Agreement(tuple(same), others, tuple(never))


def agreement_on_history(
    group: GroupManifest,
    own: DeviceKey,
    digest: bytes,
    said_to: dict[DeviceKey, GroupId],
    last_said: dict[DeviceKey, SaidHeads],
) -> Agreement:
    """Return who was last heard with the same history of a group, whose digest it has here."""
    same, others, never = [], {}, []
    for member in group.members:
        device = member.keys.signing_public
        if device == own or member.is_board:
            continue
        last = last_said.get(device)
        if last is None or not any(of_histories(last.said)):
            never.append(device)
        elif of_histories(last.said) == of_histories(said_to[device]) or any(
            each.group_id == group.group_id and each.history == digest for each in last.heads
        ):
            same.append(device)
        else:
            others[device] = last.since_us
    return Agreement(tuple(same), others, tuple(never))


def _same(trust: GroupTrust, own: GroupId, last: SaidHeads) -> bool:
    if agree(of_manifests(own), of_manifests(last.said)):
        return True
    digest = head_digest(head.hash for head in trust.heads())
    return any(each.group_id == trust.group_id and each.digest == digest for each in last.heads)
