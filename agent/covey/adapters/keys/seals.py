"""Keep the signing seed so that only this machine, or a token, opens it (ADR 131; docs/protocol/vault.md, section 14).

`identity.key` is then `[3, seal, blob, nonce24, sealed]`: the plain file, sealed with XChaCha20-Poly1305 and bound to
all preceding fields, under a key that the seal draws and opens again from the blob. Each seal is a module of its own,
loaded only where it is used:

    tpm        a TPM 2.0 opens the key, by the programs of tpm2-tools
    systemd    systemd opens it, for root and for the units: with a TPM if there is one, else with the host's key
    token      a PKCS#11 token opens it, with its PIN
"""

from __future__ import annotations

import secrets
from pathlib import Path

from covey.adapters.keys.seal import LOST_HINT, KeySeal, PassphraseReader
from covey.core import crypto
from covey.core.wire import cbor
from covey.errors import ConfigurationError, DecryptionError

SEALS = ("tpm", "systemd", "token")
_FORM = 3
_DOMAIN = b"covey/1 identity"
_MAXIMUM_BLOB_BYTES = 2048
_NAME_BYTES = 16


def seal_named(name: str) -> KeySeal:
    """Return a seal by its name.

    Raises:
        ConfigurationError: this Covey has no such seal.
    """
    if name == "tpm":
        from covey.adapters.keys.tpm_seal import SEAL
    elif name == "systemd":
        from covey.adapters.keys.systemd_seal import SEAL
    elif name == "token":
        from covey.adapters.keys.token_seal import SEAL
    else:
        raise ConfigurationError("a newer Covey sealed this device's key", hint="upgrade Covey")
    return SEAL


def best_seal() -> str:
    """Return the seal that protects a stolen card and opens without a person, or "" where this machine has none."""
    return next((name for name in SEALS if seal_named(name).protects()), "")


def is_sealed(content: object) -> bool:
    """Say whether the item of a key file is sealed by a seal."""
    return isinstance(content, list) and content[:1] == [_FORM]


def seal_of(content: object) -> tuple[str, str]:
    """Return the name of the seal of an item that `is_sealed`, and for people what it is bound to.

    Raises:
        MalformedError: it has another form.
        ConfigurationError: this Covey has no such seal.
    """
    (_, name, blob, _), _ = _fields(content)
    return str(name), seal_named(str(name)).about(blob)


def seal_by(name: str, plain: bytes, module: Path | None, passphrase: PassphraseReader) -> bytes:
    """Return content under a new key of a seal, which has opened it once before this returns.

    Raises:
        ConfigurationError: the seal cannot be used here, or does not open what it sealed.
    """
    seal = seal_named(name)
    if problem := seal.problem():
        raise ConfigurationError(problem, hint="'covey key seal best' picks what this machine has")
    pin = passphrase() if name == "token" else bytearray()
    try:
        key, blob = seal.draw(module, lambda: bytearray(pin))
        nonce = secrets.token_bytes(crypto.NONCE_BYTES)
        head: list[object] = [_FORM, name, blob, nonce]
        sealed = crypto.aead_seal(plain, _DOMAIN + cbor.encode(head), nonce, key.reveal())
        key.wipe()
        content = [*head, sealed]
        open_by_seal(content, lambda: bytearray(pin))
    finally:
        crypto.wipe(pin)
    return cbor.encode(content)


def open_by_seal(content: object, passphrase: PassphraseReader) -> bytes:
    """Return what `seal_by` sealed.

    Raises:
        MalformedError: it has another form.
        TransientError: the seal does not open it now; the hint names the way out.
        ConfigurationError: trying again does not help: a wrong PIN, a damaged file.
    """
    head, sealed = _fields(content)
    key = seal_named(str(head[1])).open(head[2], passphrase)
    try:
        return crypto.aead_open(sealed, _DOMAIN + cbor.encode(head), head[3], key.reveal())
    except DecryptionError as error:
        raise ConfigurationError("the sealed key file is damaged, or another machine's", hint=LOST_HINT) from error
    finally:
        key.wipe()


def _fields(content: object) -> tuple[list, bytes]:  # type: ignore[type-arg] # as cbor.record gives them
    *head, sealed = cbor.record(
        content,
        "sealed identity",
        cbor.uint(255),
        cbor.text(_NAME_BYTES),
        cbor.octets_to(_MAXIMUM_BLOB_BYTES),
        cbor.octets(crypto.NONCE_BYTES),
        cbor.octets_to(_MAXIMUM_BLOB_BYTES),
    )
    return head, sealed
