"""`identity.key` and `noise.keys`: a device's secrets, in the clear or sealed (docs/protocol/vault.md, section 14).

`identity.key` is `[1, signing_seed]`: a person who can read the owner's files is the owner. With a passphrase it is
`[2, salt16, passes, memory_kib, nonce24, sealed]`: the plain file, sealed as `passphrase.py` says. Bound to this
machine, or to a token, it is `[3, seal, blob, nonce24, sealed]`, as `seals.py` says.

`noise.keys` is `[1, nonce24, sealed]`: the noise secrets, newest first, sealed with a key derived from the signing
seed. A running agent can therefore load and delete noise keys without the passphrase, and nobody else can.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

from covey.adapters.journal import report
from covey.adapters.keys.passphrase import open_under_passphrase, seal_under_passphrase
from covey.adapters.keys.seals import best_seal, is_sealed, open_by_seal, seal_by, seal_of
from covey.core import crypto
from covey.core.crypto import NoiseKey, Secret
from covey.core.wire import cbor
from covey.errors import ConfigurationError, RemoteError, TransientError
from covey.limits.key import ARGON2_MEMORY_KIB, ARGON2_PASSES, RETIRED_NOISE_KEYS

MAXIMUM_FILE_BYTES = 4096
_DOMAIN = b"covey/1 identity"
_NOISE_DOMAIN = b"covey/1 noise keys"
_PLAIN, _SEALED = 1, 2
_NOISE_FORMAT = 1


def plain_file(seed: bytes) -> bytes:
    """Return `identity.key` in the clear."""
    return cbor.encode([_PLAIN, seed])


def sealed_file(
    seed: bytes, passphrase: bytes | bytearray, passes: int = ARGON2_PASSES, memory_kib: int = ARGON2_MEMORY_KIB
) -> bytes:
    """Return `identity.key` under a passphrase."""
    return seal_under_passphrase(plain_file(seed), _DOMAIN, _SEALED, passphrase, passes, memory_kib)


def bound_file(seed: bytes, seal: str, module: Path | None, passphrase: Callable[[], bytearray]) -> bytes:
    """Return `identity.key` bound to this machine or a token, which has opened it once.

    Raises:
        ConfigurationError: the seal cannot be used here, or does not open what it sealed.
    """
    return seal_by(seal, plain_file(seed), module, passphrase)


def best_file(seed: bytes) -> bytes:
    """Return `identity.key` for a new device: bound to this machine where that works, else in the clear."""
    seal = best_seal()
    if seal:
        try:
            return bound_file(seed, seal, None, bytearray)
        except (ConfigurationError, TransientError) as error:  # a TPM with an owner's password, say
            report("warning", f"this device's key stays in the clear: {error}")
    return plain_file(seed)


def how_kept(raw: bytes | bytearray) -> tuple[str, str]:
    """Return how the seed is kept in `identity.key`: a word, and what people are told.

    The word is "none", "passphrase", or the name of the seal.

    Raises:
        RemoteError: it is damaged.
        ConfigurationError: a newer Covey sealed it.
    """
    content = cbor.decode(bytes(raw), MAXIMUM_FILE_BYTES)
    if is_sealed(content):
        return seal_of(content)
    if isinstance(content, list) and content[:1] == [_SEALED]:
        return "passphrase", "under a passphrase"
    return "none", "in the clear, for its owner only: a thief of the disk has it"


def read_seed(raw: bytes | bytearray, where: Path, passphrase: Callable[[], bytearray]) -> Secret:
    """Read `identity.key` in any form; `passphrase` is called only where one is needed, and what it gives is wiped.

    A token's PIN comes from there, too.

    Raises:
        ConfigurationError: damaged, of a newer Covey, weaker or dearer than allowed, or the passphrase is wrong; or the
            seal does not open it.
    """
    try:
        content = cbor.decode(bytes(raw), MAXIMUM_FILE_BYTES)
        if isinstance(content, list) and content[:1] == [_SEALED]:
            plain = open_under_passphrase(content, _DOMAIN, MAXIMUM_FILE_BYTES, "the key file", passphrase)
            return _stored(cbor.decode(plain, MAXIMUM_FILE_BYTES), where)
        if is_sealed(content):
            return _stored(cbor.decode(open_by_seal(content, passphrase), MAXIMUM_FILE_BYTES), where)
        return _stored(content, where)
    except RemoteError as error:
        raise ConfigurationError(f"{where} is damaged", hint="restore it from a backup") from error


def _stored(content: object, where: Path) -> Secret:
    if isinstance(content, list) and content[:1] == [_PLAIN]:
        _, seed = cbor.record(content, "identity", cbor.uint(255), cbor.octets(32))
        return Secret(seed)
    raise ConfigurationError(
        f"{where} is damaged, or a newer Covey wrote it", hint="restore it from a backup, or upgrade Covey"
    )


def noise_file(seed: bytes, keys: tuple[NoiseKey, ...]) -> bytes:
    """Return `noise.keys`: the current key first."""
    nonce = secrets.token_bytes(crypto.NONCE_BYTES)
    head = [_NOISE_FORMAT, nonce]
    plain = cbor.encode([[key.secret.reveal(), key.retired_at_us] for key in keys])
    return cbor.encode([*head, crypto.aead_seal(plain, _NOISE_DOMAIN + cbor.encode(head), nonce, _noise_key(seed))])


def read_noise(raw: bytes | bytearray, where: Path, seed: bytes) -> tuple[NoiseKey, ...]:
    """Read `noise.keys`.

    Raises:
        ConfigurationError: damaged, another device's, or of a newer Covey.
    """
    try:
        *head, sealed = cbor.record(
            cbor.decode(bytes(raw), MAXIMUM_FILE_BYTES),
            "noise keys",
            cbor.uint(255),
            cbor.octets(crypto.NONCE_BYTES),
            cbor.octets_to(MAXIMUM_FILE_BYTES),
        )
        if head[0] != _NOISE_FORMAT:
            raise ConfigurationError(f"a newer Covey wrote {where}", hint="upgrade Covey")
        plain = crypto.aead_open(sealed, _NOISE_DOMAIN + cbor.encode(head), head[1], _noise_key(seed))
        rows = cbor.many(_noise_row, RETIRED_NOISE_KEYS + 1)(cbor.decode(plain, MAXIMUM_FILE_BYTES))
    except RemoteError as error:
        raise ConfigurationError(
            f"{where} is damaged or belongs to another device", hint="restore it from a backup"
        ) from error
    if not rows:
        raise ConfigurationError(f"{where} contains no key", hint="restore it from a backup")
    return tuple(NoiseKey.of(secret, retired_at_us) for secret, retired_at_us in rows)


def _noise_row(value: object) -> tuple[bytes, int]:
    secret, retired_at_us = cbor.record(value, "noise key", cbor.octets(32), cbor.uint())
    return secret, retired_at_us


def _noise_key(seed: bytes) -> bytes:
    return crypto.hkdf_sha256(seed, b"", _NOISE_DOMAIN, 32)
