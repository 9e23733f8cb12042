"""Who may give orders, by what this device's owner has pinned; and what operators agree with."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.device.device import Device
from covey.app.device.pins import configured, pins
from covey.app.groups.groups import pick_member
from covey.app.history.history import as_entry, pick_operation
from covey.app.history.writing import write
from covey.app.wording import count
from covey.core.group.features import Feature, lacks
from covey.core.group.manifest import GroupManifest, Member
from covey.core.history.kinds import GIVING_KINDS, KINDS, OperationKind
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import Approval, OperatorChange
from covey.core.ids import DeviceKey, device_name, fingerprint, key_text
from covey.core.orders.authority import WeighedOrder, WeighedOrders, weigh_orders
from covey.core.orders.selector import Selector
from covey.errors import LocalError
from covey.limits.group import MAXIMUM_LABEL_BYTES

if TYPE_CHECKING:
    from covey.core.orders.nodes import OrderNode
    from covey.core.orders.release_standing import ReleaseStanding


@dataclass(frozen=True, slots=True)
class OperatorEntry:
    """An operator as this device sees it: pinned by its owner, or added by another; orders count while it is a member.

    `label` is what it was added as, else the member's own. `origin` is where it comes from: "configuration", "invite"
    (of the device `by`, accepted here at `since_us`, in microseconds since 1970), or "operator" (`by` has added it, at
    `since_us` by its own clock).
    """

    key: str
    name: str
    fingerprint: str
    label: str
    pinned: bool
    member: bool
    origin: str
    by: str
    since_us: int | None


@dataclass(frozen=True, slots=True)
class OrderEntry:
    """An order, or a change of operators: who gave it and who has signed it, by name, of how many that are needed.

    `made_at_us` is the author's clock in microseconds since 1970; `counts` says what this device makes of it.
    """

    id: str
    kind: str
    author: str
    label: str
    made_at_us: int
    text: str
    signers: tuple[str, ...]
    needed: int
    counts: bool


def operators(device: Device, manifest: GroupManifest) -> list[OperatorEntry]:
    """Return who may give orders to this device in a group.

    Raises:
        ConfigurationError: what is pinned is no key.
    """
    weighed = _weighed(device, manifest)
    pinned, present = pins(device, manifest.group_id).operators, _present(manifest)
    origins = _origins(device, manifest, weighed)
    found = []
    for key, label in weighed.operators.items():
        member = manifest.member(key)
        shown = label or (member.label if member else "")
        found.append(
            OperatorEntry(
                key.hex(), device_name(key), fingerprint(key), shown, key in pinned, key in present, *origins[key]
            )
        )
    return found


def _origins(
    device: Device, manifest: GroupManifest, weighed: WeighedOrders
) -> dict[DeviceKey, tuple[str, str, int | None]]:
    """Return for each operator where it comes from, who approved it, and when."""
    found: dict[DeviceKey, tuple[str, str, int | None]] = {}
    for each in weighed.changes:
        raw = device.store.operations.raw(manifest.group_id, each.id) if each.counts else None
        if raw is not None:
            operation = read_operation(raw, verify=False)
            change = OperatorChange.from_wire(operation.body)
            if change.added:
                found[change.key] = "operator", device_name(operation.author), operation.made_at_us
    for invited in device.store.invited_operators.of(manifest.group_id):
        found[invited.operator] = "invite", device_name(invited.inviter), invited.pinned_at_us
    return found | dict.fromkeys(configured(device.config), ("configuration", "", None))


def add_operator(device: Device, manifest: GroupManifest, name: str, label: str | None) -> OrderEntry:
    """Make a member an operator, for all who obey this one.

    Raises:
        LocalError: this device is no operator, that one is one already, or no member that can be one.
    """
    member = pick_member(manifest, name)
    key = member.keys.signing_public
    if member.is_board:
        raise LocalError(f"{member.name} is a board, and boards cannot give orders")
    if key in check_operator(device, manifest).operators:
        raise LocalError(f"{member.name} is already an operator", hint="'covey group operators' shows them")
    return _change(device, manifest, OperatorChange(key, member.label if label is None else label, added=True))


def remove_operator(device: Device, manifest: GroupManifest, name: str) -> OrderEntry:
    """Order all devices that obey this operator to stop obeying another one.

    Raises:
        LocalError: this device is no operator, or the name is ambiguous.
    """
    known = check_operator(device, manifest).operators
    labels = {key: {label, getattr(manifest.member(key), "label", "")} for key, label in known.items()}
    found = [key for key in known if name and (key.hex().startswith(name.lower()) or name in labels[key])]
    if len(found) != 1:
        which = "no operator matches" if not found else f"{len(found)} operators match"
        raise LocalError(f"{which} '{name[:MAXIMUM_LABEL_BYTES]}'", hint="'covey group operators' shows them")
    return _change(device, manifest, OperatorChange(found[0], "", added=False))


def orders(device: Device, manifest: GroupManifest) -> list[OrderEntry]:
    """Return the orders that somebody gave who may be an operator, and changes of operators, the oldest first.

    Those whose words are forgotten here are left out.
    """
    here = device.store.operations
    nodes = list(here.nodes(manifest.group_id))
    weighed = [_weighed(device, manifest, kind, nodes) for kind in GIVING_KINDS]
    found = [*weighed[0].changes, *(order for each in weighed for order in each.orders)]
    kept = [(here.raw(manifest.group_id, each.id), each) for each in found]
    operations = [(read_operation(raw, verify=False), each) for raw, each in kept if raw is not None]
    operations.sort(key=lambda each: (each[0].height, each[0].id))
    return [_entry(device, manifest, operation, order) for operation, order in operations]


def given(device: Device, manifest: GroupManifest, kinds: Iterable[OperationKind]) -> list[Operation]:
    """Return the orders of some kinds by possible operators, without void and deleted ones."""
    here = device.store.operations
    nodes = list(here.nodes(manifest.group_id))
    orders = [each for kind in kinds for each in _weighed(device, manifest, kind, nodes).orders]
    raw = [here.raw(manifest.group_id, each.id) for each in orders]
    return [read_operation(each, verify=False) for each in raw if each is not None]


def approve(device: Device, manifest: GroupManifest, name: str) -> OrderEntry:
    """Agree with an order, or with a change of operators, by the beginning of its id.

    Raises:
        LocalError: this device is no operator, has signed it, or it is not clear which is meant.
    """
    operation = pick_operation(device, manifest.group_id, name, "covey order")
    own = device.node.identity.signing_public
    shown = operation.id.hex()[:8]
    check_operator(device, manifest)
    if own in _found(device, manifest, operation).signers:
        raise LocalError(
            f"this device has already signed {shown}", hint="'covey order' shows which operators still have to sign"
        )
    write(device, manifest, Approval(operation.id))
    return judged(device, manifest, operation)


def _change(device: Device, manifest: GroupManifest, change: OperatorChange) -> OrderEntry:
    return judged(device, manifest, write(device, manifest, change))


def judged(device: Device, manifest: GroupManifest, operation: Operation) -> OrderEntry:
    """Return this device's judgement of an order, or of a change of operators.

    Raises:
        LocalError: there is none: its author was never an operator, or it exceeds the number judged.
    """
    return _entry(device, manifest, operation, _found(device, manifest, operation))


def signers(device: Device, manifest: GroupManifest, operation: Operation) -> Collection[DeviceKey]:
    """Return the operators that have signed an order.

    Raises:
        LocalError: it is no operator's order.
    """
    return _found(device, manifest, operation).signers


def _found(device: Device, manifest: GroupManifest, operation: Operation) -> WeighedOrder:
    weighed = _weighed(device, manifest, OperationKind(operation.kind) if operation.kind in GIVING_KINDS else None)
    for each in (*weighed.changes, *weighed.orders):
        if each.id == operation.id:
            return each
    raise LocalError(
        f"{operation.id.hex()[:8]} is not an operator's order",
        hint="'covey order' lists operators' orders, 'covey order refused' those of other devices",
    )


def check_operator(device: Device, manifest: GroupManifest) -> WeighedOrders:
    """Return who is an operator, if this device is one.

    Raises:
        LocalError: it is none.
    """
    weighed = _weighed(device, manifest)
    if device.node.identity.signing_public not in weighed.operators:
        raise LocalError(
            "this device is not an operator, so no device would obey it",
            hint=approval_hint(device),
        )
    return weighed


def approval_hint(device: Device) -> str:
    """Return how to make this device an operator."""
    own = key_text("sign", device.node.identity.signing_public)
    return f"on this device and on those that should obey it: covey config set operations.operators {own}"


def _weighed(
    device: Device,
    manifest: GroupManifest,
    kind: OperationKind | None = None,
    nodes: list[OrderNode] | None = None,
) -> WeighedOrders:
    """Judge the orders of a kind; `nodes`: the group's, if they are at hand."""
    group_id, void = manifest.group_id, device.node.history.standing(manifest.group_id).void
    pinned = pins(device, group_id)
    return weigh_orders(device.store.operations, group_id, pinned, _present(manifest), void, kind, nodes)


def operator_keys(device: Device, manifest: GroupManifest) -> frozenset[DeviceKey]:
    """Return who is an operator, by what this device knows."""
    return frozenset(_weighed(device, manifest).operators)


def standings(device: Device, manifest: GroupManifest) -> dict[bytes, ReleaseStanding]:
    """Return by once-id how those releases stand of which operators have said anything."""
    from covey.core.orders.release_standing import release_standings

    void = device.node.history.standing(manifest.group_id).void
    operations, pinned = device.store.operations, pins(device, manifest.group_id)
    return release_standings(operations, manifest.group_id, pinned, _present(manifest), void)


def _present(manifest: GroupManifest) -> frozenset[DeviceKey]:
    return frozenset(member.keys.signing_public for member in manifest.members if not member.is_board)


def selected(manifest: GroupManifest, selector: Selector) -> list[Member]:
    """Return the members that an order is for."""
    return [member for member in manifest.members if selector.selects(member)]


def check_supported(members: Sequence[Member], feature: Feature) -> tuple[str, ...]:
    """Return the names of those who announce that they do not support what an order needs.

    Raises:
        LocalError: nobody else is left.
    """
    unable = tuple(member.name for member in members if lacks(member, feature))
    if unable and len(unable) == len(members):
        raise LocalError(
            f"nothing was ordered: {count(len(unable), 'device')} cannot obey {feature.word}: {', '.join(unable[:5])}",
            hint="upgrade Covey on them; 'covey fleet DEVICE' shows what a device supports",
        )
    return unable


def _entry(device: Device, manifest: GroupManifest, operation: Operation, order: WeighedOrder) -> OrderEntry:
    shown = as_entry(device, manifest, operation, 0)
    return OrderEntry(
        shown.id,
        shown.kind,
        shown.author,
        shown.label,
        shown.made_at_us,
        shown.text or "",
        tuple(sorted(map(device_name, order.signers))),
        device.config.operations.threshold if KINDS[OperationKind(operation.kind)].by_threshold else 1,
        order.counts,
    )
