"""What a kind of sensor or door has to define, and how an installed package adds one.

A kind is one entry of a table (`sensors.KINDS`, `doors.KINDS`): its settings, the function that opens it, its results.
Everything else reads the table: the check of a configuration, `covey sensor kinds`, `covey door kinds`, the tests that
compare docs/how-to/sensors.md and docs/reference/doors.md with it. A package adds one by an entry point that is such an
entry, in the group `covey.sensors` or `covey.doors`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, TypeGuard, TypeVar

from covey.errors import ConfigurationError

SENSORS, DOORS = "covey.sensors", "covey.doors"
"""Groups of entry points."""

_NAME = re.compile(r"[a-z0-9]([a-z0-9_-]{0,30}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class EntryKind:
    """What every kind has.

    `settings` is a dataclass of options (`tables.option`), whose docstring says what the kind is for. `opens` takes
    what is known of an entry and returns the sensor or door: a function, or as text `module:function`, which is
    imported where a configuration has the kind, and nowhere else.
    """

    settings: type
    opens: str | Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class PackagedOptions:
    """What an entry says whose kind a package brings, which is loaded and checks them where it is opened."""

    keys: Mapping[str, Any]


AnyKind = TypeVar("AnyKind", bound=EntryKind)
Entry = TypeVar("Entry")


def is_entry_name(name: object) -> TypeGuard[str]:
    """Say whether a value of a configuration is a name that an entry or a kind may have."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def entry_name(table: Mapping[str, Any], section: str, where: str, hint: str) -> str:
    """Return the name of an entry of a section, `sensor` or `door`.

    Raises:
        ConfigurationError: it has none that is allowed.
    """
    name = table.get("name")
    if not is_entry_name(name):
        raise ConfigurationError(
            f"{where}: [[{section}]]: name must be at most 32 lower-case letters and digits, with _ and - between them",
            hint=hint,
        )
    return name


def unique_entries(
    section: str, entries: Iterable[tuple[str, str, Entry]], maximum: int, hint: str
) -> tuple[Entry, ...]:
    """Return the entries of a section, each given with its place in the configuration and its name.

    Raises:
        ConfigurationError: two have one name, or there are more than `maximum`, which `hint` avoids.
    """
    found: dict[str, Entry] = {}
    for where, name, entry in entries:
        if name in found:
            raise ConfigurationError(f"{where}: two {section}s are named {name}", hint="give each its own name")
        found[name] = entry
    if len(found) > maximum:
        raise ConfigurationError(f"there are more than {maximum} {section}s", hint=hint)
    return tuple(found.values())


def packaged_kinds(group: str) -> list[str]:
    """Return the names of the kinds that installed packages bring; none of them is loaded."""
    from importlib.metadata import entry_points  # keeps 3 MB for good

    return [each.name for each in entry_points(group=group)]


def packaged_kind(group: str, name: str, expected: type[AnyKind]) -> AnyKind | None:
    """Load the kind of a package; None where no package that is installed has it. Packages raise what they like.

    Raises:
        TypeError: what the package has there is no such kind.
    """
    from importlib.metadata import entry_points

    for each in entry_points(group=group, name=name):
        found = each.load()
        if not isinstance(found, expected):
            raise TypeError(f"{each.value} is not a {expected.__name__}")
        return found
    return None


@dataclass(frozen=True, slots=True)
class ListedKind:
    """A kind that an entry may name, with what it may say: key, meaning, and what it is by itself."""

    kind: str
    about: str
    settings: tuple[tuple[str, str, str], ...]


def listed_kinds(kinds: Mapping[str, AnyKind], group: str) -> list[ListedKind]:
    """Return every kind, those of installed packages last; what these may say is known once one of them is opened."""
    found = []
    for name, kind in kinds.items():
        about = [(each.name, each.metadata.get("meaning", "tables"), each.default) for each in fields(kind.settings)]
        settings = tuple((key, meaning, repr(default)) for key, meaning, default in about)
        found.append(ListedKind(name, (kind.settings.__doc__ or "").partition("\n")[0], settings))
    return found + [ListedKind(each, f"of a package ({group})", ()) for each in packaged_kinds(group)]


def opener(kind: EntryKind) -> Callable[[Any], Any]:
    """Import what opens a kind."""
    return named_function(kind.opens) if isinstance(kind.opens, str) else kind.opens


def named_function(name: str) -> Callable[[Any], Any]:
    """Import a function, `MODULE:FUNCTION`."""
    module, _, function = name.partition(":")
    found: Callable[[Any], Any] = getattr(import_module(module), function)
    return found
