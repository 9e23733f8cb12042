"""Invites by URI: first contact between a member and a device that wants to join (docs/protocol/groups.md, "Pairing").

`covey://join/1/<base64url>` carries `[1, group_id, inviter_signing_pub, inviter_noise_pub, secret16, expires_at_us,
relay_url, ? rendezvous, ? enrolment, ? operators, ? addresses]`. A device that has it may join once, within ten
minutes, and trusts only the keys that it pins. The inviter stores the secret's hash and compares in constant time; the
joiner proves the secret inside a sealed, signed JOIN message `[secret16, noise_pub, label]`. A device without an
account at the relay goes to the rendezvous first, as with a code of words (`ceremony.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from covey.core import crypto
from covey.core.crypto import DeviceKeys
from covey.core.ids import GROUP_ID_BYTES, KEY_BYTES, DeviceKey, GroupId, NoisePublic
from covey.core.pairing.preview import read_operators
from covey.core.pairing.uri import read_uri, write_uri
from covey.core.wire import cbor
from covey.core.wire.announcement import announced, check_announcement
from covey.errors import LocalError, MalformedError, RemoteError
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.limits.pairing import (
    MAXIMUM_ENROLMENT_PASSWORD_BYTES,
    MAXIMUM_INVITE_BYTES,
    MAXIMUM_RELAY_ADDRESS_BYTES,
    MAXIMUM_RELAY_URL_BYTES,
    RENDEZVOUS_NUMBERS,
)
from covey.limits.relay import MAXIMUM_RELAY_ADDRESSES

_PREFIX = "covey://join/1/"
SECRET_BYTES = 16
NO_INVITE = bytes(SECRET_BYTES)
"""In place of the secret in a request to a public group."""
_SECRET_DOMAIN = b"covey/1 invite"
_FIELDS = 7
CODE_WORDS = 3
_CODE_PARTS = 1 + CODE_WORDS


@dataclass(frozen=True, slots=True)
class Invite:
    """What the URI says."""

    group_id: GroupId
    inviter: DeviceKeys
    secret: bytes = field(repr=False)
    expires_at_us: int
    relay_url: str
    rendezvous: int | None = None
    enrolment: str | None = field(default=None, repr=False)
    operators: tuple[DeviceKey, ...] = ()
    """Operators that the joiner is to obey, if its person agrees: ascending, distinct, at most `NAMED_OPERATORS`."""
    addresses: tuple[str, ...] = ()
    """Further places of the relay, as HOST:PORT: distinct, at most `MAXIMUM_RELAY_ADDRESSES`."""

    @property
    def secret_hash(self) -> bytes:
        """What the inviter keeps instead of the secret."""
        return hash_secret(self.secret)

    def to_uri(self) -> str:
        """Return the URI: a secret until it is used or expires.

        Raises:
            LocalError: the relay's URL, or an address of it, is too long to be read back.
        """
        if len(self.relay_url.encode()) > MAXIMUM_RELAY_URL_BYTES:
            raise LocalError(f"the relay's URL must have at most {MAXIMUM_RELAY_URL_BYTES} bytes")
        if any(len(each.encode()) > MAXIMUM_RELAY_ADDRESS_BYTES for each in self.addresses):
            raise LocalError(f"an address of the relay must have at most {MAXIMUM_RELAY_ADDRESS_BYTES} bytes")
        return write_uri(_PREFIX, self.to_wire())

    def to_wire(self) -> bytes:
        """Return what the URI carries."""
        inviter = self.inviter
        keys = [inviter.signing_public, inviter.noise_public]
        more = [self.rendezvous, self.enrolment, list(self.operators) or None, list(self.addresses) or None]
        while more and more[-1] is None:
            more.pop()
        return cbor.encode_growing([1, self.group_id, *keys, self.secret, self.expires_at_us, self.relay_url, *more])

    @classmethod
    def from_uri(cls, uri: str) -> Invite:
        """Parse a URI that a person pasted.

        Raises:
            LocalError: it is not an invite, or was cut off.
        """
        hint = "copy the whole line that 'covey invite' printed"
        raw = read_uri(_PREFIX, uri, "a Covey invite", hint)
        try:
            return cls.from_wire(raw)
        except RemoteError as error:
            raise LocalError("this invite is damaged, or a newer Covey made it", hint=hint) from error

    @classmethod
    def from_wire(cls, raw: bytes) -> Invite:
        """Parse what the URI carries.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        item = cbor.decode_growing(raw, MAXIMUM_INVITE_BYTES)
        more = _MORE[: max(0, len(item) - _FIELDS)] if isinstance(item, list) else ()
        more = (*map(cbor.optional, more[:-1]), *more[-1:])  # the last field is there
        version, group_id, signing, noise, secret, expires, relay_url, *meeting = cbor.record(
            item,
            "invite",
            cbor.uint(255),
            cbor.octets(GROUP_ID_BYTES),
            cbor.octets(KEY_BYTES),
            cbor.octets(KEY_BYTES),
            cbor.octets(SECRET_BYTES),
            cbor.uint(),
            cbor.text(MAXIMUM_RELAY_URL_BYTES),
            *more,
        )
        if version != 1 or meeting[:1] == [0] or meeting[1:] == [""]:
            raise MalformedError("the invite has another version, or a rendezvous without a number or a password")
        if meeting[:1] == [None] and meeting[1] is not None:
            raise MalformedError("the invite has a password but no rendezvous")
        lists = [() if each is None else each for each in meeting[2:]]
        return cls(group_id, DeviceKeys(signing, noise), secret, expires, relay_url, *meeting[:2], *lists)


def _read_addresses(value: object) -> tuple[str, ...]:
    found = cbor.many(cbor.text(MAXIMUM_RELAY_ADDRESS_BYTES), MAXIMUM_RELAY_ADDRESSES)(value)
    if not found or len(set(found)) < len(found):
        raise MalformedError("addresses must be distinct, at least one")
    return found


_MORE: tuple[cbor.Read[Any], ...] = (
    cbor.uint(RENDEZVOUS_NUMBERS),
    cbor.text(MAXIMUM_ENROLMENT_PASSWORD_BYTES),
    read_operators,
    _read_addresses,
)


@dataclass(frozen=True, slots=True)
class Code:
    """What a person reads aloud: the number of a rendezvous, three words that are the secret, and a way to get there.

    `enrolment`, where a fifth part carries it, is the password of the account that meets there; no part of the secret.
    """

    number: int
    words: tuple[str, ...] = field(repr=False)
    enrolment: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"{self.number}-{'-'.join(self.words)}"

    @property
    def password(self) -> bytes:
        """What both sides put into SPAKE2."""
        return str(self).encode()

    @classmethod
    def parse(cls, text: str) -> Code:
        """Parse what a person typed: any case, with hyphens or spaces between.

        Raises:
            LocalError: it is none.
        """
        parts = text.strip().lower().replace("-", " ").split()
        number = int(parts[0]) if parts and parts[0].isascii() and parts[0].isdigit() and len(parts[0]) < 10 else 0
        if len(parts) not in {_CODE_PARTS, _CODE_PARTS + 1} or not 1 <= number <= RENDEZVOUS_NUMBERS:
            raise LocalError(
                "this is neither an invite URI nor an invite code", hint="a code looks like 42-apple-river-zoo"
            )
        return cls(number, tuple(parts[1:_CODE_PARTS]), parts[_CODE_PARTS] if len(parts) > _CODE_PARTS else None)


def hash_secret(secret: bytes) -> bytes:
    """Return what an inviter stores of an invite's secret."""
    return crypto.digest(_SECRET_DOMAIN, secret)


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The body of a JOIN message. The author's signing key is in the message itself."""

    secret: bytes = field(repr=False)
    noise_public: NoisePublic
    label: str
    extensions: bytes = b""
    """What the device announces of its build (`core/group/features.py`), as its member record will have it."""

    def to_wire(self) -> bytes:
        """Return the body."""
        return cbor.encode_growing([self.secret, self.noise_public, self.label], announced(self.extensions))

    @classmethod
    def from_wire(cls, body: bytes) -> JoinRequest:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        fields, extensions = cbor.read_growing(body, 512)
        check_announcement(extensions)
        secret, noise_public, label = cbor.record(
            fields,
            "join",
            cbor.octets(SECRET_BYTES),
            cbor.octets(KEY_BYTES),
            cbor.text(MAXIMUM_LABEL_BYTES),
        )
        crypto.check_noise_key(noise_public)
        return cls(secret, noise_public, label, cbor.encode(extensions) if extensions else b"")
