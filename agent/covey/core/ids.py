"""Identifiers as people and paths see them.

A device is known by its 32-byte Ed25519 signing key; its name is the hex of that key's first 4 bytes (000.08).
"""

from __future__ import annotations

import base64
import hashlib
import string
from typing import NewType

from covey.errors import MalformedError

KEY_BYTES = 32
GROUP_ID_BYTES = 32
INCARNATION_BYTES = 8
NODE_ID_BYTES = 16
VAULT_ID_BYTES = 16
_INBOX_BYTES = 16

DeviceKey = NewType("DeviceKey", bytes)
"""A device's 32-byte Ed25519 public key, which identifies the device everywhere."""

NoisePublic = NewType("NoisePublic", bytes)
"""A device's 32-byte X25519 public key, which envelopes are sealed for; it changes."""

GroupId = NewType("GroupId", bytes)
"""The 32 bytes that a group has for ever; all zeros (`NO_GROUP`) where a message is of none."""

EpochId = NewType("EpochId", bytes)
"""The hash of an epoch's secret."""

ManifestHash = NewType("ManifestHash", bytes)
"""The hash of a group manifest, by which others name it."""

OperationId = NewType("OperationId", bytes)
"""The hash of an operation's exact bytes, by which later ones name it."""

PlanId = NewType("PlanId", bytes)
"""The 32 bytes that name what an operator did in several groups at once (`core/orders/plans.py`)."""

ContentHash = NewType("ContentHash", bytes)
"""The BLAKE3 hash of a sealed file, or of its index, by which it is asked for."""

Incarnation = NewType("Incarnation", bytes)
"""The 8 bytes that a device draws whenever its durable state is new or restored."""

NodeId = NewType("NodeId", bytes)
"""The 16 bytes under which a device writes to vaults (`node_id`)."""

VaultId = NewType("VaultId", bytes)
"""The 16 bytes that a vault has for ever."""

LinkSeq = NewType("LinkSeq", int)
"""A message's number on the wire, from 1 in each incarnation; 0 where it has none
(docs/protocol/core.md, "The link")."""

Place = NewType("Place", int)
"""A message's place in its recipient's queue, counted from 1 through all incarnations, and never on the wire."""

BatchNumber = NewType("BatchNumber", int)
"""A telemetry batch's number among all of its author's, from 1 through all incarnations
(docs/protocol/core.md, section 11)."""

_LABEL_SHOWN = 32
"""Characters of a label after a name: a line with both ends with the program's own words."""
_BASE32 = string.ascii_uppercase + "234567"
_HEX = frozenset(string.hexdigits.lower()) - frozenset(string.ascii_uppercase)


def device_name(signing_public: DeviceKey) -> str:
    """Return the 8 hex digits by which a device is always shown; labels come after it, never instead."""
    return signing_public[:4].hex()


def inbox_name(owner: bytes) -> str:
    """Return the name of a device's inbox, which is its user name at relays: hex of its key's first 16 bytes (ADR 127).

    An invite file's account is named so, too, by the invite's id.
    """
    return owner[:_INBOX_BYTES].hex()


def node_id(signing_public: DeviceKey) -> NodeId:
    """Return the 16-byte id under which a device writes to a vault: BLAKE2b of its signing key.

    A reader can so check that a vault manifest's signer owns the id it stands under.
    """
    return NodeId(hashlib.blake2b(signing_public, digest_size=NODE_ID_BYTES, person=b"covey/1 node").digest())


def fingerprint(public: bytes) -> str:
    """Return what two people compare aloud: 160 bits in four groups of eight letters, each with a check letter.

    Base32 (RFC 4648) of a hash of the key; the ninth letter of each group is its Luhn mod 32 check.
    """
    characters = _base32(hashlib.blake2b(public, digest_size=20, person=b"covey/1 fprint").digest())
    groups = [characters[index : index + 8] for index in range(0, len(characters), 8)]
    return "-".join(group + check_character(group) for group in groups)


def check_character(characters: str) -> str:
    """Return the Luhn mod 32 check letter: it finds every wrong letter, and all but one in 32 of swapped neighbours."""
    total = 0
    for index, character in enumerate(reversed(characters)):
        value = _BASE32.index(character) * (2 if index % 2 == 0 else 1)
        total += value // 32 + value % 32
    return _BASE32[-total % 32]


def key_text(kind: str, public: bytes) -> str:
    """Return a public key as text that cannot be taken for another kind, nor mistyped unnoticed.

    `covey-<kind>-` and the base32 of the key and the first 4 bytes of its hash; `kind` is `sign` or `noise`.
    """
    content = public + _key_check(kind, public)
    return f"covey-{kind}-" + _base32(content).lower()


def _base32(content: bytes) -> str:
    """Return base32 (RFC 4648) without padding; that of `base64` keeps a table of 57 kB."""
    bits = -(-8 * len(content) // 5) * 5
    number = int.from_bytes(content) << bits - 8 * len(content)
    return "".join(_BASE32[number >> shift & 31] for shift in range(bits - 5, -5, -5))


def key_from_text(kind: str, text: str) -> bytes:
    """Parse what `key_text` made.

    Raises:
        MalformedError: of another kind, or mistyped.
    """
    prefix = f"covey-{kind}-"
    if not text.startswith(prefix):
        raise MalformedError(f"a key must begin with {prefix}")
    characters = text[len(prefix) :].upper()
    try:
        content = base64.b32decode(characters + "=" * (-len(characters) % 8))
    except ValueError as error:
        raise MalformedError("the key contains characters outside base32") from error
    public, check = content[:KEY_BYTES], content[KEY_BYTES:]
    if len(public) != KEY_BYTES or check != _key_check(kind, public) or text.lower() != key_text(kind, public):
        raise MalformedError("the key is mistyped: its checksum does not match")
    return public


def _key_check(kind: str, public: bytes) -> bytes:
    return hashlib.blake2b(kind.encode() + public, digest_size=4, person=b"covey/1 key").digest()


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
    clean = value
    if not value.isprintable():
        clean = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in value)
    return clean if len(clean) <= maximum else clean[: maximum - 1] + "\N{HORIZONTAL ELLIPSIS}"


def labelled_name(name: str, label: str) -> str:
    """Return a device for people: its name, then the beginning of its label, made `printable`."""
    return f"{name} {printable(label, _LABEL_SHOWN)}".rstrip()


def truncate_utf8(value: str, maximum: int) -> str:
    """Cut text to at most `maximum` UTF-8 bytes without splitting a character (002.30).

    What is not Unicode (a lone surrogate from the command line) becomes "?".
    """
    return value.encode(errors="replace")[:maximum].decode(errors="ignore")
