"""Replacing this device's noise key from time to time (`core/membership/rotation.py` says when that is allowed).

1. The store keeps a key's age with its public half; a key drawn by a command counts from the first look on. A clock
   that went back does not make a key younger than possible.
2. The new key is in the file before any device is notified. After a crash, the maintenance of groups completes the
   rest: it announces the current key to every group that lists a retired one.
3. Without a relay nobody can be notified, so nothing is rotated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from covey.core.membership.rotation import announcement_bytes, rotation_due_us
from covey.core.node import Node
from covey.core.now import Now
from covey.errors import LocalError
from covey.ports import Report

if TYPE_CHECKING:
    from covey.adapters.keys.noise_key_file import NoiseKeyFile
    from covey.adapters.sqlite.store import SqliteStore


CONDITION = "noise key"
"""Under which name the store keeps the key in use, and since when it is."""

_LOOK_US = 600_000_000


class KeyRotation:
    """Rotates by itself; an interval of 0 leaves it to a person."""

    def __init__(
        self, file: NoiseKeyFile, store: SqliteStore, interval_us: int, outbox_bytes: int, report: Report
    ) -> None:
        self._file = file
        self._store = store
        self._interval_us = interval_us
        self._outbox_bytes = outbox_bytes
        self._report = report
        self._look_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:
        """Rotate where it is due and may be; return when to look again."""
        if now.monotonic_us < self._look_at_us:
            return self._look_at_us
        self._look_at_us = now.monotonic_us + _LOOK_US
        public, since_us = node.identity.noise_public, self._since_us(node, now)
        if not self._interval_us or now.wall_us < rotation_due_us(node.groups, public, since_us, self._interval_us):
            return self._look_at_us
        if not node.state.windows.is_connected:
            return self._look_at_us
        needed = announcement_bytes(node.groups)
        if self._store.outbox.totals()[1] + needed > self._outbox_bytes // 2:
            return self._look_at_us  # what waits for others has the room
        if not node.actions.may_rotate(now):
            return self._look_at_us
        self._rotate(node, now)
        return self._look_at_us

    def _since_us(self, node: Node, now: Now) -> int:
        """Return since when the current key is in use, and note it (rule 1)."""
        public = node.identity.noise_public.hex()
        noted, since_us = self._store.conditions.values().get(CONDITION, ("", 0))
        if noted == public and since_us <= now.wall_us:
            return since_us
        with self._store.transaction():
            self._store.conditions.set(CONDITION, public, now.wall_us)
        return now.wall_us

    def _rotate(self, node: Node, now: Now) -> None:
        try:
            with self._store.transaction():
                self._file.rotate(node.identity, now.wall_us)
                node.actions.rotate_noise_key(now)
                self._store.conditions.set(CONDITION, node.identity.noise_public.hex(), now.wall_us)
        except LocalError as error:
            node.discard()  # the key is stored, perhaps: then the maintenance of groups tells it later
            self._report("warning", f"the new noise key was not sent to every group: {error}")
        else:
            self._report("notice", f"this device now uses noise key {node.identity.noise_public[:4].hex()}")

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
