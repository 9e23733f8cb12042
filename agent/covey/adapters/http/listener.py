"""A listening socket: one thread accepts connections, and each client has its own thread."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

from covey.adapters.http.places import Bounds, ConnectedClient, Places

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_NO_DESCRIPTOR_S = 0.1
"""Before another connection is accepted when the process has no descriptor left."""


class Listener:
    """Serves until closed."""

    def __init__(
        self,
        listening: socket.socket,
        name: str,
        converse: Callable[[ConnectedClient, Places], object],
        bounds: Bounds | None = None,
        *,
        tls: ssl.SSLContext | None = None,
        admits: Callable[[str], bool] = lambda _host: True,
        busy: bytes = b"",
    ) -> None:
        """Begin to accept connections.

        Args:
            listening: a socket that listens; closed with this listener.
            name: of the thread that accepts.
            converse: serves one connection until it ends.
            bounds: on places and times.
            tls: what TLS is spoken by.
            admits: says whether a host may connect at all.
            busy: sent to who finds no place.
        """
        self._listening = listening
        self._places = Places(bounds or Bounds())
        self._converse, self._tls, self._admits, self._busy = converse, tls, admits, busy
        self._name = name
        self._stopped = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens, where that is a port."""
        return int(self._listening.getsockname()[1])

    def close(self) -> None:
        """Stop listening; answers under way are cut when the process ends."""
        self._stopped = True
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while not self._stopped:
            try:
                connection, address = self._listening.accept()
            except OSError:  # the server ends, the client is gone, or no descriptor is free
                if not self._stopped:
                    time.sleep(_NO_DESCRIPTOR_S)
                continue
            host = str(address[0]) if isinstance(address, tuple) else ""
            client = self._places.admit(connection, host) if self._admits(host) else None
            if client is None:
                self._turn_away(connection)
                continue
            try:
                threading.Thread(target=self._visit, args=(client,), name=f"{self._name} client", daemon=True).start()
            except RuntimeError:  # the service's TasksMax or the user's limit allows no further thread
                self._places.release(client)
                self._turn_away(connection)

    def _turn_away(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            if self._busy:
                connection.setblocking(False)
                connection.send(self._busy)

    def _visit(self, client: ConnectedClient) -> None:
        try:
            client.connection.settimeout(self._places.bounds.request_s)
            if self._tls is not None:  # not in the accepting thread, where a silent client would block others
                client.connection = self._tls.wrap_socket(
                    client.connection, server_side=True, do_handshake_on_connect=False
                )
                client.connection.do_handshake()  # one deadline for the whole handshake
            self._converse(client, self._places)
        except OSError:
            pass  # the client closed the connection or was too slow
        finally:
            self._places.release(client)
            with contextlib.suppress(OSError):
                client.connection.shutdown(socket.SHUT_WR)
            client.connection.close()


def listening_at(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address of this machine.

    Raises:
        OSError, OverflowError: it cannot.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=socket.SOMAXCONN)
