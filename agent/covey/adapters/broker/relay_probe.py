"""Is the relay there, does it prove who it is, does it accept us? Asked once, for `covey check`."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from covey.adapters.mqtt.settings import ClientCertificate, parse_url, plain_words, tls_context
from covey.errors import RelayError
from covey.ports import RelayDown, RelayEvent, RelayUp

if TYPE_CHECKING:
    from pathlib import Path

    from covey.ports import Relay

_CONNECT_S = 5.0
_ACCEPT_S = 15.0
_OLD_SERVER_HINT = "Covey needs a broker that speaks MQTT 5; covey files broker_conf/README.md names five"
_CREDENTIAL_HINT = "add the device to the broker again, then covey relay --password-file -"


@dataclass(frozen=True, slots=True)
class Reached:
    """A relay that answers; `certificate_ends_at` is in Unix seconds, None without TLS."""

    place: str
    protocol: str
    certificate_ends_at: float | None


def reach(url: str, ca_file: Path | None, client: ClientCertificate | None = None) -> Reached:
    """Connect, and shake hands where TLS is asked for; nothing of MQTT.

    Raises:
        ConfigurationError: the URL, the CA file or the certificate is not usable.
        RelayError: no connection, or a certificate that is not trusted.
    """
    host, port, encrypted = parse_url(url)
    context = tls_context(ca_file, client) if encrypted else None
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_S) as plain:
            if context is None:
                return Reached(f"{host}:{port}", "TCP", None)
            with context.wrap_socket(plain, server_hostname=host) as secure:
                certificate = secure.getpeercert() or {}
                ends_at = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
                return Reached(f"{host}:{port}", secure.version() or "TLS", ends_at)
    except OSError as error:
        raise RelayError(plain_words(error, host, port), hint=_hint(error)) from error


def _hint(error: OSError) -> str:
    match error:
        case ssl.SSLCertVerificationError(verify_message=message) if "expired" in message:
            return "renew the broker's certificate; if it is fresh, this machine's clock is wrong"
        case ssl.SSLCertVerificationError(verify_message=message) if "not yet valid" in message:
            return "is this machine's clock right?"
        case ssl.SSLCertVerificationError():
            return "name the authority: covey relay --ca-file FILE; the URL's host must be the certificate's"
        case ssl.SSLError():
            return "does the broker speak TLS on this port? mqtts:// means port 8883, mqtt:// port 1883"
        case _:
            return "check the URL, the network and the firewall, and that the broker runs"


def sign_in(relay: Relay) -> RelayUp:
    """Have the relay accept us and our inbox, and leave again.

    Raises:
        RelayError: it refuses, or does not answer in time.
    """
    events: SimpleQueue[RelayEvent] = SimpleQueue()
    relay.start(events.put)
    try:
        while True:
            event = events.get(timeout=_ACCEPT_S)
            if isinstance(event, RelayUp):
                return event
            if isinstance(event, RelayDown):
                raise RelayError(event.reason, hint=_OLD_SERVER_HINT if "MQTT 5" in event.reason else _CREDENTIAL_HINT)
    except Empty as error:
        raise RelayError("the relay does not answer", hint=_OLD_SERVER_HINT) from error
    finally:
        relay.stop()
