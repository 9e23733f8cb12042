"""A relay of one's own on this machine, which a device prepares once and serves from then on: `covey relay serve`."""

from __future__ import annotations

import ipaddress
import os
import pwd
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.adapters.broker.authority import SERVED_PASSWORDS, PasswordAuthority
from covey.adapters.broker.served_folder import SERVED_FOLDER, ServedFolder
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.own_addresses import own_addresses, own_names
from covey.app import shipped_files
from covey.app.device.creating import create_device
from covey.core.ids import inbox_name
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from covey.adapters.state_folder import StateFolder

_PORT = 8883
_LOCAL = ("localhost", "127.0.0.1")


@dataclass(frozen=True, slots=True)
class ServedRelay:
    """A relay that is ready to be served: its address for devices, and its authorities."""

    url: str
    ca_file: str
    device: str


def served(folder: StateFolder) -> ServedFolder:
    """Return where the relay of a device's own lies, whether there is one or not."""
    return ServedFolder(folder.path / SERVED_FOLDER)


def prepare_relay(folder: StateFolder, label: str, names: Sequence[str], port: int | None) -> ServedRelay:
    """Make all that a relay is made of, and this device its first account; what is there stays.

    `names` are what devices reach it by, the one that they are told first; where nobody names any, or a port, what was
    said before holds, or this machine's address.

    Raises:
        ConfigurationError: mosquitto or a package is missing, this device uses a broker already, or the files are open.
        StorageError: the disk refused.
    """
    from covey.adapters.broker.mosquitto_process import find_mosquitto
    from covey.adapters.mqtt.settings import parse_url

    find_mosquitto()
    if folder.is_new:
        create_device(folder, label or socket.gethostname())
    config, place = folder.configuration.config(), served(folder)
    if config.broker.ca_folder or config.broker.password_file not in {"", SERVED_PASSWORDS}:
        raise ConfigurationError("this device manages another broker", hint="covey config unset broker.password_file")
    if config.relay.url and not config.broker.password_file:
        raise ConfigurationError(
            f"this device already uses the relay {config.relay.url}",
            hint="to replace it by a relay of its own: covey config unset relay.url, then covey relay serve",
        )
    url = relay_url(config.relay.url, names, port)
    if config.relay.url and parse_url(config.relay.url)[0] != parse_url(url)[0]:
        place.keep_former_name(config.relay.url)
    if names:
        place.keep_names(names)
    identity = folder.identity()
    storage_key = StorageKey.of(identity)
    place.certify(certified_names(folder, url), storage_key)
    place.write(*_committed(), _port_of(url), _user(folder), storage_key)
    folder.configuration.change(
        {"relay.url": url, "relay.ca_file": str(place.ca_file), "broker.password_file": SERVED_PASSWORDS}
    )
    config, own = folder.configuration.config(), inbox_name(identity.signing_public)
    made = PasswordAuthority(place.password_file, storage_key=storage_key)
    if f"{own}:" not in place.password_file.read_text() or not folder.relay_password(config, identity):
        folder.write_relay_password(made.mint(own, by_hand=True), identity)
    return ServedRelay(url, str(place.ca_file), own)


def certified_names(folder: StateFolder, url: str) -> list[str]:
    """Return every name and address that the relay's certificate is for, the one that devices are told first.

    Former ones are among them: devices that were told one of these recognise the relay at another address by it.
    """
    from covey.adapters.mqtt.settings import parse_url

    place = served(folder)
    wanted = [parse_url(url)[0], *place.names(), *own_names(), *own_addresses(), *place.former_names(), *_LOCAL]
    return list(dict.fromkeys(each.partition("%")[0] for each in wanted))


def found_address(folder: StateFolder, url: str) -> str:
    """Return the address in a relay's URL that was found on this machine; "" for a name, or what a person chose."""
    from covey.adapters.mqtt.settings import parse_url

    host = parse_url(url)[0]
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return ""
    return "" if host in {*served(folder).names(), *_LOCAL} else host


def lost_address(folder: StateFolder, url: str) -> str:
    """Return a found address that this machine no longer has; "" if there is none."""
    address = found_address(folder, url)
    return "" if address in own_addresses() else address


def relay_url(before: str, names: Sequence[str], port: int | None) -> str:
    """Return the relay's URL: by what is named now, by what was said before, or by this machine's address.

    `names` are as of `prepare_relay`, `before` is the URL that was said before, or empty.

    Raises:
        ConfigurationError: it is none.
    """
    from covey.adapters.mqtt.settings import parse_url

    if before:
        host, said, _ = parse_url(before)
    else:
        host, said = next(iter(own_addresses()), "127.0.0.1"), _PORT
    host, port = names[0] if names else host, port or said
    bracketed = f"[{host}]" if ":" in host else host
    url = f"mqtts://{bracketed}" + ("" if port == _PORT else f":{port}")
    parse_url(url)
    return url


def _port_of(url: str) -> int:
    from covey.adapters.mqtt.settings import parse_url

    return parse_url(url)[1]


def _committed() -> tuple[str, str]:
    return shipped_files.read("broker_conf/mosquitto/mosquitto.conf"), shipped_files.read("broker_conf/mosquitto/acl")


def _user(folder: StateFolder) -> str:
    """Return which user reads the folder: mosquitto started by root changes to that user."""
    owner = folder.path.stat().st_uid if os.geteuid() == 0 else os.geteuid()
    return pwd.getpwuid(owner).pw_name
