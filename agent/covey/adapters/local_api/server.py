"""The socket of the local API: its file and access rights."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from typing import TYPE_CHECKING

from covey.adapters.files import storage_error
from covey.adapters.http.listener import Listener
from covey.adapters.http.places import Bounds
from covey.adapters.http.reading import SharedBytes
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


class LocalApi:
    """The local API, as long as it is open."""

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
                f"{path} is too long for a socket path (at most {_PATH_BYTES} bytes)",
                hint="covey config set api.socket PATH",
            )
        gid = group_named(group) if group else -1
        _clear_away(path)
        before = os.umask(0o177)
        try:
            listening = _listening(path)
        except OSError as error:
            if error.errno in _DISK_REFUSES:
                raise storage_error("make", path, error) from error
            raise ConfigurationError(
                f"the local API cannot listen on {path}: {error.strerror}",
                hint="its folder must exist and belong to the agent's user; or: covey config set api.socket PATH",
            ) from error
        finally:
            os.umask(before)
        self._open_to(listening, group, gid)
        bounds = bounds or Bounds()
        shared = SharedBytes(bounds)
        self._listener = Listener(
            listening,
            "local api",
            lambda client, places: Conversation(client, places, routes, report, shared).converse(),
            bounds,
            busy=BUSY,
        )

    def _open_to(self, listening: socket.socket, group: str, gid: int) -> None:
        try:
            if group:  # the unit's system call filter refuses chown even if it changes nothing
                os.chown(self._path, -1, gid)
            self._path.chmod(0o660)
        except OSError as error:
            listening.close()
            self._path.unlink(missing_ok=True)
            raise ConfigurationError(
                f"the local API cannot give its socket to the group {group}: {error.strerror}",
                hint="the agent's user must be in that group; under systemd: SupplementaryGroups=, "
                "PrivateUsers=no, SystemCallFilter=@chown",
            ) from error

    def close(self) -> None:
        """Stop listening; answers under way are cut when the process ends."""
        self._listener.close()
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
            f"api.group: this machine has no group {name}",
            hint=f"sudo groupadd {name}, or: covey config unset api.group",
        ) from None


def _listening(path: Path) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        listening.listen(socket.SOMAXCONN)
    except OSError:
        listening.close()
        raise
    return listening


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
                        hint="give each agent its own socket: covey config set api.socket PATH",
                    )
            path.unlink()
