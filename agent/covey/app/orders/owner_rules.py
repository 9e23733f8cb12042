"""Which settings this device's owner lets operators change, and the layer of its configuration that they make.

The layer is drawn from what the store says, and is written whenever it differs: so whatever a power cut leaves behind,
the next start puts right.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from covey.app.device.settings import check_meaning
from covey.config.ordered import APPLICATION_PREFIX, OrderedValue, allowed, ordered_text
from covey.config.schema import Value
from covey.config.settings import Setting, setting, settings
from covey.core.history.orders import Scalar
from covey.core.ids import device_name
from covey.core.settings.obedience import Effect
from covey.errors import ConfigurationError, SettingError
from covey.limits.orders import MAXIMUM_SETTING_KEY_BYTES

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.adapters.state_folder import StateFolder
    from covey.app.device.live_settings import LiveSettings

_APPLICATION_KEY = re.compile(r"app(\.[a-z0-9_-]+)+")
BOARD_KEYS = ("board.interval_seconds", "board.batch_seconds", "board.report_seconds", "board.sensors", "board.series")
"""What operators may set of a board: how often it measures, sends and reports; sensors and series rules, as JSON."""

_RELAYS = frozenset({"relay.url", "relay.also"})
"""Settings by which a device can be cut off."""


_BOARD_PREFIX = "board."
_KEYS = ", ".join(BOARD_KEYS)


class OwnerRules:
    """What the device's owner has laid down; implements `obedience.Owner`."""

    def __init__(self, folder: StateFolder, live: LiveSettings) -> None:
        self._folder = folder
        self._live = live

    def check(self, key: str, value: Scalar | None) -> None:
        """Check that operators may set a key of this device, and that the value is one.

        Raises:
            SettingError: why not.
        """
        if key in BOARD_KEYS:
            raise SettingError(f"{key} is a setting of boards, and this device is not a board", "setting_unknown")
        configuration = self._folder.configuration.read()
        check_setting(key, value)
        if not allowed(configuration.config.operations.settings, key):
            raise SettingError(f"this device's owner does not let operators set {key}", "setting_not_allowed")
        origin = configuration.origins.get(key, "")
        if origin.startswith("$"):
            raise SettingError(f"{origin} overrides it on this device", "setting_overridden")

    def effect(self, key: str) -> Effect:
        if key.startswith(APPLICATION_PREFIX):
            return Effect.BY_A_PROGRAM
        if key in _RELAYS:
            return Effect.ON_TRIAL
        return Effect.AT_ONCE if self._live.follows(key) else Effect.AT_A_START


def check_setting(key: str, value: Scalar | None) -> None:
    """Check that a key is one that operators may set somewhere, and a value one of it; None for any.

    Raises:
        SettingError: the one, or the other: every device would refuse it, so no such order is signed.
    """
    if key.startswith(APPLICATION_PREFIX):
        if not _APPLICATION_KEY.fullmatch(key) or len(key) > MAXIMUM_SETTING_KEY_BYTES:
            raise SettingError(
                f"{key[:MAXIMUM_SETTING_KEY_BYTES]} is not a valid name for a program's setting",
                "setting_unknown",
                hint="use app. followed by lower-case letters, digits, _ and -, separated by dots",
            )
        return
    if key.startswith(_BOARD_PREFIX):
        if key not in BOARD_KEYS:
            shown = key[:MAXIMUM_SETTING_KEY_BYTES]
            raise SettingError(f"{shown} is not a setting of boards", "setting_unknown", hint=f"one of: {_KEYS}")
        return
    try:
        about = setting(key)
    except ConfigurationError as error:
        raise SettingError(str(error), "setting_unknown", hint=error.hint) from error
    if about.local:
        raise SettingError(
            f"only a device's owner can set {key}",
            "setting_local",
            hint=f"on the device: covey config set {key} VALUE",
        )
    if value is not None:
        as_setting(about, value)


def as_setting(about: Setting, value: Scalar) -> Value:
    """Return what an operator gave as a setting's value; a list is a text with commas, a fraction its decimal text.

    Raises:
        SettingError: it is none.
    """
    try:
        written = isinstance(about.default, tuple | float) and isinstance(value, str)
        found = about.read(str(value), about.key) if written else about.check(value, about.key)
        for each in found if isinstance(found, tuple) else (found,):
            check_meaning("relay.url" if about.key in _RELAYS else about.key, str(each))
    except ConfigurationError as error:
        raise SettingError(str(error), "setting_value", hint=error.hint) from error
    return found


def write_layer(folder: StateFolder, store: SqliteStore) -> bool:
    """Have the layer in the folder be what the store says; return whether it was not.

    Raises:
        StorageError: the disk refused.
    """
    values = {
        given.key: OrderedValue(as_setting(setting(given.key), given.held.value), device_name(given.held.author))
        for given in store.ordered_settings.all()
        if given.held is not None and given.key in settings()
    }
    text = ordered_text(values) if values else ""
    if text == folder.configuration.ordered():
        return False
    folder.configuration.write_ordered(text)
    return True
