"""The devices of all vectors: named, with keys that anybody can derive again."""

from __future__ import annotations

import hashlib
from typing import Any

import cbor2

from covey.core.crypto import Identity
from covey.core.ids import GroupId, Incarnation

NAMES = ("alice", "bob", "carol", "mallory")


def seeded(label: str, length: int = 32) -> bytes:
    """Return bytes that only look random: BLAKE2b of a label."""
    return hashlib.blake2b(label.encode(), digest_size=length, person=b"covey vectors").digest()


def identity(name: str) -> Identity:
    """Return a device's identity."""
    return Identity.from_seeds(seeded(f"{name} signing"), seeded(f"{name} noise"))


ALICE, BOB, CAROL, MALLORY = (identity(name) for name in NAMES)
GROUP_ID = GroupId(seeded("group"))
INCARNATION = Incarnation(seeded("incarnation", 8))
BOOT_ID = seeded("boot", 8)
NOW_US = 1_790_000_000_000_000


def keys() -> dict[str, Any]:
    """Return the `keys` part of a vector file."""
    return {
        name: {
            "signing_seed": device.signing_seed.hex(),
            "signing_public": device.signing_public.hex(),
            "noise_secret": device.noise_secret.hex(),
            "noise_public": device.noise_public.hex(),
        }
        for name, device in ((name, identity(name)) for name in NAMES)
    }


def cbor(value: object) -> bytes:
    """Encode with no check of ours in between."""
    return cbor2.dumps(value, canonical=True)


def flip(raw: bytes, position: int, bit: int = 0) -> bytes:
    """Return the bytes with one bit flipped."""
    changed = bytearray(raw)
    changed[position] ^= 1 << bit
    return bytes(changed)
