"""`identity.key`: both secrets of a device, in the clear or sealed under a passphrase (docs/protocol.md, "Key files").

In the clear it is `[1, signing_seed, noise_secret]`: whoever reads the owner's files is the owner. Under a passphrase
it is `[2, salt16, passes, memory_kib, nonce24, sealed]`: XChaCha20-Poly1305 of the plain file, bound to all that stands
before it, under Argon2id of the passphrase. What is stored cannot ask for less work than the floor, which a thief would
like, nor for more than the ceiling, which would stop a Pi.

The passphrase comes from systemd (credential `covey.passphrase`), from a file that is its owner's alone, or from a
person at a terminal, without echo: never from arguments or the environment. CPython cannot promise to erase it from
memory; nothing here keeps it.
"""

from __future__ import annotations

import getpass
import secrets
import sys
from collections.abc import Callable
from pathlib import Path

from agent.adapters.key_file import read_credential, read_secret
from agent.core import crypto, wire
from agent.core.crypto import Identity
from agent.core.limits import (
    ARGON2_MEMORY_KIB,
    ARGON2_MEMORY_KIB_MAX,
    ARGON2_MEMORY_KIB_MIN,
    ARGON2_PASSES,
    ARGON2_PASSES_MAX,
    ARGON2_PASSES_MIN,
    MAXIMUM_PASSPHRASE_BYTES,
)
from agent.errors import ConfigurationError, DecryptionError, RemoteError, UsageError

MAXIMUM_FILE_BYTES = 512
_DOMAIN = b"covey/1 identity"
_SALT_BYTES = 16
_PLAIN, _SEALED = 1, 2


def plain_file(identity: Identity) -> bytes:
    """Return the file in the clear."""
    return wire.encode([_PLAIN, identity.signing_seed, identity.noise_secret])


def sealed_file(
    identity: Identity, passphrase: bytes, passes: int = ARGON2_PASSES, memory_kib: int = ARGON2_MEMORY_KIB
) -> bytes:
    """Return the file under a passphrase."""
    salt, nonce = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(crypto.NONCE_BYTES)
    head = [_SEALED, salt, passes, memory_kib, nonce]
    key = crypto.argon2id(passphrase, salt, passes, memory_kib)
    return wire.encode([*head, crypto.aead_seal(plain_file(identity), _binding(head), nonce, key)])


def read_identity(raw: bytes, where: Path, passphrase: Callable[[], bytes]) -> Identity:
    """Read either file; `passphrase` is called only where one is needed.

    Raises:
        ConfigurationError: damaged, of a newer Covey, weaker or dearer than allowed, or the passphrase is wrong.
    """
    try:
        content = wire.decode(raw, MAXIMUM_FILE_BYTES)
        if isinstance(content, list) and content[:1] == [_SEALED]:
            content = wire.decode(_opened(content, where, passphrase), MAXIMUM_FILE_BYTES)
        version, seed, noise_secret = wire.record(content, "identity", wire.uint(255), wire.octets(32), wire.octets(32))
    except RemoteError as error:
        raise ConfigurationError(f"{where} is damaged", hint="restore it from a backup") from error
    if version != _PLAIN:
        raise ConfigurationError(f"{where} was written by a newer Covey")
    return Identity.from_seeds(seed, noise_secret)


def _opened(content: list[object], where: Path, passphrase: Callable[[], bytes]) -> bytes:
    *head, sealed = wire.record(
        content,
        "sealed identity",
        wire.uint(255),
        wire.octets(_SALT_BYTES),
        wire.uint(),
        wire.uint(),
        wire.octets(crypto.NONCE_BYTES),
        wire.octets_to(MAXIMUM_FILE_BYTES),
    )
    _, salt, passes, memory_kib, nonce = head
    if not (
        ARGON2_PASSES_MIN <= passes <= ARGON2_PASSES_MAX
        and ARGON2_MEMORY_KIB_MIN <= memory_kib <= ARGON2_MEMORY_KIB_MAX
    ):
        raise ConfigurationError(f"{where} asks for {passes} passes over {memory_kib} KiB: less or more than allowed")
    key = crypto.argon2id(passphrase(), salt, passes, memory_kib)
    try:
        return crypto.aead_open(sealed, _binding(head), nonce, key)
    except DecryptionError as error:
        raise ConfigurationError("the passphrase is wrong, or the key file is damaged") from error


def _binding(head: list[object]) -> bytes:
    return _DOMAIN + wire.encode(head)


def find_passphrase(file: Path | None, *, twice: bool = False) -> bytes:
    """Return the passphrase: systemd's, the file's, or what a person types; `twice` for a new one.

    Raises:
        ConfigurationError: nobody is there to ask, or it is empty or too long.
    """
    found = read_credential("covey.passphrase", MAXIMUM_PASSPHRASE_BYTES)
    if found is None and file is not None:
        found = read_secret(file, MAXIMUM_PASSPHRASE_BYTES)
    if found is None:
        found = _typed(twice=twice)
    found = found.rstrip(b"\r\n")
    if not 0 < len(found) <= MAXIMUM_PASSPHRASE_BYTES:
        raise ConfigurationError(f"a passphrase has 1 to {MAXIMUM_PASSPHRASE_BYTES} bytes")
    return found


def _typed(*, twice: bool) -> bytes:
    if not sys.stdin.isatty():
        raise ConfigurationError(
            "this device's key needs a passphrase, and nobody is here to type it",
            hint="--passphrase-file FILE, or LoadCredential=covey.passphrase:FILE in the unit",
        )
    typed = getpass.getpass("passphrase: ")
    if twice and getpass.getpass("once more: ") != typed:
        raise UsageError("the two are not the same")
    return typed.encode()
