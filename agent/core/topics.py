"""Topic names: all that a relay learns is a recipient's public signing key."""

from __future__ import annotations

from agent.core.ids import KEY_BYTES
from agent.errors import MalformedError

_PREFIX = "covey/1/in/"


def inbox_topic(signing_public: bytes) -> str:
    """Return the topic of a recipient's inbox. It is the device's for life: its noise key may change (ADR 0009)."""
    if len(signing_public) != KEY_BYTES:
        raise MalformedError("an inbox belongs to a 32-byte key")
    return _PREFIX + signing_public.hex()
