"""The keys of objects: paths of segments made of letters, digits and `. _ -`, none of them beginning with a dot.

So no key leaves a directory's root, no key is a temporary file's name, and none needs quoting in a URL.
"""

from __future__ import annotations

import re

from covey.errors import MalformedError

_SEGMENT = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}"  # 255 bytes is what a file name may have
_is_segment = re.compile(_SEGMENT).fullmatch
_is_key = re.compile(rf"{_SEGMENT}(?:/{_SEGMENT})*").fullmatch


def is_segment(name: str) -> bool:
    """Say whether a file's or a folder's name may stand in a key."""
    return _is_segment(name) is not None


def check_key(key: str) -> None:
    """Accept the key of an object.

    Raises:
        MalformedError: it is none.
    """
    if not _is_key(key):
        raise MalformedError(f"{key[:80]!r} is not the key of an object")
