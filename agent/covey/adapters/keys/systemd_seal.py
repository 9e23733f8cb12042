"""systemd keeps the key: the credential `covey.seal`, encrypted in `/etc/credstore.encrypted`.

systemd decrypts it for the packaged units (`LoadCredentialEncrypted=`), which need neither the TPM nor root for that.
For a command, root decrypts it before it becomes the owner of the state (`hold`): nobody else can.

The credential is made once, and stays: it is the machine's, not one identity's. So nothing but the key file changes
when a device's key is sealed, in one step. With a TPM it is bound to it and to the host's key; without one to the
host's key alone, `/var/lib/systemd/credential.secret`, which a thief of the same disk has, too. Bound to PCR 16, which
no firmware writes: an update of the firmware must not stop a gateway. The blob is empty.
"""

from __future__ import annotations

import base64
import os
import secrets
import shutil
from contextlib import suppress
from pathlib import Path

from covey.adapters.files import open_regular, remove_durably, replace_durably
from covey.adapters.keys.key_file import read_credential
from covey.adapters.keys.seal import LOST_HINT, KeySeal, PassphraseReader
from covey.core.crypto import Secret
from covey.core.ids import KEY_BYTES
from covey.errors import ConfigurationError, TransientError

NAME = "covey.seal"
STORE = Path("/etc/credstore.encrypted")
_TPM = Path("/dev/tpmrm0")
_TPM_PCR = "16"
_PATIENCE_S = 60.0
_MAXIMUM_CREDENTIAL_BYTES = 8192
_BY_HOST = bytes.fromhex("5a1c6a86df9d4096b1d5a65e0862f19a")
"""How a credential begins that the host's key alone opens (systemd: sd-id128 CRED_AES256_GCM_BY_HOST)."""

_BOUND = b"tpm"

_HELD: dict[str, Secret | TransientError] = {}
"""What root read before this process became the state's owner: the credential's key, or why it does not open."""

_BLOB: dict[str, bytes] = {}
"""And its blob."""


def hold() -> None:
    """As root, read the credential if there is one, and keep it for when this process is no longer root."""
    if (STORE / NAME).exists():
        try:
            _HELD[NAME] = _decrypted()
            _BLOB[NAME] = _BOUND if _is_bound() else b""
        except TransientError as error:
            _HELD[NAME] = error


def prepare() -> None:
    """As root, make the credential if there is none, and `hold` it.

    Raises:
        TransientError: systemd or the TPM refused.
    """
    if not (STORE / NAME).exists():
        _make()
    hold()


def prepare_if_bound() -> None:
    """As root, before a new device is made: `prepare` where a TPM keeps the credential.

    A credential that this machine does not open is replaced: it came from another machine, or the TPM was cleared.
    """
    if shutil.which("systemd-creds") is None or not _has_tpm():
        return
    with suppress(TransientError, OSError):
        prepare()
        if isinstance(_HELD[NAME], TransientError):
            _make()
            hold()


def forget() -> None:
    """As root, remove the credential: a device that has its key elsewhere must not fail to start for it.

    Raises:
        StorageError: the disk refused.
    """
    remove_durably(STORE / NAME)


def _problem() -> str:
    held = _HELD.get(NAME)
    if isinstance(held, TransientError):
        return str(held)
    if held is not None or _handed_over() is not None:
        return ""
    if shutil.which("systemd-creds") is None:
        return "this machine has no systemd-creds (systemd 250 or later)"
    if os.geteuid() != 0:
        return "systemd seals keys for root only: run the command with sudo"
    return ""


def _draw(_: Path | None, __: PassphraseReader) -> tuple[Secret, bytes]:
    if os.geteuid() == 0:
        prepare()
    return _key(), _BLOB.get(NAME, b"")


def _open(_: bytes, __: PassphraseReader) -> Secret:
    if os.geteuid() == 0 and not _HELD and _handed_over() is None:
        hold()
    return _key()


def _key() -> Secret:
    handed_over = _handed_over()
    if handed_over is not None:
        return Secret(bytes(handed_over))
    held = _HELD.get(NAME)
    if isinstance(held, TransientError):
        raise held
    if held is not None:
        return Secret(held.reveal())
    if os.geteuid() == 0:
        raise TransientError(f"this device's key is sealed by systemd, and {STORE / NAME} is missing", hint=LOST_HINT)
    raise ConfigurationError(
        "this device's key is sealed by systemd, which opens it only for root and for units",
        hint=f"run the command with sudo; a unit of your own needs LoadCredentialEncrypted={NAME}",
    )


def _handed_over() -> bytearray | None:
    found = read_credential(NAME, KEY_BYTES)
    if found is not None and len(found) != KEY_BYTES:
        raise TransientError(f"systemd's credential {NAME} is no key", hint=LOST_HINT)
    return found


def _make() -> None:
    with_key = ("--with-key=host+tpm2", f"--tpm2-pcrs={_TPM_PCR}") if _has_tpm() else ("--with-key=host",)
    sealed = _run(*with_key, f"--name={NAME}", "encrypt", "-", "-", given=secrets.token_bytes(KEY_BYTES))
    STORE.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_durably(STORE / NAME, sealed, mode=0o600)


def _has_tpm() -> bool:
    return _TPM.exists() or "SYSTEMD_TPM2_DEVICE" in os.environ


def _decrypted() -> Secret:
    key = _run(f"--name={NAME}", "decrypt", str(STORE / NAME), "-")
    if len(key) != KEY_BYTES:
        raise TransientError(f"{STORE / NAME} is no key", hint=LOST_HINT)
    return Secret(key)


def _run(*words: str, given: bytes = b"") -> bytes:
    import subprocess  # 0.3 MiB, for commands that root calls only

    try:
        result = subprocess.run(  # noqa: S603 - no shell
            ["systemd-creds", *words],  # noqa: S607 - where the system has it
            input=given,
            capture_output=True,
            check=False,
            timeout=_PATIENCE_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TransientError(f"systemd-creds does not answer: {error}", hint=LOST_HINT) from error
    if result.returncode:
        said = result.stderr.decode(errors="replace").strip().splitlines()[-1:] or [
            f"it ended with {result.returncode}"
        ]
        raise TransientError(f"systemd-creds does not open or seal the key: {said[0]}", hint=LOST_HINT)
    return result.stdout


def _is_bound() -> bool:
    """As root, say whether the credential needs more than the host's key."""
    try:
        with open_regular(STORE / NAME) as (descriptor, _):
            begin = base64.b64decode(os.read(descriptor, 24))[: len(_BY_HOST)]
    except (OSError, ValueError):
        return False
    return begin != _BY_HOST


def _about(blob: bytes) -> str:
    if blob == _BOUND:
        return "sealed by systemd with this machine's TPM"
    return "sealed by systemd with the host's key, which is on a disk, too: a thief of all disks has the key"


def _protects() -> bool:
    """Say whether root has read a credential for this process that a TPM keeps: where no unit gets it, nobody can."""
    return isinstance(_HELD.get(NAME), Secret) and _BLOB[NAME] == _BOUND


SEAL = KeySeal(_problem, _draw, _open, _about, _protects)
