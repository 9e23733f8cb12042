"""`covey config get|set|unset|list|check`: every setting with what it means, and where its value comes from."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from covey.app.operations.settings import check_meaning, check_meanings
from covey.cli.device_options import state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.terminal import print_json
from covey.config.file import Configuration
from covey.config.settings import Setting, setting, settings, toml_value

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    get = actions.add("get", _get, "print one setting's value")
    get.add_argument("setting", metavar="SETTING", help="a setting, e.g. relay.url")
    set_ = actions.add("set", _set, "change a setting", examples=("covey config set telemetry.batch_seconds 10",))
    set_.add_argument("setting", metavar="SETTING", help="a setting, e.g. relay.url")
    set_.add_argument("value", metavar="VALUE", help="the new value, without TOML's quotes")
    unset = actions.add("unset", _unset, "give a setting its default again")
    unset.add_argument("setting", metavar="SETTING", help="a setting, e.g. relay.url")
    listing = actions.add("list", _list, "show all settings, what they mean, and where they are set", also=["ls"])
    listing.add_argument(
        "beginning", nargs="?", default="", metavar="SETTING", help="the beginning of a setting's name"
    )
    check = actions.add("check", _check, "look for mistakes in the configuration")
    for action in (get, listing, check):
        json_option(action)


def _get(options: argparse.Namespace) -> None:
    about = setting(options.setting)
    configuration = state_folder(options).configuration()
    if options.json:
        print_json(_described(configuration, about))
    else:
        value = configuration.value(about.key)
        print(value if isinstance(value, str) else toml_value(value))


def _list(options: argparse.Namespace) -> None:
    configuration = state_folder(options).configuration()
    found = [about for about in settings().values() if about.key.startswith(options.beginning)]
    if not found:
        setting(options.beginning)  # says what is meant
    if options.json:
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


def _set(options: argparse.Namespace) -> None:
    _change(state_folder(options), options.setting, options.value)


def _unset(options: argparse.Namespace) -> None:
    _change(state_folder(options), options.setting, None)


def _change(folder: StateFolder, key: str, text: str | None) -> None:
    """Write one setting, and say so where something above the file hides it."""
    about = setting(key)
    value = None if text is None else about.read(text, key)
    if key == "relay.also" and isinstance(value, tuple):
        for url in value:
            check_meaning("relay.url", url)
    elif value is not None:
        check_meaning(key, str(value))
    folder.change_config({key: value})
    configuration = folder.configuration()
    wanted = about.default if value is None else value
    if configuration.value(key) != wanted:
        print(f"warning: {configuration.origins[key]} overrides this value", file=sys.stderr)
    elif folder.agent_runs():
        print("restart the agent: it reads its configuration when it starts", file=sys.stderr)


def _check(options: argparse.Namespace) -> None:
    folder = state_folder(options)
    configuration = folder.configuration()
    check_meanings(configuration)
    files = [str(path) for path in folder.config_files()]
    if options.json:
        print_json({"files": files, "set": configuration.origins})
        return
    print(f"{', '.join(files)}: no mistakes")
    for key, origin in configuration.origins.items():
        print(f"  {key} = {toml_value(configuration.value(key))}  ({origin})")
