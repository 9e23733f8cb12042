"""The URI of a public group: no secret, and good for any number of devices (docs/protocol.md, "Pairing").

`covey://group/1/<base64url>` carries `[1, group_id, relay_url, [[signing_pub, noise_pub], ...]]`. The keys are those of
members that a newcomer may ask for the group's manifest, and believes; it is good as long as one of them holds that
noise key.
"""

from __future__ import annotations

from dataclasses import dataclass

from covey.core import crypto
from covey.core.crypto import DeviceKeys
from covey.core.ids import GROUP_ID_BYTES, KEY_BYTES, GroupId
from covey.core.pairing.uri import read_uri, write_uri
from covey.core.wire import cbor
from covey.errors import LimitError, LocalError, MalformedError, RemoteError
from covey.limits.pairing import MAXIMUM_CONTACTS, MAXIMUM_INVITE_BYTES, MAXIMUM_RELAY_URL_BYTES

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
            raise LocalError(f"this is {_WHAT} that is damaged, or of a newer Covey", hint=_HINT) from error

    @classmethod
    def _from_wire(cls, raw: bytes) -> GroupUri:
        version, group_id, relay_url, contacts = cbor.record(
            cbor.decode(raw, MAXIMUM_INVITE_BYTES),
            "group URI",
            cbor.uint(255),
            cbor.octets(GROUP_ID_BYTES),
            cbor.text(MAXIMUM_RELAY_URL_BYTES),
            cbor.many(_contact, MAXIMUM_CONTACTS),
        )
        if version != 1:
            raise MalformedError("a group URI of another version")
        if not contacts or len({each.signing_public for each in contacts}) < len(contacts):
            raise LimitError("a group URI names one member at least, and each once")
        return cls(group_id, tuple(contacts), relay_url)


def _contact(item: object) -> DeviceKeys:
    signing, noise = cbor.record(item, "member", cbor.octets(KEY_BYTES), cbor.octets(KEY_BYTES))
    crypto.check_noise_key(noise)
    return DeviceKeys(signing, noise)
