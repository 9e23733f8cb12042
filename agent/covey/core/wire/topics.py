"""Topic names: a relay learns only half of a recipient's public signing key, or the number of a rendezvous."""

from __future__ import annotations

from covey.core.ids import KEY_BYTES, DeviceKey, inbox_name
from covey.core.pake import Side
from covey.errors import MalformedError

_PREFIX = "covey/1/in/"
_RENDEZVOUS = "covey/1/pair/"
_WAKE = "covey/1/wake/"


def inbox_topic(signing_public: DeviceKey) -> str:
    """Return the topic of a recipient's inbox. It is the device's for life: its noise key may change (ADR 9)."""
    if len(signing_public) != KEY_BYTES:
        raise MalformedError("an inbox needs a 32-byte key")
    return _PREFIX + inbox_name(signing_public)


def rendezvous_topic(number: int, listener: Side) -> str:
    """Return the topic at which one side of a pairing listens."""
    return f"{_RENDEZVOUS}{number}/{'a' if listener is Side.INVITER else 'b'}"


def wake_topic(signing_public: DeviceKey) -> str:
    """Return the topic at which a mailbox reports waiting messages for a device; the device's power switch listens."""
    return _WAKE + inbox_name(signing_public)


def is_rendezvous(topic: str) -> bool:
    """Say whether a topic is one where devices meet that pair."""
    return topic.startswith(_RENDEZVOUS)
