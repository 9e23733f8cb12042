"""The configuration that Covey brings for mosquitto, with other places."""

from __future__ import annotations

from collections.abc import Mapping

from covey.errors import ConfigurationError

PROGRAM_PLACES = ("/usr/sbin", "/usr/local/sbin")
"""Where mosquitto lies, and which are not in everybody's $PATH."""


def substitute(configuration: str, values: Mapping[str, str | None]) -> str:
    """Give options other values where they stand (a listener's options follow its line); None removes one.

    Raises:
        ConfigurationError: a value for an option that the configuration does not have.
    """
    lines, absent = [], set(values)
    for line in configuration.splitlines():
        option = line.split(" ", 1)[0]
        absent.discard(option)
        value = values.get(option)
        if option not in values:
            lines.append(line)
        elif value is not None:
            lines.append(f"{option} {value}")
    if absent:
        raise ConfigurationError(f"mosquitto.conf has no option {', '.join(sorted(absent))}")
    return "\n".join([*lines, ""])
