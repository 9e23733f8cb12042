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
"""User name of a device that has no credential yet; its password, too, where the invite carries none."""

_DEVICE_NAME = re.compile(r"[0-9a-f]{64}")

# mosquitto's own choice. Stretching protects guessable passwords; these are 192 random bits, and every round
# is paid again by the broker for each device when a whole fleet reconnects.
_ROUNDS = 101
_SALT_BYTES = 12
_PASSWORD_BYTES = 24
_LEGIBLE = "abcdefghijkmnpqrstuvwxyz23456789"
_ENROLMENT_LENGTH = 8


def check_device_name(user_name: str) -> None:
    """Accept a device's user name.

    Raises:
        UsageError: it is none.
    """
    if not _DEVICE_NAME.fullmatch(user_name):
        raise UsageError(
            "a device's user name must be its public signing key: 64 lower-case hex digits",
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


def draw_enrolment_password() -> str:
    """Draw what joiners share: 40 random bits, without letters and digits that look alike, short enough to type."""
    return "".join(secrets.choice(_LEGIBLE) for _ in range(_ENROLMENT_LENGTH))


def share_enrolment(passwords: Path, password: str | None) -> None:
    """Set the enrolment account's password, and keep it for the invites that carry it; None closes the account.

    Raises:
        ConfigurationError, StorageError: as `write_account`.
    """
    write_account(passwords, ENROLMENT_ACCOUNT, password)
    kept = _kept_enrolment(passwords)
    try:
        if password is None:
            kept.unlink(missing_ok=True)
        else:  # whoever may change the passwords may read it: members that invite
            replace_file(kept, password.encode(), 0o600, like=passwords.stat())
    except OSError as error:
        raise storage_error("write", kept, error) from error


def shared_enrolment(passwords: Path) -> str | None:
    """Return the enrolment account's password; None where nobody has set one here.

    Raises:
        ConfigurationError: this user may not read it.
    """
    kept = _kept_enrolment(passwords)
    try:
        return kept.read_text().strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{kept} cannot be read", hint="run this as the user who owns the password file and its folder"
        ) from error


def _kept_enrolment(passwords: Path) -> Path:
    return passwords.with_name(f"{passwords.name}.enrolment")


def hash_password(password: str) -> str:
    """Return `$7$rounds$salt$hash`, PBKDF2 with SHA-512, as mosquitto_passwd(1) of 2.0 writes it."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return f"$7${_ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
