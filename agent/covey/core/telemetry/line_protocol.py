"""Readings out of InfluxDB's line protocol (version 2), in which Telegraf and many libraries write.

    weather,location=shed temp=21.5,raining=false 1790000000000000000

Rules:
    1. Each field of a line is a reading. Its name is the measurement, each tag as `key:value` in the order of the keys,
       and the field's key, with "/" between: `weather/location:shed/raining`. What SenML's names lack becomes "_".
    2. A field is a float, an integer (`7i`, `7u`), a boolean or a text.
    3. A line without a time has none, for whoever stamps it later. Times are rounded down to the microsecond.
    4. A line that breaks a rule gives no reading and is told; the others count.

Source: "Line protocol reference", InfluxDB OSS v2 documentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from covey.core.telemetry.batch import EXACT
from covey.core.telemetry.senml import Reading, Value
from covey.errors import ReadingError
from covey.limits.telemetry import MAXIMUM_NAME_BYTES, MAXIMUM_TEXT_VALUE_BYTES

PRECISIONS = {"ns": (1, 1_000), "us": (1, 1), "ms": (1_000, 1), "s": (1_000_000, 1)}
"""What a time is multiplied with and divided by to be microseconds, by the name of its unit."""

_REASONS = 5
_SHOWN = 40
_END_US = 253_402_300_800 * 1_000_000  # the year 10000
_TRUE, _FALSE = {"t", "T", "true", "True", "TRUE"}, {"f", "F", "false", "False", "FALSE"}

_not_in_names = re.compile(r"[^A-Za-z0-9\-:._]").sub
_unescape = re.compile(r"\\([,= ])").sub
_unescape_text = re.compile(r"\\([\"\\])").sub
_key = r"(?:\\[^\n]|[^\\,= \n])+"
_text = r"\"(?:\\.|[^\\\"])*\""
_value_of_field = rf"(?:{_text}|[^,\" \r\n]+)"
_match_line = re.compile(
    rf" *(?P<measurement>(?:\\[^\n]|[^\\, \n])+)(?P<tags>(?:,{_key}={_key})*) +"
    rf"(?P<fields>{_key}={_value_of_field}(?:,{_key}={_value_of_field})*)"
    r"(?: +(?P<time>-?[0-9]{1,19}))?[ \r]*(?:\n|\Z)",
    re.DOTALL,
).match
_tags = re.compile(rf",({_key})=({_key})", re.DOTALL).findall
_fields = re.compile(rf"({_key})=({_value_of_field})", re.DOTALL).findall
_is_integer = re.compile(r"(-?[0-9]{1,20})[iu]").fullmatch
_is_float = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch


@dataclass(frozen=True, slots=True)
class Lines:
    """What some lines say: their readings, and what is wrong with the others, of which the first few are told."""

    readings: tuple[Reading, ...]
    refused: int
    reasons: tuple[str, ...]


def read_lines(content: bytes, precision: str) -> Lines:
    """Read lines of the protocol, whose times are in a unit of `PRECISIONS`.

    Raises:
        ReadingError: no UTF-8, or an unknown unit.
    """
    if precision not in PRECISIONS:
        raise ReadingError(f"precision must be one of: {', '.join(PRECISIONS)}")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ReadingError("the lines are no UTF-8") from error
    readings: list[Reading] = []
    reasons: list[str] = []
    place = 0
    while place < len(text):
        end = text.find("\n", place) + 1 or len(text)
        line = text[place:end].strip(" \r\n")
        if line and not line.startswith("#"):
            found = _match_line(text, place)
            try:
                readings += _readings(found, precision)
            except ReadingError as error:
                reasons.append(f"{line[:_SHOWN]!r}: {error}")
            end = found.end() if found else end  # a text may hold line ends
        place = end
    return Lines(tuple(readings), len(reasons), tuple(reasons[:_REASONS]))


def _readings(found: re.Match[str] | None, precision: str) -> list[Reading]:
    if found is None:
        raise ReadingError("not a line of the protocol")
    tags = sorted((_plain(key), _plain(value)) for key, value in _tags(found["tags"]))
    prefix = "/".join([_segment(found["measurement"]), *(f"{_part(key)}:{_part(value)}" for key, value in tags)])
    at_us = None if found["time"] is None else _time(found["time"], precision)
    return [Reading(_name(prefix, key), "", at_us, _value(text)) for key, text in _fields(found["fields"])]


def _plain(text: str) -> str:
    return _unescape(r"\1", text)


def _part(text: str) -> str:
    return _not_in_names("_", text)


def _segment(text: str) -> str:
    return _part(_plain(text))


def _name(prefix: str, key: str) -> str:
    name = f"{prefix}/{_segment(key)}"
    if not name[0].isalnum() or len(name) > MAXIMUM_NAME_BYTES:
        raise ReadingError(f"a name begins with a letter or digit and has at most {MAXIMUM_NAME_BYTES} characters")
    return name


def _time(text: str, precision: str) -> int:
    times, divided = PRECISIONS[precision]
    at_us = int(text) * times // divided
    if not 0 <= at_us < _END_US:
        raise ReadingError("a time is from 1970 to the year 9999")
    return at_us


def _value(text: str) -> Value:
    if text.startswith('"'):
        inner = _unescape_text(r"\1", text[1:-1])
        if len(inner.encode()) > MAXIMUM_TEXT_VALUE_BYTES:
            raise ReadingError(f"a text value has at most {MAXIMUM_TEXT_VALUE_BYTES} bytes")
        return inner
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if whole := _is_integer(text):
        count = int(whole[1])
        return count if abs(count) >= EXACT else float(count)
    if _is_float(text) and (number := float(text)) - number == 0:
        return number
    raise ReadingError("a field is a number, a boolean, or a text in quotes")
