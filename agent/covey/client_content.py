"""The files of groups from Python: `Client.content`. Nothing is in memory but a part of one.

for state in covey.content.fetch("model.bin"):
    print(state["fetched"])
with open("model.bin", "wb") as file:
    file.writelines(covey.content.get("model.bin"))
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from io import BytesIO
from os import PathLike, fspath
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from covey.client_calls import Call, document
from covey.client_connection import AgentConnection
from covey.errors import LocalError

_OCTETS = "application/octet-stream"


class ContentClient:
    """The files of one agent's groups; `ref` is a name, or the beginning of an id or hash, `group` of a group's id.

    Raises (all methods): what `Client` does. What a file's document has: OfferedFile in `GET /openapi.json`.
    """

    def __init__(self, path: str) -> None:
        """Ask the agent that listens at a path."""
        self._path = path

    def put(
        self, source: bytes | BinaryIO | str | PathLike[str], name: str | None = None, group: str | None = None
    ) -> dict[str, Any]:
        """Offer a file of at most 100 MiB to the members of a group, durably, and return its document.

        `source`: a path, bytes, or a file that is open and can be sought in; all but a path need a `name`.

        Raises:
            LocalError: the file cannot be read, or is refused.
            TransientError: another one is being put.
        """
        if isinstance(source, str | PathLike):
            path = Path(fspath(source))
            try:
                opened = path.open("rb")
            except OSError as error:
                raise LocalError(f"{path} cannot be read: {error.strerror}") from error
            with opened:
                return self._put(opened, path.name if name is None else name, group)
        return self._put(BytesIO(source) if isinstance(source, bytes) else source, name, group)

    def _put(self, file: BinaryIO, name: str | None, group: str | None) -> dict[str, Any]:
        begin = file.tell()
        length = file.seek(0, 2) - begin
        file.seek(begin)
        with closing(AgentConnection(self._path)) as connection:
            query = {"name": name, "group": group}
            call = Call("POST", "/v1/content", document, query, file, _OCTETS, length=length)
            return document(connection.answer(call).read())

    def ls(self, group: str | None = None) -> list[dict[str, Any]]:
        """Return the files that members offer, the newest first, and what is here of them."""
        return [*self._lines("GET", "/v1/content", {"group": group})]

    def waiting(self, group: str | None = None) -> list[dict[str, Any]]:
        """Return what this device has asked for and not got yet."""
        return [*self._lines("GET", "/v1/content", {"group": group, "waiting": 1})]

    def show(self, ref: str, group: str | None = None) -> dict[str, Any]:
        """Return a `file`, and the members that have it (`held_by`): keys, with labels."""
        return self._json("GET", _path(ref), {"group": group})

    def fetch(
        self, ref: str, group: str | None = None, follow_s: int = 600, *, pin: bool = False
    ) -> Generator[dict[str, Any], None, None]:
        """Have a file fetched, and yield its document with each progress, until it is here or the time is over.

        Stopping to read loses nothing: the fetch continues. `pin`: it stays here when room is short.
        """
        yield from self._lines("POST", f"{_path(ref)}/fetch", {"group": group, "follow": follow_s, "pin": int(pin)})

    def get(self, ref: str, group: str | None = None, wait_s: int = 600) -> Generator[bytes, None, None]:
        """Yield what a file holds, in parts of at most 64 KiB, once it has been fetched.

        Raises:
            LocalError: it has not come in that time (it is asked for still), or is not what its author says.
        """
        *_, last = self.fetch(ref, group, wait_s)
        if last.get("state") != "here":
            why = {"wrong": "is not what its author says", "locked": "is here, but no member has sent its key yet"}
            raise LocalError(f"'{ref}' {why.get(str(last.get('state')), 'has not arrived yet')}")
        with closing(AgentConnection(self._path)) as connection:
            answer = connection.answer(Call("GET", f"{_path(str(last['id']))}/file", bytes, {"group": group}))
            while part := answer.read_piece():
                yield part
        if answer.length:
            raise LocalError(f"the transfer of '{ref}' from the agent was cut off", hint="try again")

    def pin(self, ref: str, group: str | None = None, *, pinned: bool = True) -> None:
        """Have a file that is here stay when room is short, or not."""
        self._json("POST", f"{_path(ref)}/pin", {"group": group, "pinned": int(pinned)})

    def delete(self, ref: str, group: str | None = None, *, force: bool = False) -> None:
        """Delete a file here, or stop asking for it. `force`: even if no other device is known to have it."""
        self._json("DELETE", _path(ref), {"group": group, "force": int(force)})

    def _json(self, method: str, path: str, query: dict[str, object]) -> dict[str, Any]:
        with closing(AgentConnection(self._path)) as connection:
            return document(connection.answer(Call(method, path, document, query)).read())

    def _lines(self, method: str, path: str, query: dict[str, object]) -> Iterator[dict[str, Any]]:
        with closing(AgentConnection(self._path)) as connection:
            answer = connection.answer(Call(method, path, document, query))
            while line := answer.readline():
                if line.strip():  # an empty one is a sign of life
                    yield document(line)


def _path(ref: str) -> str:
    return f"/v1/content/{quote(ref, safe='')}"
