"""Names of readings made from foreign names: files of the kernel, topics, tags, keys of a document.

A name is segments joined by "/", in the characters of SenML (RFC 8428, section 4.5.1): `A-Z a-z 0-9 - : . / _`,
beginning with a letter or digit. Any text becomes a segment and can be recovered, so two different texts never become
one name (docs/protocol/core.md, section 11, "Escaped names"):

1. A run of other characters becomes `_x`, its UTF-8 in upper-case hex, and `_`: `Küche` is `K_xC3BC_che`. The empty
   text is `_x0_`.
2. A `_` that would read as the beginning of an escape is escaped itself: `a_x25_` is `a_x5F_x25_`.
3. At the very beginning of a name the first `_` of an escape is omitted, since a name begins with a letter or digit:
   `°C` is `xC2B0_C`. So there `-`, `:`, `.` and `_` are escaped, and an `x` that would read as an escape.

`shown` reverses this for people. A name that no text produces, such as one chosen by a program, is shown unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from covey.errors import ReadingError
from covey.limits.telemetry import MAXIMUM_NAME_BYTES

SENSOR_CONDITION = "sensor "
"""How the name of a condition begins that says how a sensor is."""

NO_READING_YET = "no reading yet"
"""The state of a sensor that is open and has not measured: it is not up."""

SENSOR_READ = "sensor-read "
"""How the name of a condition begins that says when readings of a sensor were committed last."""

SENSOR_DROPPED = "sensor-dropped "
"""How the name of a counter begins that counts what was dropped of a sensor; its name and a `drops.Drop` follow."""

_HEX = "(?:0|(?:[0-9A-F]{2})+)"
_escapes = re.compile(rf"(?:\A|_)x({_HEX})_").sub
_is_escaped = re.compile(rf"_x{_HEX}_").match
_begins_like_an_escape = re.compile(rf"x{_HEX}_").match
_begins_like_a_name = re.compile(r"[A-Za-z0-9]").match
_never_escaped = re.compile(r"[A-Za-z0-9\x00-\x1f\x7f]").search
_is_name = re.compile(rf"[A-Za-z0-9][A-Za-z0-9\-:./_]{{0,{MAXIMUM_NAME_BYTES - 1}}}").fullmatch


def _others_than(kept: str) -> re.Pattern[str]:
    """Return a pattern for what must be escaped: other characters, and a `_` that would begin an escape."""
    other = f"[^A-Za-z0-9{kept}]"
    return re.compile(f"{other}+|_(?=x{_HEX}(?:_|{other}))")


_to_escape = _others_than(r"\-:._")
_to_escape_with_colons = _others_than(r"\-._")


def segment(text: str, *, colons: bool = True) -> str:
    """Return any text as a segment of a name; without `colons`, those are escaped too.

    Bytes that are no UTF-8 come as Python's surrogate escapes.
    """
    other = _to_escape if colons else _to_escape_with_colons
    return other.sub(lambda found: _escape(found[0]), text) or "_x0_"


def name_of(segments: Iterable[str]) -> str:
    """Return the name that segments are, the first of them at its very beginning."""
    name = "/".join(segments)
    if _is_escaped(name):
        return name[1:]
    if not _begins_like_a_name(name) or _begins_like_an_escape(name):
        return _escape(name[0])[1:] + name[1:]
    return name


def below(base: str, name: str) -> str:
    """Return a name below another one; the empty name is that one itself.

    Raises:
        ReadingError: it has other characters than names have, or is too long.
    """
    found = f"{base}/{name}" if name else base
    if not _is_name(found):
        why = "is too long" if len(found) > MAXIMUM_NAME_BYTES else "has characters that no name has"
        raise ReadingError(f"{found[:MAXIMUM_NAME_BYTES]!r} cannot be the name of a reading: it {why}")
    return found


def shown(name: str) -> str:
    """Return a name as people read it, with the escaped text itself; it may hold any character (`ids.printable`)."""
    return _escapes(_unescaped, name) if "x" in name else name


def _unescaped(found: re.Match[str]) -> str:
    if found[1] == "0":
        return ""
    text = bytes.fromhex(found[1]).decode(errors="surrogateescape")
    # No letter or digit is escaped but a first x: whatever else looks like it is a name that somebody chose.
    return found[0] if _never_escaped(text) and not (text == "x" and not found.start()) else text


def _escape(text: str) -> str:
    return f"_x{text.encode(errors='surrogateescape').hex().upper()}_"
