"""The files of this device's own relay, in the state's folder `broker/` (mode 0700).

mosquitto.conf, acl   Covey's files, with paths filled in   passwords   the accounts; `.enrolment`: the joiners'
ca/                   the authority, `fleet_ca.py`          server.pem  the relay's key and certificate, wrapped
names                 its names and addresses, one a line   in-force    a digest of what mosquitto has read
former-names          names and addresses by which devices knew the relay before, one a line

1. Everything is made once, and made again if it is missing; accounts and the authority stay as they are.
2. The server's certificate is renewed a month before its end, and when the machine has other names or addresses.
3. mosquitto gets `server.pem` and its configuration in memory (`mosquitto_process`): no disk holds the relay's key in
   the clear.
4. `in-force` is written when mosquitto has loaded a change, never before: `covey check` relies on it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.broker.mosquitto_configuration import substitute
from covey.adapters.broker.mosquitto_passwords import draw_enrolment_password, share_enrolment, shared_enrolment
from covey.adapters.files import replace_durably
from covey.adapters.keys.key_file import private_folder, read_secret
from covey.adapters.keys.wrapped_file import unwrapped, write_wrapped
from covey.errors import DecryptionError
from covey.limits.relay import FORMER_RELAY_NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covey.adapters.keys.storage_key import StorageKey

SERVED_FOLDER = "broker"
_SERVER = "server.pem"
_MAXIMUM_PEM_BYTES = 64 * 1024
_RENEWED_BEFORE = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class ServedFolder:
    """The folder of a relay that this device serves; nothing is cached."""

    path: Path

    @property
    def password_file(self) -> Path:
        """The accounts."""
        return self.path / "passwords"

    @property
    def ca_file(self) -> Path:
        """The authorities that devices trust at this relay."""
        return self.path / "ca" / "ca.crt"

    @property
    def certificate_file(self) -> Path:
        """What proves the relay to devices, with its key."""
        return self.path / _SERVER

    @property
    def configuration(self) -> Path:
        """What mosquitto is started with."""
        return self.path / "mosquitto.conf"

    @property
    def exists(self) -> bool:
        """Whether a relay was ever served here."""
        return self.configuration.exists()

    def write(self, committed: str, acl: str, port: int, user: str, storage_key: StorageKey) -> None:
        """Write the configuration, and an account list with only the joiners' account; `user`: root changes to it.

        Raises:
            ConfigurationError, StorageError: the folder is open to others, or the disk refused.
        """
        private_folder(self.path)
        if shared_enrolment(self.password_file, storage_key) is None:
            share_enrolment(self.password_file, draw_enrolment_password(), storage_key)
        replace_durably(self.path / "acl", acl.encode(), 0o600)
        places: dict[str, str | None] = {
            "listener": f"{port}\nuser {user}",
            "certfile": str(self.certificate_file),
            "keyfile": str(self.certificate_file),
            "password_file": str(self.password_file),
            "acl_file": str(self.path / "acl"),
            "persistence_location": f"{self.path}/",
            "set_tcp_nodelay": "true\nlog_type subscribe",  # counted by our own process (`SubscriptionWatch`)
        }
        replace_durably(self.configuration, substitute(committed, places).encode(), 0o600)

    def certify(self, names: Sequence[str], storage_key: StorageKey) -> bool:
        """See to a certificate for these names that lives long enough; return whether another one had to be made.

        Raises:
            ConfigurationError: the authority is not usable, or `cryptography` is missing.
            StorageError: the disk refused.
        """
        from covey.adapters.broker.authority import fleet_ca

        private_folder(self.path)
        authority = fleet_ca().create(self.path / "ca", storage_key)
        kept = self.server_pem(storage_key)
        if kept and authority.vouches_for(kept, names, _RENEWED_BEFORE):
            return False
        write_wrapped(self.certificate_file, authority.mint_server(names).encode(), storage_key, _SERVER)
        return True

    def server_pem(self, storage_key: StorageKey) -> bytes:
        """Return the relay's key and certificate; nothing where there is none, or a disk has damaged it."""
        if not self.certificate_file.exists():
            return b""
        raw = read_secret(self.certificate_file, 2 * _MAXIMUM_PEM_BYTES)
        try:
            return unwrapped(raw, storage_key, _SERVER)
        except DecryptionError:
            return b""

    def started_with(self, certificate: str) -> bytes:
        """Return what mosquitto is started with; `certificate` is where it finds the key and certificate."""
        places = {"certfile": certificate, "keyfile": certificate}
        return substitute(self.configuration.read_text(), places).encode()

    def names(self) -> list[str]:
        """Return the names that a person gave, the one that devices are told first; none where nobody did."""
        kept = self.path / "names"
        return kept.read_text().split() if kept.exists() else []

    def keep_names(self, names: Sequence[str]) -> None:
        """Remember what a person gave."""
        private_folder(self.path)
        replace_durably(self.path / "names", ("\n".join(names) + "\n").encode(), 0o600)

    def former_names(self) -> list[str]:
        """Return the names and addresses by which devices knew the relay before, the latest one first."""
        kept = self.path / "former-names"
        return kept.read_text().split() if kept.exists() else []

    def keep_former_name(self, url: str) -> None:
        """Keep the certificate valid for the name or address in a URL that devices were told, and may still use."""
        from covey.adapters.mqtt.settings import parse_url

        former = list(dict.fromkeys([parse_url(url)[0], *self.former_names()]))[:FORMER_RELAY_NAMES]
        private_folder(self.path)
        replace_durably(self.path / "former-names", ("\n".join(former) + "\n").encode(), 0o600)

    def forget_queue(self) -> bool:
        """Delete the broker's sessions and queues, which only save time; return whether there were any."""
        saved = self.path / "mosquitto.db"
        was_there = saved.exists()
        saved.unlink(missing_ok=True)
        return was_there

    def digest(self) -> str:
        """Return the digest of what mosquitto has to know: accounts, rules, certificate."""
        files = (self.password_file, self.path / "acl", self.certificate_file)
        return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()

    def note_in_force(self, digest: str) -> None:
        """Note what mosquitto has read."""
        replace_durably(self.path / "in-force", digest.encode(), 0o600)

    def in_force(self) -> bool:
        """Say whether mosquitto has read what the files say now."""
        noted = self.path / "in-force"
        return noted.exists() and noted.read_text() == self.digest()
