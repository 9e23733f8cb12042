"""`covey config get|set|unset|list|check`: every setting with what it means, and where its value comes from."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from covey.cli.device_options import state_folder
from covey.cli.terminal import print_json
from covey.config.file import Configuration
from covey.config.settings import Setting, setting, settings, toml_value
from covey.errors import UsageError

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder

_WORDS = {"get": 1, "set": 2, "unset": 1, "list": 0, "check": 0}
"""How many words follow an action; `list` takes the beginning of a key, too."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    parser.add_argument("action", choices=[*_WORDS])
    parser.add_argument("key", nargs="?", help="a setting, e.g. relay.url; for list, the beginning of one")
    parser.add_argument("value", nargs="?", help="set: the new value, without TOML's quotes")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Show, change or check the configuration."""
    words = [word for word in (options.key, options.value) if word is not None]
    if len(words) != _WORDS[options.action] and not (options.action == "list" and len(words) == 1):
        raise UsageError(
            f"covey config {options.action} takes {_WORDS[options.action]} words, not {len(words)}",
            hint="covey config get KEY, set KEY VALUE, unset KEY, list [KEY], check",
        )
    folder = state_folder(options)
    match options.action:
        case "get":
            _get(folder, setting(options.key), as_json=options.json)
        case "list":
            _list(folder, options.key or "", as_json=options.json)
        case "check":
            _check(folder, as_json=options.json)
        case _:
            _change(folder, options.key, options.value)
    return 0


def _get(folder: StateFolder, about: Setting, *, as_json: bool) -> None:
    configuration = folder.configuration()
    if as_json:
        print_json(_described(configuration, about))
    else:
        value = configuration.value(about.key)
        print(value if isinstance(value, str) else toml_value(value))


def _list(folder: StateFolder, prefix: str, *, as_json: bool) -> None:
    configuration = folder.configuration()
    found = [about for about in settings().values() if about.key.startswith(prefix)]
    if not found:
        setting(prefix)  # says what is meant
    if as_json:
        print_json([_described(configuration, about) for about in found])
        return
    for about in found:
        origin = configuration.origins.get(about.key, "default")
        unit = f" ({about.unit})" if about.unit else ""
        print(f"{about.key} = {toml_value(configuration.value(about.key))}")
        print(f"    {about.meaning}{unit}")
        print(f"    default {toml_value(about.default)}, for example {toml_value(about.example)}; set by: {origin}")


def _described(configuration: Configuration, about: Setting) -> dict[str, object]:
    return {
        "key": about.key,
        "value": configuration.value(about.key),
        "origin": configuration.origins.get(about.key, "default"),
        "default": about.default,
        "unit": about.unit,
        "meaning": about.meaning,
        "example": about.example,
        "minimum": about.low if not isinstance(about.default, str) else None,
        "maximum": about.high if not isinstance(about.default, str) else None,
        "variable": about.variable,
    }


def _change(folder: StateFolder, key: str, text: str | None) -> None:
    """Write one setting, and say so where something above the file hides it."""
    about = setting(key)
    value = None if text is None else about.read(text, key)
    if key == "relay.also" and isinstance(value, tuple):
        for url in value:
            _check_meaning("relay.url", url)
    elif value is not None:
        _check_meaning(key, str(value))
    folder.change_config({key: value})
    configuration = folder.configuration()
    wanted = about.default if value is None else value
    if configuration.value(key) != wanted:
        print(f"warning: {configuration.origins[key]} overrides this value", file=sys.stderr)
    elif folder.agent_runs():
        print("restart the agent: it reads its configuration when it starts", file=sys.stderr)


def _check(folder: StateFolder, *, as_json: bool) -> None:
    configuration = folder.configuration()
    check_meanings(configuration)
    files = [str(path) for path in folder.config_files()]
    if as_json:
        print_json({"files": files, "set": configuration.origins})
        return
    print(f"{', '.join(files)}: no mistakes")
    for key, origin in configuration.origins.items():
        print(f"  {key} = {toml_value(configuration.value(key))}  ({origin})")


def check_meanings(configuration: Configuration) -> None:
    """Check what types cannot say.

    Raises:
        ConfigurationError: a value is well formed and means nothing.
    """
    for key in ("relay.url", "relay.ca_file", "telemetry.group"):
        _check_meaning(key, str(configuration.value(key)))
    for url in configuration.config.relay.also:
        _check_meaning("relay.url", url)


def _check_meaning(key: str, value: str) -> None:
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
