"""The places nearby that the configuration names: peers on this network, an object store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.device.addresses import host_and_port

if TYPE_CHECKING:
    from covey.adapters.lan.discovery import LanDiscovery
    from covey.adapters.lan.server import LanServer
    from covey.adapters.objects.content import ContentStore
    from covey.app.device.device import Device
    from covey.core.ids import ContentHash
    from covey.ports import ContentPlace, GivenFile


class Nearby:
    """Places to ask for files, and to give files to. Any of the parts may be missing."""

    def __init__(
        self,
        server: LanServer | None,
        discovery: LanDiscovery | None,
        peers: list[tuple[str, int]],
        objects: ContentStore | None,
    ) -> None:
        self._server, self._discovery, self._peers, self._objects = server, discovery, peers, objects

    def places(self) -> list[ContentPlace]:
        """Return the sources to ask, the nearest first."""
        found: list[ContentPlace] = []
        if self._server is not None:
            from covey.adapters.lan.peer import LanPeer

            known = self._discovery.peers() if self._discovery is not None else []
            found += [LanPeer(*each, self._server.salt) for each in dict.fromkeys([*known, *self._peers])]
        return found if self._objects is None else [*found, self._objects]

    @property
    def peers(self) -> int:
        """How many peers are known."""
        found = self._discovery.peers() if self._discovery is not None else []
        return len({*found, *self._peers})

    @property
    def has_peers(self) -> bool:
        """Whether there are peers on this network, or may be."""
        return self.peers > 0 or (self._discovery is not None and self._discovery.is_looking)

    def offer(self, files: Mapping[ContentHash, GivenFile]) -> None:
        """Give these files, and no others, to peers."""
        if self._server is not None:
            self._server.offer(files)

    @property
    def has_store(self) -> bool:
        """Whether there is an object store."""
        return self._objects is not None

    @property
    def store_trouble(self) -> str:
        """Why the object store refuses; empty if it does not."""
        return "" if self._objects is None else self._objects.trouble

    def store(self, content: ContentHash, path: Path) -> None:
        """Put a file into the object store, if there is one; once is enough.

        Raises:
            CoveyError: it refused.
        """
        if self._objects is not None:
            with path.open("rb") as file:
                self._objects.put(content, file)

    def close(self) -> None:
        """Stop giving files."""
        if self._discovery is not None:
            self._discovery.close()
        if self._server is not None:
            self._server.close()


def nearby_places(device: Device) -> Nearby:
    """Return the configured places; peers may find this device from now on.

    Raises:
        ConfigurationError: an address is not one, or the object store's location is not.
        MissingPackageError: a package that finds peers or connects to the object store is not installed.
    """
    config = device.config.content
    server, discovery = None, None
    peers = [host_and_port(each, "content.lan_peers") for each in config.lan_peers]
    if config.lan:
        from covey.adapters.lan.server import LanServer

        def damaged(content: ContentHash) -> None:
            device.store.content.note_damaged(content)
            device.waking.wake()

        address = host_and_port(config.lan_listen or "0.0.0.0:0", "content.lan_listen")
        server = LanServer(*address, damaged=damaged)
        if not config.lan_listen.startswith("127.") and (not peers or _has_zeroconf()):
            from covey.adapters.lan.discovery import LanDiscovery

            discovery = LanDiscovery(server.port, report)
        report("info", f"LAN files: serving on port {server.port}")
    store = None
    if config.store:
        from covey.adapters.objects.content import ContentStore
        from covey.adapters.objects.location import open_object_store

        store = ContentStore(open_object_store(config.store, device.folder.path))
    return Nearby(server, discovery, peers if config.lan else [], store)


def _has_zeroconf() -> bool:
    from importlib.util import find_spec

    return find_spec("zeroconf") is not None
