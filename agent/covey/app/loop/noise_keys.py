"""This device's noise key: rotation by a person or by age, and deletion of earlier keys.

`core/membership/rotation.py` says when a key may be replaced or deleted (docs/protocol/groups.md, section 35).

1. The store keeps a key's age with its public half; a key drawn by a command counts from the first look on. A clock
   that went back does not make a key younger than possible.
2. The new key is in the file before any device is notified. After a crash, the maintenance of groups completes the
   rest: it announces the current key to every group that lists a retired one.
3. Without a relay nobody can be notified, so the agent rotates nothing.
4. A command draws a key in its own process; the agent finds it in the file (`KeyReload`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from covey.core.membership.rotation import announcement_bytes, rotation_due_us
from covey.core.node import Node
from covey.core.now import Now
from covey.errors import LocalError
from covey.limits.key import RETIRED_NOISE_KEY_US_MAX
from covey.ports import Report, Transactions

if TYPE_CHECKING:
    from covey.adapters.keys.noise_key_file import NoiseKeyFile
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.device.device import Device


KEY_CONDITION = "noise key"
"""The name under which the store keeps the key in use, and since when it is."""

_ROTATION_LOOK_US = 600_000_000
_WIPE_LOOK_US = 60_000_000


@dataclass(frozen=True, slots=True)
class RetiredKey:
    """A noise key from before a rotation, deleted at `latest_us` at the latest; `listed`: a group still names it."""

    public: bytes
    listed: bool
    latest_us: int


def rotate_noise_key(device: Device) -> None:
    """Store a new key, then tell every group: what a crash leaves undone, the agent or the next rotation finishes."""
    with device.store.transaction():
        device.node.refresh()
        device.folder.noise_keys.rotate(device.node.identity, device.clock.wall_us())
        device.node.actions.rotate_noise_key(device.now())


def retired_keys(device: Device) -> list[RetiredKey]:
    """Return the noise keys that are kept until all members know the new one."""
    listed = {
        own.keys.noise_public
        for group in device.node.groups.joined()
        if (own := group.member(device.node.identity.signing_public)) is not None
    }
    return [
        RetiredKey(key.public, key.public in listed, key.retired_at_us + RETIRED_NOISE_KEY_US_MAX)
        for key in device.node.identity.noise.retired
    ]


class KeyReload:
    """The role that takes up a key that a command has drawn, and deletes the ones whose time is over."""

    def __init__(self, file: NoiseKeyFile, store: Transactions, report: Report) -> None:
        self._file = file
        self._store = store
        self._report = report
        self._stamp: tuple[int, int] | None = None
        self._look_at_us = 0

    def turn(self, node: Node, now: Now) -> int | None:
        """Look; return when to look again, where anything is retired."""
        stamp = self._file.stamp()
        if stamp != self._stamp:
            self._file.refresh(node.identity)
            self._stamp = stamp
        if not node.identity.noise.retired:
            return None
        if now.monotonic_us >= self._look_at_us:
            self._look_at_us = now.monotonic_us + _WIPE_LOOK_US
            publics = node.actions.noise_keys_to_wipe(now)
            if publics:
                with self._store.transaction():
                    self._file.forget(node.identity, publics)
                for public in publics:
                    self._report("notice", f"deleted the earlier noise key {public[:4].hex()}")
        return self._look_at_us

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""


class KeyRotation:
    """The role that rotates the key when it is old enough; an interval of 0 leaves that to a person."""

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
        self._look_at_us = now.monotonic_us + _ROTATION_LOOK_US
        since_us = self._since_us(node, now)
        if self._is_due(node, now, since_us) and self._has_room(node) and node.actions.may_rotate(now):
            self._rotate(node, now)
        return self._look_at_us

    def _is_due(self, node: Node, now: Now, since_us: int) -> bool:
        if not self._interval_us or not node.state.windows.is_connected:
            return False
        return now.wall_us >= rotation_due_us(node.groups, node.identity.noise_public, since_us, self._interval_us)

    def _has_room(self, node: Node) -> bool:
        """Say whether the announcements leave half of the outbox to what waits for others."""
        return self._store.outbox.totals()[1] + announcement_bytes(node.groups) <= self._outbox_bytes // 2

    def _since_us(self, node: Node, now: Now) -> int:
        """Return since when the current key is in use, and note it (rule 1)."""
        public = node.identity.noise_public.hex()
        noted, since_us = self._store.conditions.values().get(KEY_CONDITION, ("", 0))
        if noted == public and since_us <= now.wall_us:
            return since_us
        with self._store.transaction():
            self._store.conditions.set(KEY_CONDITION, public, now.wall_us)
        return now.wall_us

    def _rotate(self, node: Node, now: Now) -> None:
        try:
            with self._store.transaction():
                self._file.rotate(node.identity, now.wall_us)
                node.actions.rotate_noise_key(now)
                self._store.conditions.set(KEY_CONDITION, node.identity.noise_public.hex(), now.wall_us)
        except LocalError as error:
            node.discard()  # the key is stored, perhaps: then the maintenance of groups tells it later
            self._report("warning", f"the new noise key was not sent to every group: {error}")
        else:
            self._report("notice", f"this device now uses noise key {node.identity.noise_public[:4].hex()}")

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""
