"""Which settings their own authors have replaced (`authority.py`, rule 8)."""

from __future__ import annotations

from covey.core.ids import DeviceKey
from covey.core.orders.authority import WeighedOrder
from covey.core.orders.selector import EVERYBODY, Selector
from covey.core.orders.target import OrderTarget


class ReplacedSettings:
    """Looks at the settings of a group one by one, the last one in the history's order first."""

    def __init__(self) -> None:
        self._later: dict[tuple[DeviceKey, str | None], set[Selector]] = {}

    def meets(self, order: WeighedOrder, target: OrderTarget) -> bool:
        """Say whether a later one of its author has replaced a setting; have it replace those before it."""
        later = self._later.setdefault((order.author, target.key), set())
        found = target.selector in later or EVERYBODY in later
        if order.replaces:
            later.add(target.selector)
        return found
