"""What a disk does to a file: flipped bits, lost and scribbled pages, a lost tail, another content, no file at all."""

from __future__ import annotations

import random
from pathlib import Path

PAGE_BYTES = 1024

HOW = ("bit", "bits", "page", "scribble", "tail", "empty", "other", "gone")


def damage(path: Path, chance: random.Random) -> str:
    """Damage a file, and return how; its modification time stays, as a disk leaves it."""
    how = chance.choices(HOW, (6, 3, 4, 3, 4, 1, 1, 1))[0]
    if how == "gone":
        path.unlink()
        return how
    content = path.read_bytes()
    path.write_bytes(damaged(content, how, chance))
    return how


def damaged(content: bytes, how: str, chance: random.Random) -> bytes:
    """Return a content after one of the damages; it differs from the content unless that is empty."""
    if not content:
        return chance.randbytes(7)
    changed = bytearray(content)
    if how in {"bit", "bits"}:
        for _ in range(1 if how == "bit" else chance.choice((3, 50))):
            changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    elif how == "page":
        start = chance.randrange(len(changed)) // PAGE_BYTES * PAGE_BYTES
        changed[start : start + PAGE_BYTES] = bytes(len(changed[start : start + PAGE_BYTES]))
    elif how == "scribble":
        start = chance.randrange(len(changed))
        changed[start : start + 2_000] = chance.randbytes(len(changed[start : start + 2_000]))
    elif how == "tail":
        del changed[chance.randrange(len(changed)) :]
    elif how == "empty":
        changed.clear()
    else:
        changed[:] = chance.choice((b"another content " * 500, bytes(8_192)))
    if changed == content:
        changed[0] ^= 1
    return bytes(changed)
