"""Invites by URI: first contact between a member and a device that wants to join (docs/protocol.md, "Pairing").

`covey://join/1/<base64url>` carries `[1, group_id, inviter_signing_pub, inviter_noise_pub, secret16, expires_at_us,
relay_url]`. Whoever reads it may join once, within ten minutes; the joiner trusts only the keys it pins. The inviter
stores the secret's hash and compares in constant time; the joiner proves the secret inside a sealed, signed JOIN
message `[secret16, noise_pub, label]`.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field

from agent.core import crypto, wire
from agent.core.crypto import DeviceKeys
from agent.core.ids import GROUP_ID_BYTES, KEY_BYTES
from agent.core.limits import MAXIMUM_INVITE_BYTES, MAXIMUM_LABEL_BYTES, MAXIMUM_RELAY_URL_BYTES
from agent.errors import LocalError, RemoteError

_PREFIX = "covey://join/1/"
SECRET_BYTES = 16
_SECRET_DOMAIN = b"covey/1 invite"


@dataclass(frozen=True, slots=True)
class Invite:
    """What the URI says."""

    group_id: bytes
    inviter: DeviceKeys
    secret: bytes = field(repr=False)
    expires_at_us: int
    relay_url: str

    @property
    def secret_hash(self) -> bytes:
        """What the inviter keeps instead of the secret."""
        return hash_secret(self.secret)

    def to_uri(self) -> str:
        """Return the URI: a secret until it is used or expires.

        Raises:
            LocalError: the relay's URL is too long to be read back.
        """
        if len(self.relay_url.encode()) > MAXIMUM_RELAY_URL_BYTES:
            raise LocalError(f"the relay's URL has more than {MAXIMUM_RELAY_URL_BYTES} bytes")
        inviter = self.inviter
        raw = wire.encode(
            [
                1,
                self.group_id,
                inviter.signing_public,
                inviter.noise_public,
                self.secret,
                self.expires_at_us,
                self.relay_url,
            ]
        )
        return _PREFIX + base64.urlsafe_b64encode(raw).decode().rstrip("=")

    @classmethod
    def from_uri(cls, uri: str) -> Invite:
        """Parse a URI that a person pasted.

        Raises:
            LocalError: it is not an invite, or was cut off.
        """
        hint = "copy the whole line that 'covey invite' printed"
        if not uri.startswith(_PREFIX):
            raise LocalError("this is not a Covey invite", hint=hint)
        encoded = uri[len(_PREFIX) :]
        try:
            raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
            version, group_id, signing, noise, secret, expires, relay_url = wire.record(
                wire.decode(raw, MAXIMUM_INVITE_BYTES),
                "invite",
                wire.uint(255),
                wire.octets(GROUP_ID_BYTES),
                wire.octets(KEY_BYTES),
                wire.octets(KEY_BYTES),
                wire.octets(SECRET_BYTES),
                wire.uint(),
                wire.text(MAXIMUM_RELAY_URL_BYTES),
            )
        except (binascii.Error, ValueError, RemoteError) as error:
            raise LocalError("this invite is damaged", hint=hint) from error
        if version != 1:
            raise LocalError(f"this invite is of version {version}", hint="upgrade Covey on this device")
        return cls(group_id, DeviceKeys(signing, noise), secret, expires, relay_url)


def hash_secret(secret: bytes) -> bytes:
    """Return what an inviter stores of an invite's secret."""
    return crypto.digest(_SECRET_DOMAIN, secret)


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The body of a JOIN message. The author's signing key stands in the message itself."""

    secret: bytes = field(repr=False)
    noise_public: bytes
    label: str

    def to_wire(self) -> bytes:
        """Return the body."""
        return wire.encode([self.secret, self.noise_public, self.label])

    @classmethod
    def from_wire(cls, body: bytes) -> JoinRequest:
        """Parse the body.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        secret, noise_public, label = wire.record(
            wire.decode(body, 512),
            "join",
            wire.octets(SECRET_BYTES),
            wire.octets(KEY_BYTES),
            wire.text(MAXIMUM_LABEL_BYTES),
        )
        crypto.check_noise_key(noise_public)
        return cls(secret, noise_public, label)
