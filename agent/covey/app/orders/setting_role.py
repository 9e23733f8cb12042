"""Joins what operators want of a device, the layer of its configuration that they make, and the agent's role."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.adapters.keys.relay_credential import place
from covey.app.device.pins import pins
from covey.app.orders.kept_orders import KeptOrders
from covey.app.orders.ordered_settings import OrderedSettings
from covey.app.orders.owner_rules import OwnerRules, write_layer
from covey.config.settings import settings
from covey.core.group.manifest import COLLECTOR, GroupManifest
from covey.core.history.kinds import OperationKind
from covey.core.ids import DeviceKey, GroupId
from covey.core.settings.desired import GivenOrder, GroupSettings, desired
from covey.core.settings.obedience import NOT_STARTED, Desired, Obedience, Objection

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.node import Node

_KINDS = (OperationKind.OPERATOR, OperationKind.SETTING, OperationKind.APPROVAL)

_UP = "up"


def settings_role(device: Device, restart: Callable[[], None]) -> OrderedSettings:
    """Return the role that does what operators have told a device to set; `restart` has the agent begin anew."""
    obedience = _obedience(device)
    return OrderedSettings(
        device.store,
        device.store.ordered_settings,
        obedience,
        PinnedOperators(device),
        ConfiguredLayer(device),
        restart,
        report,
    )


class PinnedOperators:
    """What the operators want whom a device's owner has pinned; implements `ordered_settings.Orders`."""

    def __init__(self, device: Device) -> None:
        weigh = partial(GroupSettings, device.store.operations)
        self._orders = KeptOrders(device.store, _KINDS, partial(pins, device), weigh)

    def desired(self, node: Node) -> list[Desired]:
        """Return what is wanted of this device, each key once."""
        own = node.identity.signing_public
        given: list[GivenOrder] = []
        for group in node.groups.joined():
            member = group.member(own)
            if member is not None:
                given += self._orders.of(node, group).of([member])[own].values()
        return desired(given)

    def hearers(self, node: Node, group_id: GroupId) -> list[DeviceKey]:
        """Return who is to know what became of it: operators, and collectors."""
        group, own = node.groups.group(group_id), node.identity.signing_public
        operators = self._orders.of(node, group).weighed.operators
        return [
            member.keys.signing_public
            for member in group.members
            if member.keys.signing_public != own
            and not member.is_board
            and (member.keys.signing_public in operators or COLLECTOR in member.capabilities)
        ]


def group_settings(device: Device, group: GroupManifest) -> GroupSettings:
    """Return what operators want in a group, by what this device knows."""
    void = device.node.history.standing(group.group_id).void
    return GroupSettings(device.store.operations, group, pins(device, group.group_id), void)


def write_layer_at_start(device: Device) -> bool:
    """Count the start for what has to prove itself; return whether the configuration was not what it should be."""
    with device.store.transaction():
        _obedience(device).begin(device.clock.wall_us())
    return write_layer(device.folder, device.store)


def give_back(device: Device, why: str) -> bool:
    """Let what held before hold again in place of what has not proved itself; return whether there was any."""
    with device.store.transaction():
        given_back = _obedience(device).revert(Objection(NOT_STARTED, why), device.clock.wall_us())
    return write_layer(device.folder, device.store) and bool(given_back)


def _obedience(device: Device) -> Obedience:
    return Obedience(device.store.ordered_settings, OwnerRules(device.folder, device.live), device.node.identity.noise)


class ConfiguredLayer:
    """The layer of one device; implements `ordered_settings.Layer`."""

    def __init__(self, device: Device) -> None:
        self._device = device

    def write(self) -> bool:
        """Have it be what is stored; return whether it was not."""
        return write_layer(self._device.folder, self._device.store)

    def take_up(self, keys: Iterable[str]) -> bool:
        """Let changed keys hold in this process; return whether it needs a restart."""
        device, keys = self._device, [key for key in keys if key in settings()]
        device.live.change(device.folder.configuration.config(), keys)
        return not all(device.live.follows(key) for key in keys)

    def relays_answer(self) -> bool:
        """Say whether every configured relay is reached."""
        relay, conditions = self._device.config.relay, self._device.store.conditions.values()
        return all(conditions.get(f"relay {place(url)}", ("",))[0] == _UP for url in (relay.url, *relay.also))
