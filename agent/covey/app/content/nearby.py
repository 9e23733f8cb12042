"""The places nearby as the configuration names them: peers of this network, an object store. Loaded by who has any."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.content.nearby_files import NearbyFiles, NearbyNotes
from covey.app.device.addresses import host_and_port

if TYPE_CHECKING:
    from covey.adapters.lan.discovery import LanDiscovery
    from covey.adapters.lan.server import LanServer
    from covey.adapters.objects.content import ContentStore
    from covey.app.device.device import Device
    from covey.core.ids import ContentHash
    from covey.ports import ContentPlace, GivenFile


def nearby_role(device: Device) -> NearbyFiles:
    """Return the role that gives and takes files nearby.

    Raises:
        ConfigurationError: an address is none, or the store is.
        MissingPackageError: what finds peers, or speaks with the store, is not installed.
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
    nearby = _Nearby(server, discovery, peers if config.lan else [], store)
    own = device.node.identity.signing_public
    return NearbyFiles(
        nearby,
        device.store.content,
        own,
        device.clock,
        report,
        NearbyNotes(device.store, device.clock),
        device.waking.wake,
    )


def _has_zeroconf() -> bool:
    from importlib.util import find_spec

    return find_spec("zeroconf") is not None


class _Nearby:
    """Implements `nearby_files.Nearby`."""

    def __init__(
        self,
        server: LanServer | None,
        discovery: LanDiscovery | None,
        peers: list[tuple[str, int]],
        objects: ContentStore | None,
    ) -> None:
        self._server, self._discovery, self._peers, self._objects = server, discovery, peers, objects

    def places(self) -> list[ContentPlace]:
        found: list[ContentPlace] = []
        if self._server is not None:
            from covey.adapters.lan.peer import LanPeer

            known = self._discovery.peers() if self._discovery is not None else []
            found += [LanPeer(*each, self._server.salt) for each in dict.fromkeys([*known, *self._peers])]
        return found if self._objects is None else [*found, self._objects]

    @property
    def peers(self) -> int:
        found = self._discovery.peers() if self._discovery is not None else []
        return len({*found, *self._peers})

    @property
    def has_peers(self) -> bool:
        return self.peers > 0 or (self._discovery is not None and self._discovery.is_looking)

    def offer(self, files: Mapping[ContentHash, GivenFile]) -> None:
        if self._server is not None:
            self._server.offer(files)

    @property
    def has_store(self) -> bool:
        return self._objects is not None

    @property
    def store_trouble(self) -> str:
        return "" if self._objects is None else self._objects.trouble

    def store(self, content: ContentHash, path: Path) -> None:
        """Put a file into the object store, if there is one."""
        if self._objects is not None:
            with path.open("rb") as file:
                self._objects.put(content, file)

    def close(self) -> None:
        if self._discovery is not None:
            self._discovery.close()
        if self._server is not None:
            self._server.close()
