"""The server: the socket's file and whom it lets in, and a thread for each client."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import socketserver
import threading
from typing import TYPE_CHECKING, Any

from covey.adapters.files import storage_error
from covey.adapters.local_api.bodies import SharedBytes
from covey.adapters.local_api.bounds import Bounds
from covey.adapters.local_api.connections import Connections
from covey.adapters.local_api.conversation import BUSY, Conversation
from covey.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path

    from covey.adapters.local_api.routes import Route
    from covey.ports import Report

_VISIT_S = 1.0
_PATH_BYTES = 107
"""What `sockaddr_un` holds."""
_DISK_REFUSES = {errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO}
_WAITING_CONNECTIONS = 32
"""Accepted by the kernel before the server sees them."""


class LocalApi:
    """A server thread, and a thread for each client."""

    def __init__(
        self, path: Path, group: str, routes: tuple[Route, ...], report: Report, bounds: Bounds | None = None
    ) -> None:
        """Listen, for members of the group; of this process's own where it is empty.

        Raises:
            ConfigurationError: the socket cannot be there, or cannot be the group's.
            StorageError: its disk takes no writes.
        """
        self._path = path
        if len(os.fsencode(path)) > _PATH_BYTES:
            raise ConfigurationError(
                f"{path} is too long for a socket's name ({_PATH_BYTES} bytes)", hint="covey config set api.socket PATH"
            )
        gid = group_named(group) if group else -1
        _clear_away(path)
        before = os.umask(0o177)
        try:
            self._server = _Server(str(path), routes, report, bounds or Bounds())
        except OSError as error:
            if error.errno in _DISK_REFUSES:
                raise storage_error("make", path, error) from error
            raise ConfigurationError(
                f"the local API cannot listen on {path}: {error.strerror}",
                hint="its folder must exist and belong to the agent's user; or: covey config set api.socket PATH",
            ) from error
        finally:
            os.umask(before)
        self._open_to(group, gid)
        self._thread = threading.Thread(target=self._server.serve, name="local api", daemon=True)
        self._thread.start()

    def _open_to(self, group: str, gid: int) -> None:
        """Let the group in."""
        try:
            if group:  # the units' filter refuses the call, also where it would change nothing
                os.chown(self._path, -1, gid)
            self._path.chmod(0o660)
        except OSError as error:
            self._server.server_close()
            self._path.unlink(missing_ok=True)
            raise ConfigurationError(
                f"the local API cannot be the group {group}'s: {error.strerror}",
                hint="the agent's user must be in that group; under systemd: SupplementaryGroups=, "
                "PrivateUsers=no, SystemCallFilter=@chown",
            ) from error

    def close(self) -> None:
        """Stop listening; answers under way are cut when the process ends."""
        self._server.stop()
        self._thread.join()
        self._server.server_close()
        with contextlib.suppress(OSError):
            self._path.unlink()


def group_named(name: str) -> int:
    """Return the id of the group that `api.group` names.

    Raises:
        ConfigurationError: there is none.
    """
    import grp

    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigurationError(
            f"api.group: there is no group {name} here", hint=f"sudo groupadd {name}, or: covey config unset api.group"
        ) from None


def _clear_away(path: Path) -> None:
    """Remove a socket that an agent left behind when it was killed.

    Raises:
        ConfigurationError: somebody answers on it.
    """
    with contextlib.suppress(OSError):
        if path.is_socket():
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as visitor:
                visitor.settimeout(_VISIT_S)
                if visitor.connect_ex(str(path)) != errno.ECONNREFUSED:
                    raise ConfigurationError(
                        f"another program answers on {path}",
                        hint="each agent needs a socket of its own: covey config set api.socket PATH",
                    )
            path.unlink()


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = _WAITING_CONNECTIONS

    def __init__(self, path: str, routes: tuple[Route, ...], report: Report, bounds: Bounds) -> None:
        self._connections = Connections(bounds)
        self._stopped = False
        shared = SharedBytes(bounds)
        super().__init__(
            path,
            lambda request, address, server: Conversation(
                request, address, server, routes, report, bounds, self._connections, shared
            ),
        )

    def serve(self) -> None:
        """Serve until stopped. `serve_forever` would wake up twice a second to see whether it is."""
        while not self._stopped:
            self.handle_request()

    def stop(self) -> None:
        """Let `serve` return: a listening socket that is shut down is readable, and gives nobody."""
        self._stopped = True
        self.socket.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._connections.admit(request):
            super().process_request(request, client_address)
        else:
            with contextlib.suppress(OSError):
                request.sendall(BUSY)
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of a client that went away."""
