"""Files through the local API: put from a request's body, fetched while the client follows, delivered as a stream.

A body goes to a nameless file next to the sealed ones, one at a time, and a delivered file is opened into one: neither
is ever in memory, and a power cut leaves nothing of them behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import unquote

from covey.adapters.local_api.routes import Answer, Octets, Request
from covey.app.content.documents import WAITING, DeletedFile, HeldFile, PinnedFile
from covey.app.documents import to_json
from covey.app.loop.following import Following
from covey.errors import LocalError, TransientError, UsageError
from covey.limits.content import CHUNK_BYTES

if TYPE_CHECKING:
    from covey.app.content.file_offers import GroupFile
    from covey.app.content.patched_fetch import PatchedFetch
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest

_FOLLOW_S = 600


class ContentAnswers:
    """The operations on the files of one device."""

    def __init__(self, opened: Callable[[], AbstractContextManager[Device]]) -> None:
        self._opened = opened
        self._putting = Lock()

    def answers(self) -> dict[str, Callable[[Request], Answer]]:
        """Return what answers each operation."""
        return {
            "list_content": self._list,
            "put_content": self._put,
            "show_content": self._show,
            "get_content": self._get,
            "fetch_content": self._fetch,
            "pin_content": self._pin,
            "delete_content": self._delete,
        }

    def spool(self, size: int) -> BinaryIO:
        """Return a file for the body of a put.

        Raises:
            DiskFullError: no room for it.
            TransientError: another one is on its way.
        """
        if not self._putting.acquire(blocking=False):
            raise TransientError("the agent is adding another file", hint="try again when it is done")
        try:
            with self._opened() as device, device.store.content.files.locked():
                return _Spooled(device.store.content.files.scratch(size), self._putting)  # type: ignore[return-value]
        except BaseException:
            self._putting.release()
            raise

    def _list(self, request: Request) -> Answer:
        from covey.app.content.content import described
        from covey.app.content.file_offers import offers

        waiting = request.query.get("waiting") == "1"
        with self._opened() as device:
            manifest = device.pick_group(request.query.get("group"))
            found = [described(device, manifest, each) for each in offers(device, manifest)]
        return iter([to_json(each) for each in found if each.state in WAITING or not waiting])

    def _put(self, request: Request) -> Answer:
        from covey.app.content.content import described
        from covey.app.content.offering import put_opened

        assert request.file is not None, "its route spools"
        name = request.query.get("name")
        if name is None:
            raise UsageError("a file needs a name", hint="?name=NAME")
        with self._opened() as device:
            manifest = device.pick_group(request.query.get("group"))
            size = request.file.seek(0, 2)
            offer = put_opened(device, manifest, request.file.fileno(), size, name, lambda _: None)
            return _document(described(device, manifest, offer))

    def _show(self, request: Request) -> Answer:
        from covey.app.content.content import described, holders

        with self._opened() as device:
            manifest, offer = _picked(device, request)
            return _document(HeldFile(described(device, manifest, offer), holders(device, manifest, offer)))

    def _get(self, request: Request) -> Answer:
        from covey.app.content.content import open_stream

        with self._opened() as device:
            manifest, offer = _picked(device, request)
            file = open_stream(device, manifest, offer)
        return Octets(offer.file.content.size, _parts(file))

    def _fetch(self, request: Request) -> Answer:
        follow_s = int(request.query.get("follow", _FOLLOW_S))
        return self._fetched(request, follow_s, pin=request.query.get("pin") == "1")

    def _fetched(self, request: Request, follow_s: int, *, pin: bool) -> Iterator[dict[str, Any] | None]:
        from covey.app.content.content import ask_for_file, described, pin_file
        from covey.app.content.patched_fetch import begin_patched_fetch

        with self._opened() as device:
            manifest, offer = _picked(device, request)
            patched = begin_patched_fetch(device, manifest, offer, follow_s) if follow_s else None
            if patched is not None:
                yield _document(described(device, manifest, offer))
                yield from _followed(device, patched, follow_s)
                if patched.is_waiting:
                    return
            saved = 0 if patched is None else patched.saved()
            ask_for_file(device, manifest, offer)
            if pin:
                pin_file(device, offer, pinned=True)
            reported = replace(described(device, manifest, offer), saved=saved)
            yield _document(reported)

            def has_moved() -> bool:
                return device.store.content.come(offer.file.content.hash) != reported.fetched

            following = Following(device.store, follow_s, has_moved)
            while reported.state in WAITING and not following.over:
                if following.wait():
                    yield None
                now = replace(described(device, manifest, offer), saved=saved)
                if now != reported:
                    reported = now
                    yield _document(reported)

    def _pin(self, request: Request) -> Answer:
        from covey.app.content.content import pin_file

        pinned = request.query.get("pinned", "1") == "1"
        with self._opened() as device:
            _, offer = _picked(device, request)
            pin_file(device, offer, pinned=pinned)
        return _document(PinnedFile(pinned))

    def _delete(self, request: Request) -> Answer:
        from covey.app.content.content import delete_copy, holders, is_here

        with self._opened() as device:
            manifest, offer = _picked(device, request)
            if is_here(device, offer) and request.query.get("force") != "1" and not holders(device, manifest, offer):
                raise LocalError(
                    f"no other device is known to have '{offer.file.name}'", hint="?force=1 deletes it anyway"
                )
            delete_copy(device, offer)
        return _document(DeletedFile())


class _Spooled:
    """A file of no name whose end lets the next put begin."""

    def __init__(self, file: BinaryIO, putting: Lock) -> None:
        self._file = file
        self._putting = putting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def close(self) -> None:
        """Release it, once."""
        if not self._file.closed:
            self._file.close()
            self._putting.release()


def _picked(device: Device, request: Request) -> tuple[GroupManifest, GroupFile]:
    from covey.app.content.file_offers import pick_offer

    manifest = device.pick_group(request.query.get("group"))
    return manifest, pick_offer(device, manifest, unquote(request.matched[0]))


def _followed(device: Device, patched: PatchedFetch, follow_s: int) -> Iterator[None]:
    following = Following(device.store, follow_s, lambda: not patched.runs())
    try:
        while patched.runs() and not following.over:
            if following.wait():
                yield None
    finally:
        patched.end()


def _parts(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while part := file.read(CHUNK_BYTES):
            yield part


def _document(value: object) -> dict[str, Any]:
    found: dict[str, Any] = to_json(value)
    return found
