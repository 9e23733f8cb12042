"""What the clients of a local API may take, one by one and together."""

from __future__ import annotations

from dataclasses import dataclass

from covey.limits.units import KIB, MIB


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of one server; the times are seconds."""

    clients: int = 32
    """Connections at a time."""
    streams: int = 16
    """Of them with an answer that goes on, which nobody else's coming ends."""
    request_s: float = 30.0
    """From a request's first byte to its last. The largest body takes milliseconds on a socket of the same machine."""
    spooled_s: float = 600.0
    """The same of one whose body goes to a file: a worn card takes a megabyte in some seconds."""
    silence_s: float = 30.0
    """Before a request, and for a client to take what is written."""
    own_bytes: int = 128 * KIB
    """Of a body, which each client may hold whatever the others do."""
    shared_bytes: int = 8 * MIB
    """Of all bodies together, beyond each one's own."""
