"""The collector: opened telemetry into vault segments, and only then the acknowledgement.

Each segment goes through four steps, and a crash after any of them repeats from there:

    1. A plan is committed: number, messages, nonce. From here the segment's bytes are fixed.
    2. The segment is put into the vault.
    3. The node's vault manifest that lists it is put, one `manifest_seq` higher.
    4. The messages leave the landing, in one commit; now their senders are told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Protocol

from agent.core import vault
from agent.core.crypto import NONCE_BYTES, Identity
from agent.core.ids import node_id
from agent.core.limits import (
    MAXIMUM_SEGMENT_RECORDS,
    MAXIMUM_VAULT_MANIFEST_BYTES,
    SEGMENT_BYTES,
    VAULT_RANGE_SEGMENTS,
)
from agent.core.node import Node
from agent.core.now import Now
from agent.core.records import LandedMessage, LandingPlan, Records
from agent.core.vault import SegmentRange, SegmentRecord, VaultKey, VaultManifest
from agent.errors import StorageError
from agent.ports import ObjectStore, Report, Transactions

_RETRY_US = 5_000_000


class LandingStore(Records, Transactions, Protocol):
    """What a collector keeps on its way to the vault."""

    def landing_bytes(self) -> int:
        """Return how much waits."""

    def landing_plan(self) -> LandingPlan | None:
        """Return the segment that is being written."""

    def plan_landing(self, plan: LandingPlan) -> None:
        """Fix what the next segment holds."""

    def landing_waiting(self, maximum_bytes: int, maximum_records: int) -> tuple[int, int] | None:
        """Return (last id, bytes) of what fits the next segment."""

    def landing_until(self, last_id: int) -> list[LandedMessage]:
        """Return the messages of a plan."""

    def finish_landing(self, plan: LandingPlan, manifest_seq: int) -> None:
        """Forget a plan and its messages, and remember the manifest that lists them."""

    def manifest_floor(self) -> int:
        """Return the highest `manifest_seq` that this device has published."""


class Collector:
    """Lands telemetry in one vault as one node."""

    def __init__(
        self,
        identity: Identity,
        key: VaultKey,
        store: LandingStore,
        objects: ObjectStore,
        rng: Callable[[int], bytes],
        segment_us: int,
        report: Report,
    ) -> None:
        """Take up the node's vault where it stands.

        Raises:
            StorageError: the vault holds an older manifest than this device has published, or cannot be read.
            RemoteError: the manifest there is damaged, or not of this vault.
        """
        self._identity = identity
        self._node_id = node_id(identity.signing_public)
        self._key = key
        self._store = store
        self._objects = objects
        self._rng = rng
        self._segment_us = segment_us
        self._report = report
        self._failing = False
        self._deadline_us: int | None = None
        self._manifest = self._load_manifest()

    def _load_manifest(self) -> VaultManifest | None:
        floor = self._store.manifest_floor()
        content = self._objects.get(self._manifest_key, MAXIMUM_VAULT_MANIFEST_BYTES)
        if content is None:
            if floor:
                raise StorageError(
                    f"the vault has lost this collector's manifest {floor}",
                    hint="restore the vault, or name an empty one and a new vault.key",
                )
            return None
        return vault.open_vault_manifest(self._key, self._node_id, content, floor)

    @property
    def _manifest_key(self) -> str:
        return vault.manifest_key(self._key.vault_id, self._node_id)

    def turn(self, node: Node, now: Now) -> int | None:
        """Close a segment if it is due; return when to be called next, in monotonic microseconds."""
        waiting = self._store.landing_bytes()
        if not waiting:
            self._deadline_us = None
            return None
        if self._deadline_us is None:
            self._deadline_us = now.monotonic_us + self._segment_us
        if now.monotonic_us >= self._deadline_us or (waiting >= SEGMENT_BYTES and not self._failing):
            self._deadline_us = self._try_to_land(node, now)
        return self._deadline_us

    def stop(self, node: Node, now: Now) -> None:
        """Land what is here."""
        if self._store.landing_bytes():
            self._try_to_land(node, now)

    def _try_to_land(self, node: Node, now: Now) -> int | None:
        try:
            self._land(node, now)
        except StorageError as error:
            if not self._failing:
                self._report("error", f"the vault refuses: {error}; senders keep what is not landed")
            self._failing = True
            return now.monotonic_us + _RETRY_US
        if self._failing:
            self._report("notice", "the vault takes segments again")
        self._failing = False
        waiting = self._store.landing_bytes()
        if not waiting:
            return None
        return now.monotonic_us + (0 if waiting >= SEGMENT_BYTES else self._segment_us)

    def _land(self, node: Node, now: Now) -> None:
        plan = self._store.landing_plan() or self._plan(now)
        if plan is None:
            return
        messages = self._store.landing_until(plan.last_id)
        if self._manifest is None or self._manifest.last_number < plan.number:
            self._write(plan, messages, now)
        assert self._manifest is not None
        with self._store.transaction():
            self._store.finish_landing(plan, self._manifest.manifest_seq)
            self._store.count("landed_messages", len(messages))
        links = defaultdict(set)
        for message in messages:
            links[message.author, message.incarnation].add(message.link_seq)
        for (author, incarnation), link_seqs in links.items():
            node.landed(author, incarnation, link_seqs, now)

    def _plan(self, now: Now) -> LandingPlan | None:
        waiting = self._store.landing_waiting(SEGMENT_BYTES, MAXIMUM_SEGMENT_RECORDS)
        if waiting is None:
            return None
        number = self._manifest.last_number + 1 if self._manifest else 1
        plan = LandingPlan(number, self._store.incarnation(), waiting[0], now.wall_us, self._rng(NONCE_BYTES))
        with self._store.transaction():
            self._store.plan_landing(plan)
        return plan

    def _write(self, plan: LandingPlan, messages: list[LandedMessage], now: Now) -> None:
        entry, content = vault.seal_segment(
            self._key,
            self._identity.signing_public,
            plan.number,
            plan.incarnation,
            plan.created_at_us,
            [SegmentRecord(each.received_at_us, each.message) for each in messages],
            plan.nonce,
        )
        key = vault.segment_key(self._key.vault_id, self._node_id, plan.number, plan.incarnation)
        self._objects.put(key, content)
        manifest = vault.next_manifest(
            self._manifest,
            self._key,
            self._identity.signing_public,
            plan.incarnation,
            now.wall_us,
            (entry,),
            self._fold(),
        )
        sealed = vault.seal_vault_manifest(self._key, manifest, self._identity, self._rng(NONCE_BYTES))
        self._objects.put(self._manifest_key, sealed)
        self._manifest = manifest

    def _fold(self) -> SegmentRange | None:
        """Put the oldest listed segments into a range when the list has grown long (004.11)."""
        if self._manifest is None or len(self._manifest.segments) < 2 * VAULT_RANGE_SEGMENTS:
            return None
        entries = self._manifest.segments[:VAULT_RANGE_SEGMENTS]
        named, content = vault.seal_range(self._key, self._identity.signing_public, entries, self._rng(NONCE_BYTES))
        self._objects.put(vault.range_key(self._key.vault_id, self._node_id, named.first, named.last), content)
        return named
