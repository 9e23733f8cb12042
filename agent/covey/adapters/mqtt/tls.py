"""TLS with brokers: what is spoken, and which certificates are trusted.

Only a connection that is encrypted loads this module: `ssl` and OpenSSL's half of it take 1.3 MiB of an idle agent.
"""

from __future__ import annotations

import os
import ssl
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from covey.adapters.clock import PROGRAM_S
from covey.adapters.keys.key_file import read_secret
from covey.adapters.mqtt.settings import MAXIMUM_PEM_BYTES, plain_words
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from covey.adapters.mqtt.settings import ClientCertificate


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


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def certificate_seconds(text: str) -> float:
    """Return a time of a certificate, as `ssl` gives it, as Unix seconds.

    `ssl.cert_time_to_seconds` does the same, and loads calendars and languages of 0.25 MiB.

    Raises:
        ValueError: it is none.
    """
    month, day, clock, year, _gmt = text.split()
    hour, minute, second = map(int, clock.split(":"))
    return datetime(int(year), 1 + _MONTHS.index(month), int(day), hour, minute, second, tzinfo=UTC).timestamp()


def certificate_begins_s(connected: ssl.SSLSocket | ssl.SSLObject) -> float:
    """Return when the server's certificate begins; 0 where it was not checked."""
    begins = str((connected.getpeercert() or {}).get("notBefore", ""))
    return certificate_seconds(begins) if begins else 0.0


def check_not_ended(connected: ssl.SSLSocket | ssl.SSLObject, now_s: float, earliest_s: float) -> None:
    """Check that a server's certificate had not expired at the earliest moment that it can be.

    Raises:
        SSLCertVerificationError: it had.
    """
    certificate = connected.getpeercert() if now_s < earliest_s else None
    ends = str((certificate or {}).get("notAfter", ""))
    if ends and certificate_seconds(ends) < earliest_s:
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


def tls_words(error: OSError, host: str, port: int) -> str:
    """Say why a connection with TLS could not be made or did not last."""
    place = f"{host}:{port}"
    match error:
        case ssl.SSLCertVerificationError():
            return f"the certificate of {place} is not trusted: {error.verify_message}"
        case ssl.SSLError() if refuses_tls13(error):
            return f"{place} does not speak TLS 1.3, and relay.allow_tls12 is off"
        case ssl.SSLError():
            return f"no TLS connection with {place}: {error.reason or error}"
        case _:
            return plain_words(error, host, port)
