"""Settings of an MQTT relay: address, limits and reconnection delays.

No paho here, so that it can be read and tested without a connection; `relay.py` does the rest. TLS is in `tls.py`.
"""

from __future__ import annotations

import ipaddress
import math
import socket
from dataclasses import dataclass, field
from random import SystemRandom
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from covey.adapters.clock import PROGRAM_S
from covey.adapters.mqtt.wire_meter import WireMeter
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

MAXIMUM_PEM_BYTES = 64 * 1024

PACKET_BYTES_MAX = 1 + 4 + 268_435_455
"""MQTT 5 §2.1.4: the largest packet that a Remaining Length of four bytes can say."""


Place = tuple[str, int]
"""An address and a port."""


@dataclass(slots=True)
class CertifiedTime:
    """The latest beginning of a certificate that a trusted authority has given to a relay: that moment has passed."""

    begins_s: float = 0.0
    """Seconds since 1970; 0 before the first one."""

    def note(self, begins_s: float) -> None:
        """Note the beginning of a certificate that was checked."""
        self.begins_s = max(self.begins_s, begins_s)


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """How a broker is reached, who we are there, and the bounds on the connection."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    client_id: str
    username: str | None
    password: str
    keepalive_s: int
    session_expiry_s: int
    window: int
    payload_bytes_max: int
    connect_s_max: float
    resubscribe_s: float = math.inf
    clean_start: bool = False
    earliest_s: float = PROGRAM_S
    """A moment that has passed: by a clock that is behind it, no certificate is judged."""
    certified: CertifiedTime = field(default_factory=CertifiedTime)
    meter: WireMeter = field(default_factory=WireMeter)
    """Counts what the connections carry."""
    obeys: bool = True
    """Refuse to publish more than the server allows; an examination of a broker does not."""

    def __repr__(self) -> str:
        """Return where it is, and never the password."""
        return f"ConnectionSettings({self.host}:{self.port})"


class Backoff:
    """Decorrelated jitter (Brooker, "Exponential Backoff and Jitter", AWS 2015): a fleet does not return in step."""

    def __init__(self, seconds_min: float, seconds_max: float, refused_s_min: float) -> None:
        self._seconds_min = seconds_min
        self._seconds_max = seconds_max
        self._refused_s_min = refused_s_min
        self._last_s = seconds_min
        self._random = SystemRandom()

    def next_s(self, *, refused: bool) -> float:
        """Return the next pause: between the least one and three times the last one, up to the longest."""
        least = max(self._refused_s_min if refused else 0, self._seconds_min)
        self._last_s = min(self._seconds_max, self._random.uniform(least, max(least, self._last_s) * 3))
        return self._last_s

    def reset(self) -> None:
        """Start again from the shortest pause."""
        self._last_s = self._seconds_min


def publish_bytes(topic_bytes: int, payload_bytes: int, *, expires: bool = False) -> int:
    """Return the length of our PUBLISH packet (§3.3): header, topic, packet identifier, expiry, payload."""
    remaining = 2 + topic_bytes + 2 + 1 + (5 if expires else 0) + payload_bytes
    length_bytes = 1 if remaining < 1 << 7 else 2 if remaining < 1 << 14 else 3 if remaining < 1 << 21 else 4
    return 1 + length_bytes + remaining


def parse_url(url: str) -> tuple[str, int, bool]:
    """Return host, port and whether TLS is asked for.

    Raises:
        ConfigurationError: not `mqtt://host[:port]` or `mqtts://host[:port]`.
    """
    hint = "write mqtts://host or mqtts://host:port; user name and password are separate settings"
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as error:
        raise ConfigurationError("the relay's URL has no valid port", hint=hint) from error
    if parts.scheme not in {"mqtt", "mqtts"} or not parts.hostname:
        raise ConfigurationError("the relay's URL must be mqtt://HOST or mqtts://HOST", hint=hint)
    if "@" in parts.netloc or parts.path.strip("/") or parts.query or parts.fragment:
        raise ConfigurationError("the relay's URL must contain only a host and a port", hint=hint)
    encrypted = parts.scheme == "mqtts"
    return parts.hostname, port or (8883 if encrypted else 1883), encrypted


_NEARBY_NETWORKS = tuple(
    ipaddress.ip_network(network)
    for network in (
        "127.0.0.0/8",
        "::1/128",
        "10.0.0.0/8",  # RFC 1918
        "172.16.0.0/12",
        "192.168.0.0/16",
        "fc00::/7",  # RFC 4193
        "169.254.0.0/16",  # RFC 3927
        "fe80::/10",  # RFC 4291
    )
)
_NEARBY_NAMES = ("localhost", "local", "internal", "home.arpa")
"""RFC 6761, RFC 6762, ICANN's private-use domain of 2024, RFC 8375. No public DNS server has them."""


def is_nearby(host: str) -> bool:
    """Say whether a host can only be on this machine or on a private network, by what is written.

    No address is looked up: a name with a private address here may have a stranger's elsewhere.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        name = host.rstrip(".").lower()
        return "." not in name or name.endswith(tuple(f".{each}" for each in _NEARBY_NAMES))
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in network for network in _NEARBY_NETWORKS)


def exposes_password(url: str) -> bool:
    """Say whether a relay's URL exposes the password, and both parties' addresses, to foreign networks.

    Raises:
        ConfigurationError: not a relay's URL.
    """
    host, _, encrypted = parse_url(url)
    return not encrypted and not is_nearby(host)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """Our certificate for a broker that asks: PEM files; without `key_file` the certificate's file has the key.

    `bundle` is certificate and key, where the file is wrapped on the disk, or there is none yet.
    """

    certificate_file: Path
    key_file: Path | None = None
    bundle: bytes = field(default=b"", repr=False)


def plain_words(error: OSError, host: str, port: int) -> str:
    """Say why a connection could not be made or did not last; see `tls_words` for one with TLS."""
    place = f"{host}:{port}"
    match error:
        case socket.gaierror():
            return f"no address is known for {host}"
        case ConnectionRefusedError():
            return f"nothing listens at {place}"
        case TimeoutError():
            return f"no answer from {place}"
        case _:
            return f"{place}: {error.strerror or error}"
