"""Tags that identify a requested file and authorise the request."""

from __future__ import annotations

import hashlib
import ipaddress

SALT_BYTES = 16
SALT_PATH = "/covey/1/salt"
CONTENT_PATH = "/covey/1/content/"
AT_RELAY = "Covey-At-Relay"
"""A field of an answer by a peer that is fetching a file itself, and asks members at a relay for it."""
_PERSON = b"covey/1 lan tag"


def tag_of(content: bytes, salt: bytes) -> str:
    """Return the tag, in hex, by which a peer of that salt knows what has a hash."""
    return hashlib.blake2b(salt, key=content, digest_size=32, person=_PERSON.ljust(16, b"\0")).hexdigest()


def is_near(address: str) -> bool:
    """Say whether an address is of a private network, of this link or of this machine."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    found = getattr(found, "ipv4_mapped", None) or found
    return (found.is_private or found.is_link_local or found.is_loopback) and not found.is_unspecified
