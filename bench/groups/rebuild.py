"""Cost of the rollback rule (ADR 4): rebuilding a node from its store after a failed commit.

With a group of so many members and so many messages queued for one of them. The peer is an empty state's node. What is
in flight is taken along, as the runtime does.
"""

from __future__ import annotations

import random
import secrets
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from bench.groups.manifests import crowd
from covey.adapters.keys.storage_key import StorageKey
from covey.adapters.sqlite.store import SqliteStore
from covey.core.crypto import Identity
from covey.core.ids import DeviceKey, Incarnation
from covey.core.link.queued import MessageClass
from covey.core.node import Node
from covey.limits.units import MIB
from tests.fleet import NodeMaker

_MEMBERS = 1_000
_QUEUED = 1_000_000
_TIMES = 9
_BOUND = 10_000 * MIB
_BYTES = 200


def main() -> None:
    """Print the numbers."""
    chance = random.Random(1)
    manifest, issuer = crowd(_MEMBERS, chance)
    recipient = next(each for each in manifest.members if each.keys.signing_public != issuer.signing_public)
    with TemporaryDirectory(dir="/var/tmp") as folder:
        empty = SqliteStore(
            Path(folder) / "empty.sqlite", Incarnation(secrets.token_bytes(8)), StorageKey(bytes(32)), _BOUND
        )
        alone = _seconds(issuer, empty)
        store = SqliteStore(
            Path(folder) / "state.sqlite", Incarnation(secrets.token_bytes(8)), StorageKey(bytes(32)), _BOUND
        )
        with store.transaction():
            store.groups.save_manifest(manifest.group_id, manifest.hash, manifest.version, manifest.raw, 1)
        members = _seconds(issuer, store)
        _fill(store, recipient.keys.signing_public)
        both = _seconds(issuer, store)
        empty.close()
        store.close()
    print(f"rebuild a node, ms: an empty state  {1000 * alone:>36.2f}")
    print(f"  a group of {_MEMBERS:,} members {1000 * members:>42.2f}")
    print(f"  the same, and {_QUEUED:,} messages queued {1000 * both:>32.2f}")


def _seconds(identity: Identity, store: SqliteStore) -> float:
    node = _node(identity, store, None)
    taken = []
    for _ in range(_TIMES):
        started = time.perf_counter()
        node = _node(identity, store, node)
        taken.append(time.perf_counter() - started)
    return median(taken)


def _node(identity: Identity, store: SqliteStore, before: Node | None) -> Node:
    state = None if before is None else before.state
    return NodeMaker(identity, random.Random(1)).make(store, state)


def _fill(store: SqliteStore, recipient: DeviceKey) -> None:
    store.connection.execute("PRAGMA synchronous = OFF")
    content = secrets.token_bytes(_BYTES)
    for first in range(0, _QUEUED, 10_000):
        with store.transaction():
            for _ in range(min(10_000, _QUEUED - first)):
                seq, link_seq = store.outbox.allocate(recipient)
                store.outbox.queue(recipient, seq, link_seq, MessageClass.DATA, content, 1)
