"""What a device's owner defines as an action, and how arguments become its command line (docs/operations.md).

1. A command line is a list of words, never a text that a shell reads. `{name}` within a word stands for an argument;
   what an argument holds is not looked at for further ones.
2. Every argument that is defined is given, and no other.
3. An argument is a whole number between two, one of some texts, or a text of some characters, none of which is a
   control character. Whether a value is one is found in a time that grows with its length alone.
4. A text does not begin with `-`, so that nobody makes an option of it, unless the owner says that it may.
5. What a program may do beyond its command line, where it has a unit of its own, the definition says, and no argument.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from covey.core.actions.results import ARGUMENTS
from covey.errors import ActionError
from covey.limits.actions import MAXIMUM_ACTION_OUTPUT_BYTES
from covey.limits.units import MIB

PLACEHOLDER = re.compile(r"\{([a-z0-9][a-z0-9_-]*)\}")
_DIGITS = frozenset("0123456789")
_LONGEST_NUMBER = len("-9223372036854775808")


@dataclass(frozen=True, slots=True)
class Integer:
    """A whole number between two, both included, as everybody writes it: no spaces, no leading zeros, no plus."""

    low: int
    high: int

    def objection(self, value: str) -> str | None:
        """Return what a value has to be, where it is not."""
        digits = value.removeprefix("-")
        written = digits and len(value) <= _LONGEST_NUMBER and _DIGITS.issuperset(digits)
        if written and str(int(value)) == value and self.low <= int(value) <= self.high:
            return None
        return f"has to be a whole number between {self.low} and {self.high}"


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some texts."""

    values: tuple[str, ...]

    def objection(self, value: str) -> str | None:
        """Return what a value has to be, where it is not."""
        return None if value in self.values else f"has to be one of {', '.join(self.values)}"


@dataclass(frozen=True, slots=True)
class LimitedText:
    """Text of 1 to `maximum` characters, all of them among `characters`; `dash`: it may begin with one."""

    maximum: int
    characters: str
    dash: bool = False

    def objection(self, value: str) -> str | None:
        """Return what a value has to be, where it is not."""
        if not 1 <= len(value) <= self.maximum:
            return f"has to be of 1 to {self.maximum} characters"
        if not frozenset(self.characters).issuperset(value):
            return f"may hold only {self.characters}"
        return "may not begin with '-'" if value.startswith("-") and not self.dash else None


Shape: TypeAlias = Integer | Choice | LimitedText


@dataclass(frozen=True, slots=True)
class ProgramBounds:
    """What a program may take: microseconds, bytes of address space for each process, bytes of output that are kept."""

    time_us: int = 60_000_000
    memory_bytes: int = 256 * MIB
    output_bytes: int = MAXIMUM_ACTION_OUTPUT_BYTES


@dataclass(frozen=True, slots=True)
class UnitRights:
    """What an action's unit has beyond a user of its own, who exists while it runs and may write nothing."""

    user: str = ""
    """Whose rights it has; "": that user's of its own."""
    groups: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Paths."""
    devices: tuple[str, ...] = ()
    """Paths in /dev."""
    capabilities: tuple[str, ...] = ()
    network: bool = False


class Ends(Enum):
    """What an action ends, beside its program: whoever finds that again, started anew, knows that it was done."""

    NOTHING = ""
    AGENT = "agent"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class Invocation:
    """An action that is to be done: with what arguments, as which command line."""

    action: str
    arguments: Mapping[str, str] = field(repr=False)
    argv: tuple[str, ...] = field(repr=False)
    bounds: ProgramBounds
    rights: UnitRights = UnitRights()
    ends: Ends = Ends.NOTHING


@dataclass(frozen=True, slots=True)
class ActionDefinition:
    """An action as the device's owner defines it; `idempotent`: doing it twice is as good as once."""

    name: str
    summary: str
    argv: tuple[str, ...]
    arguments: Mapping[str, Shape] = field(default_factory=dict)
    idempotent: bool = False
    ends: Ends = Ends.NOTHING
    bounds: ProgramBounds = ProgramBounds()
    rights: UnitRights = UnitRights()

    def invocation(self, given: Mapping[str, str]) -> Invocation:
        """Return what is to be run with these arguments.

        Raises:
            ActionError: they are not those that it takes, or of another shape.
        """
        missing, unknown = sorted({*self.arguments} - {*given}), sorted({*given} - {*self.arguments})
        if missing or unknown:
            which = f"needs {missing[0]}" if missing else f"takes no {unknown[0]}"
            raise ActionError(f"{self.name} {which}", ARGUMENTS, hint=f"its arguments: {self._takes()}")
        for name, value in given.items():
            if why := self.arguments[name].objection(value):
                raise ActionError(f"{self.name}: {name} {why}", ARGUMENTS)
        argv = tuple(PLACEHOLDER.sub(lambda found: given[found[1]], word) for word in self.argv)
        return Invocation(self.name, given, argv, self.bounds, self.rights, self.ends)

    def _takes(self) -> str:
        return ", ".join(self.arguments) or "none"
