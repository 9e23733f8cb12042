"""Doors in the owner's configuration, `[[door]]` in any file: other systems that get readings.

    [[door]]
    name = "my-cloud"        # its position in the vault is stored under this name
    kind = "webhook"
    url = "https://example.org/readings"

1. An entry's other keys depend on its kind: `KINDS` has them all, the dataclasses below are their settings, and
   `covey door kinds` shows them. Installed packages can add kinds (`covey.doors`).
2. No operator sets these: an entry says where readings go, and names a file with a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from covey.config.kinds import DOORS, EntryKind, PackagedOptions, entry_name, packaged_kinds, unique_entries
from covey.config.tables import option, table_of
from covey.errors import ConfigurationError
from covey.limits.doors import MAXIMUM_DOORS

_HINT = "docs/how-to/forward.md has an example of each kind"


@dataclass(frozen=True, slots=True)
class Common:
    """What every door has."""

    start: str = option(
        "new",
        "where to start: at readings stored from now on, or at the beginning of the vault",
        "all",
        choices=("new", "all"),
    )
    backlog_seconds: float = option(
        300.0, "age at which a forwarded reading is marked as backlog", 60.0, "s", 1, 31_536_000
    )
    interval_seconds: float = option(2.0, "time between checks for new readings", 30.0, "s", 0.1, 3_600)


@dataclass(frozen=True, slots=True)
class Webhook:
    """Batches as JSON, posted to a URL."""

    url: str = option("", "URL to post batches to", "https://example.org/readings", "", None, 2_048)
    token_file: str = option(
        "", "file with a bearer token, mode 0600; relative to the state folder; empty: none", "/etc/covey/cloud.token"
    )
    secret_file: str = option(
        "",
        "file with the secret that signs batches, mode 0600; empty: not signed",
        "/etc/covey/cloud.secret",
    )
    ca_file: str = option("", "file with trusted CA certificates; empty: the system's", "/etc/covey/cloud-ca.pem")


@dataclass(frozen=True, slots=True)
class HomeAssistant:
    """Last values as entities of Home Assistant, by the discovery of its MQTT integration."""

    url: str = option(
        "",
        "its broker: mqtts://[user@]host[:port], or mqtt:// on private networks",
        "mqtts://covey@hub.local",
        "",
        None,
        2_048,
    )
    password_file: str = option(
        "",
        "file with the user's password, mode 0600; relative to the state folder",
        "/etc/covey/home-assistant.password",
    )
    ca_file: str = option("", "file with trusted CA certificates; empty: the system's", "/etc/covey/home-ca.pem")
    history_url: str = option(
        "",
        "Home Assistant itself, to import late readings: https://host, or http:// on private networks",
        "https://homeassistant.local:8123",
        "",
        None,
        2_048,
    )
    token_file: str = option(
        "",
        "file with a long-lived token of an administrator, mode 0600; relative to the state folder",
        "/etc/covey/home-assistant.token",
    )
    discovery_prefix: str = option(
        "homeassistant", "discovery prefix configured in Home Assistant", "homeassistant", "", None, 64
    )


@dataclass(frozen=True, slots=True)
class Otlp:
    """Readings as gauges to what takes OTLP/HTTP: an OpenTelemetry collector, or a store's receiver."""

    url: str = option("", "endpoint; without a path, /v1/metrics is used", "http://localhost:4318", "", None, 2_048)
    token_file: str = option(
        "", "file with a bearer token, mode 0600; relative to the state folder; empty: none", "/etc/covey/otlp.token"
    )
    ca_file: str = option("", "file with trusted CA certificates; empty: the system's", "/etc/covey/otlp-ca.pem")


@dataclass(frozen=True, slots=True)
class DoorEntry:
    """One door as configured. `options` are its kind's settings."""

    name: str
    kind: str
    common: Common
    options: Any


@dataclass(frozen=True, slots=True)
class DoorKind(EntryKind):
    """A kind of door: `opens` takes an `adapters.doors.kinds.DoorOpening` and returns a `Door`.

    `title` is its column in docs/reference/doors.md, `schemes` are what its `url` begins with; none: it has no address.
    """

    title: str
    schemes: tuple[str, ...] = ()
    history: str = ""
    """Opens what imports hours with late readings, a `adapters.doors.kinds.LateImport`, or returns None."""


_HTTP = ("http", "https")
KINDS: dict[str, DoorKind] = {
    "webhook": DoorKind(Webhook, "covey.adapters.doors.webhook:from_entry", "webhook", _HTTP),
    "home-assistant": DoorKind(
        HomeAssistant,
        "covey.adapters.doors.home_assistant:from_entry",
        "Home Assistant",
        ("mqtt", "mqtts"),
        "covey.adapters.doors.home_assistant_history:from_entry",
    ),
    "otlp": DoorKind(Otlp, "covey.adapters.doors.otlp:from_entry", "OTLP", _HTTP),
}
"""Every kind of door that Covey brings."""


def read_doors(tables: Iterable[tuple[str, Mapping[str, Any]]]) -> tuple[DoorEntry, ...]:
    """Read entries, each with where it stands.

    Raises:
        ConfigurationError: an unknown or missing key, a value that is none of its, or a name that is taken.
    """
    entries = ((where, _entry(table, where)) for where, table in tables)
    named = ((where, entry.name, entry) for where, entry in entries)
    return unique_entries("door", named, MAXIMUM_DOORS, "have one receiver pass readings on to others")


def _entry(table: Mapping[str, Any], where: str) -> DoorEntry:
    name, kind = entry_name(table, "door", where, _HINT), table.get("kind")
    where = f"{where}: door {name}"
    known = KINDS.get(kind) if isinstance(kind, str) else None
    if known is None and not (isinstance(kind, str) and kind in packaged_kinds(DOORS)):
        raise ConfigurationError(
            f"{where}: kind must be one of {', '.join(KINDS)}, or one of an installed package", hint=_HINT
        )
    about_all = {key: value for key, value in table.items() if key in Common.__dataclass_fields__}
    own = {key: value for key, value in table.items() if key not in {"name", "kind", *about_all}}
    options = PackagedOptions(own) if known is None else door_options(known, own, where)
    assert isinstance(kind, str)
    return DoorEntry(name, kind, table_of(Common, about_all, where), options)


def door_options(kind: DoorKind, own: Mapping[str, Any], where: str) -> Any:
    """Return what an entry says beyond what all doors have, as its kind's settings.

    Raises:
        ConfigurationError: a key or value that is none of them, or no address where the kind has one.
    """
    options = table_of(kind.settings, own, where)
    if kind.schemes and not options.url:
        raise ConfigurationError(f"{where}: url is missing", hint=_HINT)
    if kind.schemes and options.url.partition("://")[0] not in kind.schemes:
        raise ConfigurationError(
            f"{where}: url must begin with {' or '.join(f'{each}://' for each in kind.schemes)}", hint=_HINT
        )
    if isinstance(options, HomeAssistant) and bool(options.history_url) != bool(options.token_file):
        raise ConfigurationError(
            f"{where}: history_url needs token_file, and the other way round",
            hint='history_url = "https://homeassistant.local:8123", token_file = "home-assistant.token"',
        )
    return options
