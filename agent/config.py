"""Configuration: one TOML file, read once into frozen dataclasses, checked before anything starts.

Every setting has its default, unit and meaning beside it. Unknown keys are refused with the nearest known name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from agent.core.limits import MAXIMUM_BATCH_READINGS, MIB, OUTBOX_BYTES, SEGMENT_US
from agent.errors import ConfigurationError


def _setting(default: Any, meaning: str, low: float | None = None, high: float | None = None) -> Any:
    """Declare a setting: its type is its default's."""
    return field(default=default, metadata={"meaning": meaning, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """[relay]: the MQTT broker."""

    url: str = _setting("", "mqtt://host:port or mqtts://host:port")
    password_file: str = _setting("relay.password", "file with this device's broker password, mode 0600")
    ca_file: str = _setting("", "PEM file of the authority that signed the broker's certificate; empty: the system's")


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """[telemetry]: how readings become messages."""

    group: str = _setting("", "group that telemetry goes to, as hex; empty: the first one with a collector")
    batch_seconds: float = _setting(60.0, "longest time that a reading waits for its batch", 0.1, 86_400)
    batch_readings: int = _setting(1_000, "most readings in one message", 1, MAXIMUM_BATCH_READINGS)


@dataclass(frozen=True, slots=True)
class SensorsConfig:
    """[sensors]: the machine's own sensors."""

    enabled: bool = _setting(True, "sample this machine's load, memory, disk, network and temperatures")
    interval_seconds: float = _setting(10.0, "time between two samples", 0.1, 86_400)


@dataclass(frozen=True, slots=True)
class OutboxConfig:
    """[outbox]: what waits for others."""

    maximum_bytes: int = _setting(OUTBOX_BYTES, "bytes of queued messages before new ones are refused", MIB)


@dataclass(frozen=True, slots=True)
class VaultConfig:
    """[vault]: where a collector lands telemetry."""

    folder: str = _setting("vault", "directory of the vault, relative to the state folder")
    segment_seconds: float = _setting(SEGMENT_US / 1e6, "age at which a segment is closed", 0.1, 3_600)


@dataclass(frozen=True, slots=True)
class Config:
    """The whole file."""

    label: str = _setting("", "a name for people, shown beside the device's own")
    relay: RelayConfig = field(default_factory=RelayConfig)
    telemetry: TelemetryConfig = field(default_factory=TelemetryConfig)
    sensors: SensorsConfig = field(default_factory=SensorsConfig)
    outbox: OutboxConfig = field(default_factory=OutboxConfig)
    vault: VaultConfig = field(default_factory=VaultConfig)


_SECTIONS: dict[str, type] = {
    "relay": RelayConfig,
    "telemetry": TelemetryConfig,
    "sensors": SensorsConfig,
    "outbox": OutboxConfig,
    "vault": VaultConfig,
}


def read_config(path: Path) -> Config:
    """Read and check a configuration file.

    Raises:
        ConfigurationError: unreadable, not TOML, an unknown key, or a value of the wrong type or out of bounds.
    """
    import tomllib

    try:
        content = tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        raise ConfigurationError(f"{path} does not exist", hint="run 'covey init' first, or name --state") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: {error}") from error
    return parse_config(content, str(path))


def parse_config(content: dict[str, Any], where: str) -> Config:
    """Check a parsed file.

    Raises:
        ConfigurationError: as `read_config`.
    """
    values: dict[str, Any] = {}
    for name, value in content.items():
        if name in _SECTIONS:
            if not isinstance(value, dict):
                raise ConfigurationError(f"{where}: [{name}] must be a section")
            values[name] = _section(_SECTIONS[name], value, f"{where}: {name}.")
        else:
            values[name] = value
    top = {name: value for name, value in values.items() if name not in _SECTIONS}
    checked = _check(Config, top, f"{where}: ", extra=list(_SECTIONS))
    return Config(**checked, **{name: value for name, value in values.items() if name in _SECTIONS})


def _section(kind: type, content: dict[str, Any], where: str) -> Any:
    return kind(**_check(kind, content, where))


def _check(kind: type, content: dict[str, Any], where: str, extra: list[str] | None = None) -> dict[str, Any]:
    known = {each.name: each for each in fields(kind)}
    checked = {}
    for name, value in content.items():
        setting = known.get(name)
        if setting is None:
            near = get_close_matches(name, [*known, *(extra or [])], 1)
            hint = f"did you mean '{near[0]}'?" if near else f"known here: {', '.join(known)}"
            raise ConfigurationError(f"{where}{name} is not a setting", hint=hint)
        checked[name] = _value(setting.default, setting.metadata, value, where + name)
    return checked


def _value(default: Any, metadata: Any, value: Any, where: str) -> Any:
    if type(default) is float and type(value) is int:
        value = float(value)
    if type(value) is not type(default):
        raise ConfigurationError(f"{where} must be {_TYPE_NAMES[type(default)]}", hint=metadata["meaning"])
    low, high = metadata["low"], metadata["high"]
    if (low is not None and value < low) or (high is not None and value > high):
        bounds = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ConfigurationError(f"{where} must be {bounds}", hint=metadata["meaning"])
    return value


_TYPE_NAMES = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


def config_text(config: Config) -> str:
    """Return the file that gives this configuration, each setting with its meaning."""
    lines = ["# Covey's configuration. Every setting, with its value; restart the agent after a change.", ""]
    lines += _setting_lines(config, [each for each in fields(Config) if each.name not in _SECTIONS])
    for name, kind in _SECTIONS.items():
        lines += ["", f"[{name}]", *_setting_lines(getattr(config, name), list(fields(kind)))]
    return "\n".join(lines) + "\n"


def _setting_lines(values: object, settings: list[Any]) -> list[str]:
    import json

    lines = []
    for setting in settings:
        value = getattr(values, setting.name)
        # A JSON string, number or boolean is the same in TOML, except for characters beyond the BMP and DEL.
        lines.append(f"# {setting.metadata['meaning']}")
        lines.append(f"{setting.name} = {json.dumps(value, ensure_ascii=False).replace(chr(0x7F), '')}")
    return lines
