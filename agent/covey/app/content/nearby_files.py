"""Fetch files from places nearby before members are asked at a relay, and give them there.

1. Peers of this network come first, then the object store; members at a relay are asked if neither has a file. The
   first source that delivers is used until the file is here, or it fails (003.73). Of peers that all want a file which
   none has, one asks at the relay, and gives the others its parts (`core/content/nearer.py`).
2. One file at a time, in a thread: the loop continues meanwhile, and measures. Parts are verified and stored like those
   from members, so the next source continues where the last one ended. Another wanted file waits a bounded time for its
   turn.
3. A source that delivered wrong bytes is not asked for that file again.
4. If no source has a file, it is looked for again after a pause, unless members are giving it by then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from covey.adapters.journal import report
from covey.app.content.nearby import Nearby, nearby_places
from covey.app.content.status import NEARBY_BYTES, NEARBY_FILES, PEERS_CONDITION, STORE_CONDITION
from covey.core.content.messages import WantedFile
from covey.core.content.nearer import NearEnd, look_us, read_from
from covey.core.content.progress import FileProgress
from covey.core.ids import ContentHash, DeviceKey
from covey.core.node import Node
from covey.core.now import Now
from covey.errors import CoveyError
from covey.limits.content import LAN_ROUND_US, NEAR_REST_US
from covey.ports import Clock, Report

if TYPE_CHECKING:
    from covey.adapters.sqlite.content import ContentTable
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.device.device import Device


_OFFER_US = 200_000
"""How soon a file that is here is given to others."""

_BETWEEN_LOOKS_S = 0.5
"""A peer that did not want the file at one look may be asking for it by the next one."""

_NOTE_US = 5_000_000
"""Between two notes of how many peers there are: networks come and go, and each note is a write."""

_DONE = frozenset({NearEnd.WHOLE, NearEnd.NO_ROOM, NearEnd.STOPPED})


def nearby_role(device: Device) -> NearbyFiles:
    """Return the role that gives and takes files nearby.

    Raises:
        ConfigurationError: an address is not one, or the object store's location is not.
        MissingPackageError: a package that finds peers or connects to the object store is not installed.
    """
    return NearbyFiles(
        nearby_places(device),
        device.store.content,
        device.node.identity.signing_public,
        device.clock,
        report,
        NearbyNotes(device.store, device.clock),
        device.waking.wake,
    )


class NearbyNotes:
    """What status and metrics show of it."""

    def __init__(self, store: SqliteStore, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def peers(self, number: int) -> None:
        """Note how many peers there are."""
        with self._store.transaction():
            self._store.conditions.set(PEERS_CONDITION, str(number), self._clock.wall_us())

    def store(self, trouble: str) -> None:
        """Note why the object store refuses."""
        with self._store.transaction():
            self._store.conditions.set(STORE_CONDITION, trouble, self._clock.wall_us())

    def came(self, size: int) -> None:
        """Count a file that came from a place nearby."""
        with self._store.transaction():
            self._store.counters.count(NEARBY_FILES)
            self._store.counters.count(NEARBY_BYTES, size)


@dataclass(slots=True)
class _Work:
    """What the thread is at. `source` is who gave the end of a file."""

    thread: threading.Thread
    stop: threading.Event
    wanted: WantedFile | None = None
    end: NearEnd | None = None
    ended: bool = False
    source: str = ""


@dataclass(slots=True)
class _Seen:
    """What is known of a file that is asked for."""

    since_us: int
    looked: bool = False
    next_us: int = 0
    come: int = -1
    liars: set[str] = field(default_factory=set)


class NearbyFiles:
    """An agent's role; all of it but the thread runs in the loop."""

    def __init__(
        self,
        nearby: Nearby,
        content: ContentTable,
        own: DeviceKey,
        clock: Clock,
        report: Report,
        notes: NearbyNotes,
        wake: Callable[[], None],
    ) -> None:
        """Begin; `wake` has the loop do a turn at once."""
        self._nearby = nearby
        self._content = content
        self._own = own
        self._clock = clock
        self._report = report
        self._notes = notes
        self._wake = wake
        self._noted: int | None = None
        self._note_us = 0
        self._store_refuses: bool | None = None
        self._work: _Work | None = None
        self._seen: dict[ContentHash, _Seen] = {}
        self._held: set[ContentHash] = set()
        self._stored: set[ContentHash] = set()
        self._store_us = 0
        self._offer_us = 0

    def turn(self, node: Node, now: Now) -> int | None:
        """Begin what is to be fetched, end what has come, and offer what is here."""
        if now.monotonic_us >= self._offer_us:
            self._nearby.offer(self._content.given_files())
            self._offer_us = now.monotonic_us + _OFFER_US
        self._note_peers(now)
        self._note_store()
        wanted = {each.hash: each for each in self._content.all_wanted()}
        self._seen = {key: self._seen.get(key) or _Seen(now.monotonic_us) for key in wanted}
        self._hold(node, now)
        if self._work is not None:
            if self._work.wanted is not None and self._work.wanted.hash not in wanted:
                self._work.stop.set()
            if not self._work.ended:
                return self._offer_us
            self._finish(self._work, node, now)
        self._begin([*wanted.values()], node, now)
        return self._offer_us

    def _note_peers(self, now: Now) -> None:
        if now.monotonic_us >= self._note_us and self._noted != self._nearby.peers:
            self._noted, self._note_us = self._nearby.peers, now.monotonic_us + _NOTE_US
            self._notes.peers(self._noted)

    def _note_store(self) -> None:
        trouble = self._nearby.store_trouble
        if bool(trouble) is self._store_refuses:
            return
        if trouble:
            self._report("warning", f"the object store refuses files: {trouble}")
        elif self._store_refuses:
            self._report("notice", "the object store works again")
        self._store_refuses = bool(trouble)
        self._notes.store(trouble)

    def stop(self, node: Node, now: Now) -> None:
        """End the thread, and give nothing any more."""
        del node, now
        if self._work is not None:
            self._work.stop.set()
        self._nearby.close()

    def _hold(self, node: Node, now: Now) -> None:
        """Keep members from being asked for a file before it was looked for nearby, unless that takes too long."""
        at_work = None if self._work is None or self._work.wanted is None else self._work.wanted.hash
        held = {
            key
            for key, seen in self._seen.items()
            if key == at_work or (not seen.looked and now.monotonic_us < seen.since_us + LAN_ROUND_US)
        }
        for key in held ^ self._held:
            self._content.elsewhere(key, held=key in held)
        if held != self._held:
            self._held = held
            node.content.refresh()

    def _begin(self, wanted: list[WantedFile], node: Node, now: Now) -> None:
        for each in wanted:
            seen = self._seen[each.hash]
            if now.monotonic_us < seen.next_us:
                continue
            come = self._content.come(each.hash)
            if seen.come not in {-1, come}:  # members give it (rule 4)
                seen.come, seen.next_us = come, now.monotonic_us + NEAR_REST_US
                continue
            self._nearby.offer(self._content.given_files())
            self._start(lambda work, each=each, seen=seen: self._fetch(work, each, seen), each)  # type: ignore[misc]
            self._hold(node, now)
            return
        if now.monotonic_us >= self._store_us:
            missing = [each for each in self._content.put_by(self._own) if each[0] not in self._stored]
            self._store_us = now.monotonic_us + _OFFER_US
            if missing:
                content, index = missing[0]
                given = self._content.given_files()
                files = {index: given[index].path, content: given[content].path}
                self._start(lambda work: self._store(work, content, files), None)

    def _start(self, task: Callable[[_Work], None], wanted: WantedFile | None) -> None:
        def run() -> None:
            try:
                task(work)
            finally:
                work.ended = True
                self._wake()

        work = _Work(threading.Thread(target=run, name="nearby files", daemon=True), threading.Event())
        work.wanted = wanted
        self._work = work
        work.thread.start()

    def _finish(self, work: _Work, node: Node, now: Now) -> None:
        self._work = None
        if work.wanted is None:
            self._store_us = now.monotonic_us + (0 if work.end is NearEnd.WHOLE else NEAR_REST_US)
            return
        content = work.wanted.hash
        self._content.remove_unknown(content)
        if content in self._seen:
            seen = self._seen[content]
            seen.looked = True
            seen.come, seen.next_us = self._content.come(content), now.monotonic_us + NEAR_REST_US
        self._hold(node, now)  # no longer: it is taken for whole, or members are asked for the rest
        self._nearby.offer(self._content.given_files())
        if work.end is NearEnd.NO_ROOM:
            self._report("warning", f"no room for a file of {work.wanted.sealed_size} bytes; it waits")
        if work.end is NearEnd.WHOLE:
            self._notes.came(work.wanted.sealed_size)
            self._report("info", f"received a file of {work.wanted.sealed_size} bytes from {work.source}")

    # -- in the thread ------------------------------------------------------------------------------------------------

    def _fetch(self, work: _Work, wanted: WantedFile, seen: _Seen) -> None:
        progress, since_us = FileProgress(wanted, self._content.parts), self._clock.monotonic_us()
        while not self._round(work, progress, seen):
            look = look_us(self._own, wanted.hash, has_peers=self._nearby.has_peers)
            left_us = since_us + look - self._clock.monotonic_us()
            if left_us <= 0 or work.stop.wait(min(_BETWEEN_LOOKS_S, left_us / 1e6)):
                return

    def _round(self, work: _Work, progress: FileProgress, seen: _Seen) -> bool:
        since_us, position = self._clock.monotonic_us(), progress.position
        for place in self._nearby.places():
            if place.name in seen.liars:
                continue
            progress.is_nearby = place.on_this_network
            work.end = read_from(place.read, progress, lambda: not work.stop.is_set(), self._clock.monotonic_us)
            work.source = place.name
            place.close()
            if work.end is NearEnd.WRONG:
                seen.liars.add(place.name)
                self._report(
                    "warning",
                    f"{place.name} sent data that is not part of the file; the file is not requested there again",
                )
            if work.end in _DONE:
                return True
            if progress.position != position:
                since_us, position = self._clock.monotonic_us(), progress.position
            if work.stop.is_set() or self._clock.monotonic_us() > since_us + LAN_ROUND_US:
                return True
        return False

    def _store(self, work: _Work, content: ContentHash, files: dict[ContentHash, Path]) -> None:
        try:
            for each, path in files.items():
                self._nearby.store(each, path)
        except CoveyError:
            return  # it says why (`_note_store`)
        except OSError as error:
            self._report("warning", f"a file could not be put into the object store yet: {error}")
            return
        self._stored.add(content)
        if self._nearby.has_store:
            self._report("info", f"a file of {files[content].stat().st_size} bytes is in the object store")
        work.end = NearEnd.WHOLE
