"""Identifiers as people and paths see them.

A device is known by its 32-byte Ed25519 signing key; its name is the hex of that key's first 4 bytes (000.08).
"""

from __future__ import annotations

import hashlib
import string

from agent.errors import MalformedError

KEY_BYTES = 32
GROUP_ID_BYTES = 32
INCARNATION_BYTES = 8
NODE_ID_BYTES = 16
VAULT_ID_BYTES = 16

_HEX = frozenset(string.hexdigits.lower()) - frozenset(string.ascii_uppercase)


def device_name(signing_public: bytes) -> str:
    """Return the 8 hex digits by which a device is always shown; labels stand beside it, never instead."""
    return signing_public[:4].hex()


def node_id(signing_public: bytes) -> bytes:
    """Return the 16-byte id under which a device writes to a vault: BLAKE2b of its signing key.

    A reader can so check that a vault manifest's signer owns the id it stands under.
    """
    return hashlib.blake2b(signing_public, digest_size=NODE_ID_BYTES, person=b"covey/1 node").digest()


def from_hex(value: str, length: int) -> bytes:
    """Parse lower-case hex of exactly `length` bytes; safe to use in a path or topic after this.

    Raises:
        MalformedError: anything else.
    """
    if len(value) != 2 * length or not _HEX.issuperset(value):
        raise MalformedError(f"not {2 * length} lower-case hex digits")
    return bytes.fromhex(value)


def printable(value: str, maximum: int = 200) -> str:
    """Return a peer's text made safe for a terminal or a log line: one line, no control or bidi characters."""
    clean = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in value)
    return clean if len(clean) <= maximum else clean[: maximum - 1] + "\N{HORIZONTAL ELLIPSIS}"


def truncate_utf8(value: str, maximum: int) -> str:
    """Cut text to at most `maximum` UTF-8 bytes without splitting a character (002.30).

    What is not Unicode (a lone surrogate from the command line) becomes "?".
    """
    return value.encode(errors="replace")[:maximum].decode(errors="ignore")
