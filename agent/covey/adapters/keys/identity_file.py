"""`identity.key` and `noise.keys`: a device's secrets, in the clear or sealed with a passphrase
(docs/protocol/vault.md, section 14).

`identity.key` is `[1, signing_seed]`: a person who can read the owner's files is the owner. With a passphrase it is
`[2, salt16, passes, memory_kib, nonce24, sealed]`: the plain file sealed with XChaCha20-Poly1305, bound to all
preceding fields, with a key that Argon2id derives from the passphrase. The stored costs must lie between a floor, so
that a thief cannot lower them, and a ceiling, so that they cannot stop a Pi.

`noise.keys` is `[1, nonce24, sealed]`: the noise secrets, newest first, sealed with a key derived from the signing
seed. A running agent can therefore load and delete noise keys without the passphrase, and nobody else can.

The passphrase comes from systemd (credential `covey.passphrase`), from a file that only its owner can read, or from a
terminal without echo; never from arguments or the environment. It is kept in a buffer that is wiped after use. Copies
that CPython and libsodium's bindings make (a terminal's text, an argument of a call) cannot be wiped;
docs/how-to/members.md explains what this means.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from covey.adapters.keys.key_file import read_credential, read_secret
from covey.core import crypto
from covey.core.crypto import NoiseKey, Secret, wipe
from covey.core.wire import cbor
from covey.errors import ConfigurationError, DecryptionError, RemoteError, UsageError
from covey.limits.key import (
    ARGON2_MEMORY_KIB,
    ARGON2_MEMORY_KIB_MAX,
    ARGON2_MEMORY_KIB_MIN,
    ARGON2_PASSES,
    ARGON2_PASSES_MAX,
    ARGON2_PASSES_MIN,
    MAXIMUM_PASSPHRASE_BYTES,
    RETIRED_NOISE_KEYS,
)

MAXIMUM_FILE_BYTES = 1024
_DOMAIN = b"covey/1 identity"
_NOISE_DOMAIN = b"covey/1 noise keys"
_SALT_BYTES = 16
_PLAIN, _SEALED = 1, 2
_NOISE_FORMAT = 1

Head = list[object]


def plain_file(seed: bytes) -> bytes:
    """Return `identity.key` in the clear."""
    return cbor.encode([_PLAIN, seed])


def sealed_file(
    seed: bytes, passphrase: bytes | bytearray, passes: int = ARGON2_PASSES, memory_kib: int = ARGON2_MEMORY_KIB
) -> bytes:
    """Return `identity.key` under a passphrase."""
    salt = secrets.token_bytes(_SALT_BYTES)
    key = crypto.argon2id(passphrase, salt, passes, memory_kib)
    sealed = _sealed(plain_file(seed), [_SEALED, salt, passes, memory_kib], key)
    key.wipe()
    return sealed


def _sealed(plain: bytes, parameters: Head, key: Secret) -> bytes:
    nonce = secrets.token_bytes(crypto.NONCE_BYTES)
    head = [*parameters, nonce]
    return cbor.encode([*head, crypto.aead_seal(plain, _binding(head), nonce, key.reveal())])


def read_seed(raw: bytes | bytearray, where: Path, passphrase: Callable[[], bytearray]) -> Secret:
    """Read `identity.key` in any form; `passphrase` is called only where one is needed, and what it gives is wiped.

    Raises:
        ConfigurationError: damaged, of a newer Covey, weaker or dearer than allowed, or the passphrase is wrong.
    """
    try:
        content = cbor.decode(bytes(raw), MAXIMUM_FILE_BYTES)
        if isinstance(content, list) and content[:1] == [_SEALED]:
            return _opened(content, where, passphrase)
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


def _opened(content: Head, where: Path, passphrase: Callable[[], bytearray]) -> Secret:
    *head, sealed = cbor.record(
        content,
        "sealed identity",
        cbor.uint(255),
        cbor.octets(_SALT_BYTES),
        cbor.uint(),
        cbor.uint(),
        cbor.octets(crypto.NONCE_BYTES),
        cbor.octets_to(MAXIMUM_FILE_BYTES),
    )
    _, salt, passes, memory_kib, nonce = head
    if not (
        ARGON2_PASSES_MIN <= passes <= ARGON2_PASSES_MAX
        and ARGON2_MEMORY_KIB_MIN <= memory_kib <= ARGON2_MEMORY_KIB_MAX
    ):
        raise ConfigurationError(
            f"{where} has key-derivation costs outside the allowed range: {passes} passes over {memory_kib} KiB"
        )
    typed = passphrase()
    key = crypto.argon2id(typed, salt, passes, memory_kib)
    wipe(typed)
    try:
        plain = cbor.decode(crypto.aead_open(sealed, _binding(head), nonce, key.reveal()), MAXIMUM_FILE_BYTES)
        return _stored(plain, where)
    except DecryptionError as error:
        raise ConfigurationError("the passphrase is wrong, or the key file is damaged") from error
    finally:
        key.wipe()


def _binding(head: Head) -> bytes:
    return _DOMAIN + cbor.encode(head)


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


def find_passphrase(file: Path | None, *, twice: bool = False) -> bytearray:
    """Return the passphrase: systemd's, the file's, or what a person types; `twice` for a new one. The caller wipes it.

    Raises:
        ConfigurationError: nobody is there to ask, or it is empty or too long.
    """
    found = read_credential("covey.passphrase", MAXIMUM_PASSPHRASE_BYTES)
    if found is None and file is not None:
        found = read_secret(file, MAXIMUM_PASSPHRASE_BYTES)
    if found is None:
        found = _typed(twice=twice)
    while found.endswith((b"\r", b"\n")):
        del found[-1:]
    if not 0 < len(found) <= MAXIMUM_PASSPHRASE_BYTES:
        raise ConfigurationError(f"a passphrase must have 1 to {MAXIMUM_PASSPHRASE_BYTES} bytes")
    return found


def _typed(*, twice: bool) -> bytearray:
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "this device's key needs a passphrase, and there is no terminal to ask for it",
            hint="--passphrase-file FILE, or LoadCredential=covey.passphrase:FILE in the unit",
        )
    import getpass

    typed = getpass.getpass("passphrase: ")
    if twice and getpass.getpass("repeat: ") != typed:
        raise UsageError("the two passphrases differ")
    return bytearray(typed, "utf-8")
