"""Secrets that operators give in a world of orders: who may read each, and where it may stand."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, replace

from covey.core.actions.secrets import seal_arguments
from covey.core.group.manifest import GroupManifest
from covey.core.history.orders import CommandOrder, SettingOrder
from covey.core.ids import DeviceKey
from covey.core.orders.selector import Selector
from covey.core.settings.secrets import seal_value
from covey.errors import SettingError
from tests.fleet import Device

_PART_BYTES = 64
_WORD_BYTES = 448


@dataclass(frozen=True, slots=True)
class Secret:
    """A value, whom it was sealed for, and by whom."""

    value: str
    recipients: frozenset[DeviceKey]
    author: DeviceKey


class Secrets:
    """All that were given, by what stands in the orders."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._given: dict[bytes, Secret] = {}

    def give(self, author: Device, group: GroupManifest, selector: Selector, key: str) -> SettingOrder:
        """Return an order with a secret value, sealed as an author does by its present manifest."""
        value = f"hush {len(self._given)} " + self._chance.randbytes(448).hex()
        members = [member for member in group.members if selector.selects(member)]
        keys, draw = [member.keys.noise_public for member in members], self._chance.randbytes
        try:
            sealed = seal_value(value, keys, group.group_id, author.key, key, selector, draw)
        except SettingError:  # nobody is there to read it
            return SettingOrder(selector, key, value=None)
        recipients = frozenset(member.keys.signing_public for member in members)
        self._given[sealed] = Secret(value, recipients, author.key)
        return SettingOrder(selector, key, sealed=sealed)

    def hide(self, author: Device, group: GroupManifest, order: CommandOrder, action: str) -> CommandOrder:
        """Return a command with a secret word that nobody keeps, sealed as an author does by its present manifest."""
        word = self._chance.randbytes(_WORD_BYTES).hex()
        members = [member for member in group.members if order.selector.selects(member)]
        if not members:
            return order
        keys, draw = [member.keys.noise_public for member in members], self._chance.randbytes
        about = (group.group_id, author.key, action, order.once, order.selector)
        sealed = seal_arguments({"word": word}, keys, *about, draw)
        recipients = frozenset(member.keys.signing_public for member in members)
        self._given[sealed] = Secret(word, recipients, author.key)
        return replace(order, action=action, sealed=sealed)

    def of(self, order: SettingOrder | CommandOrder) -> Secret | None:
        """Return what an order is to mean to those who can read it."""
        return None if order.sealed is None else self._given.get(order.sealed)

    def check_kept(self, device: Device, holds: Collection[object]) -> None:
        """Check that a device's state has no secret in it but those that it holds, which are for that device."""
        device.stop()
        content = device.path.read_bytes()
        device.restart()
        for each in self._given.values():
            if _has_part_of(content, each.value.encode()):
                assert device.key in each.recipients, "a secret stands where it is not for"
                assert each.value in holds, "a secret that holds no more is kept"


def _has_part_of(content: bytes, value: bytes) -> bool:
    """Say whether some part of a value stands in a file: it may be spread over pages."""
    return any(value[start : start + _PART_BYTES] in content for start in range(0, len(value), _PART_BYTES))
