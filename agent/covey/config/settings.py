"""The settings, checked before anything starts. `file.py` reads and writes them.

1. The dataclasses of `schema.py` are the one schema: files, `covey config`, error messages and the manual use it.
2. An unknown key is refused with the nearest known name, in whichever file.
3. No setting is a secret. Passwords and keys are separate files; the environment never carries one.
4. Only its owner sets a `local` setting, whatever `operations.settings` allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cache

from covey.config.schema import SECTIONS, Config, Value
from covey.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of one key."""

    key: str
    default: Value
    meaning: str
    example: Value
    unit: str
    low: float | None
    high: float | None
    local: bool
    choices: tuple[str, ...]
    means: Callable[[str], object] | None = None
    """Raises `ConfigurationError` for a text, or one of a list, that means nothing."""

    @property
    def variable(self) -> str:
        """The environment variable that overrides it."""
        return "COVEY_" + self.key.upper().replace(".", "_")

    def check(self, value: object, where: str) -> Value:
        """Return the value as this setting's type.

        Raises:
            ConfigurationError: another type, or out of bounds.
        """
        kind = type(self.default)
        if kind is float and type(value) is int:
            value = float(value)
        if kind is tuple and type(value) is list:
            value = tuple(value)
        if type(value) is not kind or (isinstance(value, tuple) and not all(type(each) is str for each in value)):
            raise ConfigurationError(f"{where} must be {_TYPE_NAMES[kind]}", hint=self.hint)
        assert isinstance(value, str | bool | int | float | tuple)
        if self.choices and value not in self.choices:
            raise ConfigurationError(f"{where} must be one of: {', '.join(self.choices)}", hint=self.hint)
        size = len(value.encode()) if isinstance(value, str) else len(value) if isinstance(value, tuple) else value
        within = (self.low is None or size >= self.low) and (self.high is None or size <= self.high)
        if not within:  # nan is neither below nor above
            if isinstance(value, str):
                bounds = f"at most {self.high} bytes"
            elif isinstance(value, tuple):
                bounds = f"at most {self.high}"
            else:
                bounds = f"at least {self.low}" if self.high is None else f"between {self.low} and {self.high}"
            raise ConfigurationError(f"{where} must be {bounds}", hint=self.hint)
        if self.means is not None:
            for each in value if isinstance(value, tuple) else (str(value),):
                self.means(each)
        return value

    def read(self, text: str, where: str) -> Value:
        """Return a value that was written without TOML's quotes: on a command line, in the environment.

        Raises:
            ConfigurationError: as `check`.
        """
        kind = type(self.default)
        value: object = text
        try:
            if kind is bool:
                value = {"true": True, "false": False}[text]
            elif kind in {int, float}:
                value = kind(text)
            elif kind is tuple:
                value = tuple(part.strip() for part in text.split(",") if part.strip())
        except (ValueError, KeyError):
            value = None
        return self.check(value, where)

    @property
    def hint(self) -> str:
        """The meaning with an example, for who got it wrong."""
        return f"{self.meaning}; for example {toml_value(self.example)}"


_TYPE_NAMES = {str: "text", bool: "true or false", int: "a whole number", float: "a number", tuple: "a list of texts"}


@cache
def settings() -> dict[str, Setting]:
    """Return every setting by its key, in the order of the schema."""
    found = {}
    for section, kind in {"": Config, **SECTIONS}.items():
        for each in fields(kind):
            if each.name not in SECTIONS:
                key = f"{section}.{each.name}".lstrip(".")
                about = each.metadata
                low, high = about["bounds"]
                found[key] = Setting(
                    key,
                    about["default"],
                    about["meaning"],
                    about["example"],
                    about["unit"],
                    low,
                    high,
                    local=about["local"],
                    choices=about["choices"],
                    means=about["check"],
                )
    return found


@cache
def variables() -> dict[str, Setting]:
    """Return every setting by the environment variable that overrides it."""
    return {each.variable: each for each in settings().values()}


def setting(key: str, where: str = "") -> Setting:
    """Return what is known of a key.

    Raises:
        ConfigurationError: there is no such setting; the hint names the nearest.
    """
    known = settings()
    if key not in known:
        section, _, name = key.rpartition(".")
        beside = {each.rpartition(".")[2]: each for each in known if each.rpartition(".")[0] == section}
        near = [beside[each] for each in nearest(name, beside, 1)] if section else []
        near = near or nearest(key, known, 1, 0.75)
        hint = f"known here: {', '.join(beside.values())}" if section and beside else "'covey config list' shows all"
        hint = f"did you mean '{near[0]}'?" if near else hint
        raise ConfigurationError(f"{where}{key} is not a setting", hint=hint)
    return known[key]


def toml_value(value: Value) -> str:
    """Return a value as TOML writes it."""
    import json

    # A JSON string, number, boolean or array of strings is the same in TOML, except for DEL.
    return json.dumps(value, ensure_ascii=False).replace(chr(0x7F), "\\u007f")


def nearest(name: str, known: Iterable[str], most: int, alike: float = 0.6) -> list[str]:
    """Return known names that somebody who wrote this one may have meant."""
    from difflib import get_close_matches

    return get_close_matches(name, list(known), most, alike)
