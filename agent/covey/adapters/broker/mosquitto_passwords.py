"""Accounts in mosquitto's password file.

1. A device's user name is the first half of its public signing key, 32 lower-case hex digits: the ACL grants
   `covey/1/in/<it>`.
2. A device's password is never chosen: it follows from a secret in `<file>.secret`, the user name, and how often that
   account was made or removed (`<file>.turns`). The file holds its hash only. So a broker that was restored from a
   backup can make the accounts of devices that joined later: with the passwords that these devices have. Without either
   file, or with a damaged one, no account is made: it might get the password of one that was removed.
3. The one shared password is that of the account `enrol`, by which a device without a credential reaches the rendezvous
   topics of a pairing.
4. In the relay that a device serves itself, `<file>.secret` and `<file>.enrolment` are wrapped with its storage key.
5. The file is replaced whole, one writer at a time, so that a broker which reloads at any moment reads the old or the
   new one, and of two writers neither is undone. It keeps its owner and mode; a new one has mode 0600.

`mosquitto_passwd` is not used: it takes the password as an argument, where every local user can read it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.adapters.files import locked_folder, replace_file, storage_error
from covey.adapters.keys.wrapped_file import is_wrapped_content, unwrapped, wrapped
from covey.errors import ConfigurationError, DecryptionError, UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from covey.adapters.keys.storage_key import StorageKey

ENROLMENT_ACCOUNT = "enrol"
"""User name of a device that has no credential yet; its password, too, where the invite carries none."""

_DEVICE_NAME = re.compile(r"[0-9a-f]{32}")

# mosquitto's own choice. Stretching protects guessable passwords; these are 192 random bits, and every round
# is paid again by the broker for each device when a whole fleet reconnects.
_ROUNDS = 101
_SALT_BYTES = 12
_PASSWORD_BYTES = 24
_SECRET_BYTES = 32
_BY_HAND, _CLOSED = "by-hand", "closed"
_PAST = re.compile(r"([0-9a-f]{32}) (0|[1-9][0-9]{0,8})(?: (by-hand|closed))?")
_SECRET = re.compile(rb"[0-9a-f]{%d}" % (2 * _SECRET_BYTES))
_LEGIBLE = "abcdefghijkmnpqrstuvwxyz23456789"
_ENROLMENT_LENGTH = 8


def check_device_name(user_name: str) -> None:
    """Accept a device's user name.

    Raises:
        UsageError: it is none.
    """
    if not _DEVICE_NAME.fullmatch(user_name):
        raise UsageError(
            "a device's user name must be the first half of its signing key: 32 lower-case hex digits",
            hint="'covey relay' on the device shows it",
        )


@dataclass(frozen=True, slots=True)
class _Past:
    """How often an account was made or removed after the first time, and what became of it last.

    `state` is `_BY_HAND` where a person made it, `_CLOSED` where its device was no member any more, or empty.
    """

    turn: int = -1
    state: str = ""


def add_device(passwords: Path, user_name: str, *, by_hand: bool = False, storage_key: StorageKey | None = None) -> str:
    """Give a device a new password, replacing the one that it may have had, and return it.

    An account that a person makes `by_hand` is removed only by a person. `storage_key` is that of the device whose own
    relay it is.

    Raises:
        UsageError: that is not a device's user name.
        ConfigurationError, StorageError: as `write_account`.
    """
    check_device_name(user_name)
    with _changing(passwords):
        accounts, past = _read_accounts(passwords), _read_past(passwords)
        turn = past.get(user_name, _Past(0 if user_name in accounts else -1)).turn + 1
        if turn or by_hand:
            _write_past(passwords, past | {user_name: _Past(turn, _BY_HAND if by_hand else "")})
        password = _password(_secret(passwords, storage_key), user_name, turn)
        accounts[user_name] = hash_password(password)
        _write_accounts(passwords, accounts)
    return password


def remove_device(passwords: Path, user_name: str) -> bool:
    """Take a device's account away; return whether it had one.

    Raises:
        UsageError: that is not a device's user name.
        ConfigurationError, StorageError: as `write_account`.
    """
    check_device_name(user_name)
    with _changing(passwords):
        accounts, past = _read_accounts(passwords), _read_past(passwords)
        found, known = user_name in accounts, past.get(user_name, _Past(0))
        if found or known.state == _CLOSED:
            # The past is written first: no later account gets the password of a removed one.
            _write_past(passwords, past | {user_name: _Past(known.turn + 1)})
        if found:
            _write_accounts(passwords, {name: hashed for name, hashed in accounts.items() if name != user_name})
    return found


def close_devices(passwords: Path, user_names: Iterable[str]) -> list[str]:
    """Take the accounts of devices away, but for those that a person made by hand; return which had one.

    `reinstate_devices` gives them back, with the same passwords.

    Raises:
        ConfigurationError, StorageError: as `write_account`.
    """
    with _changing(passwords):
        accounts, past = _read_accounts(passwords), _read_past(passwords)
        open_by_code = (each for each in user_names if each in accounts)
        closed = sorted({each for each in open_by_code if past.get(each, _Past()).state != _BY_HAND})
        if closed:
            _write_past(passwords, past | {each: _Past(past.get(each, _Past(0)).turn, _CLOSED) for each in closed})
            _write_accounts(passwords, {name: hashed for name, hashed in accounts.items() if name not in closed})
    return closed


def reinstate_devices(passwords: Path, user_names: Iterable[str], storage_key: StorageKey | None = None) -> list[str]:
    """Make the accounts of devices that never had one here, as far as this file knows; return which were made.

    So those of devices that were closed; an account that was removed stays removed.

    Raises:
        ConfigurationError, StorageError: as `write_account`.
    """
    with _changing(passwords):
        accounts, past = _read_accounts(passwords), _read_past(passwords)
        lacking = (each for each in user_names if each not in accounts)
        missing = sorted({each for each in lacking if past.get(each, _Past(0, _CLOSED)).state == _CLOSED})
        if missing:
            secret, turns = _secret(passwords, storage_key), {each: past.get(each, _Past(0)).turn for each in missing}
            made = {each: hash_password(_password(secret, each, turn)) for each, turn in turns.items()}
            _write_accounts(passwords, accounts | made)
    return missing


def device_accounts(passwords: Path) -> set[str]:
    """Return the user names of the devices that have an account.

    Raises:
        ConfigurationError: this user may not read the file.
    """
    try:
        return {each for each in _read_accounts(passwords) if _DEVICE_NAME.fullmatch(each)}
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{passwords} cannot be read", hint="run this as the user who owns the password file and its folder"
        ) from error


def write_account(passwords: Path, user_name: str, password: str | None) -> bool:
    """Set an account's password, or remove the account; return whether it was there before.

    Raises:
        ConfigurationError: this user may not change the file.
        StorageError: the disk refused.
    """
    with _changing(passwords):
        accounts = _read_accounts(passwords)
        before = accounts.pop(user_name, None) is not None
        if password is not None:
            accounts[user_name] = hash_password(password)
        if before or password is not None:
            _write_accounts(passwords, accounts)
    return before


@contextmanager
def _changing(passwords: Path) -> Iterator[None]:
    try:
        with locked_folder(passwords.parent):
            yield
    except (PermissionError, FileNotFoundError) as error:
        raise ConfigurationError(
            f"{passwords} cannot be changed: {error.strerror}",
            hint="run this as the user who owns the password file and its folder",
        ) from error
    except OSError as error:
        raise storage_error("write", passwords, error) from error


def _read_accounts(passwords: Path) -> dict[str, str]:
    """Return each account's hash, and the file's other lines."""
    lines = passwords.read_text().splitlines() if passwords.exists() else []
    return {name: hashed if colon else "" for name, colon, hashed in (line.partition(":") for line in lines)}


def _write_accounts(passwords: Path, accounts: dict[str, str]) -> None:
    content = "".join(f"{name}:{hashed}\n" if hashed else f"{name}\n" for name, hashed in accounts.items()).encode()
    replace_file(passwords, content, 0o600, like=passwords.stat() if passwords.exists() else None)


def _read_past(passwords: Path) -> dict[str, _Past]:
    """Return what `<file>.turns` holds; its last line says how many there are before it.

    Raises:
        ConfigurationError: it is damaged, or missing beside a secret.
    """
    kept = _beside(passwords, "turns")
    if not kept.exists() and not _beside(passwords, "secret").exists():
        return {}
    lines = kept.read_bytes().decode("ascii", "replace").splitlines() if kept.exists() else [""]
    rows = [_PAST.fullmatch(line) for line in lines[:-1]]
    past = {row[1]: _Past(int(row[2]), row[3] or "") for row in rows if row is not None}
    if lines[-1:] != [f"end {len(rows)}"] or len(past) != len(rows):
        raise ConfigurationError(
            f"{kept} is damaged",
            hint=f"restore it from a backup, or delete it and {_beside(passwords, 'secret').name}: accounts keep their "
            "passwords, and new ones get a new secret",
        )
    return past


def _write_past(passwords: Path, past: dict[str, _Past]) -> None:
    rows = [f"{name} {each.turn} {each.state}".rstrip() + "\n" for name, each in past.items()]
    _write_beside(passwords, "turns", "".join([*rows, f"end {len(rows)}\n"]).encode())


def _secret(passwords: Path, storage_key: StorageKey | None) -> bytes:
    """Return the secret from which device passwords are derived; drawn at the first call.

    Raises:
        ConfigurationError: the file is damaged: passwords derived from it might be guessed.
    """
    kept = _beside(passwords, "secret")
    if not kept.exists():
        if not _beside(passwords, "turns").exists():
            _write_past(passwords, {})
        _keep(passwords, "secret", secrets.token_hex(_SECRET_BYTES).encode(), storage_key)
    secret = _kept(passwords, "secret", storage_key)
    if not _SECRET.fullmatch(secret):
        raise ConfigurationError(
            f"{kept} is damaged",
            hint="restore it from a backup, or delete it: accounts keep their passwords, and new ones get a new secret",
        )
    return secret


def _password(secret: bytes, user_name: str, turn: int) -> str:
    drawn = hmac.digest(secret, b"covey/1 relay account\0" + f"{user_name} {turn}".encode(), "sha256")
    return drawn[:_PASSWORD_BYTES].hex()  # base64 may begin with "-", which a command takes for an option


def _beside(passwords: Path, kind: str) -> Path:
    return passwords.with_name(f"{passwords.name}.{kind}")


def _write_beside(passwords: Path, kind: str, content: bytes) -> None:
    """Write a file for those that may change the password file; others may not read it, whatever that one's mode."""
    like = None
    if passwords.exists():
        found = passwords.stat()
        like = os.stat_result((found.st_mode & ~0o007, *tuple(found)[1:]))
    replace_file(_beside(passwords, kind), content, 0o600, like=like)


def _keep(passwords: Path, kind: str, secret: bytes, storage_key: StorageKey | None) -> None:
    name = _beside(passwords, kind).name
    _write_beside(passwords, kind, secret if storage_key is None else wrapped(secret, storage_key, name))


def _kept(passwords: Path, kind: str, storage_key: StorageKey | None) -> bytes:
    """Return a secret that `_keep` kept; nothing where it is damaged, or another device's.

    Raises:
        ConfigurationError: it is wrapped, and no key is given.
    """
    path = _beside(passwords, kind)
    raw = path.read_bytes()
    if not is_wrapped_content(raw):
        return raw
    if storage_key is None:
        raise ConfigurationError(
            f"{path} opens with its device's key alone", hint="run the command without --password-file, on that device"
        )
    try:
        return unwrapped(raw, storage_key, path.name)
    except DecryptionError:
        return b""


def draw_enrolment_password() -> str:
    """Draw what joiners share: 40 random bits, without letters and digits that look alike, short enough to type."""
    return "".join(secrets.choice(_LEGIBLE) for _ in range(_ENROLMENT_LENGTH))


def share_enrolment(passwords: Path, password: str | None, storage_key: StorageKey | None = None) -> None:
    """Set the enrolment account's password, and keep it for the invites that carry it; None closes the account.

    `storage_key` is that of the device whose own relay it is.

    Raises:
        ConfigurationError, StorageError: as `write_account`.
    """
    write_account(passwords, ENROLMENT_ACCOUNT, password)
    kept = _beside(passwords, "enrolment")
    try:
        _secret(passwords, storage_key)  # from the first backup on
        if password is None:
            kept.unlink(missing_ok=True)
        else:
            _keep(passwords, "enrolment", password.encode(), storage_key)
    except OSError as error:
        raise storage_error("write", kept, error) from error


def shared_enrolment(passwords: Path, storage_key: StorageKey | None = None) -> str | None:
    """Return the enrolment account's password; None where nobody has set one here, or it is damaged.

    Raises:
        ConfigurationError: this user may not read it.
    """
    kept = _beside(passwords, "enrolment")
    try:
        return _kept(passwords, "enrolment", storage_key).decode().strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"{kept} cannot be read", hint="run this as the user who owns the password file and its folder"
        ) from error


def hash_password(password: str) -> str:
    """Return `$7$rounds$salt$hash`, PBKDF2 with SHA-512, as mosquitto_passwd(1) of 2.0 writes it."""
    salt = secrets.token_bytes(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return f"$7${_ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"
