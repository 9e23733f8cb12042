"""The operators that the owner approved: from the configuration, otherwise from an accepted invite."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, key_from_text
from covey.errors import ConfigurationError, MalformedError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.config.schema import Config
    from covey.core.ids import GroupId
    from covey.core.node import Node
    from covey.core.now import Now
    from covey.core.orders.authority import Pins

_LOOK_US = 10_000_000
"""Between two looks, each of which reads one row."""

NOBODY = "none"
"""In place of the operators in a configuration: obey no device, even if an invite names it."""


def pins(device: Device, group_id: GroupId) -> Pins:
    """Return the pinned operators of a group: the configuration's, or else the group's invite's.

    Raises:
        ConfigurationError: the configuration contains an invalid key.
    """
    from covey.core.orders.authority import Pins

    operations = device.config.operations
    if operations.operators:
        return Pins(configured(device.config), operations.threshold)
    invited = device.store.invited_operators.of(group_id)
    return Pins(frozenset(each.operator for each in invited), operations.threshold)


def configured(config: Config) -> frozenset[DeviceKey]:
    """Return the operators that the configuration names.

    Raises:
        ConfigurationError: it contains an invalid key.
    """
    return operator_keys(config.operations.operators)


def operator_keys(named: tuple[str, ...]) -> frozenset[DeviceKey]:
    """Return operators as a configuration names them.

    Raises:
        ConfigurationError: one is no key.
    """
    if named == (NOBODY,):
        return frozenset()
    try:
        return frozenset(DeviceKey(key_from_text("sign", each)) for each in named)
    except MalformedError as error:
        raise ConfigurationError(
            f"operations.operators: {error}",
            hint=f"give a signing key as 'covey key show' prints it (covey-sign-…), or only {NOBODY}",
        ) from error


def somebody_is_pinned(device: Device) -> bool:
    """Say whether this device obeys anybody in any group."""
    named = device.config.operations.operators
    return bool(named) and named != (NOBODY,) if named else device.store.invited_operators.any()


class FirstOperator:
    """Restarts the agent once a person has accepted an operator in another process."""

    def __init__(self, somebody_is_pinned: Callable[[], bool], restart: Callable[[], None]) -> None:
        self._somebody_is_pinned = somebody_is_pinned
        self._restart = restart
        self._look_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:  # noqa: ARG002 - as every role
        """Look now and then; return when to be called next, in monotonic microseconds."""
        if now.monotonic_us >= self._look_at_us:
            self._look_at_us = now.monotonic_us + _LOOK_US
            if self._somebody_is_pinned():
                self._restart()
        return self._look_at_us

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
