"""Configuration as it is written: TOML files and the environment into `config.py`'s settings, and back into a file.

1. Later sources win: defaults, `config.toml`, further files and `conf.d/*.toml` in the order given, the environment.
2. A section of the environment's names is ours as soon as its prefix is: `COVEY_RELAY_URLL` is a mistake, not somebody
   else's variable.
3. A file that is changed keeps its comments, and everything else that somebody wrote into it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from covey.config.settings import SECTIONS, Config, Setting, Value, nearest, setting, settings, toml_value
from covey.errors import ConfigurationError


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


def read_configuration(files: Sequence[Path], environment: Mapping[str, str]) -> Configuration:
    """Read and check the files, later ones over earlier ones, and the environment over them all.

    Raises:
        ConfigurationError: unreadable, not TOML, an unknown key, or a value of the wrong type or out of bounds.
    """
    values: dict[str, Value] = {}
    origins: dict[str, str] = {}
    for path in files:
        for key, value in parse(read_text(path), str(path)).items():
            values[key] = value
            origins[key] = str(path)
    for name, text in environment.items():
        if (found := _variable(name)) is not None:
            values[found.key] = found.read(text, f"${name}")
            origins[found.key] = f"${name}"
    return Configuration(_config(values), origins)


def read_text(path: Path) -> str:
    """Return a configuration file's text.

    Raises:
        ConfigurationError: it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ConfigurationError(f"{path} does not exist", hint="run 'covey init' first, or name --state") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from error


def parse(text: str, where: str) -> dict[str, Value]:
    """Return the settings that a file names, checked.

    Raises:
        ConfigurationError: as `read_configuration`.
    """
    import tomllib

    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{where}: {error}") from error
    values: dict[str, Value] = {}
    for name, value in content.items():
        if name in SECTIONS and not isinstance(value, dict):
            raise ConfigurationError(f"{where}: [{name}] must be a section")
        if isinstance(value, dict) and name not in SECTIONS:
            near = nearest(name, SECTIONS, 1)
            hint = f"did you mean '[{near[0]}]'?" if near else f"known: {', '.join(SECTIONS)}"
            raise ConfigurationError(f"{where}: [{name}] is not a section", hint=hint)
        for key, inner in (
            {f"{name}.{inner}": value[inner] for inner in value} if isinstance(value, dict) else {name: value}
        ).items():
            values[key] = setting(key, f"{where}: ").check(inner, f"{where}: {key}")
    return values


def _variable(name: str) -> Setting | None:
    """Return the setting that an environment variable overrides; None for one that is not ours.

    Raises:
        ConfigurationError: its prefix is that of a section, and no setting has the name.
    """
    known = {each.variable: each for each in settings().values()}
    if name in known or not name.startswith(tuple(f"COVEY_{section.upper()}_" for section in SECTIONS)):
        return known.get(name)
    if re.search("PASSWORD|SECRET|KEY", name):
        raise ConfigurationError(
            f"${name} is not a setting: secrets never stand in the environment",
            hint="covey relay --password-file FILE, or systemd's LoadCredential=covey.relay-password",
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

    Raises:
        ConfigurationError: no such setting, a wrong value, or the file is written in a way that this cannot change.
    """
    wanted = parse(text, "config.toml")
    wanted.pop(key, None)
    if value is not None:
        wanted[key] = setting(key).check(value, key)
    lines = text.splitlines()
    start, end = _section_lines(lines, key.rpartition(".")[0])
    line = _line(setting(key), value)
    name = re.escape(key.rpartition(".")[2])
    for pattern in (rf"\s*{name}\s*=", rf"#\s*{name}\s*="):  # what holds, or else the default that is shown
        place = next((each for each in range(start, end) if re.match(pattern, lines[each])), None)
        if place is not None:
            lines[place] = line
            break
    else:
        lines.insert(end, line)
    changed = "\n".join(lines) + "\n"
    try:
        right = parse(changed, "config.toml") == wanted
    except ConfigurationError:
        right = False
    if not right:
        raise ConfigurationError(f"the line of {key} in config.toml is not a simple one", hint="change it by hand")
    return changed


def _section_lines(lines: list[str], section: str) -> tuple[int, int]:
    """Return where a section's lines are; one that is not there is begun at the end."""
    heads = [place for place, line in enumerate(lines) if re.match(r"\s*\[", line)]
    if not section:
        start, end = 0, heads[0] if heads else len(lines)
    else:
        head = next((place for place in heads if re.match(rf"\s*\[\s*{section}\s*\]", lines[place])), None)
        if head is None:
            lines += ["", f"[{section}]"]
            head = len(lines) - 1
        start, end = head + 1, next((place for place in heads if place > head), len(lines))
    while end > start and not lines[end - 1].strip():
        end -= 1
    return start, end


def _line(about: Setting, value: Value | None) -> str:
    name = about.key.rpartition(".")[2]
    return f"# {name} = {toml_value(about.default)}" if value is None else f"{name} = {toml_value(value)}"
