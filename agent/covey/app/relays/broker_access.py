"""Authority over a broker: letting devices in, shutting them out, and proving that a live one keeps its promises."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.broker.authority import SERVED_PASSWORDS, Authority, PasswordAuthority, authority, fleet_ca
from covey.adapters.broker.mosquitto_passwords import (
    ENROLMENT_ACCOUNT,
    check_device_name,
    draw_enrolment_password,
)
from covey.adapters.keys.key_file import read_secret, write_secret
from covey.adapters.keys.relay_credential import is_certificate
from covey.config.schema import RelayConfig
from covey.core.ids import KEY_BYTES, inbox_name, key_from_text
from covey.errors import ConfigurationError, MalformedError, UsageError

if TYPE_CHECKING:
    from covey.adapters.broker.examination import BrokerAccount, ExaminedProperty
    from covey.adapters.state_folder import StateFolder

_MAXIMUM_IDENTITY_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class NamedAuthority:
    """The authority that a person names: a password file, with the broker's pid file, or a CA's folder; or neither."""

    password_file: str | None
    pid_file: str | None
    ca: str | None

    def open(self, folder: StateFolder, *, makes: bool = False) -> Authority:
        """Return the authority, or the configured one.

        Args:
            folder: whose configuration says which, where none is named.
            makes: whether a password file that is not there is to be made: no broker reads one that was mistyped.

        Raises:
            UsageError: none is named anywhere, or two are named here.
            ConfigurationError: it is not usable.
        """
        self.check()
        if self.ca:
            return fleet_ca().open(Path(self.ca))
        if self.password_file:
            if not makes and not Path(self.password_file).is_file():
                raise ConfigurationError(
                    f"{self.password_file} is not a file",
                    hint="name the password file that the broker reads, or create one: covey broker init "
                    "--password-file "
                    f"{self.password_file}",
                )
            return PasswordAuthority(Path(self.password_file), Path(self.pid_file) if self.pid_file else None)
        configured = _configured(folder)
        if configured is None:
            raise UsageError(
                "no password file or CA of a broker is given",
                hint="give --password-file FILE or --ca DIR; or: covey config set broker.password_file FILE",
            )
        return configured

    def is_served(self, folder: StateFolder) -> bool:
        """Return whether it is that of the relay that the device in a folder serves itself."""
        if self.ca or self.password_file or not folder.configuration.path.exists():
            return False
        return folder.configuration.config().broker.password_file == SERVED_PASSWORDS

    def check(self) -> None:
        """Check that not two are named.

        Raises:
            UsageError: they are.
        """
        if self.ca and self.password_file:
            raise UsageError("--password-file and --ca exclude each other", hint="give one of them")


@dataclass(frozen=True, slots=True)
class PreparedCa:
    """A fleet CA: what the broker must be pointed at."""

    ca_file: str
    crl_file: str


@dataclass(frozen=True, slots=True)
class PreparedPasswords:
    """A password file, and the account in it that joiners share."""

    password_file: str
    account: str


@dataclass(frozen=True, slots=True)
class Credential:
    """A device's credential: a `password`, or a `certificate` with its key as PEM."""

    user_name: str
    kind: str
    text: str

    def to_json(self) -> str:
        """Return it as `examine_broker` reads it."""
        return json.dumps({"user_name": self.user_name, self.kind: self.text})

    def __repr__(self) -> str:
        """Return whose it is, and never the secret."""
        return f"Credential({self.user_name[:8]}, {self.kind})"


@dataclass(frozen=True, slots=True)
class ShutOut:
    """An account, and whether it had a credential that is gone now."""

    user_name: str
    removed: bool


def prepare_authority(
    folder: StateFolder, named: NamedAuthority, shared_password: str | None
) -> PreparedCa | PreparedPasswords:
    """Make what credentials come from: a CA, or the account that joiners share; what is there stays.

    Raises:
        UsageError: as `NamedAuthority.open`; or the enrolment password is empty.
        ConfigurationError: it is not usable.
    """
    if named.ca:
        named.check()
        ca = fleet_ca().create(Path(named.ca))
        return PreparedCa(str(ca.folder / "ca.crt"), str(ca.folder / "revoked.crl"))
    held = named.open(folder, makes=True)
    if not isinstance(held, PasswordAuthority):
        raise UsageError("a fleet CA is configured", hint="covey broker init --ca DIR")
    if shared_password is not None or held.shared() is None:
        held.share(draw_enrolment_password() if shared_password is None else _shared(shared_password))
    return PreparedPasswords(str(held.password_file), ENROLMENT_ACCOUNT)


def renew_shared_password(folder: StateFolder, named: NamedAuthority) -> PreparedPasswords:
    """Draw another password for the joiners' shared account, and disconnect its present users.

    Raises:
        UsageError: the authority is a fleet CA, which has no such account; or as `NamedAuthority.open`.
        ConfigurationError: it is not usable.
    """
    held = named.open(folder)
    if not isinstance(held, PasswordAuthority):
        raise UsageError("a fleet CA has no shared enrolment account")
    held.share(draw_enrolment_password())
    return PreparedPasswords(str(held.password_file), ENROLMENT_ACCOUNT)


def let_in(folder: StateFolder, named: NamedAuthority, device: str) -> Credential:
    """Make the credential of a device, named by its user name or its signing key.

    Raises:
        UsageError: it is neither; or as `NamedAuthority.open`.
    """
    user_name = _user_name(device)
    text = named.open(folder).mint(user_name, by_hand=True)
    return Credential(user_name, "certificate" if is_certificate(text) else "password", text)


def keep_in_file(credential: str, path: Path) -> None:
    """Write a credential to a file of mode 0600."""
    write_secret(path, f"{credential}\n".encode())


def shut_out(folder: StateFolder, named: NamedAuthority, device: str) -> ShutOut:
    """Take a device's credential away, or close the account that joiners share.

    Raises:
        UsageError: it is no device's name; or as `NamedAuthority.open`.
    """
    held = named.open(folder)
    if device == ENROLMENT_ACCOUNT and isinstance(held, PasswordAuthority):
        held.share(None)
        return ShutOut(ENROLMENT_ACCOUNT, removed=True)
    user_name = _user_name(device)
    return ShutOut(user_name, held.remove(user_name))


def examine_broker(
    folder: StateFolder,
    identities: Sequence[str],
    *,
    url: str | None,
    ca_file: str | None,
    shared_password: str | None,
    listen_s: float,
) -> Iterator[ExaminedProperty]:
    """Try on a live broker what Covey needs of it, with two identities made for this, and yield what was seen.

    `identities` are the files of two credentials; `url` and `ca_file` are the configured relay's where not given.

    Raises:
        UsageError: not two identities, or twice the same.
        ConfigurationError: one is missing, open to others, or something else.
    """
    from covey.adapters.broker.examination import Examination

    if len(identities) != 2:
        raise UsageError(
            "the check needs two identities that no device uses",
            hint="run twice: covey broker enrol $(openssl rand -hex 16) --json --output FILE; then give "
            "--identity FILE twice",
        )
    one, two = (_identity(Path(name)) for name in identities)
    if one.user_name == two.user_name:
        raise UsageError("both identities are the same", hint="enrol a second one")
    relay = folder.configuration.config().relay if folder.configuration.path.exists() else RelayConfig()
    ca_file = ca_file or (relay.ca_file if not url else "")
    if shared_password is None and folder.configuration.path.exists():
        shared_password = known_enrolment_password(folder)
    authorities = Path(ca_file) if ca_file else None
    examination = Examination(
        url or relay.url,
        authorities,
        (one, two),
        _shared(shared_password),
        listen_s,
        allow_tls12=relay.allow_tls12,
    )
    yield from examination.findings()


def known_enrolment_password(folder: StateFolder) -> str | None:
    """Return the password of the account that joiners share, where this device has authority over it.

    Raises:
        ConfigurationError: the authority is not usable.
    """
    held = _configured(folder)
    return held.shared() if isinstance(held, PasswordAuthority) else None


def _configured(folder: StateFolder) -> Authority | None:
    if not folder.configuration.path.exists():
        return None
    settings = folder.configuration.config().broker
    identity = folder.identity() if settings.password_file == SERVED_PASSWORDS else None
    return authority(settings, folder.path, identity)


def _identity(path: Path) -> BrokerAccount:
    from covey.adapters.broker.examination import BrokerAccount

    try:
        content = json.loads(read_secret(path, _MAXIMUM_IDENTITY_BYTES))
        check_device_name(content["user_name"])
        return BrokerAccount(content["user_name"], content.get("password", ""), content.get("certificate", ""))
    except (ValueError, KeyError, TypeError, UsageError) as error:
        raise ConfigurationError(
            f"{path} is not an identity file", hint="'covey broker enrol NAME --json --output FILE' writes one"
        ) from error


def _shared(password: str | None) -> str:
    """Return the password of the joiners' account; without one, its name."""
    if password is None:
        return ENROLMENT_ACCOUNT
    if not password:
        raise UsageError("the enrolment password is empty")
    return password


def _user_name(text: str) -> str:
    if text.startswith("covey-"):
        try:
            return inbox_name(key_from_text("sign", text))
        except MalformedError as error:
            raise UsageError(f"{error}", hint="'covey key show' on the device prints its signing key") from error
    name = text[: len(text) // 2] if len(text) == 2 * KEY_BYTES else text  # of a signing key in hex
    check_device_name(name)
    return name
