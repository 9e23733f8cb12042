"""Check a device's own relay: is it there, does it prove its identity, does it accept us, what does it let us read?

Run once, with the device's own credential, for `covey check`. `examination` tries far more.

1. The device is not affected: its session stays, waiting messages are not acknowledged, and every subscription made
   here is ended here. But the broker knows one client of a name: only the holder of the relay's lock may sign in.
2. Conclusions rest only on delivered messages, not on grants. Subscriptions ask for QoS 0, so waiting messages do not
   interfere.
3. Test messages go to an inbox that nobody has: its name is random.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from dataclasses import dataclass
from queue import Empty, Queue
from typing import TYPE_CHECKING

from covey.adapters.broker.visitor import BrokerAddress, Visitor
from covey.adapters.mqtt.settings import ClientCertificate, Place, parse_url
from covey.adapters.mqtt.tls import certificate_seconds, judge_times, refuses_tls13, tls_context, tls_words
from covey.core.ids import DeviceKey
from covey.core.wire.topics import inbox_topic
from covey.errors import RelayError
from covey.ports import RelayDown, RelayEvent, RelayUp

if TYPE_CHECKING:
    from pathlib import Path

    from covey.ports import Relay

_CONNECT_S = 5.0
_ACCEPT_S = 15.0
_SESSION_S = 7 * 86_400
_GRACE_S = 1.0
"""A broker that has answered a publish delivers it at once; a second is for a busy one."""

NO_MQTT_5 = "does not speak MQTT 5"
"""What a connection says of a server that is too old, or may be."""

OLD_SERVER_HINT = "use a broker that speaks MQTT 5; 'covey system-files broker_conf/README.md' lists some"
CREDENTIAL_HINT = "add the device to the broker again, then covey relay set --password-file -"


@dataclass(frozen=True, slots=True)
class Reached:
    """A relay that answers; `certificate_ends_at` is in Unix seconds, None without TLS."""

    address: str
    protocol: str
    certificate_ends_at: float | None


def connect(
    url: str,
    ca_file: Path | None,
    client: ClientCertificate | None = None,
    *,
    allow_tls12: bool = False,
    place: Place | None = None,
) -> Reached:
    """Connect, and shake hands where TLS is asked for; nothing of MQTT.

    `place` is where to connect instead of the URL's host and port. TLS checks the URL's host all the same.

    Raises:
        ConfigurationError: the URL, the CA file or the certificate is not usable.
        RelayError: no connection, or a certificate that is not trusted.
    """
    host, port, encrypted = parse_url(url)
    context = tls_context(ca_file, client, allow_tls12=allow_tls12) if encrypted else None
    if context is not None:
        judge_times(context, time.time())
    try:
        with socket.create_connection(place or (host, port), timeout=_CONNECT_S) as plain:
            if context is None:
                return Reached(f"{host}:{port}", "TCP", None)
            with context.wrap_socket(plain, server_hostname=host) as secure:
                certificate = secure.getpeercert() or {}
                ends_at = certificate_seconds(str(certificate["notAfter"]))
                return Reached(f"{host}:{port}", secure.version() or "TLS", ends_at)
    except OSError as error:
        raise RelayError(tls_words(error, host, port), hint=_hint(error)) from error


def _hint(error: OSError) -> str:
    match error:
        case ssl.SSLCertVerificationError(verify_message=message) if "expired" in message:
            return "renew the broker's certificate; if it is fresh, this machine's clock is wrong"
        case ssl.SSLCertVerificationError(verify_message=message) if "not yet valid" in message:
            return "is this machine's clock right?"
        case ssl.SSLCertVerificationError():
            return (
                "name the authority: --ca-file FILE, or covey relay set --ca-file FILE; "
                "the URL's host must be the certificate's"
            )
        case ssl.SSLError() if refuses_tls13(error):
            return (
                "let the broker speak TLS 1.3 (mosquitto: tls_version tlsv1.3); if it cannot, and as long as it "
                "cannot: covey config set relay.allow_tls12 true"
            )
        case ssl.SSLError():
            return "does the broker speak TLS on this port? mqtts:// means port 8883, mqtt:// port 1883"
        case _:
            return "check the URL, the network and the firewall, and that the broker runs"


def sign_in(relay: Relay) -> RelayUp:
    """Have the relay accept us and our inbox, and leave again.

    Raises:
        RelayError: it refuses, or does not answer in time.
    """
    events: Queue[RelayEvent] = Queue()
    relay.start(events.put)
    try:
        while True:
            event = events.get(timeout=_ACCEPT_S)
            if isinstance(event, RelayUp):
                return event
            if isinstance(event, RelayDown):
                raise RelayError(event.reason, hint=OLD_SERVER_HINT if NO_MQTT_5 in event.reason else CREDENTIAL_HINT)
    except Empty as error:
        raise RelayError("the relay does not answer", hint=OLD_SERVER_HINT) from error
    finally:
        relay.stop()


@dataclass(frozen=True, slots=True)
class Openings:
    """What a device can do on its broker: write to others' inboxes, read them, read what the broker says of itself."""

    writes: bool
    overhears: bool
    statistics: bool


def look_around(
    url: str,
    ca_file: Path | None,
    client: ClientCertificate | None,
    user_name: str,
    password: str,
    *,
    allow_tls12: bool = False,
) -> Openings:
    """Try what a curious device would.

    Raises:
        ConfigurationError: the URL, the CA file or the certificate is not usable.
        RelayError: the broker does not let us in, or does not answer.
    """
    host, port, encrypted = parse_url(url)
    context = tls_context(ca_file, client, allow_tls12=allow_tls12) if encrypted else None
    address = BrokerAddress(host, port, context)
    foreign = inbox_topic(DeviceKey(secrets.token_bytes(32)))
    prefix = foreign.rpartition("/")[0]
    topics = [foreign, f"{prefix}/+", "#", f"$share/covey-check/{foreign}", "$SYS/#"]
    visitor = Visitor(
        address, user_name, password, client_id=user_name, clean=False, session_s=_SESSION_S, acknowledges=False
    )
    try:
        if visitor.refusal:
            raise RelayError(f"the relay refuses this device: {visitor.refusal}", hint=CREDENTIAL_HINT)
        for topic in topics:
            visitor.subscribe(topic, qos=0)
        writes = visitor.publish(foreign, secrets.token_bytes(32))
        seen = visitor.topics_within(_GRACE_S) - {f"{prefix}/{user_name}"}
        for topic in topics:
            visitor.unsubscribe(topic)
        statistics = {topic for topic in seen if topic.startswith("$SYS/")}
        return Openings(writes, bool(seen - statistics), bool(statistics))
    finally:
        visitor.close()
