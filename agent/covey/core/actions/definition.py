"""An owner's definition of an action, and how arguments become its command line and input (docs/how-to/orders.md).

1. A command line is a list of words; no shell reads it. `{name}` in a word, or in the text for the program's standard
   input, is replaced by an argument. Replaced text is not searched for further names.
2. Every defined argument must be given, and no other.
3. An argument is an integer within bounds, one of a list of texts, or a text of allowed characters, none of which is a
   control character. Checking a value takes time linear in its length.
4. A text does not begin with `-`, so that it cannot become an option, unless the owner allows it.
5. The definition, not an argument, says what a program may do beyond its command line if it has a unit of its own.
6. The program gets a secret argument only by its standard input, because other users of the machine can read command
   lines.
7. An installer (`installing.py`) takes the group and the file that an operator names, and no other argument; one word
   after its command line names the step to perform.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from covey.core.actions.results import ARGUMENTS, NOT_SECRET
from covey.errors import ActionError
from covey.limits.actions import MAXIMUM_ACTION_FILE_BYTES, MAXIMUM_ACTION_INPUT_BYTES, MAXIMUM_ACTION_OUTPUT_BYTES
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

INSTALLER_ARGUMENTS: Mapping[str, Shape] = {name: LimitedText(64, "0123456789abcdef") for name in ("group", "file")}
"""What an operator gives an installer: the ids of a group, and of the operation that offers the file there, in hex."""


@dataclass(frozen=True, slots=True)
class ProgramBounds:
    """What a program may take: microseconds, bytes of address space for each process, bytes of output that are kept,
    bytes of each file that it writes."""

    time_us: int = 60_000_000
    memory_bytes: int = 256 * MIB
    output_bytes: int = MAXIMUM_ACTION_OUTPUT_BYTES
    file_bytes: int = MAXIMUM_ACTION_FILE_BYTES


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
    """What an action ends in addition to its program: after the restart the device knows that it was done."""

    NOTHING = ""
    AGENT = "agent"
    MACHINE = "machine"


@dataclass(frozen=True, slots=True)
class Invocation:
    """An action that is to be done: with what arguments, as which command line, and what its program reads."""

    action: str
    arguments: Mapping[str, str] = field(repr=False)
    argv: tuple[str, ...] = field(repr=False)
    bounds: ProgramBounds
    rights: UnitRights = UnitRights()
    ends: Ends = Ends.NOTHING
    stdin: bytes = field(default=b"", repr=False)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The arguments that are never shown, nor kept."""
    stdin_path: str = ""
    """The file that it reads in the place of `stdin`; "": none."""
    step: str = ""
    """What an installer is to do; "": it is none."""


MOVE_ACTION = "move-group"
"""The action by which operators move devices to another group, as an order names it."""

MOVE = ("agent", "move")
"""How the command line of the action begins that moves a device to another group (`moving.py`)."""


@dataclass(frozen=True, slots=True)
class ActionDefinition:
    """An action as the device's owner defines it; `idempotent`: doing it twice is as good as once.

    `trial_us` makes it an installer: so long has what it installs to prove itself, in microseconds. `when` is the
    command line that says whether this is the moment to install; (): any moment is.
    """

    name: str
    summary: str
    argv: tuple[str, ...]
    arguments: Mapping[str, Shape] = field(default_factory=dict)
    idempotent: bool = False
    ends: Ends = Ends.NOTHING
    bounds: ProgramBounds = ProgramBounds()
    rights: UnitRights = UnitRights()
    stdin: str = ""
    trial_us: int | None = None
    when: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether it moves the device to another group."""
        return self.argv[: len(MOVE)] == MOVE

    def installer_invocation(self, word: str) -> Invocation:
        """Return what is to be run where an installer is to do what a word says."""
        return Invocation(self.name, {}, (*self.argv, word), self.bounds, self.rights, step=word)

    def when_invocation(self, step: str) -> Invocation:
        """Return what is to be run to find out whether an installer may begin."""
        return Invocation(self.name, {}, self.when, self.bounds, self.rights, step=step)

    def invocation(self, given: Mapping[str, str], secrets: Mapping[str, str]) -> Invocation:
        """Return what is to be run with these arguments, some of them secret.

        Raises:
            ActionError: they are not those that it takes, or of another shape; or its command line has a secret one.
        """
        every = {**given, **secrets}
        self._check(every, given.keys() & secrets.keys(), secrets)
        argv = tuple(_filled(word, given) for word in self.argv)
        stdin = _filled(self.stdin, every).encode()
        if len(stdin) > MAXIMUM_ACTION_INPUT_BYTES:
            raise ActionError(f"{self.name} reads at most {MAXIMUM_ACTION_INPUT_BYTES:,} bytes of input", ARGUMENTS)
        return Invocation(self.name, given, argv, self.bounds, self.rights, self.ends, stdin, secrets)

    def _check(self, every: Mapping[str, str], twice: Collection[str], secrets: Collection[str]) -> None:
        missing, unknown = sorted({*self.arguments} - {*every}), sorted({*every} - {*self.arguments})
        if missing or unknown:
            further = "secret argument of another name" if {*unknown} & {*secrets} else next(iter(unknown), "")
            which = f"needs {missing[0]}" if missing else f"takes no {further}"
            raise ActionError(f"{self.name} {which}", ARGUMENTS, hint=f"its arguments: {self._takes()}")
        if secrets and self.trial_us is not None:
            raise ActionError(f"{self.name} does not accept secret arguments", ARGUMENTS)
        if twice:
            raise ActionError(f"{self.name}: {min(twice)} is given both openly and as a secret", ARGUMENTS)
        for name in sorted(secrets):
            if any(f"{{{name}}}" in word for word in self.argv):
                shown = f"{name} is on its command line, which other users of the device can read: not secret"
                raise ActionError(
                    f"{self.name}: {shown}", NOT_SECRET, hint="only the `input` of its definition can be secret"
                )
        for name, value in every.items():
            if why := self.arguments[name].objection(value):
                raise ActionError(f"{self.name}: {name} {why}", ARGUMENTS)

    def _takes(self) -> str:
        return ", ".join(self.arguments) or "none"


def _filled(text: str, arguments: Mapping[str, str]) -> str:
    return PLACEHOLDER.sub(lambda found: arguments[found[1]], text)
