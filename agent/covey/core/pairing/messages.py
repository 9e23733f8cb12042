"""The messages of a pairing, and the keys that both sides derive (docs/protocol/groups.md, "Pairing").

Anybody who can reach the rendezvous can write there, so nothing is believed before the ceremony has proved it. Every
message is `[1, kind, session, ...]`; `session` is the joiner's commitment, which names one run of the ceremony.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from enum import IntEnum
from typing import Any, ClassVar

from covey.core import crypto
from covey.core.crypto import SIGNATURE_BYTES, DeviceKeys, Identity
from covey.core.ids import GROUP_ID_BYTES, KEY_BYTES, DeviceKey, GroupId
from covey.core.pairing.invite import Invite
from covey.core.pairing.preview import OPERATORS_BYTES, PREVIEW_BYTES, GroupPreview, read_operators
from covey.core.pake import ELEMENT_BYTES, Side
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.limits.pairing import (
    MAXIMUM_CERTIFICATES_BYTES,
    MAXIMUM_CREDENTIAL_BYTES,
    MAXIMUM_INVITE_BYTES,
    MAXIMUM_RELAY_URL_BYTES,
    MAXIMUM_RENDEZVOUS_BYTES,
)

HASH_BYTES = 32
VERIFIER_WORDS = 4
WORD_BITS = 11
_VERSION = 1
_DOMAIN = b"covey/1 pairing"
_INTRODUCTION_BYTES = 512 + PREVIEW_BYTES + OPERATORS_BYTES
_INVITER_FIELDS = 5


class Password(IntEnum):
    """What the two share."""

    CODE = 0
    URI = 1


class Reason(IntEnum):
    """Why the inviter ends a ceremony."""

    TAKEN = 1
    WRONG_CODE = 2
    EXPIRED = 3
    CANCELLED = 4
    DECLINED = 5
    FAILED = 6

    @classmethod
    def _missing_(cls, value: object) -> Reason | None:
        """Read a newer Covey's reason as FAILED: the ceremony is over in any case."""
        return cls.FAILED if isinstance(value, int) and value > cls.FAILED else None


class Parting(IntEnum):
    """Why the joiner ends it."""

    STORED = 0
    LEAVES = 1


@dataclass(frozen=True, slots=True)
class Offer:
    """Joiner: I am here, and bound to an element and keys that I do not show yet."""

    KIND: ClassVar[int] = 1
    session: bytes
    password: Password = field(repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
    """Inviter: here is my element; I am bound to my keys."""

    KIND: ClassVar[int] = 2
    session: bytes
    element: bytes
    commitment: bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """Joiner: here is my element, the proof that I know the secret, and, sealed, who I am."""

    KIND: ClassVar[int] = 3
    session: bytes
    element: bytes
    confirmation: bytes
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Welcome:
    """Inviter: the same in return."""

    KIND: ClassVar[int] = 4
    session: bytes
    confirmation: bytes
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """Inviter: sealed, what my person has decided."""

    KIND: ClassVar[int] = 5
    session: bytes
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Farewell:
    """Joiner: sealed, I have what I need, or I go."""

    KIND: ClassVar[int] = 6
    session: bytes
    sealed: bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """Inviter: in the clear, why it does not continue; anybody may have written it."""

    KIND: ClassVar[int] = 7
    session: bytes
    reason: Reason


RendezvousMessage = Offer | Answer | Proof | Welcome | Outcome | Farewell | Refusal


def _one_of(kind: type[IntEnum]) -> cbor.Read[Any]:
    def read(value: object) -> IntEnum:
        number = cbor.uint(255)(value)
        try:
            return kind(number)
        except ValueError as error:
            raise MalformedError(f"{kind.__name__.lower()} {number}") from error

    return read


_hash, _element, _sealed = cbor.octets(HASH_BYTES), cbor.octets(ELEMENT_BYTES), cbor.octets_to(MAXIMUM_RENDEZVOUS_BYTES)

_SHAPES: dict[int, tuple[type[RendezvousMessage], tuple[cbor.Read[Any], ...]]] = {
    Offer.KIND: (Offer, (_hash, _one_of(Password))),
    Answer.KIND: (Answer, (_hash, _element, _hash)),
    Proof.KIND: (Proof, (_hash, _element, _hash, _sealed)),
    Welcome.KIND: (Welcome, (_hash, _hash, _sealed)),
    Outcome.KIND: (Outcome, (_hash, _sealed)),
    Farewell.KIND: (Farewell, (_hash, _sealed)),
    Refusal.KIND: (Refusal, (_hash, _one_of(Reason))),
}


def to_wire(message: RendezvousMessage) -> bytes:
    """Return a message's bytes."""
    values = [getattr(message, each.name) for each in fields_of(message)]
    return cbor.encode([_VERSION, message.KIND, *(int(v) if isinstance(v, IntEnum) else v for v in values)])


def from_wire(raw: bytes) -> RendezvousMessage:
    """Parse a message.

    Raises:
        RemoteError: malformed or beyond a bound.
    """
    item = cbor.decode_growing(raw, MAXIMUM_RENDEZVOUS_BYTES)
    if not isinstance(item, list) or len(item) < 2 or item[0] != _VERSION or type(item[1]) is not int:
        raise MalformedError("not a rendezvous message of this version")
    if item[1] not in _SHAPES:
        raise MalformedError(f"rendezvous message {item[1]}")
    kind, readers = _SHAPES[item[1]]
    _, _, *values = cbor.record(item, kind.__name__.lower(), cbor.uint(255), cbor.uint(255), *readers)
    return kind(*values)


# -- keys -------------------------------------------------------------------------------------------------------------


def joiner_commitment(element: bytes, keys: DeviceKeys) -> bytes:
    """Return the session: what binds the joiner before it has seen anything."""
    return crypto.digest(b"covey/1 pair cb", element + keys.signing_public + keys.noise_public)


def inviter_commitment(session: bytes, element: bytes, keys: DeviceKeys) -> bytes:
    """Return what binds the inviter to its keys before it has seen the joiner's element."""
    return crypto.digest(b"covey/1 pair ca", session + element + keys.signing_public + keys.noise_public)


@dataclass(frozen=True, slots=True)
class CeremonyKeys:
    """What both sides derive if, and only if, they know the same secret."""

    session: bytes
    root: bytes = field(repr=False)

    @classmethod
    def derive(cls, key: bytes, session: bytes, commitment: bytes) -> CeremonyKeys:
        """Derive from SPAKE2's key and both commitments."""
        return cls(session, crypto.digest(b"covey/1 pair key", key + session + commitment))

    def confirmation(self, side: Side) -> bytes:
        """Return the proof that a side has the key: a hash, so that one message tests only one guess."""
        return crypto.digest(b"covey/1 pair cf" + side.value.lower(), self.root)

    def seal(self, side: Side, kind: int, plaintext: bytes) -> bytes:
        """Seal a message's content. A key seals one content of a kind, so the kind is the nonce."""
        return crypto.aead_seal(plaintext, self.session, _nonce(kind), self._key(side))

    def open(self, side: Side, kind: int, sealed: bytes) -> bytes:
        """Open it.

        Raises:
            DecryptionError: it does not open.
        """
        return crypto.aead_open(sealed, self.session, _nonce(kind), self._key(side))

    def introduce(self, side: Side, kind: int, introduction: bytes, identity: Identity) -> bytes:
        """Seal who one is, signed in this ceremony: a key is nobody's who does not hold it."""
        signature = crypto.sign(_DOMAIN, self.confirmation(side) + introduction, identity)
        return self.seal(side, kind, cbor.encode([introduction, signature]))

    def introduced(self, side: Side, kind: int, sealed: bytes) -> tuple[bytes, bytes]:
        """Open an introduction; return it and its signature, which `check` looks at.

        Raises:
            RemoteError: it does not open, or is malformed.
        """
        introduction, signature = cbor.record(
            cbor.decode_growing(self.open(side, kind, sealed), _INTRODUCTION_BYTES + 512),
            "introduction",
            cbor.octets_to(_INTRODUCTION_BYTES),
            cbor.octets(SIGNATURE_BYTES),
        )
        return introduction, signature

    def check(self, side: Side, introduction: bytes, signature: bytes, keys: DeviceKeys) -> None:
        """Check that who is introduced holds its signing key.

        Raises:
            SignatureError: it does not.
        """
        crypto.verify(_DOMAIN, self.confirmation(side) + introduction, signature, keys.signing_public)

    def verifier(self, inviter: DeviceKeys, joiner: DeviceKeys) -> tuple[int, ...]:
        """Return the places, in the list of 2,048 words, of the words that both people compare."""
        named = inviter.signing_public + inviter.noise_public + joiner.signing_public + joiner.noise_public
        number = int.from_bytes(crypto.digest(b"covey/1 pair vfy", self.root + named), "big")
        drawn = number >> (8 * HASH_BYTES - VERIFIER_WORDS * WORD_BITS)
        return tuple(drawn >> WORD_BITS * place & 2**WORD_BITS - 1 for place in reversed(range(VERIFIER_WORDS)))

    def _key(self, side: Side) -> bytes:
        return crypto.digest(b"covey/1 pair k" + side.value.lower(), self.root)


def _nonce(kind: int) -> bytes:
    return bytes([kind]).ljust(crypto.NONCE_BYTES, b"\0")


# -- what is sealed ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JoinerIntroduction:
    """Who wants to join; `needs_credential` says that it has no account at the relay."""

    keys: DeviceKeys
    label: str
    needs_credential: bool

    def to_wire(self) -> bytes:
        """Return the content of a proof."""
        keys = self.keys
        return cbor.encode_growing([keys.signing_public, keys.noise_public, self.label, self.needs_credential])

    @classmethod
    def from_wire(cls, raw: bytes) -> JoinerIntroduction:
        """Parse it.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        signing, noise, label, needs = cbor.record(
            cbor.decode_growing(raw, 512),
            "joiner",
            cbor.octets(KEY_BYTES),
            cbor.octets(KEY_BYTES),
            cbor.text(MAXIMUM_LABEL_BYTES),
            cbor.boolean,
        )
        crypto.check_noise_key(noise)
        return cls(DeviceKeys(signing, noise), label, needs)


@dataclass(frozen=True, slots=True)
class InviterIntroduction:
    """Who invites, and where to: nobody reads it who has not proved to know the secret."""

    keys: DeviceKeys
    label: str
    group_id: GroupId
    preview: GroupPreview
    """What the inviter says of the group."""
    operators: tuple[DeviceKey, ...] = ()
    """Operators that the joiner is to obey, if its person agrees."""

    def to_wire(self) -> bytes:
        """Return the content of a welcome."""
        keys, operators = [self.keys.signing_public, self.keys.noise_public], [list(self.operators)]
        named = operators if self.operators else []
        return cbor.encode_growing([*keys, self.label, self.group_id, self.preview.to_wire(), *named])

    @classmethod
    def from_wire(cls, raw: bytes) -> InviterIntroduction:
        """Parse it.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        fields = cbor.decode_growing(raw, _INTRODUCTION_BYTES)
        named = (read_operators,) if isinstance(fields, list) and len(fields) > _INVITER_FIELDS else ()
        signing, noise, label, group_id, preview, *operators = cbor.record(
            fields,
            "inviter",
            cbor.octets(KEY_BYTES),
            cbor.octets(KEY_BYTES),
            cbor.text(MAXIMUM_LABEL_BYTES),
            cbor.octets(GROUP_ID_BYTES),
            GroupPreview.from_wire,
            *named,
        )
        crypto.check_noise_key(noise)
        return cls(DeviceKeys(signing, noise), label, group_id, preview, *operators)


@dataclass(frozen=True, slots=True)
class Admission:
    """What an accepted joiner gets. Empty: no authority of its own for the relay, no credential needed or to be had."""

    relay_url: str
    certificates: str
    credential: str = field(repr=False)
    invite: Invite

    def to_wire(self) -> bytes:
        """Return the content of an outcome."""
        return cbor.encode_growing([0, self.relay_url, self.certificates, self.credential, self.invite.to_wire()])


def refused(reason: Reason) -> bytes:
    """Return the content of an outcome that is none."""
    return cbor.encode([1, int(reason)])


def read_outcome(raw: bytes) -> Admission | Reason:
    """Parse the content of an outcome.

    Raises:
        RemoteError: malformed or beyond a bound.
    """
    item = cbor.decode_growing(raw, MAXIMUM_RENDEZVOUS_BYTES)
    if isinstance(item, list) and item[:1] == [1]:
        _, reason = cbor.record(item, "outcome", cbor.uint(1), _one_of(Reason))
        return Reason(reason)
    _, relay_url, certificates, credential, invite = cbor.record(
        item,
        "outcome",
        cbor.uint(0),
        cbor.text(MAXIMUM_RELAY_URL_BYTES),
        cbor.text(MAXIMUM_CERTIFICATES_BYTES),
        cbor.text(MAXIMUM_CREDENTIAL_BYTES),
        cbor.octets_to(MAXIMUM_INVITE_BYTES),
    )
    return Admission(relay_url, certificates, credential, Invite.from_wire(invite))


def parting_content(parting: Parting) -> bytes:
    """Return the content of a farewell."""
    return cbor.encode([int(parting)])


def read_parting(raw: bytes) -> Parting:
    """Parse the content of a farewell.

    Raises:
        RemoteError: malformed.
    """
    (parting,) = cbor.record(cbor.decode_growing(raw, 16), "farewell", _one_of(Parting))
    return Parting(parting)
