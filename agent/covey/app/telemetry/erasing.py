"""Erase from this device's part of a vault: everything that one device sent, or everything old.

After a power cut at any step every reader can read the vault, and repeating the command completes it:

    1. The manifest records the intent: what is to be erased, up to which position, by which note.
    2. Affected segments are rewritten without the erased records and stored; then the manifest lists the new ones, in
       batches. Readers with an older manifest look up the positions again (`VaultReader.contents`).
    3. Tombstones leave the manifest: segments that compaction replaced may hold the same messages.
    4. Objects that the manifest does not list are deleted: the store lists this node's segments, so leftovers of an
       interrupted compaction or erasure disappear, too. Numbers beyond the manifest's last one are left alone.
    5. The manifest records completion, unless a segment could not be read, or a matching record still waits here.

The caller holds a lock, so that no other process rewrites the node's segments meanwhile. A collector may land.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from covey.app.telemetry.node_vault import NodeVault
from covey.app.telemetry.rewriting import NodeRewriting, Progress
from covey.app.telemetry.vault import alone, node_vault
from covey.core.ids import KEY_BYTES, DeviceKey, OperationId, from_hex
from covey.core.vault import documents, erasing, segments
from covey.core.vault.documents import Erasure, SegmentEntry, VaultManifest
from covey.core.vault.erasing import ErasureDue
from covey.core.vault.merging import Group
from covey.core.vault.segments import OpenedSegment
from covey.errors import LimitError, MalformedError, RemoteError, UsageError
from covey.limits.vault import MAXIMUM_VAULT_ERASURES, SEGMENT_BYTES, VAULT_RANGE_SEGMENTS

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.device.device import Device


@dataclass(slots=True)
class Erased:
    """What was erased, or would be."""

    messages: int = 0
    segments: int = 0
    """The rewritten ones; many old ones become one."""
    bytes_before: int = 0
    bytes_after: int = 0
    objects: int = 0
    """Those that went from the store."""
    waiting: int = 0
    """Messages that came in time, and wait here to be landed: they would come after it."""
    unreadable: list[int] = field(default_factory=list)
    """Segments that are damaged or missing, by number."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing of it is left."""
        return not self.waiting and not self.unreadable


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """Neighbouring segments, and what is left of them."""

    group: Group
    left: OpenedSegment
    gone: int


class Eraser:
    """Erases from one node's part of a vault."""

    def __init__(self, node: NodeVault, store: SqliteStore, rng: Callable[[int], bytes]) -> None:
        self._vault = node
        self._node = NodeRewriting(node, store, rng)
        self._store = store

    def plan(self, due: ErasureDue, now_us: int, progress: Progress) -> Erased:
        """Return what `erase` would erase: `bytes_after` and `objects` are unknown, and 0."""
        outcome = Erased(waiting=self._waiting(due))
        self._vault.load()
        for each in self._rewritten(due, now_us, outcome, progress):
            _count(outcome, each)
        return outcome

    def erase(self, due: ErasureDue, note: OperationId | None, now_us: int, progress: Progress) -> Erased:
        """Erase what is due, on the word of a note.

        Raises:
            LimitError: there are `MAXIMUM_VAULT_ERASURES` already.
            StorageError: the store refused; what was published stands, and the rest follows when it is said again.
        """
        outcome = Erased(waiting=self._waiting(due))  # before the manifest is read: whatever comes later, comes later
        self._vault.load()
        last = self._last_reached(due)
        if last:
            erasure = Erasure(due.author, due.until_us, last, note)
            self._note(erasure, now_us)
            batch: list[_Rewritten] = []
            for each in self._rewritten(due, now_us, outcome, progress):
                batch.append(each)
                if sum(len(one.group) for one in batch) >= VAULT_RANGE_SEGMENTS:
                    self._replace(batch, now_us, outcome)
                    batch = []
            self._replace(batch, now_us, outcome)
            self._sweep(now_us, outcome)
        if last and outcome.is_whole:
            self._note(replace(erasure, completed_at_us=now_us), now_us)
        return outcome

    def _last_reached(self, due: ErasureDue) -> int:
        listing = self._node.listing()
        if listing is None:
            return 0
        reached = due.reaches(listing.entries)
        return reached[-1].number if reached else 0

    def _waiting(self, due: ErasureDue) -> int:
        return self._store.landing.came_until(due.author, due.until_us)

    def _note(self, erasure: Erasure, now_us: int) -> None:
        def following() -> VaultManifest:
            manifest = self._vault.manifest
            assert manifest is not None
            erasures = erasing.with_erasure(manifest.erasures, erasure)
            if len(erasures) > MAXIMUM_VAULT_ERASURES:
                raise LimitError(f"this node has erased data of {MAXIMUM_VAULT_ERASURES} devices, the maximum")
            return self._node.following(now_us=now_us, erasures=erasures)

        self._node.publish(following)

    # -- segments -----------------------------------------------------------------------------------------------------

    def _rewritten(self, due: ErasureDue, now_us: int, outcome: Erased, progress: Progress) -> Iterator[_Rewritten]:
        """Yield rewritten segments; with an age limit, as few as the rest of many fits into."""
        listing = self._node.listing()
        if listing is None:
            return
        looked_at = due.reaches(self._settled(listing.entries))
        waiting: list[_Rewritten] = []
        for done, entry in enumerate(looked_at, 1):
            progress(self._node.name, done, len(looked_at))
            each = self._thinned(entry, due, now_us, outcome)
            together = [one.left for one in waiting] + ([each.left] if each else [])
            if each is None or (waiting and (due.author is not None or not erasing.fits(together))):
                yield from _joined(waiting)
                waiting = []
            waiting += [each] if each else []
        yield from _joined(waiting)

    def _settled(self, entries: Group) -> Group:
        """Return the segments that no collector compares with its plan: all but, perhaps, the newest."""
        plan = self._store.landing.plan()
        if plan is None or not entries or plan.number > entries[-1].number:
            return entries
        return entries[:-1]

    def _thinned(self, entry: SegmentEntry, due: ErasureDue, now_us: int, outcome: Erased) -> _Rewritten | None:
        """Return the rest of a segment; None if it is unchanged."""
        if due.author is None and entry.is_thinned and 2 * entry.size >= SEGMENT_BYTES:
            return None  # what is left of what was old before: another look would find nothing
        try:
            opened = self._node.opened(entry)
        except RemoteError:
            outcome.unreadable.append(entry.number)
            return None
        left, gone = erasing.thin(opened, due, now_us)
        return _Rewritten((entry,), left, gone) if gone or due.author is None else None

    def _replace(self, batch: list[_Rewritten], now_us: int, outcome: Erased) -> None:
        new: list[SegmentEntry] = []
        for each in batch:
            created_at_us = max(entry.created_at_us for entry in each.group)
            span = each.group[0].first, each.group[-1].number
            key = self._vault.newest_key
            entry, content = segments.seal_thinned(key, self._node.public, span, created_at_us, each.left)
            self._vault.objects.put(documents.entry_key(self._node.vault_id, self._vault.node, entry), content)
            new.append(entry)
            _count(outcome, each)
            outcome.bytes_after += entry.size
        if not new:
            return
        old = tuple([entry for each in batch for entry in each.group])
        gone: list[str] = []

        def following() -> VaultManifest:
            found = self._node.substituted(new, old)
            ranges = replace(found.gone, segments=())
            gone[:] = self._node.objects_of(ranges)
            return self._node.following(now_us=now_us, ranges=found.ranges, segments=found.segments)

        self._node.publish(following)
        self._delete(gone, outcome)

    # -- deleting -----------------------------------------------------------------------------------------------------

    def _sweep(self, now_us: int, outcome: Erased) -> None:
        """Delete all of the node's segments that its manifest does not list, and its tombstones (rules 3 and 4)."""
        assert self._vault.manifest is not None
        tombstones = self._vault.manifest.tombstones
        buried = [key for named in tombstones for key in self._node.objects_of(self._node.opened_tombstone(named))]
        node, vault_id = self._vault.node, self._node.vault_id
        if tombstones:
            self._node.publish(lambda: self._node.following(now_us=now_us, tombstones=()))
        listing = self._node.listing()
        assert listing is not None
        listed = {documents.entry_key(vault_id, node, entry) for entry in listing.entries}
        listed |= {documents.range_key(vault_id, node, named) for named, _ in listing.ranges}
        found = [
            key
            for key in self._vault.objects.keys(documents.segment_prefix(vault_id, node))
            if documents.last_of_segment_key(key) <= listing.manifest.last_number
        ]
        self._delete([key for key in dict.fromkeys((*found, *buried)) if key not in listed], outcome)
        self._delete([documents.tombstone_key(vault_id, node, named) for named in tombstones], outcome)

    def _delete(self, keys: list[str], outcome: Erased) -> None:
        for key in keys:
            self._vault.objects.delete(key)
            outcome.objects += 1


def _joined(waiting: list[_Rewritten]) -> Iterator[_Rewritten]:
    """Yield neighbours as one, except one that would not change."""
    gone = sum(each.gone for each in waiting)
    if gone or len(waiting) > 1:
        group = tuple([entry for each in waiting for entry in each.group])
        yield _Rewritten(group, erasing.together([each.left for each in waiting]), gone)


def _count(outcome: Erased, each: _Rewritten) -> None:
    outcome.messages += each.gone
    outcome.segments += len(each.group)
    outcome.bytes_before += sum(entry.size for entry in each.group)


_DAY_US = 86_400_000_000


def due_of_author(device: Device, beginning: str) -> ErasureDue:
    """Return what is to go of the one device whose key begins so: a member of a group, or any by its whole key.

    Raises:
        UsageError: no key, or none or several begin so.
    """
    until_us = device.clock.wall_us()
    try:
        if len(beginning) == 2 * KEY_BYTES:
            return ErasureDue(DeviceKey(from_hex(beginning, KEY_BYTES)), until_us)
    except MalformedError:
        raise UsageError("not a device key", hint="a device key has 64 hex digits") from None
    members = {member.keys.signing_public for group in device.node.groups.joined() for member in group.members}
    found = [key for key in members if key.hex().startswith(beginning)]
    if len(found) != 1:
        raise UsageError(
            f"{len(found)} members have a key that begins with {beginning[:64]!r}",
            hint="give the whole key: field 'author' of 'covey vault readings --json'",
        )
    return ErasureDue(found[0], until_us)


def due_before(device: Device, days: int) -> ErasureDue:
    """Return what is to go that is older than so many days."""
    return ErasureDue(None, max(0, device.clock.wall_us() - days * _DAY_US))


def erase_from_vault(
    device: Device,
    location: str | None,
    due: ErasureDue,
    note: OperationId | None,
    progress: Progress,
    *,
    dry_run: bool,
) -> Erased:
    """Erase from this device's part of a vault what is due, or return what would be erased.

    Raises:
        LocalError: this device has no vault's keys, or another command rewrites its segments.
        LimitError: too many devices' data was erased already.
        StorageError: the store refused; repeating it erases the rest.
    """

    node = node_vault(device, location, prepare=not dry_run)
    eraser, now_us = Eraser(node, device.store, secrets.token_bytes), device.clock.wall_us()
    if dry_run:
        return eraser.plan(due, now_us, progress)
    with alone(device):
        return eraser.erase(due, note, now_us, progress)
