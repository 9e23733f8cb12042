"""Serving the fleet's page."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from covey.app.device.device import open_device
from covey.app.fleet.dashboard import Dashboard
from covey.app.fleet.kept_fleet import KeptFleet
from covey.app.fleet.page_actions import ACTIONS
from covey.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from covey.adapters.page_server import PageServer
    from covey.adapters.state_folder import StateFolder

_LEAST_PASSWORD = 12
_PASSWORD_BYTES = 1_024
_PORTS = 65_535


def serve_page(
    folder: StateFolder,
    address: str,
    certificate: tuple[Path | None, Path | None],
    password_file: Path | None,
    location: str | None,
    since_us: int,
    interval_s: float,
    link_used: Callable[[str], None],
    *,
    acts: bool = True,
    proxy: str | None = None,
) -> PageServer:
    """Look at the fleet, and begin to serve its page.

    Args:
        folder: the state of the device.
        address: HOST:PORT to listen on; beyond this machine only with a certificate and a password.
        certificate: PEM files of the certificate and its key, which may be one.
        password_file: whose first line is the password.
        location: of the vault; None for the configured one.
        since_us: how far back to look in the vault.
        interval_s: at least so long between two looks.
        acts: whether visitors may change something: accept, approve, resume, abort, remove, silence.
        link_used: called with the next link when the last one has let a browser in.
        proxy: the address of a proxy that authenticates visitors; nobody else is admitted.

    Raises:
        UsageError: no address, one that needs a certificate and a password, or a password besides a proxy.
        ConfigurationError: the files or the address cannot be used, or there is no device here.
        StorageError: the state or the vault cannot be read.
    """
    from covey.adapters.page_server import Listen, PageServer

    host, port = _address(address)
    if proxy is not None:
        _check_proxy(proxy, password_file)
    if password_file is not None and certificate[0] is None:
        raise UsageError("a password must not cross the network unencrypted", hint="--certificate FILE --key FILE")
    if not ipaddress.ip_address(host).is_loopback and password_file is None and proxy is None:
        raise UsageError(
            f"{host} is reachable from other machines",
            hint="--certificate FILE --key FILE --password-file FILE; or ssh -L 8765:127.0.0.1:8765",
        )
    password = None if password_file is None else _password(password_file)
    dashboard = Dashboard(
        lambda: open_device(folder), location, since_us, interval_s, acts=acts, kept=KeptFleet(folder)
    )
    dashboard.look()
    return PageServer(
        Listen(host, port, *certificate, password, proxy),
        resources.files("covey") / "web",
        {
            "/fleet": dashboard.overview,
            "/device": dashboard.device,
            "/story": dashboard.story,
            "/series": dashboard.series,
            "/order": dashboard.order,
        },
        {"/events": dashboard.overviews},
        {path: partial(dashboard.act, action) for path, action in ACTIONS.items()} if acts else {},
        link_used,
    )


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if host != "localhost" else "127.0.0.1"
    try:
        ipaddress.ip_address(host)
        number = int(port)
    except ValueError:
        number = -1
    if not 0 <= number <= _PORTS:
        raise UsageError(f"{text[:64]!r} is not an address to listen on", hint="--listen 127.0.0.1:8765")
    return host, number


def _check_proxy(proxy: str, password_file: Path | None) -> None:
    try:
        ipaddress.IPv4Address(proxy)
    except ValueError as error:
        raise UsageError(f"{proxy[:64]!r} is not an IPv4 address", hint="--proxy 172.30.32.2") from error
    if password_file is not None:
        raise UsageError("with --proxy, the proxy asks visitors for a password", hint="leave out --password-file")


def _password(path: Path) -> str:
    """Return the password of a file.

    Raises:
        ConfigurationError: it cannot be read, others may read it, or it is short.
    """
    from covey.adapters.keys.key_file import read_secret

    lines = read_secret(path, _PASSWORD_BYTES).decode(errors="replace").splitlines()
    if not lines or len(lines[0]) < _LEAST_PASSWORD:
        raise ConfigurationError(
            f"{path}: the page's password must have at least {_LEAST_PASSWORD} characters",
            hint=f"openssl rand -base64 18 > {path}",
        )
    return lines[0]
