"""Read TOML files and the environment into `config.py`'s settings, and write them back into a file.

1. Later sources win: defaults, `config.toml`, further files and `conf.d/*.toml` in the order given, operators' settings
   (`ordered.py`), the environment.
2. A section of the environment's names is ours as soon as its prefix is: `COVEY_RELAY_URLL` is a mistake, not somebody
   else's variable.
3. `[[sensor]]` and `[[door]]` are no settings: `sensors.py` and `doors.py` read them.
4. A file that is changed keeps its comments, and all other content.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covey.config.ordered import ordered_values
from covey.config.schema import SECTIONS, Config, Value
from covey.config.settings import Setting, nearest, setting, settings, toml_value, variables
from covey.errors import ConfigurationError

SENSORS, DOORS = "sensor", "door"
"""The tables of a file that are none of settings."""

ORDERED_BY = "set by "
"""How the origin of what an operator has set begins."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """What holds, and where each value that is not the default comes from."""

    config: Config
    origins: dict[str, str]

    def value(self, key: str) -> Value:
        """Return a setting's value."""
        section, _, name = key.rpartition(".")
        found: Value = getattr(getattr(self.config, section) if section else self.config, name)
        return found


def read_configuration(files: Sequence[Path], environment: Mapping[str, str], ordered: str = "") -> Configuration:
    """Read and check the files, later ones over earlier ones, and the environment over them all.

    `ordered` is the text of what operators have set.

    Raises:
        ConfigurationError: unreadable, not TOML, an unknown key, or a value of the wrong type or out of bounds.
    """
    values: dict[str, Value] = {}
    origins: dict[str, str] = {}
    for path in files:
        for key, value in parse(read_text(path), str(path)).items():
            values[key] = value
            origins[key] = str(path)
    named = [(found, name) for name in environment if (found := _variable(name)) is not None]
    spoken = {found.key: found.read(environment[name], f"${name}") for found, name in named}
    allow = _config(values | spoken).operations.settings
    for key, entry in ordered_values(ordered, allow).items():
        values[key] = entry.value
        origins[key] = f"{ORDERED_BY}{entry.by}"
    return Configuration(_config(values | spoken), origins | {found.key: f"${name}" for found, name in named})


def read_text(path: Path) -> str:
    """Return a configuration file's text.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{path} does not exist", hint="restore it from a backup, or create an empty file in its place"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error


def parse(text: str, where: str) -> dict[str, Value]:
    """Return the settings that a file names, checked.

    Raises:
        ConfigurationError: as `read_configuration`.
    """
    values: dict[str, Value] = {}
    for name, value in _content(text, where).items():
        if name in {SENSORS, DOORS} and isinstance(value, list):
            continue
        if name in SECTIONS and not isinstance(value, dict):
            raise ConfigurationError(f"{where}: [{name}] must be a section")
        if isinstance(value, dict) and name not in SECTIONS:
            near = nearest(name, SECTIONS, 1)
            hint = f"did you mean '[{near[0]}]'?" if near else f"known: {', '.join(SECTIONS)}"
            if name in {SENSORS, DOORS} and "kind" in value:
                hint = f"each {name} is a table of its own: [[{name}]]"
            raise ConfigurationError(f"{where}: [{name}] is not a section", hint=hint)
        for key, inner in (
            {f"{name}.{inner}": value[inner] for inner in value} if isinstance(value, dict) else {name: value}
        ).items():
            values[key] = setting(key, f"{where}: ").check(inner, f"{where}: {key}")
    return values


def sensor_tables(text: str, where: str) -> list[dict[str, Any]]:
    """Return the tables `[[sensor]]` of a file, unread.

    Raises:
        ConfigurationError: not TOML, or something else of that name.
    """
    found = _content(text, where).get(SENSORS, [])
    if not (isinstance(found, list) and all(isinstance(each, dict) for each in found)):
        raise ConfigurationError(
            f"{where}: sensors must be tables, [[sensor]]", hint="docs/how-to/sensors.md has examples"
        )
    return found


def door_tables(text: str, where: str) -> list[dict[str, Any]]:
    """Return the tables `[[door]]` of a file, unread.

    Raises:
        ConfigurationError: not TOML, or something else of that name.
    """
    found = _content(text, where).get(DOORS, [])
    if not (isinstance(found, list) and all(isinstance(each, dict) for each in found)):
        raise ConfigurationError(f"{where}: doors must be tables, [[door]]", hint="docs/how-to/forward.md has examples")
    return found


def _content(text: str, where: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{where}: {error}") from error


def _variable(name: str) -> Setting | None:
    """Return the setting that an environment variable overrides; None for one that is not ours.

    Raises:
        ConfigurationError: its prefix is that of a section, and no setting has the name.
    """
    known = variables()
    if name in known or not name.startswith(tuple(f"COVEY_{section.upper()}_" for section in SECTIONS)):
        return known.get(name)
    if re.search("PASSWORD|SECRET|KEY", name):
        raise ConfigurationError(
            f"${name} is not a setting: Covey reads no secrets from the environment",
            hint="covey relay set --password-file FILE, or systemd's LoadCredential=covey.relay-password",
        )
    near = nearest(name, known, 1)
    raise ConfigurationError(
        f"${name} is not a setting", hint=f"did you mean ${near[0]}?" if near else "'covey config list' shows all"
    )


def _config(values: Mapping[str, Value]) -> Config:
    parts: dict[str, Any] = {section: {} for section in SECTIONS}
    top: dict[str, Any] = {}
    for key, value in values.items():
        section, _, name = key.rpartition(".")
        (parts[section] if section else top)[name] = value
    return Config(**top, **{section: kind(**parts[section]) for section, kind in SECTIONS.items()})


# -- writing ----------------------------------------------------------------------------------------------------------


def config_text(values: Mapping[str, Value]) -> str:
    """Return a new file: every setting with its meaning; those that are not named stand as comments."""
    lines = ["# Covey's configuration. A line that begins with # shows the default. Restart the agent after a change."]
    section = None
    for each in settings().values():
        within = each.key.rpartition(".")[0]
        if within and within != section:
            lines += ["", f"[{within}]"]
        section = within
        lines += ["", f"# {each.meaning}{f' ({each.unit})' if each.unit else ''}", _line(each, values.get(each.key))]
    return "\n".join(lines) + "\n"


def changed_text(text: str, key: str, value: Value | None) -> str:
    """Return a file's text with one setting changed, or at its default again; everything else stays as it is.

    A line that shows the default is the one that changes, and a setting at its default is shown so again.

    Raises:
        ConfigurationError: no such setting, a wrong value, or a file that is none of ours.
    """
    import tomlkit
    from tomlkit.items import InlineTable

    parse(text, "config.toml")
    about = setting(key)
    section, _, name = key.rpartition(".")
    document = tomlkit.parse(text)
    if section and section not in document:
        if value is None:
            return text
        document[section] = tomlkit.table()
    table: Any = document[section] if section else document
    if value is not None:
        written = tomlkit.value(toml_value(about.check(value, key)))
        if name in table or isinstance(table, InlineTable) or not _show(table, about, (tomlkit.key(name), written)):
            table[name] = written
    elif name in table and (
        isinstance(table, InlineTable) or not _show(table, about, (None, tomlkit.comment(_line(about, None)[2:])))
    ):
        del table[name]
    return tomlkit.dumps(document)


def _show(table: Any, about: Setting, item: tuple[Any, Any]) -> bool:
    """Put an item in the line where a table has a setting, or shows its default; return False where it has no such."""
    from tomlkit.container import Container

    container = table if isinstance(table, Container) else table.value
    body = container.body if isinstance(container, Container) else []  # not of a table that stands in several parts
    name = about.key.rpartition(".")[2]
    shown = re.compile(rf"#\s*{re.escape(name)}\s*=")
    for place, (key, value) in enumerate(body):
        if key.key == name if key is not None else shown.match(value.as_string().strip()):
            body[place] = item
            return True
    return False


def _line(about: Setting, value: Value | None) -> str:
    name = about.key.rpartition(".")[2]
    return f"# {name} = {toml_value(about.default)}" if value is None else f"{name} = {toml_value(value)}"
