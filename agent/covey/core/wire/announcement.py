"""What a device announces of its build: the extension map of its member's record (docs/protocol/core.md, "Growth")."""

from __future__ import annotations

from functools import lru_cache

from covey.core.wire import cbor
from covey.errors import LimitError, MalformedError
from covey.limits.group import (
    MAXIMUM_ANNOUNCEMENT_BYTES,
    MAXIMUM_FEATURE,
    MAXIMUM_FEATURES,
    REMEMBERED_ANNOUNCEMENTS,
)
from covey.limits.message import MAXIMUM_EXTENSION_BYTES

FEATURES = 1
"""The key of a member's extension map that lists the numbers of the protocol features it supports."""

KNOWN_RULES = 3
"""The key of a member's extension map with the highest version of judging rules that it knows; else it is 1."""


@lru_cache(REMEMBERED_ANNOUNCEMENTS)
def announced(extensions: bytes) -> cbor.Extensions:
    """Return a member's extension map, which was checked before."""
    return cbor.decode(extensions, MAXIMUM_EXTENSION_BYTES) if extensions else {}


def check_announcement(extensions: cbor.Extensions) -> None:
    """Check what a device says of itself.

    Raises:
        LimitError: it is longer than a group keeps of each member.
        MalformedError: features that are no ascending list of numbers, or no version of rules above 1.
    """
    if extensions and len(cbor.encode(extensions)) > MAXIMUM_ANNOUNCEMENT_BYTES:
        raise LimitError(f"a member's extension map longer than {MAXIMUM_ANNOUNCEMENT_BYTES} bytes")
    features = _read_features(extensions.get(FEATURES, []))
    if list(features) != sorted(set(features)):
        raise MalformedError("announced features must be sorted and distinct")
    if read_rules_version(extensions.get(KNOWN_RULES, 2)) < 2:
        raise MalformedError("version 1 of the judging rules is announced by announcing none")


_read_features = cbor.many(cbor.uint(MAXIMUM_FEATURE), MAXIMUM_FEATURES)
read_rules_version = cbor.uint(255)
