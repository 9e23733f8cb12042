"""URIs that people copy: a prefix, and one CBOR item in base64url without padding (docs/protocol/groups.md, "Pairing").

The URI of a public group contains no secret, and any number of devices can use it. `covey://group/1/<base64url>`
carries `[1, group_id, relay_url, [[signing_pub, noise_pub], ...]]`: keys of members that a newcomer may ask for the
group's manifest, and believes. The URI works as long as one of them holds that noise key.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from covey.core import crypto
from covey.core.crypto import DeviceKeys
from covey.core.ids import GROUP_ID_BYTES, KEY_BYTES, GroupId
from covey.core.wire import cbor
from covey.errors import LimitError, LocalError, MalformedError, RemoteError
from covey.limits.pairing import MAXIMUM_CONTACTS, MAXIMUM_INVITE_BYTES, MAXIMUM_RELAY_URL_BYTES

URI_SCHEME = "covey:"


def write_uri(prefix: str, raw: bytes) -> str:
    """Return the URI that carries these bytes."""
    return prefix + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def read_uri(prefix: str, uri: str, what: str, hint: str) -> bytes:
    """Return the bytes that a pasted URI carries; `what` is its name for people.

    Raises:
        LocalError: it has another prefix, was cut off, or is not as this Covey would write it.
    """
    if not uri.startswith(prefix):
        raise LocalError(f"this is not {what}", hint=hint)
    encoded = uri[len(prefix) :]
    try:
        raw = base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise LocalError(f"this is {what} that is damaged, or that a newer Covey made", hint=hint) from error
    if write_uri(prefix, raw) != uri:
        raise LocalError(f"this is {what} that is damaged", hint=hint)
    return raw


GROUP_URI_PREFIX = "covey://group/1/"
_WHAT, _HINT = "a public group's URI", "copy the whole line that 'covey group uri' printed"


@dataclass(frozen=True, slots=True)
class GroupUri:
    """A public group, the members to ask, the first one first, and where they are."""

    group_id: GroupId
    contacts: tuple[DeviceKeys, ...]
    relay_url: str

    def to_uri(self) -> str:
        """Return the URI."""
        contacts = [[each.signing_public, each.noise_public] for each in self.contacts]
        return write_uri(GROUP_URI_PREFIX, cbor.encode([1, self.group_id, self.relay_url, contacts]))

    @classmethod
    def from_uri(cls, uri: str) -> GroupUri:
        """Parse a URI that a person pasted.

        Raises:
            LocalError: it is none, or was cut off.
        """
        raw = read_uri(GROUP_URI_PREFIX, uri, _WHAT, _HINT)
        try:
            return cls._from_wire(raw)
        except RemoteError as error:
            raise LocalError(f"this is {_WHAT} that is damaged, or that a newer Covey made", hint=_HINT) from error

    @classmethod
    def _from_wire(cls, raw: bytes) -> GroupUri:
        version, group_id, relay_url, contacts = cbor.record(
            cbor.decode_growing(raw, MAXIMUM_INVITE_BYTES),
            "group URI",
            cbor.uint(255),
            cbor.octets(GROUP_ID_BYTES),
            cbor.text(MAXIMUM_RELAY_URL_BYTES),
            cbor.many(_contact, MAXIMUM_CONTACTS),
        )
        if version != 1:
            raise MalformedError("the group URI has another version")
        if not contacts or len({each.signing_public for each in contacts}) < len(contacts):
            raise LimitError("a group URI must name at least one member, and each once")
        return cls(group_id, tuple(contacts), relay_url)


def _contact(item: object) -> DeviceKeys:
    signing, noise = cbor.record(item, "member", cbor.octets(KEY_BYTES), cbor.octets(KEY_BYTES))
    crypto.check_noise_key(noise)
    return DeviceKeys(signing, noise)
