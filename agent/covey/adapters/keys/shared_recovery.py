"""A recovery file that k of n operators open together, without a passphrase (docs/protocol/vault.md, section 14).

1. Inside is a recovery file under a passphrase: a secret of 32 bytes, in hex, that was drawn for this file.
2. Each operator has a part, 32 random bytes, sealed for its signing key, which never changes.
3. For each set of k operators the secret is sealed under a key made of all their parts. Fewer parts open nothing, and
   only standard primitives are used: twelve operators have at most 924 such sets.
4. A sealed part includes a digest of what the file says of itself, so that an operator knows which hub it approves.
5. An operator seals its part again for the key of the machine that asks (`AdoptionRequest`). The part itself is shown
   to nobody else.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING

from covey.core import crypto
from covey.core.ids import KEY_BYTES, DeviceKey, from_hex
from covey.core.wire import cbor
from covey.errors import ConfigurationError, DecryptionError, LocalError, MalformedError, RemoteError
from covey.limits.group import MAXIMUM_LABEL_BYTES
from covey.limits.key import MAXIMUM_HUB_OPERATORS, MAXIMUM_RECOVERY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from covey.core.crypto import Identity

    Random = Callable[[int], bytes]

_SHARED = 2
_DOMAIN = b"covey/1 recshare"
_SECRET_BYTES = 32
_DIGEST_BYTES = 32
_BOX_BYTES = KEY_BYTES + crypto.NONCE_BYTES + 16
_PART_BYTES = _SECRET_BYTES + _DIGEST_BYTES + _BOX_BYTES
_WRAPPED_BYTES = _SECRET_BYTES + 16
_SETS = max(comb(MAXIMUM_HUB_OPERATORS, each) for each in range(MAXIMUM_HUB_OPERATORS + 1))
_REQUEST, _APPROVAL = "covey-request-", "covey-approval-"


@dataclass(frozen=True, slots=True)
class SharedRecovery:
    """What a shared file says: `parts` and `operators` (key and label) are in the same order."""

    hub: DeviceKey
    label: str
    saved_at_us: int
    needed: int
    operators: tuple[tuple[DeviceKey, str], ...]
    parts: tuple[bytes, ...] = field(repr=False)
    wrapped: tuple[bytes, ...] = field(repr=False)
    recovery: bytes = field(repr=False)
    """The recovery file inside, under the secret."""

    def to_wire(self) -> bytes:
        """Return the file."""
        people = [[key, label, part] for (key, label), part in zip(self.operators, self.parts, strict=True)]
        return cbor.encode(
            [_SHARED, self.hub, self.label, self.saved_at_us, self.needed, people, list(self.wrapped), self.recovery]
        )

    def digest(self) -> bytes:
        """Return the digest of what the file says of itself (rule 4)."""
        people = [[key, label] for key, label in self.operators]
        inside = crypto.digest(_DOMAIN, self.recovery)
        return crypto.digest(
            _DOMAIN, cbor.encode([self.hub, self.label, self.saved_at_us, self.needed, people, inside])
        )

    def place_of(self, operator: DeviceKey) -> int | None:
        """Return where an operator stands in the file; None if it has no part."""
        keys = [key for key, _ in self.operators]
        return keys.index(operator) if operator in keys else None

    def approve(self, identity: Identity, request: str, rng: Random) -> str:
        """Return an operator's part, sealed for the machine that asks.

        Raises:
            LocalError: this device has no part; or the request is none.
            ConfigurationError: its part does not open, or the file says something else than when it was written.
        """
        place = self.place_of(identity.signing_public)
        if place is None:
            raise LocalError(
                "this device has no part of the recovery file", hint="approve on a device of one of its operators"
            )
        asker = read_request(request)
        try:
            plain = _unboxed(self.parts[place], identity.sealing_secret)
        except DecryptionError as error:
            raise ConfigurationError("the part of this device is damaged") from error
        if plain[_SECRET_BYTES:] != self.digest():
            raise ConfigurationError("the recovery file was changed after it was written")
        return _APPROVAL + (bytes([place]) + _boxed(plain[:_SECRET_BYTES], asker, rng)).hex()

    def secret(self, parts: dict[int, bytes]) -> bytes | None:
        """Return the secret from operators' parts, by their places; None if no k of them open it.

        A wrong part, such as one of another file, only costs one operator more.
        """
        for wrapped, places in zip(self.wrapped, combinations(range(len(self.operators)), self.needed), strict=True):
            if parts.keys() >= {*places}:
                key = _key_of([parts[place] for place in places], self.digest())
                with suppress(DecryptionError):
                    return crypto.secretbox_open(wrapped, bytes(crypto.NONCE_BYTES), key)
        return None


def share(
    hub: DeviceKey,
    label: str,
    saved_at_us: int,
    operators: Sequence[tuple[DeviceKey, str]],
    needed: int,
    seal: Callable[[bytearray], bytes],
    rng: Random,
) -> SharedRecovery:
    """Return a recovery file that `needed` of these operators open; `seal` makes the file under a passphrase.

    Raises:
        LocalError: there are too few operators, or too many.
    """
    if not 1 <= needed <= len(operators):
        raise LocalError(
            f"{needed} operators are needed, and this hub obeys {len(operators)} others",
            hint="list them: covey group operators; add one: covey group add-operator DEVICE",
        )
    if len(operators) > MAXIMUM_HUB_OPERATORS:
        raise LocalError(
            f"this hub obeys {len(operators)} operators; a recovery file has parts for at most {MAXIMUM_HUB_OPERATORS}",
            hint="save it with a passphrase: covey hub save FILE",
        )
    secret = bytearray(rng(_SECRET_BYTES))
    recovery = seal(bytearray(secret.hex(), "ascii"))
    said = SharedRecovery(hub, label, saved_at_us, needed, tuple(operators), (), (), recovery)
    digest = said.digest()
    parts = [rng(_SECRET_BYTES) for _ in operators]
    sealed = (
        _boxed(part + digest, crypto.sealing_key(key), rng) for (key, _), part in zip(operators, parts, strict=True)
    )
    wrapped = (  # each key is used once, so that no nonce is needed
        crypto.secretbox_seal(bytes(secret), bytes(crypto.NONCE_BYTES), _key_of(some, digest))
        for some in combinations(parts, needed)
    )
    return SharedRecovery(hub, label, saved_at_us, needed, said.operators, tuple(sealed), tuple(wrapped), recovery)


def read_shared(raw: bytes) -> SharedRecovery | None:
    """Return what a shared recovery file says; None for another file.

    Raises:
        ConfigurationError: it is damaged.
    """
    try:
        content = cbor.decode(raw, 2 * MAXIMUM_RECOVERY_BYTES)
        if not isinstance(content, list) or content[:1] != [_SHARED]:
            return None
        _, hub, label, saved_at_us, needed, people, wrapped, recovery = cbor.record(
            content,
            "shared recovery file",
            cbor.uint(_SHARED),
            cbor.octets(KEY_BYTES),
            cbor.text(MAXIMUM_LABEL_BYTES),
            cbor.uint(),
            cbor.uint(MAXIMUM_HUB_OPERATORS),
            cbor.many(_operator, MAXIMUM_HUB_OPERATORS),
            cbor.many(cbor.octets(_WRAPPED_BYTES), _SETS),
            cbor.octets_to(MAXIMUM_RECOVERY_BYTES),
        )
    except RemoteError as error:
        raise ConfigurationError("this is not a recovery file, or it is damaged") from error
    if not 1 <= needed <= len(people) or len(wrapped) != comb(len(people), needed):
        raise ConfigurationError("the recovery file is damaged")
    operators = tuple((DeviceKey(key), name) for key, name, _ in people)
    parts = tuple(part for _, _, part in people)
    return SharedRecovery(DeviceKey(hub), label, saved_at_us, needed, operators, parts, tuple(wrapped), recovery)


class AdoptionRequest:
    """A machine that asks the operators of a shared recovery file for their parts."""

    def __init__(self, shared: SharedRecovery, rng: Random) -> None:
        """Draw a key for this request."""
        self._shared, self._secret = shared, rng(_SECRET_BYTES)
        self.public = crypto.scalar_base(self._secret)
        self._parts: dict[int, bytes] = {}

    @property
    def text(self) -> str:
        """What operators are given."""
        return _REQUEST + self.public.hex()

    @property
    def is_complete(self) -> bool:
        """Whether the approvals open the recovery file."""
        return self._shared.secret(self._parts) is not None

    @property
    def approved(self) -> tuple[str, ...]:
        """The labels of the operators that have approved."""
        return tuple(self._shared.operators[place][1] for place in sorted(self._parts))

    def take(self, approval: str) -> None:
        """Take an operator's approval.

        Raises:
            LocalError: it is none, or an approval of another request.
        """
        try:
            if not approval.startswith(_APPROVAL):
                raise MalformedError("no approval")
            raw = from_hex(approval.removeprefix(_APPROVAL), 1 + _SECRET_BYTES + _BOX_BYTES)
            part = _unboxed(raw[1:], self._secret)
            if raw[0] >= len(self._shared.operators):
                raise MalformedError("an approval of another file")
        except RemoteError as error:
            raise LocalError(
                "this is no approval of this request",
                hint="on an operator's device: covey hub approve FILE REQUEST",
            ) from error
        self._parts[raw[0]] = part

    def passphrase(self) -> bytearray:
        """Return what opens the recovery file inside.

        Raises:
            ConfigurationError: the parts do not open it.
        """
        secret = self._shared.secret(self._parts)
        if secret is None:
            raise ConfigurationError(
                "these approvals do not open the recovery file", hint="approve the same file on each device"
            )
        return bytearray(secret.hex(), "ascii")


def read_request(text: str) -> bytes:
    """Return the key of a machine that asks.

    Raises:
        LocalError: it is no request.
    """
    try:
        if not text.startswith(_REQUEST):
            raise MalformedError("no request")
        return from_hex(text.removeprefix(_REQUEST), KEY_BYTES)
    except RemoteError as error:
        raise LocalError("this is no request", hint="on the new machine: covey hub adopt FILE") from error


def _operator(value: object) -> tuple[bytes, str, bytes]:
    key, label, part = cbor.record(
        value, "operator", cbor.octets(KEY_BYTES), cbor.text(MAXIMUM_LABEL_BYTES), cbor.octets(_PART_BYTES)
    )
    return key, label, part


def _key_of(parts: Iterable[bytes], digest: bytes) -> bytes:
    return crypto.hkdf_sha256(b"".join(parts), b"", _DOMAIN + digest, _SECRET_BYTES)


def _boxed(plain: bytes, public: bytes, rng: Random) -> bytes:
    secret, nonce = rng(_SECRET_BYTES), rng(crypto.NONCE_BYTES)
    return crypto.scalar_base(secret) + nonce + crypto.box_seal(plain, nonce, public, secret)


def _unboxed(boxed: bytes, secret: bytes) -> bytes:
    public, nonce = boxed[:KEY_BYTES], boxed[KEY_BYTES : KEY_BYTES + crypto.NONCE_BYTES]
    return crypto.box_open(boxed[KEY_BYTES + crypto.NONCE_BYTES :], nonce, public, secret)
