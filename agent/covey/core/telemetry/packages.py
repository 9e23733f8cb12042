"""The packages that a device has installed, as readings, and how versions of Debian compare.

1. An inventory is a sorted text, a line `NAME VERSION` for each package, deflated, and cut into pieces that each fit
   one value: readings of the series `packages` with data, all in one batch, one microsecond apart.
2. Each piece begins with a version of this form, the first bytes of the digest of the whole, its place and the
   number of pieces: a reader puts together what belongs together and nothing else.
3. Versions compare as the Debian Policy says in 5.6.12, as dpkg does.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from covey.core import crypto
from covey.errors import LimitError, MalformedError
from covey.limits.telemetry import (
    MAXIMUM_INVENTORY_BYTES,
    MAXIMUM_INVENTORY_TEXT_BYTES,
    MAXIMUM_TEXT_VALUE_BYTES,
)

SERIES = "packages"
"""The name of the readings that hold the pieces of an inventory."""

_FORM = 1
_DIGEST_BYTES = 8
_HEAD_BYTES = 1 + _DIGEST_BYTES + 2
_PIECE_BYTES = MAXIMUM_TEXT_VALUE_BYTES - _HEAD_BYTES
_QUERY = re.compile(r"([a-z0-9*?][a-z0-9+.*?:-]*)(?:\s*(<=|>=|!=|<|>|=)\s*([^\s<>=!]+))?")
_PART = re.compile(r"([^0-9]*)([0-9]*)")


def packed(packages: Mapping[str, str]) -> bytes:
    """Return an inventory in its packed form: the same bytes for the same packages.

    Raises:
        LimitError: more than a report may hold.
    """
    text = "".join(f"{name} {version}\n" for name, version in sorted(packages.items())).encode()
    deflated = zlib.compress(text, 9)
    if len(text) > MAXIMUM_INVENTORY_TEXT_BYTES or len(deflated) > MAXIMUM_INVENTORY_BYTES:
        raise LimitError(f"{len(packages)} packages are more than one report may hold")
    return deflated


def unpacked(content: bytes) -> dict[str, str]:
    """Return the packages of an inventory: name and version.

    Raises:
        LimitError: it is too long, inflated or not.
        MalformedError: it is none.
    """
    if len(content) > MAXIMUM_INVENTORY_BYTES:
        raise LimitError("the list of packages is too long")
    inflater = zlib.decompressobj()
    try:
        text = inflater.decompress(content, MAXIMUM_INVENTORY_TEXT_BYTES + 1).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise MalformedError("the list of packages is damaged") from error
    if len(text) > MAXIMUM_INVENTORY_TEXT_BYTES or not inflater.eof or inflater.unused_data:
        raise LimitError("the list of packages is too long, or does not end")
    pairs = [line.partition(" ") for line in text.splitlines()]
    return {name: version for name, _, version in pairs if name and version}


def digest_of(content: bytes) -> bytes:
    """Return what tells one packed inventory from another."""
    return crypto.digest(b"covey/1 packages", content)


def pieces(content: bytes) -> list[bytes]:
    """Return a packed inventory as the values of its readings."""
    cut = [content[at : at + _PIECE_BYTES] for at in range(0, len(content), _PIECE_BYTES)]
    head = bytes([_FORM]) + digest_of(content)[:_DIGEST_BYTES]
    return [head + bytes([place, len(cut)]) + piece for place, piece in enumerate(cut)]


def joined(values: Iterable[bytes]) -> bytes | None:
    """Return the packed inventory whose pieces these are, None where they are not all of one."""
    found: dict[int, bytes] = {}
    heads = set[bytes]()
    for value in values:
        if len(value) <= _HEAD_BYTES or value[0] != _FORM:
            return None
        heads.add(value[: 1 + _DIGEST_BYTES] + value[_HEAD_BYTES - 1 : _HEAD_BYTES])
        found[value[_HEAD_BYTES - 2]] = value[_HEAD_BYTES:]
    if len(heads) != 1:
        return None
    [head] = heads
    if sorted(found) != list(range(head[-1])):
        return None
    content = b"".join(found[place] for place in sorted(found))
    return content if digest_of(content)[:_DIGEST_BYTES] == head[1:-1] else None


@dataclass(frozen=True, slots=True)
class PackageQuery:
    """What somebody asks for: a name, which may have `*` and `?`, and perhaps a comparison."""

    name: str
    operator: str = ""
    version: str = ""

    @classmethod
    def parse(cls, text: str) -> PackageQuery:
        """Return `NAME`, `NAME<VERSION` and the like (`<`, `<=`, `=`, `!=`, `>=`, `>`) as a query.

        Raises:
            MalformedError: it is none.
        """
        match = _QUERY.fullmatch(text.strip())
        if match is None:
            raise MalformedError(f"{text!r} is not NAME, or NAME<VERSION")
        return cls(match[1], match[2] or "", match[3] or "")

    def of(self, packages: Mapping[str, str]) -> list[tuple[str, str]]:
        """Return the packages that it means, by name. A name without an architecture means all of them."""
        pattern = re.escape(self.name).replace(r"\*", ".*").replace(r"\?", ".")
        matches = re.compile(pattern).fullmatch
        return [
            (name, version)
            for name, version in sorted(packages.items())
            if (matches(name) or matches(name.partition(":")[0])) and self._holds(version)
        ]

    def _holds(self, version: str) -> bool:
        if not self.operator:
            return True
        order = compared(version, self.version)
        return {
            "<": order < 0,
            "<=": order <= 0,
            "=": order == 0,
            "!=": order != 0,
            ">=": order >= 0,
            ">": order > 0,
        }[self.operator]


def compared(one: str, other: str) -> int:
    """Compare two versions of Debian packages: below 0 where the first is the older, 0 where they are equal."""
    left, right = _split(one), _split(other)
    if left[0] != right[0]:
        return -1 if left[0] < right[0] else 1
    return _compared(left[1], right[1]) or _compared(left[2], right[2])


def _split(version: str) -> tuple[int, str, str]:
    epoch, colon, rest = version.partition(":")
    if not (colon and epoch.isdecimal()):
        epoch, rest = "0", version
    upstream, _, revision = rest.rpartition("-")
    return (int(epoch), upstream, revision) if upstream else (int(epoch), rest, "")


def _compared(one: str, other: str) -> int:
    for (left, left_number), (right, right_number) in zip_longest(
        _PART.findall(one), _PART.findall(other), fillvalue=("", "")
    ):
        for mine, theirs in zip_longest(map(_weight, left), map(_weight, right), fillvalue=0):
            if mine != theirs:
                return -1 if mine < theirs else 1
        if int(left_number or 0) != int(right_number or 0):
            return -1 if int(left_number or 0) < int(right_number or 0) else 1
    return 0


def _weight(sign: str) -> int:
    """Return where a character sorts: `~` before the end, which is 0, then letters, then all else."""
    if sign == "~":
        return -1
    return ord(sign) if sign.isascii() and sign.isalpha() else ord(sign) + 256
