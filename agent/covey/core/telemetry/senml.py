"""Readings out of SenML (RFC 8428), as JSON and as CBOR: what a sensor said, resolved and checked.

Rules:
    1. A record's base fields hold for it and for the records after it in the same pack (section 4.1), until they are
       set again. A record of base fields only sets them and gives no reading. In NDJSON each line
       stands alone.
    2. Names are checked after the base name is put before them: section 4.5.1's characters, a letter or digit
       first, at most MAXIMUM_NAME_BYTES.
    3. A time (base and own, added) below 2**28 seconds counts from `now` (section 4.5.3). Where `now` is None,
       "about now" stays None, and a later step stamps it; any other relative time is refused. A time before 1970 or
       after 9999, as Unix milliseconds are, is `times.UNUSABLE_US`, and so is one that is no number, as text is: it
       must not cost the value.
    4. Times are added as whole microseconds, never as floats. A JSON number or double is exact to the
       microsecond until the year 2242.
    5. A record has exactly one value: v, vs, vb or vd. Numbers are finite doubles, or whole and below
       2**61; a base value is added to v.
    6. Sums (s, bs) are refused: a reading has no place for them, and to drop one silently would lose data.
    7. Fields unknown to us are ignored, unless their label ends with "_" (section 4.4). The update time (ut)
       promises a later record; it is not kept.
    8. A version (bver) above 10 is refused, and so is a pack with two versions (section 4.4).

Left to others: how readings become batches (`telemetry`), and how long a text or line may be (the caller).
"""

from __future__ import annotations

import json
import re
from binascii import Error as Base64Error
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Mapping
from decimal import Decimal
from io import BytesIO
from typing import Any, NoReturn, cast

from covey.core.now import ABSOLUTE_US
from covey.core.telemetry.batch import EXACT, WHOLE
from covey.core.telemetry.reading import Reading, Value
from covey.core.telemetry.times import UNUSABLE_US
from covey.errors import ReadingError
from covey.limits.telemetry import MAXIMUM_NAME_BYTES, MAXIMUM_TEXT_VALUE_BYTES, MAXIMUM_UNIT_BYTES

_VERSION = 10
_END_US = 253_402_300_800 * 1_000_000  # the year 10000: datetime, and with it many a table, ends before it
_EXACT_S = 2**32  # below it, float seconds times a million round to the right microsecond
_GREATEST = 1.7976931348623157e308  # the greatest finite double

_is_name = re.compile(rf"[A-Za-z0-9][A-Za-z0-9\-:./_]{{0,{MAXIMUM_NAME_BYTES - 1}}}").fullmatch

_VALUES = frozenset({"v", "vs", "vb", "vd"})
_OWN = _VALUES | {"n", "u", "t", "ut"}
_BASE = frozenset({"bver", "bn", "bt", "bu", "bv"})

_CBOR_LABELS = {
    "bver": -1, "bn": -2, "bt": -3, "bu": -4, "bv": -5, "bs": -6,
    "n": 0, "u": 1, "v": 2, "vs": 3, "vb": 4, "s": 5, "t": 6, "ut": 7, "vd": 8,
}  # fmt: skip
_LABELS_OF_CBOR = {number: label for label, number in _CBOR_LABELS.items()}

_Record = Mapping[str, Any]  # one record as parsed, checked field by field


def readings_from_json(text: str | bytes, now_us: int | None) -> list[Reading]:
    """Read a SenML pack, an array of records.

    Args:
        text: JSON; bytes are UTF-8.
        now_us: Unix microseconds that relative times count from, None where nobody knows the time (rule 3).

    Raises:
        ReadingError: not a pack, or a record that breaks a rule; says which record, the first being 1.
    """
    pack = _parse(text)
    if type(pack) is not list:
        raise ReadingError("not a SenML pack: not an array", hint='write [{"n":"temperature","u":"Cel","v":21.5}]')
    return _resolve(pack, now_us)


def readings_from_line(line: str | bytes, now_us: int | None) -> list[Reading]:
    """Read one line of NDJSON: a SenML record, or a pack. All else as in `readings_from_json`."""
    parsed = _parse(line)
    return _resolve(parsed if type(parsed) is list else [parsed], now_us)


def readings_from_cbor(raw: bytes, now_us: int | None) -> list[Reading]:
    """Read a SenML pack in CBOR (section 6). All else as in `readings_from_json`."""
    import cbor2

    stream = BytesIO(raw)
    try:
        pack = cbor2.CBORDecoder(stream).decode()
    except (cbor2.CBORError, ValueError, TypeError, ArithmeticError, MemoryError, RecursionError) as error:
        raise ReadingError(f"not CBOR: {error}") from error
    if stream.tell() != len(raw):
        raise ReadingError("bytes after the CBOR item")
    if type(pack) is not list:
        raise ReadingError("not a SenML pack: not an array")
    return _resolve(pack, now_us, labels_of=_from_cbor_labels)


def _refuse_constant(name: str) -> NoReturn:
    raise ReadingError(f"{name} is not a JSON number", hint="leave out the record of a missing value")


_from_json = json.JSONDecoder(parse_constant=_refuse_constant).decode


def _parse(text: str | bytes) -> Any:
    try:
        return _from_json(text if isinstance(text, str) else text.decode())
    except (ValueError, RecursionError) as error:
        raise ReadingError(f"not JSON: {error}", hint="one record, or an array of records, in UTF-8") from error


class _Bases:
    """Base fields in force (rule 1)."""

    __slots__ = ("name", "time_us", "unit", "value", "version")

    def __init__(self) -> None:
        self.name = ""
        self.time_us: int | None = 0
        """None: the last one is unusable, and with it each time that is added to it."""
        self.unit = ""
        self.value: float | None = None
        self.version: int | None = None

    def take(self, record: _Record) -> None:
        """Set what the record sets; refuse sums, foreign versions, and fields that must be understood."""
        if "bver" in record or self.version is None:
            self._take_version(record.get("bver", _VERSION))
        for label in record.keys() - _OWN:
            value = record[label]
            if label == "bn":
                self.name = _text(value, "the base name (bn)")
            elif label == "bt":
                self.time_us = _microseconds(value)
            elif label == "bu":
                self.unit = _unit(value)
            elif label == "bv":
                self.value = _number(value, "the base value (bv)")
            elif label in {"s", "bs"}:
                raise ReadingError(
                    f"sums ({label}) are not supported", hint="send the sum as a value with its own name"
                )
            elif label.endswith("_"):
                raise ReadingError(f"the field {label!r:.40} is mandatory (RFC 8428 section 4.4) and not supported")

    def _take_version(self, version: object) -> None:
        if type(version) is not int or not 0 < version <= _VERSION:
            raise ReadingError(f"the SenML version (bver) is not an integer from 1 to {_VERSION}")
        if self.version not in {None, version}:
            raise ReadingError("only a pack's first record may set its version (bver)")
        self.version = version


def _resolve(
    records: list[Any], now_us: int | None, labels_of: Callable[[object], _Record] | None = None
) -> list[Reading]:
    bases = _Bases()
    readings = []
    for index, record in enumerate(records, 1):
        try:
            reading = _reading(labels_of(record) if labels_of else record, bases, now_us)
        except ReadingError as error:
            raise ReadingError(f"record {index}: {error}", hint=error.hint) from error
        if reading:
            readings.append(reading)
    return readings


def _reading(record: _Record, bases: _Bases, now_us: int | None) -> Reading | None:
    """Resolve one record, or take over its base fields if it has no others."""
    if type(record) is not dict:
        raise ReadingError("not an object", hint='write {"n":"temperature","u":"Cel","v":21.5}')
    if not record.keys() <= _OWN:
        bases.take(record)
        if _OWN.isdisjoint(record) and not _BASE.isdisjoint(record):
            return None
    elif bases.version is None:
        bases.version = _VERSION
    name = bases.name + _text(record.get("n", ""), "the name (n)")
    if not _is_name(name):
        _check_name(name)
    unit = _unit(record["u"]) if "u" in record else bases.unit
    since_us = bases.time_us
    if "t" in record:
        own_us = _microseconds(record["t"])
        since_us = None if since_us is None or own_us is None else since_us + own_us
    value = _value(record, bases.value)
    return Reading(name, unit, _absolute(since_us, now_us), value)


def _absolute(since_us: int | None, now_us: int | None) -> int | None:
    """Turn a resolved SenML time, None if it is unusable, into Unix microseconds (rule 3)."""
    if since_us is None:
        return UNUSABLE_US
    if since_us < ABSOLUTE_US:
        if now_us is None:
            if since_us == 0:
                return None
            raise ReadingError(
                "the time is relative, and this device does not know the time", hint="give the time in Unix seconds"
            )
        since_us += now_us
    return since_us if 0 <= since_us < _END_US else UNUSABLE_US


def _microseconds(seconds: object) -> int | None:
    """Convert SenML seconds exactly (rule 4); return None for what is no time (rule 3)."""
    if type(seconds) is float:
        if -_EXACT_S < seconds < _EXACT_S:
            return round(seconds * 1e6)
        exact = Decimal(repr(seconds))
    elif type(seconds) is int:
        return seconds * 1_000_000
    elif isinstance(seconds, Decimal):  # a CBOR decimal fraction
        exact = seconds
    else:
        exact = Decimal("NaN")
    if not exact.is_finite():
        return None
    if not -_END_US < exact < _END_US:  # 1E+999999 would take for ever to multiply out
        return 2_000_000 * (_END_US if exact > 0 else -_END_US)
    return round(exact * 1_000_000)


def _value(record: _Record, base: float | None) -> Value:
    """Read the one value (rule 5)."""
    values = _VALUES & record.keys()
    if len(values) != 1:
        raise ReadingError(f"the record has {len(values)} values instead of one", hint="give one of v, vs, vb and vd")
    (label,) = values
    value = record[label]
    if label == "v":
        value = _number(value, "the value (v)")
        value = value if base is None else _number(base + value, "base value and value together")
        return value if abs(value) >= EXACT else float(value)
    if label == "vb":
        if type(value) is not bool:
            raise ReadingError("vb is neither true nor false")
    elif label == "vs":
        _check_length(_utf_8(_text(value, "the text value (vs)"), "the text value (vs)"))
    else:  # CBOR's are bytes by now
        value = value if type(value) is bytes else _from_base64url(_text(value, "the data value (vd)"))
        _check_length(value)
    return cast("Value", value)


def _number(value: object, what: str) -> float:
    if type(value) is not float:
        if type(value) is not int and not isinstance(value, Decimal):
            raise ReadingError(f"{what} is not a number", hint="use vs for text, vb for a boolean, vd for bytes")
        if _is_whole(value):
            return int(value)
        try:
            value = float(value)
        except OverflowError:
            raise ReadingError(f"{what} does not fit into a double") from None
    if not -_GREATEST <= value <= _GREATEST:
        raise ReadingError(f"{what} is not finite", hint="leave out the record of a missing value")
    return value


def _is_whole(value: int | Decimal) -> bool:
    """Return whether a number is sent as it is, although a double may not hold it."""
    if isinstance(value, Decimal) and not value.is_finite():
        return False
    return -WHOLE < value < WHOLE and value == round(value)


def _check_length(content: bytes) -> None:
    if len(content) > MAXIMUM_TEXT_VALUE_BYTES:
        raise ReadingError(
            f"the value is longer than {MAXIMUM_TEXT_VALUE_BYTES} bytes",
            hint="send longer content with 'covey message send'",
        )


def _text(value: object, what: str) -> str:
    if type(value) is not str:
        raise ReadingError(f"{what} is not text")
    return value


def _utf_8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ReadingError(f"{what} contains a lone surrogate") from None


def _unit(value: object) -> str:
    unit = _text(value, "the unit")
    if not unit.isprintable():
        raise ReadingError("the unit contains control characters", hint="RFC 8428 section 12.1 lists units")
    if len(unit.encode()) > MAXIMUM_UNIT_BYTES:
        raise ReadingError(f"the unit is longer than {MAXIMUM_UNIT_BYTES} bytes")
    return unit


def _check_name(name: str) -> None:
    if not name:
        raise ReadingError("the record has no name", hint="give n, or bn in this or an earlier record of the pack")
    if len(name) > MAXIMUM_NAME_BYTES:
        raise ReadingError(f"the name is longer than {MAXIMUM_NAME_BYTES} bytes")
    if not _is_name(name):
        raise ReadingError(
            f"{name!r} is not a SenML name", hint="use letters, digits and - : . / _, starting with a letter or digit"
        )


def _from_base64url(text: str) -> bytes:
    try:
        content = a2b_base64(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4))
    except (Base64Error, ValueError):
        content = b""
    encoded = b2a_base64(content, newline=False).decode().rstrip("=").replace("+", "-").replace("/", "_")
    if encoded != text:  # no padding, no other characters, no stray bits
        raise ReadingError("vd is not base64url without padding (RFC 4648 section 5)")
    return content


def _from_cbor_labels(record: object) -> _Record:
    if not isinstance(record, dict):
        raise ReadingError("not a map")
    named = {}
    for key, value in record.items():
        label = key if type(key) is str else _LABELS_OF_CBOR.get(key) if type(key) is int else None
        if label is None or key in _CBOR_LABELS:
            raise ReadingError("a label is not in RFC 8428 section 6", hint="only extensions have text labels")
        if label == "vd" and type(value) is not bytes:
            raise ReadingError("vd is not a byte string")
        named[label] = value
    return named
