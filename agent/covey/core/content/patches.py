"""Patches: the difference between two files, as a file of its own (docs/protocol/content.md, "Content").

A patch names its base and its result by their hashes. The result is sealed like the original file, and counts only if
its hash matches: a patch cannot falsify anything, and is never required.
"""

from __future__ import annotations

import re

from covey.core.ids import ContentHash
from covey.limits.content import PATCH_HASH_DIGITS

_NAME = re.compile(rf"([0-9a-f]{{{PATCH_HASH_DIGITS}}})-([0-9a-f]{{{PATCH_HASH_DIGITS}}})\.covey-patch")


def patch_name(target: ContentHash, base: ContentHash) -> str:
    """Return what the patch from one file to another one is called."""
    return f"{target.hex()[:PATCH_HASH_DIGITS]}-{base.hex()[:PATCH_HASH_DIGITS]}.covey-patch"


def is_patch_name(name: str) -> bool:
    """Say whether a file is called as patches are."""
    return _NAME.fullmatch(name) is not None


def makes(name: str, target: ContentHash) -> str | None:
    """Return the beginning of the hash of what a patch is made from; None where it is none for this file."""
    found = _NAME.fullmatch(name)
    return found[2] if found and target.hex().startswith(found[1]) else None
