"""A PKCS#11 token keeps the key: a smart card, a USB token or an HSM (PyKCS11, loaded when it is used).

The token's owner makes an RSA key pair labelled `covey` on it. The blob is `[module, serial, ciphertext]`: the shared
library that speaks to the token, its serial number, and the key under RSA-OAEP with SHA-1, which every token knows and
whose security does not rest on SHA-1's collisions. Only the token has the private key; it wants its PIN, which comes
from where a passphrase does. A wrong PIN is tried once: tokens lock themselves after a few.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from covey.adapters.keys.seal import LOST_HINT, KeySeal, PassphraseReader
from covey.core.crypto import Secret, wipe
from covey.core.ids import KEY_BYTES
from covey.core.wire import cbor
from covey.errors import ConfigurationError, MissingPackageError, RemoteError, TransientError

_LABEL = "covey"
_PATH_BYTES, _SERIAL_BYTES, _CIPHERTEXT_BYTES = 255, 32, 1024
_MAKE_HINT = (
    "make one: pkcs11-tool --module FILE --login --keypairgen --key-type rsa:2048 --label covey (package opensc)"
)


def _problem() -> str:
    return ""


def _draw(module: Path | None, passphrase: PassphraseReader) -> tuple[Secret, bytes]:
    if module is None:
        raise ConfigurationError(
            "a token needs its PKCS#11 module", hint="--module FILE, e.g. /usr/lib/x86_64-linux-gnu/opensc-pkcs11.so"
        )
    key = secrets.token_bytes(KEY_BYTES)
    with _session(str(module), None, passphrase) as (p11, session, serial):
        public = _found(p11, session, p11.CKO_PUBLIC_KEY)
        sealed = bytes(session.encrypt(public, key, _oaep(p11)))
    return Secret(key), cbor.encode([str(module), serial, sealed])


def _open(blob: bytes, passphrase: PassphraseReader) -> Secret:
    try:
        module, serial, sealed = cbor.record(
            cbor.decode(blob, 2048),
            "token",
            cbor.text(_PATH_BYTES),
            cbor.text(_SERIAL_BYTES),
            cbor.octets_to(_CIPHERTEXT_BYTES),
        )
    except RemoteError as error:
        raise ConfigurationError("the sealed key file is damaged", hint=LOST_HINT) from error
    with _session(module, serial, passphrase) as (p11, session, _):
        key = bytes(session.decrypt(_found(p11, session, p11.CKO_PRIVATE_KEY), sealed, _oaep(p11)))
    if len(key) != KEY_BYTES:
        raise ConfigurationError("the token opens another key", hint=LOST_HINT)
    return Secret(key)


@contextmanager
def _session(module: str, serial: str | None, passphrase: PassphraseReader) -> Iterator[tuple[Any, Any, str]]:
    """Open a session with a token, with its PIN; the one of a serial number, or the only one."""
    try:
        import PyKCS11 as p11  # noqa: N813 - its name
    except ImportError as error:
        raise MissingPackageError("a key on a token", "PyKCS11", debian="python3-pykcs11") from error
    library = p11.PyKCS11Lib()
    try:
        library.load(module)
        tokens = {
            str(library.getTokenInfo(slot).serialNumber).strip("\0 "): slot
            for slot in library.getSlotList(tokenPresent=True)
        }
        present = [each for each in tokens if each == serial or (serial is None and each)]
        if len(present) != 1:
            what = "the token of this device's key is not plugged in" if serial else "plug in exactly one token"
            raise TransientError(f"{what}: {module} shows {len(present)}", hint=LOST_HINT if serial else "")
        session = library.openSession(tokens[present[0]])
        pin = passphrase()
        try:
            session.login(pin.decode())
        finally:
            wipe(pin)
        try:
            yield p11, session, present[0]
        finally:
            session.logout()
            session.closeSession()
    except p11.PyKCS11Error as error:
        wrong = error.value in {p11.CKR_PIN_INCORRECT, p11.CKR_PIN_LEN_RANGE, p11.CKR_PIN_INVALID}
        if wrong:  # and no restart tries again
            raise ConfigurationError("the token's PIN is wrong; a token locks itself after a few wrong ones") from error
        raise TransientError(f"the token does not open or seal the key: {error}", hint=LOST_HINT) from error
    finally:
        getattr(library, "unload", library.lib.Unload)()  # Debian 12's PyKCS11 has only the latter


def _found(p11: Any, session: Any, kind: int) -> Any:
    for each in session.findObjects([(p11.CKA_CLASS, kind), (p11.CKA_LABEL, _LABEL)]):
        return each
    raise ConfigurationError(f"the token has no RSA key pair labelled {_LABEL}", hint=_MAKE_HINT)


def _oaep(p11: Any) -> Any:
    return p11.RSAOAEPMechanism(p11.CKM_SHA_1, p11.CKG_MGF1_SHA1)


SEAL = KeySeal(_problem, _draw, _open, lambda _: "sealed by a PKCS#11 token", lambda: False)
