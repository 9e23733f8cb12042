"""Authority over a broker: making credentials for devices (docs/how-to/relay.md).

1. A credential is text: a password, or a PEM bundle of a private key and its certificate (`relay_credential` stores
   either). It is shown or handed on once; only its hash or the certificate stays here.
2. Pairing calls `mint`. It may be repeated: a device then has a new password, or one certificate more.
3. A running broker learns of a changed password file by SIGHUP: from here, if its pid file is named and this user may
   signal it; otherwise from what watches the file (`covey relay serve`, or the units in `broker_conf/mosquitto/`).
4. It is signalled twice: mosquitto loses a signal while it still reloads, but then it has seen the file only if that
   reload began after the change. A second one, later than any reload lasts, is lost only to a reload that did.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from covey.adapters.broker import mosquitto_passwords
from covey.adapters.keys.storage_key import StorageKey
from covey.errors import ConfigurationError, MissingPackageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from covey.adapters.broker.fleet_ca import FleetCa
    from covey.config.schema import BrokerConfig
    from covey.core.crypto import Identity


SERVED_PASSWORDS = "broker/passwords"
"""The accounts of the relay that a device serves itself (`served_folder.py`), in its state folder."""


class Authority(Protocol):
    """The authority to add devices to the broker, and to remove them."""

    def mint(self, user_name: str, *, by_hand: bool = False) -> str:
        """Make a device's credential and return it: a password, or a key with its certificate in PEM.

        What a person makes `by_hand`, only a person takes away.

        Raises:
            CoveyError: it cannot be made.
        """

    def remove(self, user_name: str) -> bool:
        """Shut a device out; return whether it had a credential.

        Raises:
            CoveyError: it cannot be taken away.
        """

    def reinstate(self, user_names: Iterable[str]) -> list[str]:
        """Let devices in again whose credential a restored authority does not know; return which."""

    def close(self, user_names: Iterable[str]) -> list[str]:
        """Shut former members out, but for those that a person let in by hand; return which had a credential."""


@dataclass(frozen=True, slots=True)
class PasswordAuthority:
    """Authority by mosquitto's password file; `pid_file` is mosquitto's own, for SIGHUP.

    `storage_key` wraps the secrets of the accounts where the device serves the relay itself.
    """

    password_file: Path
    pid_file: Path | None = None
    storage_key: StorageKey | None = field(default=None, repr=False, compare=False)

    def mint(self, user_name: str, *, by_hand: bool = False) -> str:
        """Give a device a new password, which holds for the broker, too, when this returns or soon after.

        Raises:
            UsageError: that is not a device's user name.
            ConfigurationError: this user may not change the file, or not signal the broker.
            StorageError: the disk refused.
        """
        password = mosquitto_passwords.add_device(
            self.password_file, user_name, by_hand=by_hand, storage_key=self.storage_key
        )
        self._reload()
        return password

    def remove(self, user_name: str) -> bool:
        """Take a device's account away; mosquitto ends its connection when it reads the file again.

        Raises:
            UsageError, ConfigurationError, StorageError: as `mint`.
        """
        removed = mosquitto_passwords.remove_device(self.password_file, user_name)
        self._reload()
        return removed

    def reinstate(self, user_names: Iterable[str]) -> list[str]:
        """Make the accounts that a restored file lacks, with the passwords that these devices have; return which.

        Raises:
            ConfigurationError, StorageError: as `mint`.
        """
        made = mosquitto_passwords.reinstate_devices(self.password_file, user_names, self.storage_key)
        if made:
            self._reload()
        return made

    def close(self, user_names: Iterable[str]) -> list[str]:
        """Take accounts away, but for those that a person made by hand; return which there were.

        Raises:
            ConfigurationError, StorageError: as `mint`.
        """
        closed = mosquitto_passwords.close_devices(self.password_file, user_names)
        if closed:
            self._reload()
        return closed

    def share(self, password: str | None) -> None:
        """Set the enrolment account's password, and keep it for the invites that carry it; None closes the account.

        Raises:
            ConfigurationError, StorageError: as `mint`.
        """
        mosquitto_passwords.share_enrolment(self.password_file, password, self.storage_key)
        self._reload()

    def shared(self) -> str | None:
        """Return the enrolment account's password; None where nobody has set one here.

        Raises:
            ConfigurationError: this user may not read it.
        """
        return mosquitto_passwords.shared_enrolment(self.password_file, self.storage_key)

    def _reload(self) -> None:
        if self.pid_file is not None:
            reload_broker(self.pid_file)


def authority(settings: BrokerConfig, state: Path, identity: Identity | None) -> Authority | None:
    """Return the authority that the configuration names, None where it names none. Paths are relative to the state.

    Raises:
        ConfigurationError: it names two, or the fleet CA is not usable.
    """
    if settings.password_file and settings.ca_folder:
        raise ConfigurationError(
            "broker.password_file and broker.ca_folder are both set; Covey can manage only one of them",
            hint="covey config unset broker.password_file, or covey config unset broker.ca_folder",
        )
    if settings.ca_folder:
        return fleet_ca().open(state / settings.ca_folder)
    if settings.password_file:
        return PasswordAuthority(
            state / settings.password_file,
            state / settings.pid_file if settings.pid_file else None,
            StorageKey.of(identity) if identity and settings.password_file == SERVED_PASSWORDS else None,
        )
    return None


def fleet_ca() -> type[FleetCa]:
    """Return what opens a fleet CA; loaded on demand, because devices do not carry the package that it needs.

    Raises:
        MissingPackageError: the package is not there.
    """
    try:
        from covey.adapters.broker.fleet_ca import FleetCa
    except ModuleNotFoundError as error:
        raise MissingPackageError("a certificate authority", "cryptography") from error
    return FleetCa


_SECOND_SIGNAL_S = 1.0
"""Longer than mosquitto takes to read its files."""


def reload_broker(pid_file: Path) -> bool:
    """Have mosquitto read its files again; False where none runs, which will read them when it starts.

    Raises:
        ConfigurationError: the file holds no process id, or the process may not be signalled by this user.
    """
    signalled = _signal_broker(pid_file)
    if signalled:
        second = threading.Timer(_SECOND_SIGNAL_S, _signal_second_time, (pid_file,))
        second.start()
    return signalled


def _signal_second_time(pid_file: Path) -> None:
    with suppress(ConfigurationError):  # it has gone meanwhile, and reads its files when it comes
        _signal_broker(pid_file)


def _signal_broker(pid_file: Path) -> bool:
    try:
        pid = int(pid_file.read_text())
        runs = Path(f"/proc/{pid}/comm").read_text().strip() == "mosquitto"  # a stale id may be anybody's now
    except FileNotFoundError:
        return False
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{pid_file} holds no readable process id", hint="give the file that pid_file in mosquitto.conf names"
        ) from error
    if runs:
        try:
            os.kill(pid, signal.SIGHUP)
        except ProcessLookupError:
            return False
        except PermissionError as error:
            raise ConfigurationError(
                f"this user is not allowed to signal the broker (process {pid})",
                hint="leave out the pid file; let systemd watch the password file: covey system-files "
                "broker_conf/mosquitto/README.md",
            ) from error
    return runs
