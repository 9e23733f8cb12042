"""Patches: what changes between a file and another one, as a file of its own (docs/protocol/content.md, "Content").

A patch is named for the file that it makes and the one that it is made from, by their hashes. What comes of it is
sealed as that file was, and counts only where its hash is that file's: it can lie about nothing, and is never needed.
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
