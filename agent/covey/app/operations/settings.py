"""What a setting means, beyond its type: whether a value that is well formed can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from covey.config.file import Configuration


def check_meanings(configuration: Configuration) -> None:
    """Check what types cannot say.

    Raises:
        ConfigurationError: a value is well formed and means nothing.
    """
    for key in ("relay.url", "relay.ca_file", "telemetry.group"):
        check_meaning(key, str(configuration.value(key)))
    for url in configuration.config.relay.also:
        check_meaning("relay.url", url)


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

        from covey.adapters.mqtt.settings import tls_context

        tls_context(Path(value))
    elif key == "telemetry.group":
        from covey.app.device import group_id

        group_id(value)
