"""Accounts in mosquitto's password file.

1. A device's user name is its public signing key, 64 lower-case hex digits: the ACL grants `covey/1/in/<it>`.
2. A device's password is drawn here, never chosen; the file holds its hash only. The one shared password is that of
   the account `enrol`, by which a device without a credential reaches the rendezvous topics of a pairing.
3. The file is replaced whole, one writer at a time, so that a broker which reloads at any moment reads the old or the
   new one, and of two writers neither is undone. It keeps its owner and mode; a new one has mode 0600.

`mosquitto_passwd` is not used: it takes the password as an argument, where every local user can read it.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from typing import TYPE_CHECKING

from covey.adapters.files import locked_folder, replace_file, storage_error
from covey.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

ENROLMENT_ACCOUNT = "enrol"
"""User name, and unless changed also password, of whoever has no credential yet (`docs/protocol.md`, Relay)."""

_DEVICE_NAME = re.compile(r"[0-9a-f]{64}")

# mosquitto's own choice. Stretching protects guessable passwords; these are 192 random bits, and every round
# is paid again by the broker for each device when a whole fleet reconnects.
_ROUNDS = 101
_SALT_BYTES = 12
_PASSWORD_BYTES = 24


def check_device_name(user_name: str) -> None:
    """Accept a device's user name.

    Raises:
        UsageError: it is none.
    """
    if not _DEVICE_NAME.fullmatch(user_name):
        raise UsageError(
            "a device's user name is its public signing key: 64 lower-case hex digits",
            hint="'covey relay' on the device shows it",
        )


def add_device(passwords: Path, user_name: str) -> str:
    """Give a device a new password, replacing the one that it may have had, and return it.

    Raises:
        UsageError: that is not a device's user name.
        ConfigurationError, StorageError: as `write_account`.
    """
    check_device_name(user_name)
    password = secrets.token_urlsafe(_PASSWORD_BYTES)
    write_account(passwords, user_name, password)
    return password


def remove_device(passwords: Path, user_name: str) -> bool:
    """Take a device's account away; return whether it had one.

    Raises:
        UsageError: that is not a device's user name.
        ConfigurationError, StorageError: as `write_account`.
    """
    check_device_name(user_name)
    return write_account(passwords, user_name, None)


def write_account(passwords: Path, user_name: str, password: str | None) -> bool:
    """Set an account's password, or remove the account; return whether it was there before.

    Raises:
        ConfigurationError: this user may not change the file.
        StorageError: the disk refused.
    """
    try:
        with locked_folder(passwords.parent):
            lines = passwords.read_text().splitlines() if passwords.exists() else []
            kept = [line for line in lines if not line.startswith(user_name + ":")]
            added = [] if password is None else [f"{user_name}:{hash_password(password)}"]
            if added or len(kept) < len(lines):
                content = "\n".join([*kept, *added, ""]).encode()
                replace_file(passwords, content, 0o600, like=passwords.stat() if passwords.exists() else None)
            return len(kept) < len(lines)
    except (PermissionError, FileNotFoundError) as error:
        raise ConfigurationError(
            f"{passwords} cannot be changed: {error.strerror}",
            hint="run this as the user who owns the password file and its folder",
        ) from error
    except OSError as error:
        raise storage_error("write", passwords, error) from error


def hash_password(password: str) -> str:
    """Return `$7$rounds$salt$hash`, PBKDF2 with SHA-512, as mosquitto_passwd(1) of 2.0 writes it."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return f"$7${_ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
