"""The cryptographic suite, as functions of bytes: NaCl box and secretbox, Ed25519, XChaCha20-Poly1305, HKDF.

Only this module imports PyNaCl. It uses the bindings with explicit keys and nonces, so that vectors can test sealing as
well as opening. Every failure to open raises the same `DecryptionError`.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from nacl import bindings
from nacl.exceptions import CryptoError

from covey.core.ids import DeviceKey, NoisePublic
from covey.errors import DecryptionError, LimitError, MalformedError, SignatureError

NONCE_BYTES = 24
SIGNATURE_BYTES = 64
SEAL_BYTES = 16
"""What Poly1305 adds to a plaintext."""

_SMALL_ORDER = frozenset(
    number.to_bytes(32, "little")
    for number in (
        0,
        1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
        2**255 - 20,
    )
)
"""The reduced X25519 keys whose shared secret is zero with everybody (the points of order 1, 2, 4 and 8)."""


@dataclass(frozen=True, slots=True)
class DeviceKeys:
    """What others know of a device: where to address it (X25519) and how to verify it (Ed25519)."""

    signing_public: DeviceKey
    noise_public: NoisePublic


class Secret:
    """A secret that is never shown, and can be wiped: it lies in one buffer that nothing else refers to."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes | bytearray) -> None:
        """Take a copy."""
        self._content = bytearray(content)

    def reveal(self) -> bytes:
        """Return a copy. What libsodium's bindings take is immutable, so keep it no longer than one call."""
        return bytes(self._content)

    def wipe(self) -> None:
        """Overwrite it with zeros."""
        wipe(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __repr__(self) -> str:
        return "Secret(...)"

    def __reduce__(self) -> str:
        raise TypeError("a secret must not be copied or pickled")


def wipe(content: bytearray) -> None:
    """Overwrite a buffer with zeros, in place."""
    content[:] = bytes(len(content))


@dataclass(frozen=True, slots=True)
class NoiseKey:
    """One X25519 key pair of a device; `retired_at_us` is when a later one took its place, 0 for the current one."""

    public: NoisePublic
    secret: Secret = field(repr=False, compare=False)
    retired_at_us: int = 0

    @classmethod
    def of(cls, secret: bytes | bytearray, retired_at_us: int = 0) -> NoiseKey:
        """Derive the pair from 32 secret bytes (RFC 7748 section 5)."""
        if len(secret) != 32:
            raise MalformedError("a noise secret must have 32 bytes")
        kept = Secret(secret)
        return cls(NoisePublic(scalar_base(kept.reveal())), kept, retired_at_us)


@dataclass(slots=True)
class NoiseKeys:
    """Every key that envelopes for a device may be sealed to: the current one, then the retired ones, newest first.

    All who hold the identity share this object, so that a rotation reaches them and a wiped key is gone everywhere.
    """

    keys: tuple[NoiseKey, ...]

    @property
    def current(self) -> NoiseKey:
        """The key that this device tells others."""
        return self.keys[0]

    @property
    def retired(self) -> tuple[NoiseKey, ...]:
        """The keys that only open what is still on its way."""
        return self.keys[1:]

    def holds(self, public: NoisePublic) -> bool:
        """Say whether what is sealed for a key can be opened here."""
        return any(key.public == public for key in self.keys)

    def take(self, keys: tuple[NoiseKey, ...]) -> None:
        """Hold these from now on; the secrets of all others are wiped."""
        kept = {id(key.secret) for key in keys}
        for key in self.keys:
            if id(key.secret) not in kept:
                key.secret.wipe()
        self.keys = keys


@dataclass(frozen=True, slots=True)
class Identity:
    """A device's secrets. Never shown: `repr` holds public keys only (002.32)."""

    signing_public: DeviceKey
    noise: NoiseKeys
    _signing: Secret = field(repr=False, compare=False)

    @classmethod
    def from_seeds(
        cls, signing_seed: bytes | bytearray, noise_secret: bytes | bytearray, retired: tuple[NoiseKey, ...] = ()
    ) -> Identity:
        """Derive the key pairs from two independent 32-byte secrets (RFC 8032 section 5.1.5, RFC 7748 section 5)."""
        return cls.with_noise(signing_seed, (NoiseKey.of(noise_secret), *retired))

    @classmethod
    def with_noise(cls, signing_seed: bytes | bytearray, noise: tuple[NoiseKey, ...]) -> Identity:
        """Derive the signing key pair from its 32-byte seed."""
        if len(signing_seed) != 32:
            raise MalformedError("a signing seed must have 32 bytes")
        signing_public, signing_secret = bindings.crypto_sign_seed_keypair(bytes(signing_seed))
        return cls(DeviceKey(signing_public), NoiseKeys(noise), Secret(signing_secret))

    @property
    def noise_public(self) -> NoisePublic:
        """The current noise key."""
        return self.noise.current.public

    @property
    def noise_secret(self) -> bytes:
        """A copy of the current noise key's secret."""
        return self.noise.current.secret.reveal()

    @property
    def signing_secret(self) -> bytes:
        """A copy of the 64 bytes that libsodium signs with."""
        return self._signing.reveal()

    @property
    def signing_seed(self) -> bytes:
        """A copy of the 32-byte seed of the signing key."""
        return self.signing_secret[:32]

    @property
    def sealing_secret(self) -> bytes:
        """The X25519 secret that belongs to the signing key (`sealing_key`)."""
        return bytes(bindings.crypto_sign_ed25519_sk_to_curve25519(self.signing_secret))

    @property
    def keys(self) -> DeviceKeys:
        """The public half."""
        return DeviceKeys(self.signing_public, self.noise_public)

    def wipe(self) -> None:
        """Overwrite every secret; the identity can do nothing any more."""
        self._signing.wipe()
        for key in self.noise.keys:
            key.secret.wipe()


def sign(domain: bytes, content: bytes, identity: Identity) -> bytes:
    """Return the 64-byte Ed25519 signature over `domain || 0x00 || content` (RFC 8032)."""
    signed: bytes = bindings.crypto_sign(domain + b"\0" + content, identity.signing_secret)
    return signed[:SIGNATURE_BYTES]


def verify(domain: bytes, content: bytes, signature: bytes, signing_public: DeviceKey) -> None:
    """Check a signature made by `sign` over the exact bytes received.

    Raises:
        SignatureError: it does not verify; small-order keys and malleable signatures are refused by libsodium.
    """
    verify_exactly(domain + b"\0" + content, signature, signing_public)


def verify_exactly(content: bytes, signature: bytes, signing_public: DeviceKey) -> None:
    """Check a plain Ed25519 signature, without a domain: what `verify` and the published vectors share.

    Raises:
        SignatureError: as for `verify`.
    """
    if len(signature) != SIGNATURE_BYTES:  # libsodium would take the content's first bytes for the rest
        raise SignatureError("a signature must have 64 bytes")
    try:
        bindings.crypto_sign_open(signature + content, signing_public)
    except (CryptoError, ValueError, TypeError) as error:
        raise SignatureError("the signature does not verify") from error


def box_seal(plaintext: bytes, nonce: bytes, recipient_public: bytes, sender_secret: bytes) -> bytes:
    """Seal with NaCl `crypto_box` (X25519, XSalsa20-Poly1305).

    Raises:
        DecryptionError: the recipient's key is a point of small order, so nobody else's secret would be needed.
    """
    try:
        return bytes(bindings.crypto_box(plaintext, nonce, recipient_public, sender_secret))
    except (CryptoError, ValueError, TypeError) as error:
        raise DecryptionError("unusable public key") from error


def box_open(ciphertext: bytes, nonce: bytes, sender_public: bytes, recipient_secret: bytes) -> bytes:
    """Open what `box_seal` made.

    Raises:
        DecryptionError: it does not open.
    """
    try:
        return bytes(bindings.crypto_box_open(ciphertext, nonce, sender_public, recipient_secret))
    except (CryptoError, ValueError, TypeError) as error:
        raise DecryptionError("envelope does not open") from error


def box_shared(public: bytes, secret: bytes) -> bytes:
    """Return the key under which boxes between two keys lie, for `secretbox_open` of several of them.

    Raises:
        DecryptionError: the public key is a point of small order.
    """
    try:
        return bytes(bindings.crypto_box_beforenm(public, secret))
    except (CryptoError, ValueError, TypeError) as error:
        raise DecryptionError("unusable public key") from error


def secretbox_seal(plaintext: bytes, nonce: bytes, key: bytes) -> bytes:
    """Seal with NaCl `crypto_secretbox` (XSalsa20-Poly1305); no nonce may be used twice with one key."""
    return bytes(bindings.crypto_secretbox(plaintext, nonce, key))


def secretbox_open(ciphertext: bytes, nonce: bytes, key: bytes) -> bytes:
    """Open what `secretbox_seal` made.

    Raises:
        DecryptionError: it does not open.
    """
    try:
        return bytes(bindings.crypto_secretbox_open(ciphertext, nonce, key))
    except (CryptoError, ValueError, TypeError) as error:
        raise DecryptionError("envelope does not open") from error


def check_noise_key(noise_public: NoisePublic) -> None:
    """Refuse a key that nothing can be sealed for.

    Raises:
        MalformedError: not 32 bytes, a point of small order, or another spelling of a shorter number.
    """
    if len(noise_public) != 32 or not is_reduced(noise_public) or noise_public in _SMALL_ORDER:
        raise MalformedError("an unusable X25519 key")


def sealing_key(signing_public: DeviceKey) -> NoisePublic:
    """Return the X25519 key of the same secret as a signing key (RFC 7748 section 4.1, the birational map).

    Raises:
        MalformedError: no point of the prime-order subgroup.
    """
    try:
        return NoisePublic(bytes(bindings.crypto_sign_ed25519_pk_to_curve25519(signing_public)))
    except (CryptoError, ValueError, TypeError) as error:
        raise MalformedError("an unusable signing key") from error


def is_reduced(public: bytes) -> bool:
    """Say whether an X25519 key is the one spelling of its point: X25519 itself ignores the top bit (RFC 7748)."""
    return int.from_bytes(public, "little") < 2**255 - 19


def scalar_base(secret: bytes) -> bytes:
    """Return the X25519 public key of a secret."""
    return bytes(bindings.crypto_scalarmult_base(secret))


def aead_seal(plaintext: bytes, associated: bytes, nonce: bytes, key: bytes) -> bytes:
    """Seal with XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03); `associated` is bound but not stored."""
    return bytes(bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(plaintext, associated, nonce, key))


def aead_open(ciphertext: bytes, associated: bytes, nonce: bytes, key: bytes) -> bytes:
    """Open what `aead_seal` made.

    Raises:
        DecryptionError: wrong key, wrong associated data or tampering.
    """
    try:
        return bytes(bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(ciphertext, associated, nonce, key))
    except (CryptoError, ValueError, TypeError) as error:
        raise DecryptionError("object does not open") from error


def hkdf_sha256(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    """Derive `length` bytes by HKDF-SHA-256 (RFC 5869).

    Raises:
        LimitError: more than 255 blocks of 32 bytes, which the RFC forbids.
    """
    if length > 255 * 32:
        raise LimitError("HKDF-SHA-256 yields at most 8,160 bytes")
    pseudorandom_key = hmac.digest(salt or bytes(32), secret, "sha256")
    output = block = b""
    counter = 1
    while len(output) < length:
        block = hmac.digest(pseudorandom_key, block + info + bytes([counter]), "sha256")
        output += block
        counter += 1
    return output[:length]


def argon2id(passphrase: bytes | bytearray, salt: bytes, passes: int, memory_kib: int) -> Secret:
    """Derive a 32-byte key from a passphrase and a 16-byte salt by Argon2id, one lane (RFC 9106)."""
    return Secret(
        bindings.crypto_pwhash_alg(
            32, bytes(passphrase), salt, passes, memory_kib * 1024, bindings.crypto_pwhash_ALG_ARGON2ID13
        )
    )


def digest(domain: bytes, content: bytes) -> bytes:
    """Return the 32-byte BLAKE2b hash of `content`, personalised by a domain of at most 16 bytes."""
    return hashlib.blake2b(content, digest_size=32, person=domain).digest()


def aead_seal_into(sealed: Any, plaintext: Any, size: int, associated: bytes, nonce: bytes, key: bytes) -> None:
    """Seal as `aead_seal` does, from one buffer into another one of 16 bytes more: what is mapped is not copied."""
    from nacl._sodium import ffi, lib  # the package's own functions copy what they take and what they return

    with ffi.from_buffer(sealed, require_writable=True) as to, ffi.from_buffer(plaintext) as content:
        lib.crypto_aead_xchacha20poly1305_ietf_encrypt(
            to, ffi.NULL, content, size, associated, len(associated), ffi.NULL, nonce, key
        )


def aead_open_into(plaintext: Any, sealed: Any, size: int, associated: bytes, nonce: bytes, key: bytes) -> None:
    """Open as `aead_open` does, `size` sealed bytes of one buffer into another one.

    Raises:
        DecryptionError: wrong key, wrong associated data or tampering; nothing was written.
    """
    from nacl._sodium import ffi, lib

    with ffi.from_buffer(plaintext, require_writable=True) as to, ffi.from_buffer(sealed) as content:
        refused = lib.crypto_aead_xchacha20poly1305_ietf_decrypt(
            to, ffi.NULL, ffi.NULL, content, size, associated, len(associated), nonce, key
        )
    if refused:
        raise DecryptionError("the file does not open")


@cache
def _blake3() -> Any:
    """Return the package's class, or our own slower one: Debian has no such package (ADR 107)."""
    try:
        from blake3 import blake3
    except ImportError:
        from covey.core.blake3_plain import PlainBlake3

        return PlainBlake3
    return blake3


def blake3_hasher() -> Any:
    """Return an object that hashes what its `update` is given: BLAKE3, 32 bytes by `digest`."""
    return _blake3()()


def blake3_hash(content: bytes | memoryview) -> bytes:
    """Return the 32-byte BLAKE3 hash of `content`."""
    hasher = blake3_hasher()
    hasher.update(content)
    return bytes(hasher.digest())


def same(one: bytes, other: bytes) -> bool:
    """Compare secrets in constant time."""
    return hmac.compare_digest(one, other)
