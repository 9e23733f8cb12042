"""What people copy: a prefix, and one CBOR item in base64url without padding (docs/protocol.md, "Pairing")."""

from __future__ import annotations

import base64
import binascii

from covey.errors import LocalError

URI_SCHEME = "covey:"


def write_uri(prefix: str, raw: bytes) -> str:
    """Return the URI that carries these bytes."""
    return prefix + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def read_uri(prefix: str, uri: str, what: str, hint: str) -> bytes:
    """Return the bytes that a pasted URI carries; `what` is its name for people.

    Raises:
        LocalError: it has another prefix, was cut off, or is not as this Covey would write it.
    """
    if not uri.startswith(prefix):
        raise LocalError(f"this is not {what}", hint=hint)
    encoded = uri[len(prefix) :]
    try:
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise LocalError(f"this is {what} that is damaged, or of a newer Covey", hint=hint) from error
    if write_uri(prefix, raw) != uri:
        raise LocalError(f"this is {what} that is damaged", hint=hint)
    return raw
