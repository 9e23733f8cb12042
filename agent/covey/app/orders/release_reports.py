"""Reports on releases: which devices received which version, the results, and the operators' changes.

All of it is found from the history and from what devices report, which every operator's device is told. Nothing is
kept.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from covey.app.orders.command_reports import CommandReport, DeviceOutcome, command_report
from covey.app.orders.operators import orders, selected, standings
from covey.core.actions.obeying import obeyers
from covey.core.actions.results import WITHDRAWN
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.history.orders import CommandOrder
from covey.core.history.releases import ReleaseState
from covey.core.ids import DeviceKey, OperationId
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

_FAILED = {"failed", "refused", "unknown"}
_OPEN = {"waiting", "asleep"}
_AWAY = {"silent", "gone", "stopped"}


@dataclass(frozen=True, slots=True)
class ReleaseWord:
    """What an operator said of a release: that it is `going`, `paused` or `aborted`, at a time of its own clock."""

    state: str
    by: str
    at_us: int
    why: str
    accepted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """A release as it stands; times are microseconds, `began_at_us` since 1970 by its author's clock.

    `state`: it `awaits approval` of further operators; a wave is `under way`; somebody has `paused` it; too many fared
    badly, so it is `stopped`; somebody has `aborted` it; the next wave is `ready` to be given; or all is `finished`.
    `devices` are those that were given it: `failed` and `silent` the names of those that fare badly, `accepted` of
    those that count no more, `withdrawn` of those that had not begun when it was aborted; `others` is how many it is
    for as well. `seen_within_us`: how long ago whoever did it may have been seen, None: as its own signs of life say,
    0: that is not looked at. `wave` is the id of the last wave, which others agree with; `said` what operators said.
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


@dataclass(frozen=True, slots=True)
class GivenWave:
    """One wave, as it stands in the history."""

    operation: Operation
    order: CommandOrder
    plan: RollOut
    entry: OrderEntry


@dataclass(frozen=True, slots=True)
class GivenRelease:
    """All waves of a release, those that count where any does, and what operators said of it."""

    waves: list[GivenWave]
    standing: ReleaseStanding

    @property
    def plan(self) -> RollOut:
        """What the last wave says, which holds."""
        return self.waves[-1].plan

    @property
    def once(self) -> bytes:
        """The bytes that name it."""
        return self.waves[0].order.once

    @property
    def counts(self) -> bool:
        """Whether enough operators have agreed with it."""
        return self.waves[-1].entry.counts

    @property
    def stop_percent(self) -> int:
        """The bound that holds."""
        said = self.standing.stop_percent
        return self.plan.stop_percent if said is None else said

    def devices(self) -> frozenset[DeviceKey]:
        """Return all that were given it."""
        return frozenset(key for each in self.waves for key in each.order.selector.devices)


@dataclass(slots=True)
class Fared:
    """What has become of a release, by device; `bad` and `open` are keys, `stops` says that one wave has too many."""

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


def releases(device: Device, manifest: GroupManifest) -> list[Release]:
    """Return the releases of a group, the oldest first."""
    return [described(device, manifest, each) for each in _all(device, manifest).values()]


def newest_releases(device: Device, manifest: GroupManifest, limit: int) -> list[Release]:
    """Return the releases of a group that were begun last, the newest first: those of whose outcomes this device hears.

    At most `limit` of them are looked at.
    """
    found = []
    for each in [*_all(device, manifest).values()][-limit:]:
        with suppress(LocalError):
            found.append(described(device, manifest, each))
    return found[::-1]


def release(device: Device, manifest: GroupManifest, name: str) -> Release:
    """Return a release by the beginning of its id.

    Raises:
        LocalError: none begins like that, or more than one; or this device does not hear what becomes of it.
    """
    return described(device, manifest, pick_release(device, manifest, name))


def pick_release(device: Device, manifest: GroupManifest, name: str) -> GivenRelease:
    """Return the release whose id begins like that.

    Raises:
        LocalError: none does, or more than one.
    """
    found = [each for once, each in _all(device, manifest).items() if name and once.hex().startswith(name.lower())]
    if len(found) != 1:
        what = f"{len(found)} releases' ids begin with" if found else "no release's id begins with"
        raise LocalError(f"{what} '{name[:64]}'", hint="'covey release list' shows them")
    return found[0]


def _all(device: Device, manifest: GroupManifest) -> dict[bytes, GivenRelease]:
    """Return the releases by their once-ids: of each the waves that count; where none does, those signed rightly."""
    entries = {entry.id: entry for entry in orders(device, manifest)}
    found: dict[bytes, list[GivenWave]] = {}
    for stored in device.store.operations.of_kind(manifest.group_id, OperationKind.COMMAND):
        entry = entries.get(stored.id.hex())
        if entry is None or not entry.signers:
            continue
        operation = read_operation(stored.raw, verify=False)
        order = read_body(operation)
        if isinstance(order, CommandOrder) and order.roll_out is not None:
            found.setdefault(order.once, []).append(GivenWave(operation, order, order.roll_out, entry))
    said = standings(device, manifest) if found else {}
    return {
        once: GivenRelease([each for each in waves if each.entry.counts] or waves, said.get(once, ReleaseStanding()))
        for once, waves in found.items()
    }


def others_of(device: Device, manifest: GroupManifest, given: GivenRelease) -> list[DeviceKey]:
    """Return whom a release is for and who was not given it, in the order of their turns: who is away, last."""
    return in_turns(device, manifest, given.once, given.plan, given.devices())


def in_turns(
    device: Device, manifest: GroupManifest, once: bytes, plan: RollOut, given: Collection[DeviceKey]
) -> list[DeviceKey]:
    """Return those whom a plan is for, but some, in the order of their turns: who is away, last."""
    obeying = obeyers(device.store.operations.nodes(manifest.group_id)).bits.keys()
    wanted = {each.keys.signing_public for each in selected(manifest, plan.selector)} & obeying
    now_us, peers, seen = device.clock.wall_us(), device.store.presence.of_peers(), device.store.presence.last_seen()
    turns = in_turn(once, wanted - set(given))
    return sorted(turns, key=lambda key: condition(peers.get(key), seen.get(key), now_us)[0] in _AWAY)


def fared(device: Device, manifest: GroupManifest, given: GivenRelease, stop_percent: int) -> Fared:
    """Return what has become of a release on each device that was given it, each wave with its own time.

    Raises:
        LocalError: that is not reported to this device.
    """
    found, seen, now_us = Fared(), set[str](), device.clock.wall_us()
    accepted = {key.hex() for key in given.standing.accepted}
    bound = RollOut(given.plan.selector, given.plan.waves, stop_percent, 0, 0)
    for wave in given.waves:
        report = command_report(device, manifest, wave.operation.id.hex())
        assert isinstance(report, CommandReport), "each wave is a command"
        if report.outcomes["elsewhere"]:
            raise LocalError(
                "devices do not report the release's results to this device",
                hint="continue on an operator's device or on a collector",
            )
        outcomes = [each for each in report.devices if each.device not in seen]
        seen.update(each.device for each in outcomes)
        is_late = now_us > _given_at_us(device, manifest, given, wave) + wave.plan.patience_us
        counting = [each for each in outcomes if each.device not in accepted]
        failed = [each for each in counting if each.outcome in _FAILED and each.code != WITHDRAWN]
        silent = [each for each in counting if _is_silent(each, given.plan.seen_within_us, now_us, is_late=is_late)]
        found.outcomes += outcomes
        found.failed += failed
        found.silent += silent
        found.withdrawn += [each for each in counting if each.code == WITHDRAWN]
        found.accepted += [each for each in outcomes if each.device in accepted]
        found.is_open |= not is_late and any(each.outcome in _OPEN for each in counting)
        found.stops |= bound.stops(bad=len(failed) + len(silent), given=len(counting))
    return found


def _given_at_us(device: Device, manifest: GroupManifest, given: GivenRelease, wave: GivenWave) -> int:
    """Return since when a wave's devices could do it, as this device heard: given, agreed on, and not paused."""
    group_id, operations = manifest.group_id, device.store.operations
    agreed = (
        node.id
        for node in operations.nodes(group_id)
        if node.kind == OperationKind.APPROVAL and node.subject == wave.operation.id
    )
    resumed = (operation.id for operation, change in given.standing.said if change.state is ReleaseState.GOING)
    moments: list[OperationId] = [wave.operation.id, *agreed, *resumed]
    return max(operations.stored_at_us(group_id, each) for each in moments)


def _is_silent(outcome: DeviceOutcome, seen_within_us: int | None, now_us: int, *, is_late: bool) -> bool:
    """Say whether a device has said nothing in its time, or nothing any more since it did it."""
    if outcome.outcome != "done":
        return is_late and outcome.outcome in _OPEN
    if seen_within_us is None:
        return outcome.away_since_us is not None
    last_seen_us = max(outcome.seen_at_us or 0, outcome.received_at_us or 0)
    return bool(seen_within_us) and now_us > last_seen_us + seen_within_us


def described(device: Device, manifest: GroupManifest, given: GivenRelease, how: Fared | None = None) -> Release:
    """Return how a release stands."""
    how = fared(device, manifest, given, given.stop_percent) if how is None else how
    others, first, last = others_of(device, manifest, given), given.waves[0], given.waves[-1]
    reported_us = max((each.received_at_us or 0 for each in how.outcomes), default=0)
    return Release(
        id=given.once.hex(),
        action=first.order.action,
        arguments=dict(first.order.arguments),
        selector=str(given.plan.selector),
        waves=tuple(map(str, given.plan.waves)),
        stop_percent=given.stop_percent,
        patience_us=given.plan.patience_us,
        soak_us=given.plan.soak_us,
        seen_within_us=given.plan.seen_within_us,
        author=first.operation.author.hex(),
        began_at_us=first.operation.made_at_us,
        wave=last.operation.id.hex(),
        signers=last.entry.signers,
        needed=last.entry.needed,
        waves_given=len(given.waves),
        state=_state(given, how, others, device.clock.wall_us() < reported_us + given.plan.soak_us),
        devices=tuple(how.outcomes),
        failed=tuple(map(named, how.failed)),
        silent=tuple(map(named, how.silent)),
        accepted=tuple(map(named, how.accepted)),
        withdrawn=tuple(map(named, how.withdrawn)),
        others=len(others),
        said=tuple(
            ReleaseWord(
                *(change.state.name.lower(), named_member(manifest, operation.author)),
                *(operation.made_at_us, change.why),
                tuple(named_member(manifest, each) for each in change.accepted),
            )
            for operation, change in given.standing.said
        ),
    )


def _state(given: GivenRelease, how: Fared, others: list[DeviceKey], is_soaking: bool) -> State:
    state: State = "finished"
    if given.standing.state is ReleaseState.ABORTED:
        state = "aborted"
    elif not given.counts:
        state = "awaits approval"
    elif how.stops:
        state = "stopped"
    elif given.standing.state is ReleaseState.PAUSED:
        state = "paused"
    elif how.is_open or is_soaking:
        state = "under way"
    elif given.plan.next_wave(given.devices(), others):
        state = "ready"
    return state


def named(outcome: DeviceOutcome) -> str:
    """Return what people call a device."""
    return f"{outcome.name} {outcome.label}".strip()


def named_member(manifest: GroupManifest, key: DeviceKey) -> str:
    """Return what people call a member, or who was one."""
    member = manifest.member(key)
    return key.hex()[:8] if member is None else f"{member.name} {member.label}".strip()
