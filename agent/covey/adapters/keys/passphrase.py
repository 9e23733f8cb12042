"""Sealing under a passphrase, and where a passphrase comes from (docs/protocol/vault.md, section 14).

What is sealed is `[version, salt16, passes, memory_kib, nonce24, sealed]`: XChaCha20-Poly1305, bound to all preceding
fields, with a key that Argon2id derives from the passphrase. The stored costs must lie between a floor, so that a thief
cannot lower them, and a ceiling, so that they cannot stop a Pi.

A passphrase comes from systemd (credential `covey.passphrase`), from a file that only its owner can read, or from a
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
from covey.core.crypto import wipe
from covey.core.wire import cbor
from covey.errors import ConfigurationError, DecryptionError, UsageError
from covey.limits.key import (
    ARGON2_MEMORY_KIB,
    ARGON2_MEMORY_KIB_MAX,
    ARGON2_MEMORY_KIB_MIN,
    ARGON2_PASSES,
    ARGON2_PASSES_MAX,
    ARGON2_PASSES_MIN,
    MAXIMUM_PASSPHRASE_BYTES,
)

_SALT_BYTES = 16


def seal_under_passphrase(
    plain: bytes,
    domain: bytes,
    version: int,
    passphrase: bytes | bytearray,
    passes: int = ARGON2_PASSES,
    memory_kib: int = ARGON2_MEMORY_KIB,
) -> bytes:
    """Return content under a passphrase, which the caller wipes."""
    salt, nonce = secrets.token_bytes(_SALT_BYTES), secrets.token_bytes(crypto.NONCE_BYTES)
    head = [version, salt, passes, memory_kib, nonce]
    key = crypto.argon2id(passphrase, salt, passes, memory_kib)
    sealed = crypto.aead_seal(plain, domain + cbor.encode(head), nonce, key.reveal())
    key.wipe()
    return cbor.encode([*head, sealed])


def open_under_passphrase(
    content: object, domain: bytes, maximum: int, what: str, passphrase: Callable[[], bytearray]
) -> bytes:
    """Return what `seal_under_passphrase` sealed; `content` is its item of at most `maximum` bytes, decoded.

    `passphrase` is called once the costs are known to be allowed, and its result is wiped. `what` names the file.

    Raises:
        MalformedError: it does not have this form.
        ConfigurationError: its costs are outside the allowed range, or the passphrase is wrong.
    """
    *head, sealed = cbor.record(
        content,
        what,
        cbor.uint(255),
        cbor.octets(_SALT_BYTES),
        cbor.uint(),
        cbor.uint(),
        cbor.octets(crypto.NONCE_BYTES),
        cbor.octets_to(maximum),
    )
    _, salt, passes, memory_kib, nonce = head
    if not (
        ARGON2_PASSES_MIN <= passes <= ARGON2_PASSES_MAX
        and ARGON2_MEMORY_KIB_MIN <= memory_kib <= ARGON2_MEMORY_KIB_MAX
    ):
        raise ConfigurationError(
            f"{what} has key-derivation costs outside the allowed range: {passes} passes over {memory_kib} KiB"
        )
    typed = passphrase()
    key = crypto.argon2id(typed, salt, passes, memory_kib)
    wipe(typed)
    try:
        return crypto.aead_open(sealed, domain + cbor.encode(head), nonce, key.reveal())
    except DecryptionError as error:
        raise ConfigurationError(f"the passphrase is wrong, or {what} is damaged") from error
    finally:
        key.wipe()


def find_passphrase(file: Path | None, *, twice: bool = False) -> bytearray:
    """Return the passphrase of this device's key; `twice` for a new one. The caller wipes it.

    Raises:
        ConfigurationError: nobody is there to ask, or it is empty or too long.
        UsageError: the two that were typed differ.
    """
    found = read_credential("covey.passphrase", MAXIMUM_PASSPHRASE_BYTES)
    if found is None and file is None and not sys.stdin.isatty():
        raise ConfigurationError(
            "this device's key needs a passphrase or PIN, and there is no terminal to ask for it",
            hint="--passphrase-file FILE (a new one: --new-passphrase-file FILE), or "
            "LoadCredential=covey.passphrase:FILE in the unit",
        )
    return _checked(found) if found is not None else read_passphrase(file, "passphrase: ", twice=twice)


def read_passphrase(file: Path | None, prompt: str, *, twice: bool) -> bytearray:
    """Return the passphrase in a file, or what a person types; `twice` for a new one. The caller wipes it.

    Raises:
        ConfigurationError: it is empty or too long; or as of `read_secret`.
        UsageError: the two that were typed differ.
    """
    return _checked(_typed(prompt, twice=twice) if file is None else read_secret(file, MAXIMUM_PASSPHRASE_BYTES))


def _checked(found: bytearray) -> bytearray:
    while found.endswith((b"\r", b"\n")):
        del found[-1:]
    if not 0 < len(found) <= MAXIMUM_PASSPHRASE_BYTES:
        raise ConfigurationError(f"a passphrase must have 1 to {MAXIMUM_PASSPHRASE_BYTES} bytes")
    return found


def _typed(prompt: str, *, twice: bool) -> bytearray:
    import getpass

    typed = getpass.getpass(prompt)
    if twice and getpass.getpass("repeat: ") != typed:
        raise UsageError("the two passphrases differ")
    return bytearray(typed, "utf-8")
