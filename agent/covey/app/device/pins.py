"""Whom this device's owner lets order it: by its configuration, else by what a person accepted of a group's invite."""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.ids import DeviceKey, key_from_text
from covey.errors import ConfigurationError, MalformedError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.config.schema import Config
    from covey.core.ids import GroupId
    from covey.core.orders.authority import Pins

NOBODY = "none"
"""In place of the operators in a configuration: nobody is obeyed, whomever an invite names."""


def pins(device: Device, group_id: GroupId) -> Pins:
    """Return who is pinned for a group: by the configuration where it says anything, else by the group's invite.

    Raises:
        ConfigurationError: what stands in the configuration is no key.
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
        ConfigurationError: what stands there is no key.
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
            hint=f"a signing key as 'covey key show' prints it: covey-sign-…; or {NOBODY}, alone",
        ) from error


def somebody_is_pinned(device: Device) -> bool:
    """Say whether this device obeys anybody in any group."""
    named = device.config.operations.operators
    return bool(named) and named != (NOBODY,) if named else device.store.invited_operators.any()
