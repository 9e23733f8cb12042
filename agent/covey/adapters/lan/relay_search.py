"""Find a relay that has moved to another address of this network (docs/protocol/core.md, section 5).

A device whose relay does not answer at its URL asks the local network; a served relay answers with its port.

1. Question and answer are one datagram each: the question goes to a multicast group, the answer to the asking device.
2. Both have a tag under the relay's authority. So a relay answers devices of its own authority only, and nobody else
   learns from a question which relay is looked for, or that two questions are of the same device.
3. An answer proves nothing: the device connects, and the relay has to prove by its certificate, as always, that it is
   the one in the device's URL.
4. An answer is as long as the question, so that nobody gains by having a relay answer somebody else.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import ssl
import struct
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from covey.limits.relay import RELAY_SEARCH_AUTHORITIES, RELAY_SEARCH_PLACES, RELAY_SEARCH_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from covey.adapters.mqtt.settings import Place

GROUP, PORT = "239.255.67.86", 8883
"""Of the scope of a site (RFC 2365); the port is that of MQTT with TLS, by UDP."""

_QUESTION, _ANSWER = b"covey/1 relay?", b"covey/1 relay!"
_ASKED, _ANSWERED = b"covey/1 find ask", b"covey/1 find ans"
_NONCE_BYTES, _TAG_BYTES = 16, 16
_PORT = struct.Struct(">H")
_LENGTH = len(_QUESTION) + _NONCE_BYTES + _PORT.size + _TAG_BYTES
_END = "-----END CERTIFICATE-----"
_ADDRESSES_S = 30.0
_TURN_S = 0.5


def authority_keys(authorities: str) -> list[bytes]:
    """Return the key of each certificate of a PEM file under which tags are made; what is no certificate has none."""
    keys = []
    for block in authorities.split(_END)[:RELAY_SEARCH_AUTHORITIES]:
        with suppress(ValueError):
            begin = block.index("-----BEGIN CERTIFICATE-----")
            if certificate := ssl.PEM_cert_to_DER_cert(block[begin:] + _END):
                keys.append(hashlib.sha256(certificate).digest())
    return keys


def question(key: bytes, nonce: bytes) -> bytes:
    """Return the question for the relay of an authority."""
    return _QUESTION + nonce + bytes(_PORT.size) + _tag(key, _ASKED, nonce)


def answer(raw: bytes, key: bytes, port: int) -> bytes | None:
    """Return a relay's answer to a datagram; None if that is not a question for it."""
    nonce = raw[len(_QUESTION) :][:_NONCE_BYTES]
    if len(raw) != _LENGTH or not hmac.compare_digest(raw, question(key, nonce)):
        return None
    said = nonce + _PORT.pack(port)
    return _ANSWER + said + _tag(key, _ANSWERED, said)


def answered_port(raw: bytes, key: bytes, nonce: bytes) -> int | None:
    """Return the port in an answer; None if the datagram does not answer the question with this nonce."""
    said = raw[len(_ANSWER) : -_TAG_BYTES]
    if len(raw) != _LENGTH or not raw.startswith(_ANSWER) or said[:_NONCE_BYTES] != nonce:
        return None
    if not hmac.compare_digest(raw[-_TAG_BYTES:], _tag(key, _ANSWERED, said)):
        return None
    (port,) = _PORT.unpack(said[_NONCE_BYTES:])
    return port or None


def find_relays(ca_file: Path, interfaces: Callable[[], Iterable[str]]) -> list[Place]:
    """Ask the local network for relays of these authorities; return where they answer from, after a second at most.

    `interfaces` returns this machine's IPv4 addresses. Without a network or a readable file the result is empty.
    """
    try:
        keys = authority_keys(ca_file.read_text())
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    except (OSError, UnicodeDecodeError):
        return []
    found: dict[Place, None] = {}
    nonce = secrets.token_bytes(_NONCE_BYTES)
    with sender:
        sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        for address in interfaces():
            for key in keys:
                with suppress(OSError):
                    sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
                    sender.sendto(question(key, nonce), (GROUP, PORT))
        deadline = time.monotonic() + RELAY_SEARCH_US / 1e6
        while (left_s := deadline - time.monotonic()) > 0 and len(found) < RELAY_SEARCH_PLACES:
            sender.settimeout(left_s)
            try:
                raw, (address, _) = sender.recvfrom(_LENGTH + 1)
            except OSError:  # the time is over, or the network is gone
                break
            ports = (answered_port(raw, key, nonce) for key in keys)
            if (port := next((each for each in ports if each is not None), None)) is not None:
                found[address, port] = None
    return list(found)


def _tag(key: bytes, domain: bytes, said: bytes) -> bytes:
    return hashlib.blake2b(said, digest_size=_TAG_BYTES, key=key, person=domain).digest()


class RelayAnnouncer:
    """Answers questions for a served relay, on a thread of its own, until it is closed."""

    def __init__(
        self,
        authorities: str,
        port: int,
        interfaces: Callable[[], Sequence[str]],
        trouble: Callable[[str], None],
    ) -> None:
        """Begin. `trouble` gets a sentence if questions cannot be received; the relay is served without that."""
        self._key = next(iter(authority_keys(authorities)), None)
        self._port, self._interfaces = port, interfaces
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        try:
            self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.settimeout(_TURN_S)
            self._socket.bind((GROUP, PORT))
        except OSError as error:
            trouble(f"devices cannot find this relay if its address changes: {error}")
            return
        self._thread = threading.Thread(target=self._answer, name="relay search", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._socket.close()

    def _answer(self) -> None:
        look_at = 0.0
        while not self._ended.is_set():
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + _ADDRESSES_S
                self._listen_everywhere()
            try:
                raw, sender = self._socket.recvfrom(_LENGTH + 1)
                if self._key is not None and (said := answer(raw, self._key, self._port)) is not None:
                    self._socket.sendto(said, sender)
            except OSError:  # nobody asked, or the network of who asked is gone
                continue

    def _listen_everywhere(self) -> None:
        with suppress(OSError):
            for address in self._interfaces():
                with suppress(OSError):  # it listens there already
                    here = socket.inet_aton(GROUP) + socket.inet_aton(address)
                    self._socket.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, here)
