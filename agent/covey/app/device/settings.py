"""The settings as they hold and where each comes from; changing one; and what a value means beyond its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.device.pins import operator_keys
from covey.config.schema import Value
from covey.config.settings import Setting, setting
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from covey.adapters.state_folder import StateFolder
    from covey.config.file import Configuration


@dataclass(frozen=True, slots=True)
class SettingInUse:
    """A setting with the value that holds, what set it, and what is known of it."""

    key: str
    value: Value
    origin: str
    default: Value
    unit: str
    meaning: str
    example: Value
    minimum: float | None
    maximum: float | None
    variable: str


def in_use(configuration: Configuration, about: Setting) -> SettingInUse:
    """Return a setting as it holds."""
    bounded = not isinstance(about.default, str)
    return SettingInUse(
        key=about.key,
        value=configuration.value(about.key),
        origin=configuration.origins.get(about.key, "default"),
        default=about.default,
        unit=about.unit,
        meaning=about.meaning,
        example=about.example,
        minimum=about.low if bounded else None,
        maximum=about.high if bounded else None,
        variable=about.variable,
    )


_PORTS = ("content.lan_listen", "bridge.udp_listen")
_OF_EACH = {"relay.also": "relay.url", "content.lan_peers": "content.lan_peers"}
"""Settings that are lists, and the rule for each of their values."""


def change_setting(folder: StateFolder, key: str, text: str | None) -> str:
    """Write one setting, or give it its default again; return what overrides it, or nothing.

    Raises:
        ConfigurationError: there is no such setting, or the value cannot be used.
    """
    about = setting(key)
    value = None if text is None else about.read(text, key)
    if key in _OF_EACH and isinstance(value, tuple):
        for each in value:
            check_meaning(_OF_EACH[key], each)
    elif key == "operations.operators" and isinstance(value, tuple):
        operator_keys(value)
    elif value is not None:
        check_meaning(key, str(value))
        _check_file(folder.path, key, str(value))
    folder.configuration.change({key: value})
    configuration = folder.configuration.read()
    holds = configuration.value(key) == (about.default if value is None else value)
    return "" if holds else configuration.origins[key]


_ADDRESSES = {"alerts.webhook": {"http": 80, "https": 443}, "alerts.mail_server": {"smtp": 25, "smtps": 465}}
"""Settings that are addresses, with the schemes that they may have."""


_FILES = ("broker.password_file", "relay.client_certificate", "relay.client_key")
_PASSWORDS = ("alerts.webhook_token_file", "alerts.mail_password_file")


def _check_file(state: Path, key: str, name: str) -> None:
    """Check a file when it is named; a later start checks again.

    Raises:
        ConfigurationError: it is missing or invalid.
    """
    if not name:
        return
    if key in _FILES and not (state / name).is_file():
        raise ConfigurationError(f"{state / name} is not a file", hint="nothing was changed; name an existing file")
    if key == "broker.ca_folder":
        from covey.adapters.broker.fleet_ca import FleetCa

        FleetCa.open(state / name)
    elif key in _PASSWORDS:
        from covey.adapters.alert_targets import read_password

        read_password(state, name)


def check_meanings(configuration: Configuration) -> None:
    """Check what types cannot say.

    Raises:
        ConfigurationError: a value is well formed and means nothing.
    """
    for key in ("relay.url", "relay.ca_file", "telemetry.group", *_PORTS, "alerts.webhook", "alerts.mail_server"):
        check_meaning(key, str(configuration.value(key)))
    for key, of_each in _OF_EACH.items():
        found = configuration.value(key)
        for each in found if isinstance(found, tuple) else ():
            check_meaning(of_each, each)
    operator_keys(configuration.config.operations.operators)


def check_meaning(key: str, value: str) -> None:
    """Check what a type cannot say.

    Raises:
        ConfigurationError: the value is well formed and means nothing.
    """
    if not value:
        return
    if key == "relay.url":
        from covey.adapters.mqtt.settings import parse_url

        parse_url(value)
    elif key == "relay.ca_file":
        from pathlib import Path

        from covey.adapters.mqtt.tls import tls_context

        tls_context(Path(value))
    elif key == "telemetry.group":
        from covey.app.device.device import group_id

        group_id(value)
    elif key in _PORTS or key == "content.lan_peers":
        from covey.app.device.addresses import host_and_port

        host_and_port(value, key)
    elif key in _ADDRESSES:
        from covey.adapters.web_address import web_address

        web_address(value, key, _ADDRESSES[key])
