"""A TPM 2.0 keeps the key, by tpm2-tools: a program of their own each time, so the agent's memory does not grow.

The blob is the TPM's sealed object, `[public, private]`, below a primary key of the owner's hierarchy, which the TPM
derives again each time. It is bound to this TPM alone: to no PCR, because an update of the firmware must not stop a
gateway, and to no password, because the agent starts without a person. It is exempt from the TPM's protection against
guessing (`noda`): there is nothing to guess, and power cuts count as guesses.

The key goes through pipes. The files that the programs exchange are the TPM's own, and open on this TPM only.
$TPM2TOOLS_TCTI names another TPM than `/dev/tpmrm0`, as of every program of tpm2-tools.
"""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path

from covey.adapters.keys.seal import LOST_HINT, KeySeal, PassphraseReader
from covey.core.crypto import Secret
from covey.core.ids import KEY_BYTES
from covey.core.wire import cbor
from covey.errors import ConfigurationError, RemoteError, TransientError

_DEVICE = Path("/dev/tpmrm0")
_PRIMARY = "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|restricted|decrypt|noda"
_OBJECT = "fixedtpm|fixedparent|userwithauth|noda"
_PART_BYTES = 512
_PATIENCE_S = 60.0


def _problem() -> str:
    if "TPM2TOOLS_TCTI" not in os.environ:
        if not _DEVICE.exists():
            return f"this machine has no TPM ({_DEVICE})"
        if not os.access(_DEVICE, os.R_OK | os.W_OK):
            return f"{_DEVICE} belongs to another group; add this user to group tss"
    if shutil.which("tpm2_unseal") is None:
        return "the TPM needs the programs of tpm2-tools (sudo apt install tpm2-tools)"
    return ""


def _draw(_: Path | None, __: PassphraseReader) -> tuple[Secret, bytes]:
    key = secrets.token_bytes(KEY_BYTES)
    with tempfile.TemporaryDirectory(prefix="covey-tpm-") as folder:
        place = Path(folder)
        _make_primary(place)
        words = ("-C", "primary", "-a", _OBJECT, "-i", "-", "-u", "public", "-r", "private")
        _run(place, "tpm2_create", *words, given=key)
        parts = [(place / name).read_bytes() for name in ("public", "private")]
    return Secret(key), cbor.encode(parts)


def _open(blob: bytes, _: PassphraseReader) -> Secret:
    if problem := _problem():
        raise TransientError(f"this device's key is sealed by a TPM, and {problem}", hint=LOST_HINT)
    try:
        part = cbor.octets_to(_PART_BYTES)
        public, private = cbor.record(cbor.decode(blob, 2 * _PART_BYTES), "TPM object", part, part)
    except RemoteError as error:
        raise ConfigurationError("the sealed key file is damaged", hint=LOST_HINT) from error
    with tempfile.TemporaryDirectory(prefix="covey-tpm-") as folder:
        place = Path(folder)
        (place / "public").write_bytes(public)
        (place / "private").write_bytes(private)
        _make_primary(place)
        _run(place, "tpm2_load", "-C", "primary", "-u", "public", "-r", "private", "-c", "object")
        key = _run(place, "tpm2_unseal", "-c", "object")
    if len(key) != KEY_BYTES:
        raise ConfigurationError("the sealed key file is damaged", hint=LOST_HINT)
    return Secret(key)


def _make_primary(place: Path) -> None:
    _run(place, "tpm2_createprimary", "-C", "o", "-g", "sha256", "-G", "ecc", "-a", _PRIMARY, "-c", "primary")


def _run(place: Path, *words: str, given: bytes = b"") -> bytes:
    import subprocess  # 0.3 MiB, for devices with a TPM only

    def done(*line: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(line, cwd=place, input=given, capture_output=True, check=False, timeout=_PATIENCE_S)  # noqa: S603 - no shell

    try:
        result = done(*words, *(() if words[0] == "tpm2_unseal" else ("-Q",)))
        # A TPM has room for three objects. The kernel's own manager makes room; a TPM without one keeps what is loaded.
        done("tpm2_flushcontext", "-t")
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TransientError(f"the TPM does not answer: {error}", hint=LOST_HINT) from error
    if result.returncode:
        said = [line for line in result.stderr.decode(errors="replace").splitlines() if line.startswith("ERROR: ")]
        reason = said[0].removeprefix("ERROR: ") if said else f"{words[0]} ended with {result.returncode}"
        raise TransientError(f"this machine's TPM does not open or seal the key: {reason}", hint=LOST_HINT)
    return result.stdout


SEAL = KeySeal(_problem, _draw, _open, lambda _: "sealed by this machine's TPM", lambda: not _problem())
