"""Check whether a broker keeps what Covey needs of it (`docs/protocol/`, section 3), with two identities made for it.

1. Each property is tried as an attacker would, and as an honest device: a broker that refuses everything fails, too.
2. Conclusions rest on delivered messages, not on grants or refusals, which brokers give as they like. Brokers deliver
   in order: a client's own last message ends what it will receive.
3. The identities' sessions and inboxes are spent by this. Never use a device's credential.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.adapters.broker.mosquitto_passwords import ENROLMENT_ACCOUNT
from covey.adapters.broker.visitor import BrokerAddress, Visitor
from covey.adapters.mqtt.settings import PACKET_BYTES_MAX, parse_url, publish_bytes
from covey.adapters.mqtt.tls import load_bundle, tls_context
from covey.errors import CoveyError
from covey.limits.message import MAXIMUM_ENVELOPE_BYTES

if TYPE_CHECKING:
    from pathlib import Path

_SESSION_S = 300
_REFUSED = 0x80
_LEVELS, _FILTERS, _FILTERS_AT_ONCE = 150, 200, 20
"""Subscriptions that no device makes: 18 MB of mosquitto's memory, for as long as the examination's connection."""
_SHUT_OUT_S = 2.0
"""How soon the supervisor of a broker must shut out such an account."""
_BOUND_BYTES = 4_000_000
"""A broker that announces no bound must refuse this all the same."""


@dataclass(frozen=True, slots=True)
class BrokerAccount:
    """An account that may come in: by a password, or by a PEM bundle of a certificate with its key."""

    user_name: str
    password: str = ""
    bundle: str = ""

    def __repr__(self) -> str:
        """Return who it is, and never the secret."""
        return f"BrokerAccount({self.user_name[:8]})"

    @property
    def inbox(self) -> str:
        """The topic that is this identity's own."""
        return f"covey/1/in/{self.user_name}"


@dataclass(frozen=True, slots=True)
class ExaminedProperty:
    """One property, whether the broker has it, and what was seen."""

    name: str
    kept: bool
    seen: str


class Examination:
    """One broker, two identities that may come in, and the password that all share."""

    def __init__(
        self,
        url: str,
        ca_file: Path | None,
        identities: tuple[BrokerAccount, BrokerAccount],
        shared_password: str,
        listen_s: float,
        *,
        allow_tls12: bool = False,
    ) -> None:
        """Look at nothing yet.

        Args:
            url: `mqtt://host[:port]` or `mqtts://host[:port]`.
            ca_file: PEM file of the authorities to trust instead of the system's.
            identities: two that no device uses.
            shared_password: the enrolment account's.
            allow_tls12: speak TLS 1.2 with a broker that has no 1.3.
            listen_s: how long to wait for what nobody asked for; brokers publish their counters every ten seconds.

        Raises:
            ConfigurationError: the URL or the CA file is not usable.
        """
        self._url = url
        self._ca_file = ca_file
        self._allow_tls12 = allow_tls12
        self._one, self._two = identities
        self._listen_s = listen_s
        self._shared_password = shared_password
        self._address(None)

    def findings(self) -> Iterator[ExaminedProperty]:
        """Try one property after the other; where nothing gets through, nothing else can be tried."""
        for name, trial in self._trials().items():
            try:
                kept, seen = trial()
            except CoveyError as error:
                kept, seen = False, str(error)
            yield ExaminedProperty(name, kept, seen)
            if name in {"speaks_mqtt5", "delivers"} and not kept:
                return

    def _trials(self) -> dict[str, Callable[[], tuple[bool, str]]]:
        return {
            "speaks_mqtt5": self._speaks_mqtt5,
            "delivers": self._delivers,
            "refuses_strangers": self._refuses_strangers,
            "takes_large_envelopes": self._takes_large_envelopes,
            "bounds_packets": self._bounds_packets,
            "inboxes_are_read_by_owners": self._inboxes_are_read_by_owners,
            "sessions_are_kept_from_others": self._sessions_are_kept_from_others,
            "all_else_is_closed": self._all_else_is_closed,
            "refuses_retained": self._refuses_retained,
            "enrolment_is_confined": self._enrolment_is_confined,
            "enrolment_has_its_own_password": self._enrolment_has_its_own_password,
            "enrolment_has_one_session": self._enrolment_has_one_session,
            "bounds_subscriptions": self._bounds_subscriptions,  # the last: a broker may shut the account out over it
        }

    # --- the trials: whether the property holds, and what was seen ---------------------------------------

    def _speaks_mqtt5(self) -> tuple[bool, str]:
        with self._visit(self._one) as visitor:
            if visitor.refusal:
                return False, f"it refuses the first identity: {visitor.refusal}"
        return True, "accepts MQTT 5 and QoS 1"

    def _refuses_strangers(self) -> tuple[bool, str]:
        strangers = {
            "a client without a name": BrokerAccount(""),
            "a name without password": BrokerAccount(self._one.user_name),
            "a wrong password": BrokerAccount(self._one.user_name, secrets.token_hex(16)),
            "an unknown name": BrokerAccount(secrets.token_hex(32), self._one.password),
        }
        for who, stranger in strangers.items():
            with self._visit(stranger) as visitor:
                if not visitor.refusal:
                    return False, f"it lets {who} in"
        return True, f"refuses {', '.join(strangers)}"

    def _delivers(self) -> tuple[bool, str]:
        with self._visit(self._one) as one, self._visit(self._two) as two:
            one.subscribe(self._one.inbox)
            last = self._send(two, self._one.inbox)
            one.messages_until(last)
        return True, "carries an envelope from one identity to the other"

    def _takes_large_envelopes(self) -> tuple[bool, str]:
        with self._visit(self._one) as one:
            least = publish_bytes(len(self._one.inbox), MAXIMUM_ENVELOPE_BYTES)
            if one.packet_bytes_max < least:
                return False, f"it takes packets up to {one.packet_bytes_max} bytes; {least} are needed"
            one.subscribe(self._one.inbox)
            one.messages_until(self._send(one, self._one.inbox, MAXIMUM_ENVELOPE_BYTES))
        return True, f"carries {MAXIMUM_ENVELOPE_BYTES} bytes"

    def _bounds_packets(self) -> tuple[bool, str]:
        with self._visit(self._one) as one:
            one.subscribe(self._one.inbox)
            with self._visit(self._two) as two:
                announced = two.packet_bytes_max
                large = min(announced, _BOUND_BYTES) + 1024
                self._send(two, self._one.inbox, large)
            with self._visit(self._two) as two:
                if one.messages_until(self._send(two, self._one.inbox)):
                    return False, f"it carries {large} bytes in one message: any device can fill it"
        bound = f", and announces {announced}" if announced < PACKET_BYTES_MAX else ""
        return True, f"refuses {large} bytes{bound}"

    def _inboxes_are_read_by_owners(self) -> tuple[bool, str]:
        secret = self._one.inbox
        topics = [secret, "covey/1/in/+", "covey/#", "#", "+/+/+/+", f"$share/all/{secret}", "$share/all/#"]
        with self._visit(self._one) as one, self._visit(self._two) as two:
            one.subscribe(secret)
            two.subscribe(self._two.inbox)
            for topic in topics:
                two.subscribe(topic)
            one.messages_until(self._send(one, secret))
            overheard = two.messages_until(self._send(two, self._two.inbox))
            if any(topic == secret for topic, _ in overheard):
                return False, "one identity received messages for the other"
        return True, f"tried {len(topics)} subscriptions"

    def _sessions_are_kept_from_others(self) -> tuple[bool, str]:
        mine = self._one.user_name
        with self._visit(self._one, client_id=mine, session_s=_SESSION_S) as one:
            one.subscribe(self._one.inbox)
            with self._visit(self._two, client_id=mine):
                pass
            with self._visit(self._two) as two:
                self._send(two, self._one.inbox)  # gives the broker time to throw the first one out
            if not one.publish(self._one.inbox, b"still here"):
                return False, "one identity ended the other's connection by its client id"
        with self._visit(self._two) as two:
            queued = self._send(two, self._one.inbox)
        with self._visit(self._two, client_id=mine):
            pass
        with self._visit(self._one, client_id=mine, clean=False) as one:
            if not one.session_present:
                return False, "one identity destroyed the other's session, and its queue, by its client id"
            one.messages_until(queued)
        return True, "a foreign client id ends no connection and drains no queue"

    def _all_else_is_closed(self) -> tuple[bool, str]:
        elsewhere = f"covey-check/{secrets.token_hex(8)}"
        with self._visit(self._two) as two:
            for topic in ("#", "$SYS/#", elsewhere):
                two.subscribe(topic)
            two.subscribe(self._two.inbox)
            with self._visit(self._one) as one:
                self._send(one, elsewhere)
                two.listen(self._listen_s)
                last = self._send(one, self._two.inbox)
            overheard = sorted({topic for topic, _ in two.messages_until(last)} - {self._two.inbox})
        if overheard:
            return False, f"readable: {len(overheard)} topics, such as {overheard[0]}"
        return True, "nothing on # and $SYS/#"

    def _refuses_retained(self) -> tuple[bool, str]:
        with self._visit(self._two) as two:
            two.publish(self._one.inbox, b"again and again", retain=True)
        with self._visit(self._one) as one:
            one.subscribe(self._one.inbox)
            kept = [payload for _, payload in one.messages_until(self._send(one, self._one.inbox))]
            if b"again and again" in kept:
                one.publish(self._one.inbox, b"", retain=True)
                return False, "the broker keeps retained messages"
        return True, "keeps none"

    def _enrolment_is_confined(self) -> tuple[bool, str]:
        ours, theirs = (f"covey/1/pair/{secrets.randbelow(10**9)}/{side}" for side in "ab")
        with (
            self._visit(BrokerAccount(ENROLMENT_ACCOUNT, self._shared_password)) as joiner,
            self._visit(self._one) as one,
        ):
            if joiner.refusal:
                return True, f"there is no account {ENROLMENT_ACCOUNT}: {joiner.refusal}"
            one.subscribe(self._one.inbox)
            one.subscribe(ours)
            for topic in (theirs, "#", self._one.inbox, "$SYS/#"):
                joiner.subscribe(topic)
            self._send(joiner, self._one.inbox)
            if any(topic == self._one.inbox for topic, _ in one.messages_until(self._send(joiner, ours))):
                return False, "a client without a credential can write to inboxes"
            one.messages_until(self._send(one, self._one.inbox))
            overheard = {topic for topic, _ in joiner.messages_until(self._send(one, theirs))}
            if overheard - {ours, theirs}:
                return False, f"a client without a credential can read {min(overheard - {ours, theirs})}"
        return True, "can use rendezvous topics only"

    def _enrolment_has_its_own_password(self) -> tuple[bool, str]:
        with self._visit(BrokerAccount(ENROLMENT_ACCOUNT, ENROLMENT_ACCOUNT)) as anybody:
            if anybody.refusal:
                return True, f"refuses the well-known password {ENROLMENT_ACCOUNT}"
        return False, f"anyone can sign in as {ENROLMENT_ACCOUNT}, because its password is its name: covey broker renew"

    def _enrolment_has_one_session(self) -> tuple[bool, str]:
        who = BrokerAccount(ENROLMENT_ACCOUNT, self._shared_password)
        with self._visit(who, client_id=secrets.token_hex(8)) as one:
            if one.refusal:
                return True, f"there is no account {ENROLMENT_ACCOUNT}: {one.refusal}"
            with self._visit(who, client_id=secrets.token_hex(8)):
                if one.publish(f"covey/1/pair/{secrets.randbelow(10**9)}/a", b"still here"):
                    return False, "a client without a credential can hold any number of sessions"
        return True, "one session at a time, whatever its client id"

    def _bounds_subscriptions(self) -> tuple[bool, str]:
        """Subscribe to more than a device needs: too little to harm the broker, and the connection's end removes it."""
        levels = "/".join("a" * (_LEVELS - 2))
        with self._visit(self._two) as two:
            for number in range(_FILTERS // _FILTERS_AT_ONCE):
                codes = two.subscribe_many([f"{number}/{each}/{levels}" for each in range(_FILTERS_AT_ONCE)])
                if two.gone or any(code >= _REFUSED for code in codes):
                    break
            else:
                two.listen(_SHUT_OUT_S)
            if two.gone:
                return True, f"ends a connection that subscribes to some hundred filters of {_LEVELS} levels"
            if number + 1 < _FILTERS // _FILTERS_AT_ONCE:
                return True, f"refuses filters of {_LEVELS} levels, or more than {(number + 1) * _FILTERS_AT_ONCE}"
        return False, (
            f"one account subscribed to {_FILTERS} filters of {_LEVELS} levels: 30 times as many fill 512 MiB of "
            "mosquitto's memory, and it exits"
        )

    # --- how -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _visit(
        self, who: BrokerAccount, *, client_id: str = "", clean: bool = True, session_s: int = 0
    ) -> Iterator[Visitor]:
        visitor = Visitor(
            self._address(who),
            who.user_name or None,
            who.password,
            client_id=client_id or who.user_name,
            clean=clean,
            session_s=session_s,
        )
        try:
            yield visitor
        finally:
            visitor.close()

    def _address(self, who: BrokerAccount | None) -> BrokerAddress:
        host, port, encrypted = parse_url(self._url)
        context = tls_context(self._ca_file, allow_tls12=self._allow_tls12) if encrypted else None
        if context is not None and who is not None and who.bundle:
            load_bundle(context, who.bundle.encode())
        return BrokerAddress(host, port, context)

    @staticmethod
    def _send(visitor: Visitor, topic: str, size: int = 32) -> bytes:
        payload = secrets.token_bytes(32).ljust(size, b"\0")
        visitor.publish(topic, payload)
        return payload
