"""The largest envelope that the connected relays accept, from their CONNACK."""

from __future__ import annotations

from dataclasses import dataclass

from covey.limits.message import MAXIMUM_ENVELOPE_BYTES


@dataclass(slots=True)
class Carriage:
    """The largest envelope, in bytes, that any relay of this device takes; one that was not reached yet takes all."""

    maximum_payload: int = MAXIMUM_ENVELOPE_BYTES
