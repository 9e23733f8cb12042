"""Reports on releases: which devices received which version, the results, and the operators' changes.

1. All of it is found from the histories and from what devices report, which every operator's device is told. Nothing is
   kept.
2. A release is in one group, or in several (`plans.py`): waves, bounds and results are counted over all of its groups,
   and a device that is in several of them counts once.
3. A pause in one group holds the whole release. An abort in one group takes its devices out; it is aborted where all
   groups are.
4. After its author's removal a wave still shows which devices have the release, if another wave counts.
5. A device that was removed from its group before it reported does not count as given: its wave has not shown anything,
   and if the device is in another group of the release, a later wave gives it there.
6. A release that has finished stays finished: silence counts only if it began before its last device had reported, or
   had its time, and `soak` had passed.
7. Where only announcements are here, the first wave was given in another group, perhaps: none is ready until its order
   comes, or until the plan is here and a person has this device announce the release in all groups that lack it.
8. A release has not finished while a group lacks its order and has devices that the plan selects; nor while a device
   that has left one of its groups is in another and has yet to say that it obeys there: for the plan's `patience`; nor
   while all that were given it have left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from covey.app.orders.command_reports import CommandReport, DeviceOutcome, command_report, rank
from covey.app.orders.fleet import administered
from covey.app.orders.operators import orders, selected, standings
from covey.app.orders.plans import KnownPlan, plans
from covey.core.actions.obeying import obeyers
from covey.core.actions.results import WITHDRAWN
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.orders import OF_GROUP, CommandOrder
from covey.core.history.releases import ReleaseChange, ReleaseState
from covey.core.ids import DeviceKey, GroupId, OperationId
from covey.core.orders.plans import announcing, kept_order, order_in_group
from covey.core.orders.release_standing import ReleaseStanding
from covey.core.orders.roll_out import RollOut, in_turn
from covey.core.presence.status import condition
from covey.errors import LocalError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.app.orders.operators import OrderEntry
    from covey.core.group.manifest import GroupManifest
    from covey.core.history.operation import Operation

State: TypeAlias = Literal["awaits approval", "under way", "paused", "stopped", "aborted", "ready", "finished"]
GroupDevice: TypeAlias = "tuple[GroupId, DeviceKey]"

_FAILED = {"failed", "refused", "unknown"}
_OPEN = {"waiting", "asleep"}
_AWAY = {"silent", "gone", "stopped"}
_NEVER_US = 2**62


@dataclass(frozen=True, slots=True)
class ReleaseWord:
    """What an operator said of a release: that it is `going`, `paused` or `aborted`, at a time of its own clock.

    `groups`: where, by their ids.
    """

    state: str
    by: str
    at_us: int
    why: str
    accepted: tuple[str, ...]
    groups: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """A release as it stands; times are microseconds, `began_at_us` since 1970 by its author's clock.

    `state`: it `awaits approval` of further operators; a wave is `under way`; somebody has `paused` it; too many fared
    badly, so it is `stopped`; somebody has `aborted` it; the next wave is `ready` to be given; or all is `finished`.
    `devices` are those that were given it: `failed` and `silent` the names of those that fare badly, `accepted` of
    those that count no more, `withdrawn` of those that had not begun when it was aborted. `others` is the number of
    devices left, including those that cannot have a turn yet (rule 8). `seen_within_us`: how long ago whoever did it
    may have been seen, None: as its own signs of life say, 0: that is not looked at. `wave` is the id of the last wave;
    `said` what operators said. `groups`: the ids of those that it is in, `missing` of those that have no order of it
    here.
    """

    id: str
    action: str
    arguments: dict[str, str]
    selector: str
    waves: tuple[str, ...]
    stop_percent: int
    patience_us: int
    soak_us: int
    seen_within_us: int | None
    author: str
    began_at_us: int
    wave: str
    signers: tuple[str, ...]
    needed: int
    waves_given: int
    state: State
    devices: tuple[DeviceOutcome, ...]
    failed: tuple[str, ...]
    silent: tuple[str, ...]
    accepted: tuple[str, ...]
    withdrawn: tuple[str, ...]
    others: int
    said: tuple[ReleaseWord, ...]
    groups: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def what(self) -> str:
        """The action and its arguments, each begun; of several groups without those that differ from group to group."""
        of_group = OF_GROUP if len(self.groups) > 1 else frozenset()
        shown = (f"{name}={value[:8]}" for name, value in self.arguments.items() if name not in of_group)
        return " ".join([self.action, *shown])


@dataclass(frozen=True, slots=True)
class GivenWave:
    """One wave, as it stands in the history."""

    operation: Operation
    order: CommandOrder
    plan: RollOut
    entry: OrderEntry


@dataclass(frozen=True, slots=True)
class ReleasePart:
    """A release in one group: its waves, the decisions of operators, and the devices that have left (rule 5)."""

    group: GroupManifest
    waves: list[GivenWave]
    standing: ReleaseStanding
    left: frozenset[DeviceKey]

    @property
    def counts(self) -> bool:
        """Whether enough operators have agreed with it."""
        return any(each.entry.counts for each in self.waves)

    @property
    def is_aborted(self) -> bool:
        """Whether no further device of the group starts."""
        return self.standing.state is ReleaseState.ABORTED

    @property
    def order(self) -> CommandOrder:
        """What the devices of the group are given."""
        return self.waves[-1].order

    def devices(self) -> frozenset[DeviceKey]:
        """Return all that were given it, and the key that no device has where it was announced."""
        return frozenset(key for each in self.waves for key in each.order.selector.devices)


@dataclass(frozen=True, slots=True)
class GivenRelease:
    """A release in all of its groups that are here."""

    known: KnownPlan
    parts: list[ReleasePart]
    lacking: list[GroupManifest]
    """Those of the groups looked at that lack its order, and in which this device may give it."""

    @property
    def missing(self) -> tuple[GroupId, ...]:
        """The groups in which no operator's order of it is here."""
        here = {each.group.group_id for each in self.parts}
        return tuple(each for each in self.known.groups if each not in here)

    @property
    def lacks_first_wave(self) -> bool:
        """Whether its first wave may have been given in a group whose order is not here (rule 7)."""
        announced = announcing(self.known.id)
        is_announced = all(wave.order.selector == announced for part in self.parts for wave in part.waves)
        return is_announced and (self.known.kept is None or bool(self.missing))

    @property
    def plan(self) -> RollOut:
        """The waves and bounds, which are the same in all groups."""
        return self.parts[0].waves[-1].plan

    def plan_of(self, group: GroupManifest) -> tuple[GroupManifest, RollOut | None]:
        """Return a group that lacks its order, and the plan for its devices; None where it names none of them."""
        kept, kept_as = self.known.kept, self.known.kept_as
        whole = None if kept is None or kept_as is None else kept_order(kept_as.author, kept)
        order = order_in_group(whole or self.parts[0].order, {each.keys.signing_public for each in group.members})
        return group, order.roll_out if isinstance(order, CommandOrder) else None

    @property
    def once(self) -> bytes:
        """The bytes that name it."""
        return self.parts[0].order.once

    @property
    def counts(self) -> bool:
        """Whether enough operators have agreed with it, in all groups."""
        return all(each.counts for each in self.parts if not each.is_aborted)

    @property
    def stop_percent(self) -> int:
        """The bound that holds: the lowest of all groups, so an operator of one group cannot raise it for others."""
        said = [each.standing.stop_percent for each in self.parts if not each.is_aborted]
        return min((self.plan.stop_percent if each is None else each for each in said), default=self.plan.stop_percent)

    @property
    def state(self) -> ReleaseState:
        """Whether it continues, by what operators said (rule 3)."""
        states = {each.standing.state for each in self.parts}
        open_states = states - {ReleaseState.ABORTED}
        return max(open_states, default=ReleaseState.ABORTED)

    def devices(self) -> frozenset[DeviceKey]:
        """Return all that were given it, without those that have left (rule 5)."""
        found = frozenset(key for each in self.parts for key in each.devices() - each.left)
        return found - set(announcing(self.known.id).devices)

    def accepted(self) -> frozenset[DeviceKey]:
        """Return those whose failure an operator of their own group has accepted."""
        return frozenset(key for each in self.parts for key in each.devices() & each.standing.accepted)


@dataclass(slots=True)
class Fared:
    """What has become of a release, by device; `bad` and `open` are keys, `stops` says that one wave has too many.

    `others` are the devices that it is for and that were not given it, in the order of their turns; `to_come` is the
    number of those that cannot have a turn yet (rule 8).
    """

    others: list[GroupDevice] = field(default_factory=list)
    to_come: int = 0
    outcomes: list[DeviceOutcome] = field(default_factory=list)
    failed: list[DeviceOutcome] = field(default_factory=list)
    silent: list[DeviceOutcome] = field(default_factory=list)
    accepted: list[DeviceOutcome] = field(default_factory=list)
    withdrawn: list[DeviceOutcome] = field(default_factory=list)
    is_open: bool = False
    stops: bool = False

    @property
    def bad(self) -> tuple[DeviceKey, ...]:
        """Whose failing or silence nobody has accepted."""
        return tuple(sorted(DeviceKey(bytes.fromhex(each.device)) for each in (*self.failed, *self.silent)))


def releases(device: Device, groups: Iterable[GroupManifest]) -> list[Release]:
    """Return the releases of groups, the oldest first."""
    return [described(device, each) for each in given_releases(device, groups)]


def newest_releases(device: Device, groups: Iterable[GroupManifest], limit: int) -> list[Release]:
    """Return the releases of groups that were begun last, the newest first: those of whose outcomes this device hears.

    At most `limit` of them are looked at.
    """
    found = []
    for each in given_releases(device, groups)[-limit:]:
        with suppress(LocalError):
            found.append(described(device, each))
    return found[::-1]


def release(device: Device, groups: Iterable[GroupManifest], name: str) -> Release:
    """Return a release by the beginning of its id.

    Raises:
        LocalError: none begins like that, or more than one; or this device does not hear what becomes of it.
    """
    return described(device, pick_release(device, groups, name))


def pick_release(device: Device, groups: Iterable[GroupManifest], name: str) -> GivenRelease:
    """Return the release whose id begins like that.

    Raises:
        LocalError: none does, or more than one.
    """
    found = given_releases(device, groups, name.lower()) if name else []
    is_one = len({each.once for each in found}) == 1
    kept = [each for each in found if each.known.kept is not None]
    if len(found) == 1 or (is_one and len(kept) == 1):
        return kept[0] if kept else found[0]
    if is_one:
        raise LocalError(
            f"{len(found)} releases have the id '{name[:64]}': an operator has copied one",
            hint="'covey order list' shows their authors; pause the copy, naming its group",
        )
    what = f"{len(found)} releases' ids begin with" if found else "no release's id begins with"
    raise LocalError(f"{what} '{name[:64]}'", hint="'covey release list' shows them")


def given_releases(device: Device, groups: Iterable[GroupManifest], name: str = "") -> list[GivenRelease]:
    """Return the releases whose ids begin with a name, the oldest first; those alone that operators have signed."""
    entries: dict[GroupId, dict[str, OrderEntry]] = {}
    said: dict[GroupId, dict[bytes, ReleaseStanding]] = {}
    found = []
    groups = tuple(groups)
    for known in plans(device, groups).values():
        if known.once is None or not known.name.startswith(name):
            continue
        parts = []
        for group, operations in _by_group(known):
            if group.group_id not in entries:
                entries[group.group_id] = {entry.id: entry for entry in orders(device, group)}
                said[group.group_id] = standings(device, group)
            if waves := _waves(operations, entries[group.group_id]):
                standing = said[group.group_id].get(known.once, ReleaseStanding())
                parts.append(ReleasePart(group, waves, standing, _left(device, group, waves)))
        if parts:
            found.append(GivenRelease(known, parts, _lacking(device, known, groups, parts)))
    return sorted(found, key=lambda each: each.parts[0].waves[0].operation.made_at_us) if len(found) > 1 else found


def _lacking(
    device: Device, known: KnownPlan, groups: Iterable[GroupManifest], parts: Iterable[ReleasePart]
) -> list[GroupManifest]:
    here = {each.group.group_id for each in parts}
    lacking = [each for each in groups if each.group_id in known.groups and each.group_id not in here]
    own = {each.group_id for each in administered(device)} if lacking else frozenset()
    return [each for each in lacking if each.group_id in own]


def _by_group(known: KnownPlan) -> list[tuple[GroupManifest, list[Operation]]]:
    found: dict[GroupId, tuple[GroupManifest, list[Operation]]] = {}
    for group, operation in known.orders:
        found.setdefault(group.group_id, (group, []))[1].append(operation)
    return [*found.values()]


def _waves(operations: Iterable[Operation], entries: dict[str, OrderEntry]) -> list[GivenWave]:
    """Return the waves of one group that count, or else those signed rightly; with them what is of the same plan."""
    found = []
    for operation in operations:
        entry, order = entries.get(operation.id.hex()), read_body(operation)
        if entry is not None and isinstance(order, CommandOrder) and order.roll_out is not None:
            found.append(GivenWave(operation, order, order.roll_out, entry))
    valid = [each for each in found if each.entry.counts] or [each for each in found if each.entry.signers]
    return [each for each in found if valid and each.order.plan_id == valid[0].order.plan_id]


def _left(device: Device, group: GroupManifest, waves: Iterable[GivenWave]) -> frozenset[DeviceKey]:
    """Return the devices of waves that are no members any more, and of which no result has come (rule 5)."""
    present = {member.keys.signing_public for member in group.members}
    gone: set[DeviceKey] = set()
    reported: set[DeviceKey] = set()
    for each in waves:
        absent = set(each.order.selector.devices) - present
        if absent:
            gone |= absent
            results = device.store.order_results.of_order(group.group_id, each.operation.id)
            reported |= {result.device for result in results}
    return frozenset(gone - reported)


@dataclass(frozen=True, slots=True)
class Turns:
    """The devices that do not have a release yet: `others` in the order of their turns, those that are away last.

    Each device comes once, in the first group in which it obeys. `arriving` are those that have left a group in which
    they obeyed, and have yet to say that they obey in another one; each with the group that it has left.
    """

    others: list[GroupDevice]
    arriving: dict[DeviceKey, GroupId]


def turns(
    device: Device,
    parts: Iterable[tuple[GroupManifest, RollOut | None]],
    once: bytes,
    given: Collection[DeviceKey] = (),
) -> Turns:
    """Return the devices that the plans of groups select, without those that were `given` the release."""
    where: dict[DeviceKey, GroupId] = {}
    listed: set[DeviceKey] = set()
    left: dict[DeviceKey, GroupId] = {}
    for group, plan in parts:
        obeying = obeyers(device.store.operations.nodes(group.group_id)).bits.keys()
        for member in selected(group, plan.selector) if plan is not None else ():
            key = member.keys.signing_public
            listed.add(key)
            if key in obeying and key not in given:
                where.setdefault(key, group.group_id)
        left |= {key: group.group_id for key in obeying if group.member(key) is None}
    arriving = {key: left[key] for key in left.keys() & listed - where.keys() if key not in given}
    now_us, peers, seen = device.clock.wall_us(), device.store.presence.of_peers(), device.store.presence.last_seen()
    others = sorted(in_turn(once, where), key=lambda key: condition(peers.get(key), seen.get(key), now_us)[0] in _AWAY)
    return Turns([(where[key], key) for key in others], arriving)


def _to_come(device: Device, given: GivenRelease, known: Turns) -> int:
    """Return how many devices a release is for that cannot have a turn yet (rule 8)."""
    now_us, patience_us = device.clock.wall_us(), given.plan.patience_us
    found = {
        key
        for key, group_id in known.arriving.items()
        if now_us < device.store.groups.changed_at(group_id) + patience_us
    }
    if given.lacking:
        there = turns(device, map(given.plan_of, given.lacking), given.once, given.devices())
        found |= {key for _, key in there.others} - {key for _, key in known.others}
    return len(found)


@dataclass(slots=True)
class _OfWave:
    """What has become of one wave, in all groups: how many count, and how many of these fare badly."""

    bad: int = 0
    counting: int = 0


def fared(device: Device, given: GivenRelease, stop_percent: int) -> Fared:
    """Return what has become of a release on each device that was given it, each wave with its own time.

    Raises:
        LocalError: that is not reported to this device.
    """
    now_us, accepted = device.clock.wall_us(), {*map(bytes.hex, given.accepted())}
    parts = [(each.group, each.order.roll_out) for each in given.parts if not each.is_aborted]
    known = turns(device, parts, given.once, given.devices())
    found = Fared(known.others, _to_come(device, given, known))
    bound = RollOut(given.plan.selector, given.plan.waves, stop_percent, 0, 0)
    waves: dict[int, _OfWave] = {}
    outcomes = _outcomes(device, given)
    is_silent = _Silence(device, given.plan, min(now_us, _over_at_us(given, found.others, outcomes)))
    for outcome, number, due_us in outcomes:
        is_late = now_us > due_us
        found.outcomes.append(outcome)
        if outcome.device in accepted:
            found.accepted.append(outcome)
            continue
        wave = waves.setdefault(number, _OfWave())
        wave.counting += 1
        found.is_open |= not is_late and outcome.outcome in _OPEN
        if outcome.code == WITHDRAWN:
            found.withdrawn.append(outcome)
        if outcome.outcome in _FAILED and outcome.code != WITHDRAWN:
            found.failed.append(outcome)
            wave.bad += 1
        elif is_silent(outcome, is_late=is_late):
            found.silent.append(outcome)
            wave.bad += 1
    found.stops = any(bound.stops(bad=each.bad, given=each.counting) for each in waves.values())
    return found


def _outcomes(device: Device, given: GivenRelease) -> list[tuple[DeviceOutcome, int, int]]:
    """Return the outcome of each device, the number of the first wave that it was in, and when its time is over."""
    found: dict[str, tuple[DeviceOutcome, int, int]] = {}
    announced = announcing(given.known.id)  # which no device reports of
    waves = [(part, wave) for part in given.parts for wave in part.waves if wave.order.selector != announced]
    for part, wave in sorted(waves, key=lambda each: each[1].order.wave):
        report = command_report(device, part.group, wave.operation.id.hex())
        assert isinstance(report, CommandReport), "each wave is a command"
        if report.outcomes["elsewhere"]:
            raise LocalError(
                "devices do not report the release's results to this device",
                hint="continue on an operator's device or on a collector",
            )
        due_us = _given_at_us(device, part, wave) + wave.plan.patience_us
        for each in report.devices:
            before = found.get(each.device)
            if before is None:
                found[each.device] = each, wave.order.wave, due_us
            elif rank(each) < rank(before[0]):
                found[each.device] = each, *before[1:]
    return [*found.values()]


def _given_at_us(device: Device, part: ReleasePart, wave: GivenWave) -> int:
    """Return since when a wave's devices could do it, as this device heard: given, agreed on, and not paused."""
    group_id, operations = part.group.group_id, device.store.operations
    agreed = (
        node.id
        for node in operations.nodes(group_id)
        if node.kind == OperationKind.APPROVAL and node.subject == wave.operation.id
    )
    resumed = (operation.id for operation, change in part.standing.said if change.state is ReleaseState.GOING)
    moments: list[OperationId] = [wave.operation.id, *agreed, *resumed]
    return max(operations.stored_at_us(group_id, each) for each in moments)


def _over_at_us(
    given: GivenRelease, others: Sequence[GroupDevice], outcomes: Iterable[tuple[DeviceOutcome, int, int]]
) -> int:
    """Return when a release has finished, or will have (rule 6); far in the future while a wave is to follow."""
    if given.plan.next_wave(len(given.devices()), others) is not None:
        return _NEVER_US
    soak_us = given.plan.soak_us
    ends = (due_us if each.outcome in _OPEN else (each.received_at_us or 0) + soak_us for each, _, due_us in outcomes)
    return max(ends, default=_NEVER_US)


class _Silence:
    """Says whether a device has said nothing in its time, or nothing any more since it did it, at a moment."""

    def __init__(self, device: Device, plan: RollOut, at_us: int) -> None:
        self._seen_within_us = plan.seen_within_us
        self._at_us = at_us
        self._peers, self._seen = device.store.presence.of_peers(), device.store.presence.last_seen()

    def __call__(self, outcome: DeviceOutcome, *, is_late: bool) -> bool:
        """Say so of a device."""
        if outcome.outcome != "done":
            return is_late and outcome.outcome in _OPEN
        if self._seen_within_us is None:
            return outcome.away_since_us is not None and self._was_away(DeviceKey(bytes.fromhex(outcome.device)))
        last_seen_us = max(outcome.seen_at_us or 0, outcome.received_at_us or 0)
        return bool(self._seen_within_us) and self._at_us > last_seen_us + self._seen_within_us

    def _was_away(self, key: DeviceKey) -> bool:
        how, since_us = condition(self._peers.get(key), self._seen.get(key), self._at_us)
        return how in _AWAY and (since_us or 0) <= self._at_us


def described(device: Device, given: GivenRelease, how: Fared | None = None) -> Release:
    """Return how a release stands."""
    how = fared(device, given, given.stop_percent) if how is None else how
    operations = [wave for part in given.parts for wave in part.waves]
    first = min(operations, key=lambda each: each.operation.made_at_us)
    last = max(operations, key=lambda each: (each.order.wave, each.operation.made_at_us))
    reported_us = max((each.received_at_us or 0 for each in how.outcomes), default=0)
    return Release(
        id=given.once.hex(),
        action=first.order.action,
        arguments=dict(first.order.arguments),
        selector=",".join(dict.fromkeys(str(each.waves[0].plan.selector) for each in given.parts)),
        waves=tuple(map(str, given.plan.waves)),
        stop_percent=given.stop_percent,
        patience_us=given.plan.patience_us,
        soak_us=given.plan.soak_us,
        seen_within_us=given.plan.seen_within_us,
        author=first.operation.author.hex(),
        began_at_us=first.operation.made_at_us,
        wave=last.operation.id.hex(),
        signers=_signers(given),
        needed=last.entry.needed,
        waves_given=last.order.wave,
        state=_state(given, how, device.clock.wall_us() < reported_us + given.plan.soak_us),
        devices=tuple(how.outcomes),
        failed=tuple(map(named, how.failed)),
        silent=tuple(map(named, how.silent)),
        accepted=tuple(map(named, how.accepted)),
        withdrawn=tuple(map(named, how.withdrawn)),
        others=len(how.others) + how.to_come,
        said=tuple(_said(given.parts)),
        groups=tuple(each.hex() for each in given.known.groups),
        missing=tuple(each.hex() for each in given.missing),
    )


def _signers(given: GivenRelease) -> tuple[str, ...]:
    """Return the names of the operators that have signed it in every group."""
    by_group = [
        {name for wave in part.waves for name in wave.entry.signers} for part in given.parts if not part.is_aborted
    ]
    return tuple(sorted(set.intersection(*by_group))) if by_group else ()


def _said(parts: Sequence[ReleasePart]) -> list[ReleaseWord]:
    """Return what operators said, once where they said it in several groups at a time."""
    merged: dict[tuple[DeviceKey, ReleaseState, str, int], list[tuple[ReleasePart, Operation, ReleaseChange]]] = {}
    for part in parts:
        before: dict[tuple[DeviceKey, ReleaseState, str], int] = {}
        for operation, change in part.standing.said:
            what = operation.author, change.state, change.why
            before[what] = before.get(what, -1) + 1
            merged.setdefault((*what, before[what]), []).append((part, operation, change))
    found = []
    for (author, state, why, _), same in merged.items():
        accepted = {key: named_member(part.group, key) for part, _, change in same for key in change.accepted}
        by, at_us = named_member(same[0][0].group, author), min(each.made_at_us for _, each, _ in same)
        groups = tuple(part.group.group_id.hex() for part, _, _ in same)
        found.append(ReleaseWord(state.name.lower(), by, at_us, why, tuple(accepted.values()), groups))
    return sorted(found, key=lambda each: each.at_us) if len(parts) > 1 else found


def _state(given: GivenRelease, how: Fared, is_soaking: bool) -> State:
    state: State = "finished"
    if given.state is ReleaseState.ABORTED:
        state = "aborted"
    elif not given.counts:
        state = "awaits approval"
    elif how.stops:
        state = "stopped"
    elif given.state is ReleaseState.PAUSED:
        state = "paused"
    elif how.is_open or is_soaking or given.lacks_first_wave:
        state = "under way"
    elif given.plan.next_wave(len(given.devices()), how.others) is not None:
        state = "ready"
    elif how.to_come or not how.outcomes:
        state = "under way"
    return state


def named(outcome: DeviceOutcome) -> str:
    """Return what people call a device."""
    return f"{outcome.name} {outcome.label}".strip()


def named_member(manifest: GroupManifest, key: DeviceKey) -> str:
    """Return what people call a member, or who was one."""
    member = manifest.member(key)
    return key.hex()[:8] if member is None else f"{member.name} {member.label}".strip()
