"""Finds peers of this network, and is found by them, by mDNS and DNS-SD (RFC 6762, 6763). Loads `zeroconf`."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from covey.adapters.lan.tags import is_near
from covey.adapters.own_addresses import own_addresses
from covey.errors import MissingPackageError
from covey.limits.content import LAN_FOUND_US, LAN_PEERS

if TYPE_CHECKING:
    from covey.ports import Report

_SERVICE = "_covey._tcp.local."
_RESOLVE_MS = 1_000
_LOOK_S = 30.0
_GOODBYE_S = 3.0


def near_addresses() -> list[str]:
    """Return this machine's IPv4 addresses in private networks, by which peers may reach it."""
    return [each for each in own_addresses() if ":" not in each and is_near(each)]


class LanDiscovery:
    """Announces this device, under a name drawn at each start, and finds other devices.

    Its own thread starts again whenever this machine's addresses change.
    """

    def __init__(self, port: int, report: Report) -> None:
        """Begin.

        Raises:
            MissingPackageError: zeroconf is not installed.
        """
        if not find_spec("zeroconf"):
            raise MissingPackageError("finding devices on this network", "zeroconf")
        self._port, self._report = port, report
        self._lock = threading.Lock()
        self._found: dict[str, tuple[str, int]] = {}
        self._own = f"{secrets.token_hex(8)}.{_SERVICE}"
        self._trouble = ""
        self._ended = threading.Event()
        self._looks_until = time.monotonic() + LAN_FOUND_US / 1e6
        self._thread = threading.Thread(target=self._follow_addresses, name="lan discovery", daemon=True)
        self._thread.start()

    def peers(self) -> list[tuple[str, int]]:
        """Return the addresses and ports of those who are there now."""
        with self._lock:
            return [*dict.fromkeys(self._found.values())]

    @property
    def is_looking(self) -> bool:
        """Whether it has begun so lately that who is there may not have answered yet."""
        return time.monotonic() < self._looks_until

    def close(self) -> None:
        """Say that this device goes."""
        self._ended.set()
        self._thread.join(_GOODBYE_S)

    def _follow_addresses(self) -> None:
        known: list[str] = []
        zeroconf: Any = None
        while True:
            addresses = self._near_addresses()
            if addresses != known:
                if zeroconf is not None:
                    zeroconf.close()
                zeroconf, known = (self._begun(addresses) if addresses else None), addresses
                if zeroconf is None:
                    known = []
            if self._ended.wait(_LOOK_S):
                break
        if zeroconf is not None:
            zeroconf.close()

    def _near_addresses(self) -> list[str]:
        try:
            found, trouble = near_addresses(), ""
        except OSError as error:
            found, trouble = [], str(error)
        if trouble and trouble != self._trouble:
            self._report(
                "warning", f"LAN files: mDNS is off because this machine's addresses cannot be read: {trouble}"
            )
        self._trouble = trouble
        return found

    def _begun(self, addresses: list[str]) -> Any:
        from zeroconf import Error, IPVersion, ServiceBrowser, ServiceInfo, Zeroconf

        found: Any = None
        try:
            found = Zeroconf(interfaces=addresses, ip_version=IPVersion.V4Only)
            server = f"{self._own.partition('.')[0]}.local."
            packed = [socket.inet_aton(each) for each in addresses]
            found.register_service(ServiceInfo(_SERVICE, self._own, port=self._port, addresses=packed, server=server))
            ServiceBrowser(found, _SERVICE, handlers=[self._changed])
        except (OSError, Error) as error:
            self._report("warning", f"LAN files: mDNS is off: {error}")
            if found is not None:
                found.close()
            return None
        return found

    def _changed(self, zeroconf: Any, service_type: str, name: str, state_change: Any) -> None:
        from zeroconf import ServiceStateChange

        if name == self._own:
            return
        if state_change is ServiceStateChange.Removed:
            with self._lock:
                self._found.pop(name, None)
            return
        info = zeroconf.get_service_info(service_type, name, _RESOLVE_MS)
        address = next((each for each in info.parsed_addresses() if is_near(each)), None) if info is not None else None
        with self._lock:
            if address is not None and info.port and (name in self._found or len(self._found) < LAN_PEERS):
                self._found[name] = (address, int(info.port))
