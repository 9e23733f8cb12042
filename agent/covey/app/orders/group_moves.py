"""What an operator does to divide groups, and to merge them (docs/how-to/fleet.md, "Split and merge groups").

The devices move by themselves (`core/actions/moving.py`). The operator's device adds them to the new group by one
manifest, gives the settings that hold for them there as well, and orders the move in the history of the old group: all
of it in one transaction. Then it removes those that have moved from the old group (`moved_devices.py`).
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.groups.groups import check_for_others, mode_name
from covey.app.history.writing import all_or_nothing, write_together
from covey.app.orders.operators import check_operator, given, operator_keys, selected
from covey.app.orders.setting_role import group_settings
from covey.app.wording import count
from covey.core.actions.definition import MOVE_ACTION
from covey.core.actions.obeying import obeyers
from covey.core.actions.results import WITHDRAWN, CommandState
from covey.core.group.manifest import COLLECTOR, GroupManifest, Member, Mode, read_manifest
from covey.core.history.bodies import read_body
from covey.core.history.kinds import OperationKind
from covey.core.history.orders import ONCE_BYTES, CommandOrder, Scalar, SettingOrder
from covey.core.ids import DeviceKey, GroupId, OperationId, device_name, printable
from covey.core.membership.invitations import check_may_let_in
from covey.core.membership.voting import VOTING_MODES
from covey.core.orders.selector import Selector, SelectorKind, read_selector
from covey.errors import LocalError, UnknownGroupError, UsageError
from covey.limits.group import MAXIMUM_MEMBERS

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.device.device import Device
    from covey.core.actions.results import KeptResult, OrderResult
    from covey.core.history.operation import Operation
    from covey.core.ids import EpochId


_MODES = (Mode.INVITES_ONLY, Mode.ADMIN_INVITES)
_NEVER_MOVED = (CommandState.REFUSED, CommandState.STOPPED, CommandState.UNKNOWN)
"""Of which a device that is not in the new group does not enter it any more."""


@dataclass(frozen=True, slots=True)
class Staying:
    """A device that is not moved, and why."""

    device: str
    label: str
    why: str


@dataclass(frozen=True, slots=True)
class OrderedMove:
    """A move that was ordered. `settings` are the keys given in the new group as well, `lost_settings` those not.

    `devices` are the names of the devices that are to move: label, else fingerprint.
    """

    id: str
    source: str
    target: str
    devices: tuple[str, ...]
    staying: tuple[Staying, ...]
    settings: tuple[str, ...]
    lost_settings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MovingDevice:
    """A device of a move, as this device knows it.

    `state`: `waiting` until it is in the new group; `delivering` while readings or results of orders wait for members
    of the old one; `leaving` until an operator removes it from the old group; `moved`; `failed`, for the reason `why`;
    `gone` if it was removed before. `never_enters`: it has said that it will not enter the new group. `seen_at_us` is
    when it last said anything, in microseconds since 1970.
    """

    device: str
    name: str
    label: str
    state: str
    why: str
    never_enters: bool
    seen_at_us: int | None

    @property
    def is_open(self) -> bool:
        """Whether something is still to happen."""
        return self.state in {"waiting", "delivering", "leaving"}


@dataclass(frozen=True, slots=True)
class KnownMove:
    """An ordered move. `finishes`: whether this device removes the devices from the old group once they have moved."""

    id: str
    author: str
    made_at_us: int
    source: str
    target: str
    finishes: bool
    devices: tuple[MovingDevice, ...]


def order_move(device: Device, source: GroupManifest, target: GroupManifest, selector: str | None) -> OrderedMove:
    """Order a selector's devices, or None: all that can, to move to another group.

    Raises:
        LocalError: this device is no operator in the old group, or may not add members to the new one; or no device can
            move.
        UsageError: the selector is invalid, or selects nothing; or the groups are the same, or public.
    """
    _check_groups(device, source, target)
    moving, staying = _chosen(device, source, target, selector)
    devices = tuple(sorted(member.keys.signing_public for member in moving))
    chosen, once = Selector(SelectorKind.DEVICES, devices=devices), secrets.token_bytes(ONCE_BYTES)
    body = CommandOrder(chosen, MOVE_ACTION, {"group": target.group_id.hex()}, once)
    with all_or_nothing(device):
        _add(device, target, moving)
        settings, lost = _settings(device, source, device.node.groups.group(target.group_id), moving)
        [*_, order] = write_together(device, [*((target, each) for each in settings), (source, body)])
        device.store.move_orders.put(order.id, source.group_id, target.group_id)
    given_keys = tuple(dict.fromkeys(each.key for each in settings))
    names = tuple(sorted(each.label or each.name for each in moving))
    places = source.group_id.hex(), target.group_id.hex()
    return OrderedMove(order.id.hex(), *places, names, staying, given_keys, lost)


def _check_groups(device: Device, source: GroupManifest, target: GroupManifest) -> None:
    for each in (source, target):
        check_for_others(each)
        if each.mode not in _MODES:
            raise UsageError(
                f"devices cannot be moved from or to a {mode_name(each.mode)} group",
                hint="both groups must be invites-only or admin-invites",
            )
    if source.group_id == target.group_id:
        raise UsageError("that is the same group", hint="'covey group list' shows your groups")
    check_operator(device, source)
    if not any(COLLECTOR in each.capabilities for each in target.members):
        raise LocalError(
            f"group {target.group_id.hex()[:8]} has no collector, so no device would receive the readings",
            hint=f"covey invite --capability collector --group {target.group_id.hex()[:8]}",
        )


def _chosen(
    device: Device, source: GroupManifest, target: GroupManifest, selector: str | None
) -> tuple[list[Member], tuple[Staying, ...]]:
    """Return the members that are to move, and those that stay."""
    named = source.members if selector is None else selected(source, read_selector(selector, source.members))
    obeying = obeyers(device.store.operations.nodes(source.group_id)).bits.keys()
    operators = operator_keys(device, source)
    departing = {each.device for move in known_moves(device, [target]) for each in move.devices if each.is_open}
    moving, staying = [], []
    for each in named:
        why = _objection(each, device.node.identity.signing_public, operators, obeying)
        if not why and each.keys.signing_public.hex() in departing:
            why = "it is still moving out of the new group"
        if not why and has_yet_to_leave(device.store, target, each.keys.signing_public):
            why = "it has yet to say that it has left the new group"
        if why:
            staying.append(Staying(each.keys.signing_public.hex(), each.label, why))
        else:
            moving.append(each)
    if not moving:
        reasons = "; ".join(f"{printable(each.label) or each.device[:8]}: {each.why}" for each in staying[:3])
        more = f"; and {len(staying) - 3} more" if len(staying) > 3 else ""
        raise LocalError(
            f"none of {count(len(staying), 'device')} can move: {reasons}{more}",
            hint="'Split and merge groups' in docs/how-to/fleet.md says what a device needs",
        )
    _check_room(target, sum(target.member(each.keys.signing_public) is None for each in moving))
    return moving, tuple(staying)


def _check_room(target: GroupManifest, newcomers: int) -> None:
    room = MAXIMUM_MEMBERS - len(target.members)
    if newcomers > room:
        raise LocalError(
            f"group {target.group_id.hex()[:8]} has room for {count(max(room, 0), 'device')}, not for {newcomers}",
            hint="move fewer devices: --for label:NAME",
        )


def _objection(member: Member, own: DeviceKey, operators: Iterable[DeviceKey], obeying: Iterable[DeviceKey]) -> str:
    """Return why a member is not moved; empty if it can move."""
    key = member.keys.signing_public
    if key == own:
        return "it is this device"
    if member.is_board:
        return "it is a board, which only its gateway can add to a group"
    if key in operators:
        return "it is an operator"
    if COLLECTOR in member.capabilities:
        return "it is a collector"
    return "" if key in obeying else "it obeys no commands"


def has_yet_to_leave(store: SqliteStore, group: GroupManifest, key: DeviceKey) -> bool:
    """Say whether a removed device still says that it is in a group: it refuses to move there (`moving.py`, rule 8)."""
    said = store.heads.all().get(key)
    is_listed = group.member(key) is not None
    return not is_listed and said is not None and any(each.group_id == group.group_id for each in said.heads)


def _add(device: Device, target: GroupManifest, moving: Sequence[Member]) -> None:
    """Add members of another group that a group does not list, by one manifest; admins become plain members."""
    own = device.node.identity.signing_public
    newcomers = [each for each in moving if target.member(each.keys.signing_public) is None]
    if not newcomers:
        return
    for each in newcomers:
        check_may_let_in(target, own, each.keys.signing_public)

    def edit(draft: GroupManifest, _: EpochId) -> GroupManifest:
        for each in newcomers:
            added = Member(each.keys, each.label, capabilities=each.capabilities, extensions=each.extensions)
            draft = draft.adding(added)
        return draft

    device.node.actions.change(target.group_id, edit, device.now())


def _settings(
    device: Device, source: GroupManifest, target: GroupManifest, moving: Sequence[Member]
) -> tuple[list[SettingOrder], tuple[str, ...]]:
    """Return the settings of the old group that are to hold in the new one, and the keys of those that cannot.

    What the new group says of a key for a device stays. Secrets are sealed for members of the old group.
    """
    there = {member.keys.signing_public: member for member in target.members}
    held = group_settings(device, target).of([there[each.keys.signing_public] for each in moving])
    may_order = device.node.identity.signing_public in operator_keys(device, target)
    found: dict[tuple[str, str, Scalar], list[DeviceKey]] = {}
    lost: dict[str, None] = {}
    for key, wanted in group_settings(device, source).of(moving).items():
        for name, each in wanted.items():
            value = each.order.value
            if (value is None and each.order.sealed is None) or name in held[key]:
                continue
            if value is None or not may_order:
                lost[name] = None
            else:
                found.setdefault((name, type(value).__name__, value), []).append(key)
    once = secrets.token_bytes(ONCE_BYTES)
    orders = []
    for (name, _, value), keys in found.items():
        chosen = Selector(SelectorKind.DEVICES, devices=tuple(sorted(keys)))
        orders.append(SettingOrder(chosen, name, value, once=once))
    return orders, tuple(lost)


# -- how it goes on ---------------------------------------------------------------------------------------------------


def known_moves(device: Device, groups: Sequence[GroupManifest]) -> list[KnownMove]:
    """Return the moves that operators have ordered in groups, the oldest first."""
    found = [
        _known(device, group, operation, body)
        for group in groups
        for operation in given(device, group, (OperationKind.COMMAND,))
        if isinstance(body := read_body(operation), CommandOrder) and body.action == MOVE_ACTION
    ]
    return sorted(found, key=lambda each: (each.made_at_us, each.id))


def pick_move(device: Device, groups: Sequence[GroupManifest], name: str) -> KnownMove:
    """Return the move whose order's id begins so.

    Raises:
        LocalError: there is none, or more than one.
    """
    found = [each for each in known_moves(device, groups) if each.id.startswith(name.lower())]
    if len(found) != 1:
        raise LocalError(f"{len(found)} moves match '{name[:64]}'", hint="'covey group moves' lists them")
    return found[0]


def finish_here(device: Device, move: KnownMove) -> None:
    """Have this device end a move that another one ordered, which may have died since.

    It adds the devices that are to move and that the new group does not list, with the settings that hold for them: the
    first device may have died before anybody heard of its manifest. One that was there before may seem to be there
    still. It removes devices from the old group once they have moved.

    Raises:
        LocalError: this device is no operator in the old group, or may not add members to the new one, or that is full.
    """
    source = device.node.groups.group(GroupId(bytes.fromhex(move.source)))
    check_operator(device, source)
    coming = {each.device for each in move.devices if each.state in {"waiting", "delivering"}}
    with all_or_nothing(device):
        _add_lacking(device, move, coming)
        place = source.group_id, GroupId(bytes.fromhex(move.target))
        device.store.move_orders.put(OperationId(bytes.fromhex(move.id)), *place)


def readmit(device: Device, move: KnownMove, but: Collection[str]) -> list[str]:
    """Add the devices that wait to enter the new group, and that another move has taken out of it since the order.

    Two devices of the operators can order that at once: one has a device leave the group, the other one takes it to be
    there. A device that a person has removed is not added, nor one that still says that it is there, nor those in
    `but`. Returns the devices that were added. Inside a transaction.

    Raises:
        LocalError: this device may not add members to the new group, or that is full.
    """
    target_id = GroupId(bytes.fromhex(move.target))
    waiting = {each.device for each in move.devices if each.state == "waiting"}.difference(but)
    if not waiting or not device.node.groups.is_in(target_id):
        return []
    target = device.node.groups.group(target_id)
    waiting -= {each.keys.signing_public.hex() for each in target.members}
    waiting -= {each for each in waiting if has_yet_to_leave(device.store, target, DeviceKey(bytes.fromhex(each)))}
    taken: set[str] = set()
    for other in known_moves(device, [target]) if waiting else ():
        results = device.store.order_results.of_order(target_id, OperationId(bytes.fromhex(other.id)))
        ended = {each.device.hex() for each in results if each.received_at_us > move.made_at_us}
        taken |= {each.device for each in other.devices if each.state == "moved"} & ended
    return _add_lacking(device, move, waiting & taken)


def _add_lacking(device: Device, move: KnownMove, coming: Collection[str]) -> list[str]:
    """Add those of some devices of a move that the new group does not list, with the settings that hold for them.

    Returns them. Inside a transaction.

    Raises:
        LocalError: this device may not add members to the new group, or that is full.
    """
    source_id, target_id = (GroupId(bytes.fromhex(each)) for each in (move.source, move.target))
    if not coming or not device.node.groups.is_in(target_id):
        return []
    source, target = device.node.groups.group(source_id), device.node.groups.group(target_id)
    members = [each for each in source.members if each.keys.signing_public.hex() in coming]
    lacking = [each for each in members if target.member(each.keys.signing_public) is None]
    if lacking:
        _check_room(target, len(lacking))
        _add(device, target, lacking)
        target = device.node.groups.group(target_id)
        settings, _ = _settings(device, source, target, lacking)
        write_together(device, [(target, each) for each in settings])
    return [each.keys.signing_public.hex() for each in lacking]


def _known(device: Device, source: GroupManifest, operation: Operation, body: CommandOrder) -> KnownMove:
    target = body.arguments.get("group", "")
    finishes = any(each.operation == operation.id for each in device.store.move_orders.all())
    return KnownMove(
        operation.id.hex(),
        device_name(operation.author),
        operation.made_at_us,
        source.group_id.hex(),
        target,
        finishes,
        moving_devices(device, source, target, operation, body),
    )


def moving_devices(
    device: Device, source: GroupManifest, target: str, operation: Operation, body: CommandOrder
) -> tuple[MovingDevice, ...]:
    """Return the devices of a move, by key."""
    try:
        there: GroupManifest | None = device.node.groups.group(GroupId(bytes.fromhex(target)))
    except (UnknownGroupError, ValueError):
        there = None
    kept = device.store.order_results.of_order(source.group_id, operation.id)
    results: dict[DeviceKey, KeptResult] = {each.device: each for each in kept}
    raw = device.store.groups.manifest(source.group_id, operation.manifest)
    version = source.version if raw is None else read_manifest(raw, verify=False).version
    said, seen = device.store.heads.all(), device.store.presence.last_seen()
    speaking = {} if there is None else _obeying_since(device, there)
    others = [each for each in device.node.groups.joined() if each.group_id != source.group_id]
    found = []
    for key in body.selector.devices:
        before, after = source.member(key), None if there is None else there.member(key)
        if before is not None and before.since > version:  # it has come back since
            before = None
        heads = said[key].heads if key in said else ()
        let_in = 0 if after is None else after.since  # what it said there before that, it said in an earlier stay
        has_spoken = speaking.get(key, -1) >= let_in or (
            there is not None and any(head.group_id == there.group_id and head.version >= let_in for head in heads)
        )
        is_in = has_spoken and (after is not None or before is None)  # one that moved on was there
        result = results[key].result if key in results else None
        is_lost = there is not None and not any(each.member(key) for each in others)
        state, why = _state(result, is_in=is_in, is_listed=before is not None, is_lost=is_lost)
        refuses = result is not None and result.state in _NEVER_MOVED and result.code != WITHDRAWN
        label = next((each.label for each in (after, before) if each is not None), "")
        found.append(
            MovingDevice(
                key.hex(),
                device_name(key),
                label,
                state,
                why,
                state == "failed" and refuses and not is_in,
                seen.get(key),
            )
        )
    return tuple(found)


def _obeying_since(device: Device, group: GroupManifest) -> dict[DeviceKey, int]:
    """Return by device the version of a group in which it said last that it obeys."""
    operations, found = device.store.operations, dict[DeviceKey, int]()
    for node in operations.nodes(group.group_id):
        held = operations.held(group.group_id, node.id) if node.kind == OperationKind.OBEYING else None
        if held is not None:
            found[node.author] = max(held.manifest_version, found.get(node.author, 0))
    return found


def _state(result: OrderResult | None, *, is_in: bool, is_listed: bool, is_lost: bool) -> tuple[str, str]:
    """Return the state of a device, and why it does not move.

    `is_listed`: in the old group, since before the order; `is_lost`: no other group has it, so it must not leave.
    """
    if result is not None and not (result.state is CommandState.DONE and result.exit == 0):
        return "failed", result.why or result.code
    if result is not None and is_listed and is_lost:
        return "failed", "it was removed from the new group after it had moved"
    if result is not None:
        return ("leaving" if is_listed else "moved"), ""
    if not is_listed:
        return ("moved", "") if is_in else ("gone", "it was removed from the old group before it moved")
    return ("delivering" if is_in else "waiting"), ""


def remove_moved(device: Device, move: KnownMove, others: Sequence[KnownMove]) -> int:
    """Remove the devices that have moved from the old group, and those that will not move from the new one.

    `others` are further moves: a device that goes to the same group by one of them stays listed there. Returns how many
    devices were removed. Where a removal takes admins' votes, the devices leave by themselves.

    Raises:
        LocalError: this device may not remove members; nothing is changed.
    """
    coming = {
        each.device
        for other in others
        if other.id != move.id and other.target == move.target
        for each in other.devices
        if each.is_open
    }
    moved = [each.device for each in move.devices if each.state == "leaving"]
    never = [each.device for each in move.devices if each.never_enters and each.device not in coming]
    removed = 0
    for name, devices in ((move.source, moved), (move.target, never)):
        group_id = GroupId(bytes.fromhex(name))
        if device.node.groups.is_in(group_id):
            removed += _remove(device, device.node.groups.group(group_id), devices)
    return removed


def _remove(device: Device, group: GroupManifest, devices: Iterable[str]) -> int:
    gone = [key for key in (DeviceKey(bytes.fromhex(each)) for each in devices) if group.member(key) is not None]
    if not gone or group.mode in VOTING_MODES:
        return 0

    def edit(draft: GroupManifest, epoch_id: EpochId) -> GroupManifest:
        for key in gone:
            draft = draft.removing(key, epoch_id)
        return draft

    device.node.actions.change(group.group_id, edit, device.now())
    return len(gone)
