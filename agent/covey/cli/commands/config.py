"""`covey config get|set|unset|list|check`: every setting with its meaning and the origin of its value."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Collection
from dataclasses import asdict
from typing import TYPE_CHECKING

from covey.app.device.settings import change_setting, check_meanings, in_use
from covey.cli.device_options import ask_to_restart, state_folder
from covey.cli.grammar import Parser, json_option
from covey.cli.output.relay_warning import warn_of_exposure
from covey.cli.output.terminal import print_json
from covey.config.file import ORDERED_BY
from covey.config.settings import setting, settings, toml_value

if TYPE_CHECKING:
    from covey.adapters.state_folder import StateFolder


def add_arguments(parser: Parser) -> None:
    """Add this command's actions."""
    actions = parser.add_actions()
    get = actions.add("get", _get, "print one setting's value")
    get.add_argument("setting", metavar="SETTING", help="setting, e.g. relay.url")
    set_ = actions.add("set", _set, "change a setting", examples=("covey config set telemetry.batch_seconds 10",))
    set_.add_argument("setting", metavar="SETTING", help="setting, e.g. relay.url")
    set_.add_argument("value", metavar="VALUE", help="new value, without TOML quotes")
    unset = actions.add("unset", _unset, "reset a setting to its default")
    unset.add_argument("setting", metavar="SETTING", help="setting, e.g. relay.url")
    listing = actions.add("list", _list, "list all settings with meaning and origin", also=["ls"])
    listing.add_argument("beginning", nargs="?", default="", metavar="SETTING", help="start of a setting's name")
    check = actions.add("check", _check, "find mistakes in the configuration")
    for action in (get, listing, check):
        json_option(action)


def _get(options: argparse.Namespace) -> None:
    found = in_use(state_folder(options).configuration.read(), setting(options.setting))
    if options.json:
        print_json(asdict(found))
    else:
        print(found.value if isinstance(found.value, str) else toml_value(found.value))


def _list(options: argparse.Namespace) -> None:
    folder = state_folder(options)
    configuration = folder.configuration.read()
    named = [about for about in settings().values() if about.key.startswith(options.beginning)]
    found = [in_use(configuration, about) for about in named or [setting(options.beginning)]]
    if options.json:
        print_json([asdict(each) for each in found])
        return
    origin = _origin(folder, [each.origin for each in found])
    for each in found:
        unit = f" ({each.unit})" if each.unit else ""
        print(f"{each.key} = {toml_value(each.value)}")
        print(f"    {each.meaning}{unit}")
        values = f"default {toml_value(each.default)}, for example {toml_value(each.example)}"
        print(f"    {values}; set by: {origin(each.origin)}")


def _origin(folder: StateFolder, origins: Collection[str]) -> Callable[[str], str]:
    """Return the origin of a value; an operator's key is followed by its label."""
    if not any(each.startswith(ORDERED_BY) for each in origins):  # nothing is opened for it
        return str
    from covey.app.device.known_labels import namer_of

    named = namer_of(folder)
    return lambda origin: named(origin.removeprefix(ORDERED_BY)) if origin.startswith(ORDERED_BY) else origin


def _set(options: argparse.Namespace) -> None:
    _change(options, options.value)


def _unset(options: argparse.Namespace) -> None:
    _change(options, None)


def _change(options: argparse.Namespace, value: str | None) -> None:
    folder = state_folder(options)
    overridden_by = change_setting(folder, options.setting, value)
    if value and options.setting in {"relay.url", "relay.also"}:
        warn_of_exposure(value.split(","))
    if overridden_by:
        print(f"warning: {overridden_by} overrides this value", file=sys.stderr)
    else:
        ask_to_restart(folder, options.setting)


def _check(options: argparse.Namespace) -> None:
    folder = state_folder(options)
    configuration = folder.configuration.read()
    check_meanings(configuration)
    folder.configuration.sensors()
    files = [str(path) for path in folder.configuration.files()]
    if options.json:
        print_json({"files": files, "set": configuration.origins})
        return
    print(f"{', '.join(files)}: no mistakes")
    origin = _origin(folder, configuration.origins.values())
    for key, named in configuration.origins.items():
        print(f"  {key} = {toml_value(configuration.value(key))}  ({origin(named)})")
