"""The settings that operators have given this device: a layer over its files, under the environment.

1. `operations.settings` lists by patterns which settings may be here. The owner's settings (`local`) never are.
2. Settings that are no longer allowed or valid are ignored: a device starts whatever is here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from covey.config.schema import Value
from covey.config.settings import setting, settings
from covey.errors import ConfigurationError

APPLICATION_PREFIX = "app."
"""Keys that are not Covey's, but the user's own programs'."""


@dataclass(frozen=True, slots=True)
class OrderedValue:
    """A value, and who gave it, as a person reads it."""

    value: Value
    by: str


def allowed(patterns: Iterable[str], key: str) -> bool:
    """Say whether a list of patterns lets operators set a key (rule 1)."""
    about = settings().get(key)
    return (about is None or not about.local) and any(fnmatchcase(key, pattern) for pattern in patterns)


def ordered_values(text: str, patterns: Iterable[str]) -> dict[str, OrderedValue]:
    """Return what of a layer's text holds (rule 2), by key."""
    try:
        content = json.loads(text)
    except ValueError:
        return {}
    patterns = tuple(patterns)
    found = {}
    for key, entry in content.items() if isinstance(content, dict) else ():
        if not isinstance(entry, dict) or key not in settings() or not allowed(patterns, key):
            continue
        try:
            found[key] = OrderedValue(setting(key).check(entry.get("value"), key), str(entry.get("by", "an operator")))
        except ConfigurationError:
            continue
    return found


def ordered_text(values: Mapping[str, OrderedValue]) -> str:
    """Return a layer as text; the same for the same values."""
    content = {key: {"by": values[key].by, "value": values[key].value} for key in sorted(values)}
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"
