"""The deterministic CBOR of the wire (docs/protocol/core.md, section 1). Boards write no maps.

Integers of 64 bits, byte strings, text, arrays, false, true and null. The reader refuses everything that the encoder
would not have written, with `WireError("malformed")` or, beyond a bound, `WireError("limit")`.

The only maps it reads are extension maps, which may end a structure and whose keys are numbers. It checks a newer
device's entries under odd keys and leaves them out: the result has an empty dict in its place.
"""

try:
    from micropython import const
except ImportError:
    const = int

_LONG = const(48)  # bytes of a string that is no part of another piece before all are joined
_DEPTH_MAX = const(8)
_EXTENSIONS_MAX = const(1_024)  # bytes of an extension map
_ITEMS_MAX = const(2_048)  # more than 4 KiB of anything that a board is sent


class WireError(ValueError):
    """Bytes from outside broke a rule; `code` is one of docs/protocol/registry.md, section 16."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


def _head(major, number):
    major <<= 5
    if number < 24:
        return bytes([major | number])
    for place in range(4):
        if number < 1 << (8 << place):
            return bytes([major | 24 + place]) + number.to_bytes(1 << place, "big")
    raise ValueError("beyond 64 bits")


def encode(value):
    """Return the one encoding of a value. Long byte strings are copied once, into it."""
    pieces = [bytearray()]
    _collect(value, pieces)
    pieces[-1] = bytes(pieces[-1])
    return b"".join(pieces)


def _collect(value, pieces):
    """Append a value to the last short piece; on a board each piece of its own takes another 32 bytes."""
    if value is None or isinstance(value, bool):
        pieces[-1].append(0xF6 if value is None else 0xF4 + value)
    elif isinstance(value, int):
        pieces[-1].extend(_head(0, value) if value >= 0 else _head(1, -1 - value))
    elif isinstance(value, (bytes, bytearray, str)):
        major = 3 if isinstance(value, str) else 2
        if not isinstance(value, bytes):
            value = value.encode() if major == 3 else bytes(value)
        pieces[-1].extend(_head(major, len(value)))
        if len(value) < _LONG:
            pieces[-1].extend(value)
        else:
            pieces[-1] = bytes(pieces[-1])
            pieces.append(value)
            pieces.append(bytearray())
    else:
        pieces[-1].extend(_head(4, len(value)))
        for item in value:
            _collect(item, pieces)


def decode(raw, size_max):
    """Return the one item that `raw` is.

    Raises:
        WireError: it is none, or not in its one encoding, or beyond a bound; `unsupported`: an extension map has an even
            key, which must be understood, and a board knows none.
    """
    if len(raw) > size_max:
        raise WireError("limit")
    reader = Reader(raw)
    value = reader.item(0)
    if reader.place != len(raw):
        raise WireError("malformed")
    return value


class Reader:
    """Reads items one after the other: `item(depth)`, and `place` says how far that has come."""

    def __init__(self, raw):
        self.raw = raw
        self.place = self.items = 0

    def take(self, size):
        end = self.place + size
        if end > len(self.raw):
            raise WireError("malformed")
        taken = self.raw[self.place : end]
        self.place = end
        return taken

    def item(self, depth):
        self.items += 1
        if self.items > _ITEMS_MAX:
            raise WireError("limit")
        head = self.take(1)[0]
        major = head >> 5
        if major == 7:
            if head not in (0xF4, 0xF5, 0xF6):
                raise WireError("malformed")
            return None if head == 0xF6 else head == 0xF5
        number = head & 31
        if number > 27:
            raise WireError("malformed")
        if number > 23:  # the shortest form alone is one
            size = 1 << (number - 24)
            number = int.from_bytes(self.take(size), "big")
            if number < (24 if size == 1 else 1 << (4 * size)):
                raise WireError("malformed")
        if major < 2:
            if number >= 1 << 63:
                raise WireError("malformed")
            return -1 - number if major else number
        if major == 2:
            return bytes(self.take(number))
        if major == 3:
            return _text(self.take(number))
        if major > 5:
            raise WireError("malformed")
        if depth == _DEPTH_MAX:
            raise WireError("limit")
        if number > len(self.raw) - self.place:
            raise WireError("malformed")
        depth += 1
        if major == 4:
            return [self.item(depth) for _ in range(number)]
        start = self.place
        last = even = 0
        for _ in range(number):
            key = self.item(depth)
            if isinstance(key, bool) or not isinstance(key, int) or not last < key <= 65_535:
                raise WireError("malformed")
            last = key
            even |= not key & 1
            self.item(depth)
            if self.place - start > _EXTENSIONS_MAX:
                raise WireError("limit")
        if not last:
            raise WireError("malformed")
        if even:
            raise WireError("unsupported")
        return {}


def _text(raw):
    """Return UTF-8 as text. Ports let overlong forms and half a surrogate pair through; this does not."""
    try:
        text = raw.decode()
    except UnicodeError:
        raise WireError("malformed")
    size = 0
    for character in text:
        code = ord(character)
        if 0xD800 <= code < 0xE000 or code > 0x10FFFF:
            raise WireError("malformed")
        size += 1 if code < 0x80 else 2 if code < 0x800 else 3 if code < 0x10000 else 4
    if size != len(raw):
        raise WireError("malformed")
    return text


def record(value, *kinds):
    """Return an array's items if they are of these kinds: a type, a number of bytes, or a range of numbers (low, high).

    An extension map after them is left out.

    Raises:
        WireError: they are not.
    """
    if isinstance(value, list) and value[len(kinds) :] == [{}]:
        value.pop()
    if not isinstance(value, list) or len(value) != len(kinds):
        raise WireError("malformed")
    for item, kind in zip(value, kinds):
        if isinstance(kind, tuple):
            right = isinstance(item, int) and not isinstance(item, bool) and kind[0] <= item <= kind[1]
        elif isinstance(kind, int):
            right = isinstance(item, bytes) and len(item) == kind
        else:
            right = isinstance(item, kind)
        if not right:
            raise WireError("malformed")
    return value


UINT = (0, (1 << 63) - 1)
