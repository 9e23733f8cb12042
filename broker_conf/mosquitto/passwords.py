"""Device credentials in mosquitto's password file.

1. A user name is a device's noise public key, 64 lower-case hex digits: the ACL grants `covey/1/in/<it>`.
2. A password is drawn here, never chosen, and is shown once; the file holds its hash only.
3. The file is replaced whole, so that a broker which reloads at any moment reads the old or the new one.

`mosquitto_passwd` is not used: it takes the password as an argument, where every local user can read it.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import secrets
from typing import TYPE_CHECKING

from agent.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

_NOISE_PUBLIC_HEX = re.compile(r"[0-9a-f]{64}")

# mosquitto's own choice. Stretching protects guessable passwords; these are 192 random bits, and every round
# is paid again by the broker for each device when a whole fleet reconnects.
_ROUNDS = 101
_SALT_BYTES = 12
_PASSWORD_BYTES = 24


def add_device(passwords: Path, noise_public_hex: str) -> str:
    """Give a device a new password, replacing the one that it may have had, and return it.

    Raises:
        UsageError: that is not a noise public key.
    """
    if not _NOISE_PUBLIC_HEX.fullmatch(noise_public_hex):
        raise UsageError(
            "a device's user name is its noise public key: 64 lower-case hex digits",
            hint="`covey status` on the device shows it",
        )
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    lines = passwords.read_text().splitlines() if passwords.exists() else []
    kept = [line for line in lines if not line.startswith(noise_public_hex + ":")]
    _replace(passwords, "\n".join([*kept, f"{noise_public_hex}:{hash_password(password)}", ""]))
    return password


def hash_password(password: str) -> str:
    """Return `$7$rounds$salt$hash`, PBKDF2 with SHA-512, as mosquitto_passwd(1) of 2.0 writes it."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return f"$7${_ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def _replace(path: Path, text: str) -> None:
    """Replace a file atomically and durably; it keeps its owner and mode, and a new one has mode 0600."""
    replacement = path.with_name(path.name + ".new")
    replacement.unlink(missing_ok=True)
    descriptor = os.open(replacement, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        if path.exists():
            before = path.stat()
            os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), before.st_mode & 0o777)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    replacement.replace(path)
