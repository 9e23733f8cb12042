"""Names of readings that are made of what others call things: files of the kernel, topics, keys of a document.

A name is segments with "/" between them; what SenML's names lack (RFC 8428, section 4.5.1) becomes "_".
"""

from __future__ import annotations

import re

from covey.errors import ReadingError
from covey.limits.telemetry import MAXIMUM_NAME_BYTES

SENSOR_CONDITION = "sensor "
"""How the name of a condition begins that says how a sensor is."""

_not_in_names = re.compile(r"[^A-Za-z0-9\-:._]").sub
_is_name = re.compile(rf"[A-Za-z0-9][A-Za-z0-9\-:./_]{{0,{MAXIMUM_NAME_BYTES - 1}}}").fullmatch


def segment(text: str) -> str:
    """Make any text a segment of a name."""
    return _not_in_names("_", text.strip())


def below(base: str, name: str) -> str:
    """Return a name below another one; the empty name is that one itself.

    Raises:
        ReadingError: it has other characters than names have, or is too long.
    """
    found = f"{base}/{name}" if name else base
    if not _is_name(found):
        raise ReadingError(f"{found[:MAXIMUM_NAME_BYTES]!r} cannot be the name of a reading")
    return found
