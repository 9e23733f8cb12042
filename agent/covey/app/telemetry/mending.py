"""Find damaged segments of a collector's vault, restore them where others hold the same, and report the rest as lost.

Disks flip bits, tear files and lose them after they were read back. This role looks through the vault of its device in
a folder: at the newest segments each minute, at the others in turn, a MiB in each look:

    1. A segment whose bytes are not those that the manifest lists is taken from the first mirror that has just these
       bytes: nothing else is believed of a mirror. Readers find what was there before.
    2. Where no mirror has it, its messages count as not received: their senders send again what they still have, and
       report the rest as lost, in signed records that name the batches (docs/protocol/core.md, section 6). What comes
       again lands in a new segment; readers recognise a batch by its number, so each reading is in the tables once.
    3. Over which links the messages of a segment came, the database knows of the newest ones (`landed_span`). What was
       erased from the vault is not asked for again. Orders, manifests and profiles land once more.
    4. Each segment is asked for once: the positions that were are kept in a condition, in the commit that takes the
       messages back. A segment that is whole again leaves it.
    5. A damaged list of older segments that no mirror has is made again from these segments (`remade_range`).
    6. A store that cannot be read, and one without the manifest, says nothing about its segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from covey.app.telemetry.collector import Collector
from covey.app.telemetry.remade_range import RemadeRange
from covey.app.wording import count
from covey.core.ids import DeviceKey, Incarnation, VaultId, device_name, labelled_name
from covey.core.node import Node
from covey.core.now import Now
from covey.core.vault import documents
from covey.core.vault.documents import SegmentEntry, SegmentRange, VaultManifest, is_segment
from covey.core.vault.landing import DAMAGED_CONDITION
from covey.core.vault.reading import Trouble, VaultReader
from covey.core.wire.sequences import Range, SequenceSet
from covey.errors import CoveyError, LimitError, RemoteError, StorageError
from covey.limits.link import MAXIMUM_RECEIVED_RANGES
from covey.limits.vault import (
    MAXIMUM_DAMAGED_RANGES,
    MAXIMUM_SEGMENT_BYTES,
    MAXIMUM_VAULT_MANIFEST_BYTES,
    VAULT_LOOK_BYTES,
    VAULT_LOOK_FILE_BYTES,
    VAULT_LOOK_US,
    VAULT_NEWEST_BYTES,
    VAULT_NEWEST_LOOKS,
)
from covey.ports import ObjectStore, Report

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


Mirror = tuple[str, Callable[[], ObjectStore]]
"""The name of a copy of the vault, and what opens it: it may not be there."""

Listed = SegmentEntry | SegmentRange
Links = dict[tuple[DeviceKey, Incarnation], list[Range]]
_NAMED = 8


class VaultMending:
    """Looks through one collector's part of a vault."""

    def __init__(self, collector: Collector, store: SqliteStore, mirrors: Sequence[Mirror], report: Report) -> None:
        self._collector = collector
        self._vault = collector.vault
        self._store = store
        self._mirrors = mirrors
        self._report = report
        self._due_us: int | None = None
        self._newest = _Rounds(_newest)
        self._older = _Rounds(self._listed_older)
        self._remade: tuple[RemadeRange, Iterator[int]] | None = None
        self._damaged = _positions(store.conditions.values().get(DAMAGED_CONDITION, ("", 0))[0])

    def turn(self, node: Node, now: Now) -> int | None:
        """Look at some segments if it is time; return when to be called next, in monotonic microseconds."""
        if self._due_us is None:
            self._repeat_acknowledgements(node, now)
        if self._due_us is None or now.monotonic_us >= self._due_us:
            self._due_us = now.monotonic_us + VAULT_LOOK_US
            with suppress(StorageError, RemoteError):  # the collector says so where it concerns it
                self._look(node, now)
        return self._due_us

    def _repeat_acknowledgements(self, node: Node, now: Now) -> None:
        """Acknowledge once more what lacks messages of damaged segments: the process before may have ended too soon."""
        with self._store.reading():
            spans = self._damaged.spans()
            for link in {link for each in spans for link in self._store.landing.spans_of(*each)}:
                node.landing.landed(*link, set(), now)

    def stop(self, node: Node, now: Now) -> None:
        """End nothing: what was begun is committed."""

    def _look(self, node: Node, now: Now) -> None:
        manifest, objects = self._vault.manifest, self._vault.objects
        if manifest is None or not manifest.last_number:
            return
        key = documents.manifest_key(self._vault_id, self._vault.node)
        if objects.get(key, MAXIMUM_VAULT_MANIFEST_BYTES) is None:
            return
        of_newest = -(-sum(map(_cost, _newest(manifest))) // VAULT_NEWEST_LOOKS)
        for rounds, most in ((self._newest, of_newest), (self._older, VAULT_LOOK_BYTES // 2)):
            left = most
            while left > 0 and (listed := rounds.next(manifest)) is not None:
                left -= _cost(listed)
                self._check(listed, node, now)
        self._remake(manifest, node, now)

    def _check(self, listed: Listed, node: Node, now: Now) -> None:
        key, objects = self._key(listed), self._vault.objects
        if _is_whole(listed, _found(objects, key)):
            self._forget(listed, now)
            return
        self._vault.ensure_known()  # another process may have merged or erased meanwhile
        manifest = self._vault.manifest
        if manifest is None or not self._lists(manifest, listed):
            return
        for name, opened in self._mirrors:
            with suppress(CoveyError):
                content = _found(opened(), key)
                if content is not None and _is_whole(listed, content):
                    objects.put(key, content)
                    self._forget(listed, now)
                    with self._store.transaction():
                        self._store.counters.count("restored_segments")
                    self._report("notice", f"{_named(listed)} was damaged; it was restored from {name}")
                    return
        if not isinstance(listed, SegmentRange):
            self._take_back(listed, manifest, node, now)
        elif self._remade is None and self._is_news(listed):
            made = RemadeRange(self._vault.keys.ring(), manifest.signing_public, objects, listed)
            self._remade = made, made.steps()

    def _remake(self, manifest: VaultManifest, node: Node, now: Now) -> None:
        """Go on with making a damaged range again (rule 5)."""
        if self._remade is None:
            return
        made, steps = self._remade
        left = VAULT_LOOK_BYTES // 2
        try:
            for size in steps:
                left -= size
                if left <= 0:
                    return
        except StorageError:  # a later look starts over
            self._remade = None
            raise
        self._remade = None
        if not self._lists(manifest, made.named):
            return
        if made.content is None:
            self._take_back(made.named, manifest, node, now)
            return
        self._vault.objects.put(self._key(made.named), made.content)
        with self._store.transaction():
            self._store.counters.count("restored_segments")
        self._report("notice", f"{_named(made.named)} was damaged; it was made again from these")

    def _is_news(self, listed: Listed) -> bool:
        return self._damaged.including([(listed.first, _last(listed))]) != self._damaged

    def _take_back(self, listed: Listed, manifest: VaultManifest, node: Node, now: Now) -> None:
        """Take the messages of a damaged segment as not received (rules 2 to 4)."""
        damaged = self._damaged.including([(listed.first, _last(listed))])
        if damaged == self._damaged or len(damaged.spans()) > MAXIMUM_DAMAGED_RANGES:
            return
        with self._store.transaction():
            lost = self._asked_for(listed, manifest)
            for link, spans in lost.items():
                self._store.received.set(*link, self._store.received.of(*link).excluding(spans))
                self._store.imprints.remove(*link, spans)
            self._collector.reland_orders()
            self._store.counters.count("damaged_segments")
            self._store.conditions.set(DAMAGED_CONDITION, _text(damaged), now.wall_us)
        self._damaged = damaged
        self._report("error", f"{_named(listed)} is damaged, and no copy has it: {self._of(lost, node)}")
        with self._store.reading():
            for author, incarnation in lost:
                node.landing.landed(author, incarnation, set(), now)

    def _asked_for(self, listed: Listed, manifest: VaultManifest) -> Links:
        """Return the messages that senders are to hear about: what was erased is not asked for again."""
        erased = {each.author for each in manifest.erasures if each.last >= listed.first}
        if None in erased or isinstance(listed, SegmentRange):
            return {}
        return {
            (author, incarnation): spans
            for (author, incarnation), spans in self._store.landing.spans_of(listed.first, listed.number).items()
            if author not in erased
            and len(self._store.received.of(author, incarnation).ranges) + len(spans) <= MAXIMUM_RECEIVED_RANGES
        }

    def _of(self, lost: Links, node: Node) -> str:
        if not lost:
            return "no device can repeat what it held; the gaps of the tables name it"
        named = [f"{_ranges(spans)} of {_device(node, author)}" for (author, _), spans in lost.items()]
        more = ", and of others" if len(named) > _NAMED else ""
        messages = sum(last - first + 1 for spans in lost.values() for first, last in spans)
        return (
            f"{count(messages, 'message')} ({', '.join(named[:_NAMED])}{more}); their senders send again what they "
            "still have, and report the rest as lost"
        )

    def _forget(self, listed: Listed, now: Now) -> None:
        left = SequenceSet().including(self._damaged.excluding([(listed.first, _last(listed))]).spans())
        if left != self._damaged:
            with self._store.transaction():
                self._store.conditions.set(DAMAGED_CONDITION, _text(left), now.wall_us)
            self._damaged = left

    def _lists(self, manifest: VaultManifest, listed: Listed) -> bool:
        """Say whether the manifest of this moment lists a segment or range: it may have been merged meanwhile."""
        if isinstance(listed, SegmentRange):
            return listed in manifest.ranges
        entries = self._reader().entries(self._vault.node.hex(), manifest, listed.first, listed.number)
        return not isinstance(entries, Trouble) and listed in entries

    def _key(self, listed: Listed) -> str:
        if isinstance(listed, SegmentRange):
            return documents.range_key(self._vault_id, self._vault.node, listed)
        return documents.entry_key(self._vault_id, self._vault.node, listed)

    @cached_property
    def _vault_id(self) -> VaultId:
        return self._vault.keys.ring().vault_id

    def _reader(self) -> VaultReader:
        return VaultReader(self._vault.objects, self._vault.keys.ring())

    def _listed_older(self, manifest: VaultManifest) -> Iterator[Listed]:
        """Yield what a manifest lists besides the newest segments, each range before its segments."""
        for named in manifest.ranges:
            yield named
            entries = self._reader().range_entries(self._vault.node.hex(), named)
            yield from () if isinstance(entries, Trouble) else entries
        newest = sum(1 for _ in _newest(manifest))
        yield from manifest.segments[: len(manifest.segments) - newest]


class _Rounds:
    """What is looked at, one after the other, again and again."""

    def __init__(self, listed: Callable[[VaultManifest], Iterator[Listed]]) -> None:
        self._listed = listed
        self._left: Iterator[Listed] | None = None

    def next(self, manifest: VaultManifest) -> Listed | None:
        """Return what is next; None once at the end of each round."""
        if self._left is None:
            self._left = self._listed(manifest)
        listed = next(self._left, None)
        if listed is None:
            self._left = None
        return listed


def _newest(manifest: VaultManifest) -> Iterator[Listed]:
    left = VAULT_NEWEST_BYTES
    for entry in reversed(manifest.segments):
        left -= _cost(entry)
        if left < 0:
            return
        yield entry


def _cost(listed: Listed) -> int:
    """Return what looking at it costs, in bytes of reading."""
    return max(listed.size, VAULT_LOOK_FILE_BYTES)


def _found(objects: ObjectStore, key: str) -> bytes | None:
    try:
        return objects.get(key, MAXIMUM_SEGMENT_BYTES)
    except LimitError:
        return b""


def _is_whole(listed: Listed, content: bytes | None) -> bool:
    if content is None:
        return False
    return documents.is_range(listed, content) if isinstance(listed, SegmentRange) else is_segment(listed, content)


def _last(listed: Listed) -> int:
    return listed.last if isinstance(listed, SegmentRange) else listed.number


def _named(listed: Listed) -> str:
    if isinstance(listed, SegmentRange):
        return f"the vault's list of the segments {listed.first} to {listed.last}"
    return (
        f"the vault's segment {listed.number}"
        if listed.covers == 1
        else (f"the vault's segment {listed.first} to {listed.number}")
    )


def _device(node: Node, author: DeviceKey) -> str:
    member = next((found for each in node.groups.joined() if (found := each.member(author))), None)
    return labelled_name(device_name(author), member.label if member else "")


def _ranges(spans: list[Range]) -> str:
    return ", ".join(str(first) if first == last else f"{first} to {last}" for first, last in spans[:_NAMED])


def _positions(text: str) -> SequenceSet:
    pairs = [each.partition("-") for each in text.split()]
    return SequenceSet().including([(int(first), int(last or first)) for first, _, last in pairs])


def _text(positions: SequenceSet) -> str:
    return " ".join(str(first) if first == last else f"{first}-{last}" for first, last in positions.spans())
