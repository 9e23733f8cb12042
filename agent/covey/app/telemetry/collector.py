"""The collector: opened telemetry into vault segments, and only then the acknowledgement.

Each segment goes through four steps, and a crash after any of them repeats from there:

    1. A plan is committed: number, messages, nonce. From here the segment's bytes are fixed.
    2. The segment is stored in the vault, and read back (`adapters/objects/read_back.py`).
    3. The node's vault manifest that lists it is stored in the same way, one `manifest_seq` higher.
    4. The messages leave the landing, in one commit; then their senders are acknowledged.

Another process may compact the node's segments meanwhile (`compactor.py`): then its manifest has all positions that
this one knows, and step 3 is tried again from it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from covey.app.telemetry.landed_memberships import LandedMemberships
from covey.app.telemetry.node_keys import NodeKeys
from covey.app.telemetry.node_vault import NodeVault
from covey.app.telemetry.package_report import keep_inventories
from covey.app.telemetry.recall import recall
from covey.app.telemetry.restored_vault import is_to_continue, stand_for_lost, take_back
from covey.core.crypto import NONCE_BYTES, Identity
from covey.core.group.manifest import COLLECTOR
from covey.core.history.kinds import ORDER_KINDS
from covey.core.history.operation import StoredOperation, read_operation
from covey.core.ids import DeviceKey, GroupId, Incarnation
from covey.core.node import Node
from covey.core.now import Now
from covey.core.vault import documents
from covey.core.vault.documents import SegmentEntry, SegmentRange, SegmentRecord
from covey.core.vault.keys import VaultKey
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.vault.landing import (
    HELD_BACK_CONDITION,
    HELD_BACK_NAMED,
    VAULT_CONDITION,
    LandedMessage,
    LandingPlan,
)
from covey.errors import ConflictError, RollbackError, StorageError
from covey.limits.storage import SCARCE_LOOK_US, SHARE_SHOWN_US
from covey.limits.vault import MAXIMUM_SEGMENT_BYTES, MAXIMUM_SEGMENT_RECORDS, SEGMENT_BYTES, VAULT_RANGE_SEGMENTS
from covey.ports import ObjectStore, Report

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


_RETRY_US = 5_000_000
_ORDERS_AT_ONCE = 32
"""Orders that are put into the landing in one commit: they may have 64 KiB each."""

_TRIES = 3
"""A compaction publishes now and then; a process that is always quicker than this collector is no compaction."""


def _rival() -> StorageError:
    return StorageError(
        "another collector writes to the vault with this collector's identity",
        hint="stop one of the two and give it its own identity: covey init",
    )


def _replaced() -> StorageError:
    return StorageError(
        "an older copy of the vault took its place while the collector was running", hint="restart the collector"
    )


class Collector:
    """Lands telemetry in one vault as one node."""

    def __init__(
        self,
        identity: Identity,
        keys: NodeKeys,
        store: SqliteStore,
        objects: ObjectStore,
        rng: Callable[[int], bytes],
        segment_us: int,
        report: Report,
        is_scarce: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take up the node's vault where it stands, and what it knows that the database has lost (`recall.py`).

        `is_scarce` says whether the vault's disk is nearly full: then each device lands only its share.
        The keys are asked for every segment: they may be rotated.

        A vault that was restored from a backup goes on from there (`restored_vault.py`).

        Raises:
            StorageError: the vault has no manifest although this device has published one, or cannot be read.
            RemoteError: the manifest there is damaged, or not of this vault.
        """
        self._vault = NodeVault(identity, keys, store, objects, rng)
        self._memberships = LandedMemberships(identity.signing_public, store)
        self._store = store
        self._objects = objects
        self._rng = rng
        self._segment_us = segment_us
        self._report = report
        self._is_scarce = is_scarce
        self._looked_at_us: int | None = None
        """When the room on the vault's disk was looked at last."""
        self._failing = False
        self._has_shown_itself = False
        self._deadline_us: int | None = None
        self._staged: tuple[int, int] | None = None
        """Of which generation of groups and history all orders have been put into the landing."""
        self._is_restored = False
        """Whether the vault is older than what this device has published, and was not gone on with yet."""
        self._lacking: set[tuple[DeviceKey, Incarnation]] = set()
        """The links whose senders are to hear what it lacks."""
        try:
            self._vault.load()
        except RollbackError:
            self._lacking = take_back(self._vault, store, report)
            self._is_restored = True
        if self._vault.was_torn:
            report("warning", "the vault's manifest was damaged; it was made again from the segments, complete")
        recall(self._vault, store)

    @property
    def vault(self) -> NodeVault:
        """What it writes, for another role of the same process."""
        return self._vault

    def reland_orders(self) -> None:
        """Land all orders, manifests and profiles once more: the vault has lost some. Inside a transaction."""
        self._store.landing.reland_orders()
        self._staged = None
        self._memberships = LandedMemberships(self._vault.identity.signing_public, self._store)

    def turn(self, node: Node, now: Now) -> int | None:
        """Close a segment if it is due; return when to be called next, in monotonic microseconds."""
        if not self._has_shown_itself:
            self._has_shown_itself = True
            with suppress(StorageError):  # asked again before anything lands
                self._vault.keys.prepare(node.groups.joined(), now)  # others share later keys with who has this one
        while self._lacking:
            node.landing.landed(*self._lacking.pop(), set(), now)
        self._look_for_room(now)
        self._stage_orders(node)
        waiting = self._store.landing.size()
        if not waiting:
            self._deadline_us = None
            return None
        if self._deadline_us is None:
            self._deadline_us = now.monotonic_us + self._segment_us
        if now.monotonic_us >= self._deadline_us or (waiting >= SEGMENT_BYTES and not self._failing):
            self._deadline_us = self._try_to_land(node, now)
        return self._deadline_us

    def _look_for_room(self, now: Now) -> None:
        if self._looked_at_us is not None and now.monotonic_us < self._looked_at_us + SCARCE_LOOK_US:
            return
        self._looked_at_us, landing = now.monotonic_us, self._store.landing
        scarce = self._is_scarce()
        if scarce and not landing.scarce:
            self._report("warning", "the vault's disk is nearly full: each device can store only its share")
        elif landing.scarce and not scarce:
            self._report("notice", "the vault's disk has room again")
        landing.scarce = scarce
        since_us = now.wall_us - SHARE_SHOWN_US
        held_back = [each for each, at_us in reversed(landing.held_back.items()) if at_us >= since_us]
        named = " ".join(each.hex() for each in held_back[:HELD_BACK_NAMED])
        self._note(HELD_BACK_CONDITION, named, now)
        if not self._failing:
            self._note(VAULT_CONDITION, "its disk is nearly full" if scarce else "", now)

    def _note(self, condition: str, value: str, now: Now) -> None:
        with suppress(StorageError):  # a disk that takes nothing shows otherwise
            if self._store.conditions.values().get(condition, ("", 0))[0] != value:
                with self._store.transaction():
                    self._store.conditions.set(condition, value, now.wall_us)

    def _stage_orders(self, node: Node) -> None:
        """Put orders of collected groups into the landing; what finds no room goes the next time.

        No acknowledgement waits for them: lost history arrives again, and lands again.
        """
        generation = node.groups.generation, node.history.generation
        if generation == self._staged:
            return
        own = self._vault.identity.signing_public
        for group in node.groups.joined():
            member = group.member(own)
            if member is None or COLLECTOR not in member.capabilities:
                continue
            while self._orders_to_stage(group.group_id, 1):
                if not self._stage_some(group.group_id):
                    return
        self._staged = generation

    def _orders_to_stage(self, group_id: GroupId, most: int) -> list[StoredOperation]:
        after = self._store.landing.orders_upto(group_id)
        return self._store.operations.of_kinds_after(group_id, ORDER_KINDS, after, most)

    def _stage_some(self, group_id: GroupId) -> bool:
        with self._store.transaction():
            for each in self._orders_to_stage(group_id, _ORDERS_AT_ONCE):
                operation = read_operation(each.raw, verify=False)
                if not self._store.landing.land_order(operation, each.stored_at_us, each.arrival):
                    return False
        return True

    def stop(self, node: Node, now: Now) -> None:
        """Land what is here."""
        self._stage_orders(node)
        if self._store.landing.size():
            self._try_to_land(node, now)

    def _try_to_land(self, node: Node, now: Now) -> int | None:
        try:
            rests_until_us = self._land(node, now)
        except StorageError as error:
            if not self._failing:
                self._report("error", f"the vault refuses data: {error}; senders keep their data")
            self._failing = True
            self._note(VAULT_CONDITION, f"it refuses data: {error}", now)
            return now.monotonic_us + _RETRY_US
        if self._failing:
            self._report("notice", "the vault accepts data again")
            self._note(VAULT_CONDITION, "its disk is nearly full" if self._store.landing.scarce else "", now)
        self._failing = False
        waiting = self._store.landing.size()
        if not waiting:
            return None
        if rests_until_us is not None:
            return rests_until_us
        return now.monotonic_us + (0 if waiting >= SEGMENT_BYTES else self._segment_us)

    def push(self, node: Node, now: Now, progress: Callable[[int], None]) -> int:
        """Land this device's own telemetry that waits for others; return how many messages that were.

        A message leaves its queue when the vault's manifest lists it.

        Raises:
            StorageError: the vault refused; what is not landed stays where it was.
        """
        own = node.telemetry.queued()
        pushed, more = 0, True
        while more:
            self._land_everything(node, now)
            with self._store.transaction():
                staged = 0
                more = False
                for recipient, place, message in own:
                    if not self._store.landing.land_queued(recipient, place, message, now.wall_us):
                        raise StorageError("too much data is waiting for the vault", hint="see 'covey vault status'")
                    staged += 1
                    if self._store.landing.size() >= SEGMENT_BYTES:
                        more = True
                        break
            self._land_everything(node, now)
            pushed += staged
            progress(pushed)
        return pushed

    def _land_everything(self, node: Node, now: Now) -> None:
        while self._store.landing.size():
            if self._land(node, now) is not None:
                raise StorageError("other devices are being removed", hint="try again in a minute")

    def _land(self, node: Node, now: Now) -> int | None:
        """Land what fits one segment; or return until when nothing may be sealed, in monotonic microseconds."""
        rests_until_us = self._vault.keys.prepare(node.groups.joined(), now)
        if rests_until_us is not None:
            return rests_until_us
        try:
            if not self._is_restored:
                self._vault.ensure_known()
            present = self._store.incarnations.present()
            if self._is_restored or is_to_continue(self._vault, present):
                stand_for_lost(self._vault, self._store, present, self._report, now)
                self._is_restored = False
        except (ConflictError, RollbackError) as error:
            raise _replaced() from error
        self._memberships.stage(node, now)
        plan = self._plan(now)
        if plan is None:
            return None
        messages = self._store.landing.until(plan.last_id)
        if self._lists(plan):
            self._put_segment(plan, messages)  # another disk may be there since an earlier attempt put it
        else:
            self._write(plan, messages, now)
        assert self._vault.manifest is not None
        with self._store.transaction():
            self._store.landing.finish(plan, self._vault.manifest.manifest_seq)
            keep_inventories(self._store, node, messages)
            for message in messages:
                if message.recipient is not None and message.place is not None:
                    node.telemetry.pushed(message.recipient, message.place)
            said = [each for each in messages if record_kind(each.message) is not RecordKind.MANIFEST]
            self._store.counters.count("landed_messages", len(said))
        links = defaultdict(set)
        for message in messages:
            if not message.link_seq:
                continue
            links[message.author, message.incarnation].add(message.link_seq)
        with self._store.reading():
            for (author, incarnation), link_seqs in links.items():
                node.landing.landed(author, incarnation, link_seqs, now)
        return None

    def _plan(self, now: Now) -> LandingPlan | None:
        """Return the committed plan, by any process of the device, or commit one."""
        with self._store.transaction():
            planned = self._store.landing.plan()
            waiting = self._store.landing.waiting(SEGMENT_BYTES, MAXIMUM_SEGMENT_RECORDS)
            if planned is not None or waiting is None:
                return planned
            number = self._vault.manifest.last_number + 1 if self._vault.manifest else 1
            last_id, _, newest_us = waiting
            created_at_us = max(now.wall_us, newest_us)  # a reader skips by it, and clocks are set back
            plan = LandingPlan(
                number, self._store.incarnations.present(), last_id, created_at_us, self._rng(NONCE_BYTES)
            )
            self._store.landing.begin(plan)
        return plan

    def _lists(self, plan: LandingPlan) -> bool:
        """Say whether the manifest lists a plan's segment: an earlier attempt got so far.

        Raises:
            StorageError: it lists another one under that number.
        """
        manifest = self._vault.manifest
        if manifest is None or manifest.last_number < plan.number:
            return False
        newest = manifest.segments[-1]
        if (newest.number, newest.incarnation, newest.created_at_us) == (
            plan.number,
            plan.incarnation,
            plan.created_at_us,
        ):
            return True
        raise _rival()

    def _write(self, plan: LandingPlan, messages: list[LandedMessage], now: Now) -> None:
        entry = self._put_segment(plan, messages)
        for _ in range(_TRIES):
            try:
                self._publish(plan, entry, now)
            except ConflictError:
                try:
                    self._vault.load()
                except RollbackError as error:
                    raise _replaced() from error
                if self._lists(plan):
                    self._put_segment(plan, messages)
                    return
            else:
                return
        raise _rival()

    def _publish(self, plan: LandingPlan, entry: SegmentEntry, now: Now) -> None:
        """Put the manifest that lists a segment.

        Raises:
            StorageError: another one is there, or the store refused.
        """
        before = self._vault.manifest
        if (before.last_number if before else 0) + 1 != plan.number:
            raise _rival()
        key, own = self._vault.newest_key, self._vault.identity.signing_public
        folded = self._fold(key)
        following = documents.next_manifest(before, key, own, plan.incarnation, now.wall_us, (entry,), folded)
        self._vault.publish(following, adds=True)

    def _put_segment(self, plan: LandingPlan, messages: list[LandedMessage]) -> SegmentEntry:
        """Put a plan's segment, or find what an earlier attempt has put, perhaps under a key that was the newest then.

        Raises:
            StorageError: another segment lies there.
        """
        records = [SegmentRecord(each.received_at_us, each.message) for each in messages]
        keys = self._vault.keys.ring()
        sealed = (
            documents.seal_segment(
                key,
                self._vault.identity.signing_public,
                plan.number,
                plan.incarnation,
                plan.created_at_us,
                records,
                plan.nonce,
            )
            for key in keys.keys
        )
        name = documents.segment_key(keys.vault_id, self._vault.node, plan.number, plan.incarnation)
        entry, content = next(sealed)
        try:
            self._objects.replace(name, content, None)
        except ConflictError:
            found = self._objects.get(name, MAXIMUM_SEGMENT_BYTES)
            for earlier, its_content in chain([(entry, content)], sealed):
                if found is not None and its_content.startswith(found):
                    if its_content != found:  # torn by the store, which was not believed
                        self._objects.replace(name, its_content, found)
                    return earlier
            raise _rival() from None
        return entry

    def _fold(self, key: VaultKey) -> SegmentRange | None:
        """Move the oldest listed segments into a range once the list is long (004.11)."""
        manifest = self._vault.manifest
        if manifest is None or len(manifest.segments) < 2 * VAULT_RANGE_SEGMENTS:
            return None
        entries = manifest.segments[:VAULT_RANGE_SEGMENTS]
        own = self._vault.identity.signing_public
        named, content = documents.seal_range(key, own, entries)
        self._objects.put(documents.range_key(key.vault_id, self._vault.node, named), content)
        return named
