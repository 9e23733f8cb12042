"""Settings of an MQTT relay: address, limits and reconnection delays.

No paho here, so that it can be read and tested without a connection; `relay.py` does the rest.
"""

from __future__ import annotations

import ipaddress
import math
import os
import socket
import ssl
from dataclasses import dataclass, field
from random import SystemRandom
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from covey.adapters.clock import PROGRAM_S
from covey.adapters.keys.key_file import read_secret
from covey.adapters.mqtt.wire_meter import WireMeter
from covey.errors import ConfigurationError

if TYPE_CHECKING:
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

    def note(self, connected: ssl.SSLSocket | ssl.SSLObject) -> None:
        """Note what the server has shown; nothing where its certificate was not checked."""
        begins = str((connected.getpeercert() or {}).get("notBefore", ""))
        if begins:
            self.begins_s = max(self.begins_s, ssl.cert_time_to_seconds(begins))


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


def _resuming() -> type[ssl.SSLSocket]:
    """Return sockets of one context that resume the TLS session of the last one, without certificates.

    That saves some 2 kB for each connection. A ticket is used once (RFC 8446, appendix C.4), and a server that knows it
    no longer makes a full handshake. A resumed session keeps the certificate that was checked at its first handshake.
    """
    kept: list[ssl.SSLSession] = []

    class Resuming(ssl.SSLSocket):
        is_secured = False

        def do_handshake(self, block: bool = False) -> None:
            if kept:
                self.session = kept.pop()
            super().do_handshake(block)
            self.is_secured = True

        def close(self) -> None:
            if self.is_secured and self.session is not None and self.session.has_ticket:
                kept[:] = [self.session]
            super().close()

    return Resuming


_NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME (OpenSSL), for which Python's `ssl` has no name."""


def tls_context(
    ca_file: Path | None,
    client: ClientCertificate | None = None,
    *,
    allow_tls12: bool = False,
    proved: bool = True,
) -> ssl.SSLContext:
    """Return the TLS settings: version 1.3, or also 1.2; the trusted authorities, and our certificate.

    Not `proved`: any server is accepted, as by a joiner that learns its trusted authorities in the ceremony.

    Raises:
        ConfigurationError: a file is not usable, or others may read the private key.
    """
    try:
        context = ssl.create_default_context(cafile=str(ca_file) if ca_file else None)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError(
            f"{ca_file}: not a readable PEM file of certificates",
            hint="name the certificate file of the authority (CA)",
        ) from error
    if not proved:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.sslsocket_class = _resuming()
    context.minimum_version = ssl.TLSVersion.TLSv1_2 if allow_tls12 else ssl.TLSVersion.TLSv1_3
    if client is not None:
        _load_client(context, client)
    return context


def judge_times(context: ssl.SSLContext, now_s: float, earliest_s: float = PROGRAM_S) -> None:
    """Have the next handshakes check certificates' times only by a clock that can be right.

    A machine without a battery says 1970 until a time service answers, and without one it always does. A clock that is
    behind a moment that has passed says nothing of certificates, and as none is valid yet the device would never
    connect. Signatures and names are checked all the same, and by `check_not_ended` what has expired by then.
    """
    flags = context.verify_flags & ~_NO_CHECK_TIME
    context.verify_flags = ssl.VerifyFlags(flags | _NO_CHECK_TIME if now_s < earliest_s else flags)


def check_not_ended(connected: ssl.SSLSocket | ssl.SSLObject, now_s: float, earliest_s: float) -> None:
    """Check that a server's certificate had not expired at the earliest moment that it can be.

    Raises:
        SSLCertVerificationError: it had.
    """
    certificate = connected.getpeercert() if now_s < earliest_s else None
    ends = str((certificate or {}).get("notAfter", ""))
    if ends and ssl.cert_time_to_seconds(ends) < earliest_s:
        error = ssl.SSLCertVerificationError(1, "certificate has expired")
        error.verify_message = "certificate has expired"
        raise error


def _load_client(context: ssl.SSLContext, client: ClientCertificate) -> None:
    key_file = client.key_file or client.certificate_file
    try:
        if client.bundle:
            load_bundle(context, client.bundle)
            return
        read_secret(key_file, MAXIMUM_PEM_BYTES)  # whose it is, and who else may read it
        # Without a password a sealed key would be asked for at the terminal, which an agent does not have.
        context.load_cert_chain(client.certificate_file, client.key_file, password="")
    except OSError as error:
        raise ConfigurationError(
            f"{client.certificate_file} and {key_file} are not a certificate and its unencrypted private key in PEM",
            hint="'covey broker enrol' makes both",
        ) from error


def load_bundle(context: ssl.SSLContext, bundle: bytes) -> None:
    """Load a certificate and its key, which OpenSSL takes from a file only: here one in memory.

    Raises:
        OSError: they are not a certificate and its unencrypted private key in PEM.
    """
    descriptor = os.memfd_create("covey", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(bundle)
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password="")
    finally:
        os.close(descriptor)


def refuses_tls13(error: ssl.SSLError) -> bool:
    """Say whether a handshake failed since the other side has no version of TLS that we speak."""
    return error.reason in {"TLSV1_ALERT_PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "WRONG_SSL_VERSION"}


def plain_words(error: OSError, host: str, port: int) -> str:
    """Say why a connection could not be made or did not last."""
    place = f"{host}:{port}"
    match error:
        case ssl.SSLCertVerificationError():
            return f"the certificate of {place} is not trusted: {error.verify_message}"
        case ssl.SSLError():
            no_tls13 = f"{place} does not speak TLS 1.3, and relay.allow_tls12 is off"
            return no_tls13 if refuses_tls13(error) else f"no TLS connection with {place}: {error.reason or error}"
        case socket.gaierror():
            return f"no address is known for {host}"
        case ConnectionRefusedError():
            return f"nothing listens at {place}"
        case TimeoutError():
            return f"no answer from {place}"
        case _:
            return f"{place}: {error.strerror or error}"
