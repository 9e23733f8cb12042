"""A group's history in windows: the same for a person at a terminal and for a program, however long it is.

A page's cursor says how far the reading has come, and what had arrived when it began. Later pages show nothing newer,
so that the pages and the events after them (`events.py`) together are everything, each once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.app.groups.groups import pick_author
from covey.app.history.documents import HISTORY_CURSOR, HISTORY_PAGE_ENTRIES, HistoryEntry, HistoryPage
from covey.app.history.history import KINDS, as_entry
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import read_operation
from covey.core.ids import DeviceKey, OperationId
from covey.errors import UsageError

if TYPE_CHECKING:
    from covey.app.device.device import Device
    from covey.core.group.manifest import GroupManifest
    from covey.core.history.operation import StoredOperation

_PAGE_BYTES = 1024 * 1024
"""A page ends, too, when what it says has so many bytes: operations have 64 KiB each at their largest."""
_LOOKED_THROUGH = 4_096
"""Operations read for one page: if few match, the next page continues."""
_WINDOW = 256


@dataclass(frozen=True, slots=True)
class HistoryQuery:
    """Which operations of which group somebody wants to see; empty texts, None and 0 set no bound.

    `group` is the beginning of an id, `author` a member's label or the beginning of its key, `since_us` a time of the
    authors' clocks, `last` leaves out all but the last so many.
    """

    group: str | None = None
    kind: str = ""
    author: str = ""
    since_us: int = 0
    last: int = 0

    def wants(self, entry: HistoryEntry) -> bool:
        """Say whether an operation is of the kind, author and time."""
        of_author = entry.label == self.author or entry.author.startswith(self.author.lower())
        return of_author and self.kind in {"", entry.kind} and entry.made_at_us >= self.since_us


def page(
    device: Device, query: HistoryQuery, after: str | None = None, limit: int = HISTORY_PAGE_ENTRIES
) -> HistoryPage:
    """Return the first operations that are wanted, or those after a page.

    Raises:
        LocalError: it is not clear which group or author is meant.
        UsageError: no kind of operations, or no cursor of a page.
    """
    reading = _Reading(device, query)
    upto, start = (device.store.events.last_number(), None) if after is None else _place(after)
    if start is None:
        start = reading.before_the_last(upto) if query.last else (0, b"")
    found: list[HistoryEntry] = []
    size = 0
    cursor: str | None = None
    for looked, stored in enumerate(reading.stored(start, upto), start=1):
        cursor = f"{upto}.{stored.height}.{stored.id.hex()}"
        if (entry := reading.entry(stored)) is not None:
            found.append(entry)
            size += len(stored.raw)
        if len(found) == limit or size >= _PAGE_BYTES or looked == _LOOKED_THROUGH:
            break
    else:
        cursor = None
    incarnation = device.store.incarnations.present().hex()[:8]
    return HistoryPage(tuple(found), cursor, f"{incarnation}-{upto}")


def pages(device: Device, query: HistoryQuery) -> Iterator[HistoryPage]:
    """Yield all pages, each read when it is wanted."""
    after: str | None = None
    while True:
        found = page(device, query, after)
        yield found
        after = found.next
        if after is None:
            return


def _place(cursor: str) -> tuple[int, tuple[int, bytes]]:
    """Return what had arrived when reading began, and the (height, id) that it has reached."""
    if (match := re.fullmatch(HISTORY_CURSOR, cursor)) is None:
        raise UsageError("after is not a page cursor", hint="use `next` of the previous page unchanged")
    return int(match[1]), (int(match[2]), bytes.fromhex(match[3]))


class _Reading:
    """What is wanted of one group."""

    def __init__(self, device: Device, query: HistoryQuery) -> None:
        if query.kind and query.kind not in KINDS:
            raise UsageError(f"no operation type is called {query.kind[:40]}", hint=f"types: {', '.join(KINDS)}")
        self._device = device
        self._query = query
        self._manifest: GroupManifest = device.pick_group(query.group)
        self._author: DeviceKey | None = None
        if query.author:
            written = {log.author for log, _ in device.store.operations.logs(self._manifest.group_id)}
            self._author = pick_author(self._manifest, written, query.author)
        self._kind = next((kind for kind in OperationKind if kind.word == query.kind), None)

    def entry(self, stored: StoredOperation) -> HistoryEntry | None:
        """Return an operation of the author and kind as people read it; None where it is too old."""
        operation, query = read_operation(stored.raw, verify=False), self._query
        if operation.made_at_us < query.since_us:
            return None
        return as_entry(self._device, self._manifest, operation, stored.stored_at_us)

    def stored(self, after: tuple[int, bytes], upto: int) -> Iterator[StoredOperation]:
        """Yield the operations of the author and kind behind a (height, id) that had arrived, by height and id."""
        records = self._device.store.operations
        group_id, author, kind = self._manifest.group_id, self._author, self._kind
        while window := records.in_order(group_id, after, _WINDOW, upto, author=author, kind=kind):
            yield from window
            after = (window[-1].height, window[-1].id)

    def before_the_last(self, upto: int) -> tuple[int, bytes]:
        """Return the (height, id) behind which the last so many of those wanted stand."""
        before: tuple[int, OperationId] | None = None
        wanted, group_id, author, kind = self._query.last, self._manifest.group_id, self._author, self._kind
        records = self._device.store.operations
        while window := records.newest_first(group_id, before, _WINDOW, author=author, kind=kind):
            for stored in window:
                if wanted == 0:
                    return stored.height, stored.id
                wanted -= stored.arrival <= upto and self.entry(stored) is not None
            before = (window[-1].height, window[-1].id)
        return 0, b""
