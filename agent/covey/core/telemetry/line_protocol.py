r"""Readings from InfluxDB's line protocol, which Telegraf and many libraries write.

    weather,location=shed temp=21.5,raining=false 1790000000000000000

Rules, as in InfluxData's reference decoder (github.com/influxdata/line-protocol, `lineprotocol/decoder.go`):
    1. Measurement, tag keys, tag values and field keys are any text without control characters. A backslash is
       literal, except before `,`, space and, outside the measurement, `=`. Quotes have no special meaning there. No
       two tags of a line have the same key.
    2. A field is a float, an integer of 64 bits (`7i`, `7u`), a boolean, or a text in quotes, which may contain line
       ends; in it a backslash escapes only `\`, `"`, `n`, `r` and `t`.
    3. Spaces may surround a line and its parts; it ends with LF or CRLF. Empty lines and lines that begin with `#` are
       ignored.
    4. A line that breaks a rule gives no reading and is reported; reading continues after its first line end.

And Covey's own:
    5. Each field is a reading. Its name is the measurement, each tag as `key:value` in the order of the keys, and the
       field's key, joined by "/": `weather/location:shed/raining`. Characters that SenML names lack are escaped
       (`names.segment`), and so is a `:` in a tag's key: no two sets of tags have one name.
    6. A line without a time has none, and a later step stamps it. Times are rounded down to the microsecond. One
       before 1978, which SenML would treat as relative, is `times.UNUSABLE_US`.
    7. Integers from 2**61 on become the nearest double, as everywhere (docs/protocol/core.md, section 11).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from covey.core.now import ABSOLUTE_US
from covey.core.telemetry.batch import EXACT, WHOLE
from covey.core.telemetry.names import name_of, segment
from covey.core.telemetry.reading import Reading, Value
from covey.core.telemetry.times import UNUSABLE_US
from covey.errors import ReadingError
from covey.limits.telemetry import MAXIMUM_NAME_BYTES, MAXIMUM_TEXT_VALUE_BYTES

PRECISIONS = {"ns": (1, 1_000), "us": (1, 1), "ms": (1_000, 1), "s": (1_000_000, 1)}
"""What a time is multiplied with and divided by to be microseconds, by the name of its unit."""

_Match = Callable[[str, int], re.Match[str] | None]
_REASONS = 5
_SHOWN = 40
_TRUE, _FALSE = {"t", "T", "true", "True", "TRUE"}, {"f", "F", "false", "False", "FALSE"}

# Possessive, as a token is as long as it can be: hostile lines take time in proportion to their length.
_control = r"\x00-\x1f\x7f"
_measurement = re.compile(rf"(?:[^, \\{_control}]++|\\[, ]?+)++").match
_key = re.compile(rf"(?:[^,= \\{_control}]++|\\[,= ]?+)++").match
_text = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL).match
_plain_value = re.compile(r"[^, \r\n]*+").match
_spaces = re.compile(" *+").match
_line_end = re.compile(r"\r?\n|\r?\Z").match
_time = re.compile(r"-?0*[0-9]{1,24}(?=[ \r\n]|\Z)").match
_unescape_measurement = re.compile(r"\\([, ])").sub
_unescape_key = re.compile(r"\\([,= ])").sub
_unescape_text = re.compile(r"\\([\\\"nrt])").sub
_TEXT_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
_is_integer = re.compile(r"(-?0*[0-9]{1,20})i|(0*[0-9]{1,20})u").fullmatch
_is_float = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?").fullmatch


@dataclass(frozen=True, slots=True)
class Lines:
    """The content of some lines: their readings, and the first few errors of the others."""

    readings: tuple[Reading, ...]
    refused: int
    reasons: tuple[str, ...]


class _Point(NamedTuple):
    measurement: str
    tags: list[tuple[str, str]]
    fields: list[tuple[str, Value]]
    at_us: int | None


def read_lines(content: bytes, precision: str, *, below: bool = False) -> Lines:
    """Read lines of the protocol, whose times are in a unit of `PRECISIONS`; `below`: another name goes before theirs.

    Raises:
        ReadingError: an unknown unit.
    """
    if precision not in PRECISIONS:
        raise ReadingError(f"precision must be one of: {', '.join(PRECISIONS)}")
    text = content.decode(errors="surrogateescape")  # bytes that are not UTF-8 cost their own line alone
    readings: list[Reading] = []
    reasons: list[str] = []
    refused = at = 0
    while (at := _past_spaces(text, at)) < len(text):
        end = text.find("\n", at) + 1 or len(text)
        if text[at] == "#" or _line_end(text, at):
            at = end
            continue
        begin, at = at, end  # behind its first line end goes reading on, should it break a rule
        try:
            found, at = _line(text, begin, precision)
            readings += _readings(found, below=below)
        except ReadingError as error:
            refused += 1
            if len(reasons) < _REASONS:
                line = text[begin:end].rstrip("\r\n")[:_SHOWN].encode(errors="replace").decode()
                reasons.append(f"{line!r}: {error}")
    return Lines(tuple(readings), refused, tuple(reasons))


def _line(text: str, at: int, precision: str) -> tuple[_Point, int]:
    measurement, at = _token(_measurement, text, at, "a measurement")
    tags: list[tuple[str, str]] = []
    while text.startswith(",", at):
        key, at = _token(_key, text, at + 1, "the key of a tag")
        value, at = _token(_key, text, _after(text, at, "=", "the key of a tag"), "the value of a tag")
        tags.append((_unescape_key(r"\1", key), _unescape_key(r"\1", value)))
    if len({key for key, _ in tags}) < len(tags):
        raise ReadingError("two tags have the same key")
    at = _past_spaces(text, _after(text, at, " ", "the tags" if tags else "the measurement"))
    fields, at = _fields(text, at)
    at_us = None
    ended = _line_end(text, at)
    if not ended and (found := _time(text, at)):
        at_us = _microseconds(int(found[0]), precision)
        at = _past_spaces(text, found.end())
        ended = _line_end(text, at)
    if not ended:
        raise ReadingError("only a timestamp (an integer) may follow the fields")
    return _Point(_unescape_measurement(r"\1", measurement), sorted(tags), fields, at_us), ended.end()


def _readings(point: _Point, *, below: bool) -> list[Reading]:
    tags = [f"{segment(key, colons=False)}:{segment(value)}" for key, value in point.tags]
    found = []
    for key, value in point.fields:
        parts = [segment(point.measurement), *tags, segment(key)]
        name = "/".join(parts) if below else name_of(parts)
        if len(name) > MAXIMUM_NAME_BYTES:
            raise ReadingError(f"measurement, tags and field make a name of more than {MAXIMUM_NAME_BYTES} characters")
        found.append(Reading(name, "", point.at_us, value))
    return found


def _fields(text: str, at: int) -> tuple[list[tuple[str, Value]], int]:
    fields: list[tuple[str, Value]] = []
    while True:
        key, at = _token(_key, text, at, "the key of a field")
        at = _after(text, at, "=", "the key of a field")
        value: Value
        if text.startswith('"', at):
            quoted = _text(text, at)
            if quoted is None:
                raise ReadingError("a text lacks its closing quote")
            value, at = _text_value(quoted[1]), quoted.end()
        else:
            found = _plain_value(text, at)
            assert found is not None
            value, at = _value(found[0]), found.end()
        fields.append((_unescape_key(r"\1", key), value))
        if not text.startswith(",", at):
            break
        at += 1
    if at < len(text) and text[at] not in " \r\n":
        raise ReadingError("a field must end with a comma or a space")
    return fields, _past_spaces(text, at)


def _past_spaces(text: str, at: int) -> int:
    found = _spaces(text, at)
    assert found is not None
    return found.end()


def _token(match: _Match, text: str, at: int, what: str) -> tuple[str, int]:
    found = match(text, at)
    if found is None:
        raise ReadingError(f"{what} is missing")
    if not found[0].isascii():
        try:
            found[0].encode()
        except UnicodeEncodeError:
            raise ReadingError(f"{what} is not UTF-8") from None
    return found[0], found.end()


def _after(text: str, at: int, wanted: str, what: str) -> int:
    if not text.startswith(wanted, at):
        raise ReadingError(f"{'a space' if wanted == ' ' else wanted} is missing after {what}")
    return at + 1


def _microseconds(time: int, precision: str) -> int:
    times, divided = PRECISIONS[precision]
    at_us = time * times // divided
    return at_us if at_us >= ABSOLUTE_US else UNUSABLE_US


def _text_value(quoted: str) -> str:
    text = _unescape_text(lambda found: _TEXT_ESCAPES.get(found[1], found[1]), quoted)
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ReadingError("a text is not UTF-8") from None
    if size > MAXIMUM_TEXT_VALUE_BYTES:
        raise ReadingError(f"a text value must have at most {MAXIMUM_TEXT_VALUE_BYTES} bytes")
    return text


def _value(text: str) -> Value:
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if whole := _is_integer(text):
        number = int(whole[1] or whole[2])
        if not (-(2**63) <= number < 2**63 if whole[1] else number < 2**64):
            raise ReadingError("an integer must fit into 64 bits")
        return number if EXACT <= abs(number) < WHOLE else float(number)
    if _is_float(text) and (decimal := float(text)) - decimal == 0:
        return decimal
    raise ReadingError("a field must be a number, a boolean, or a text in quotes")
