"""The role that reports this device's packages, and what a collector keeps of such reports.

1. The list is sent when it has changed, when telemetry goes to another collector, and each `PACKAGES_REPEATED_US`:
   one signed batch like any other, which the tables have too. What was sent is noted in the commit that queues it.
2. A collector keeps the newest list of each device when it lands it. Only messages that are long enough for a list
   and name its series are opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from covey.core.node import Node
from covey.core.now import Now
from covey.core.telemetry import packages
from covey.core.telemetry.decoding import read_telemetry
from covey.core.vault.landed_records import RecordKind, record_kind
from covey.core.wire.message import MessageType, read_message
from covey.errors import LimitError, RemoteError
from covey.limits.telemetry import PACKAGES_LOOK_US, PACKAGES_REPEATED_US
from covey.ports import Report

if TYPE_CHECKING:
    from covey.adapters.sensors.packages import InstalledPackages
    from covey.adapters.sqlite.store import SqliteStore
    from covey.app.telemetry.publisher import Outflow
    from covey.core.vault.landing import LandedMessage


_CONDITION = "packages"
_SHORTEST = 200
"""Bytes of a message that may hold a list: shorter ones have no twenty packages."""


class PackageReport:
    """Sends the list of installed packages."""

    def __init__(self, installed: InstalledPackages, outflow: Outflow, store: SqliteStore, report: Report) -> None:
        self._installed = installed
        self._outflow = outflow
        self._store = store
        self._report = report
        self._due_us: int | None = None
        self._packed: bytes | None = None
        """The list as it is now."""
        self._waits = ""
        """What the condition is to say of the list that waits to be queued."""

    def turn(self, node: Node, now: Now) -> int:
        """Look whether the list has changed; return when to be called next, in monotonic microseconds."""
        if self._due_us is None or now.monotonic_us >= self._due_us:
            self._due_us = now.monotonic_us + PACKAGES_LOOK_US
            self._look(node, now)
        return self._due_us

    def stop(self, node: Node, now: Now) -> None:
        """End nothing: what is sent is committed at once."""

    def _look(self, node: Node, now: Now) -> None:
        found = self._installed.changed()
        if found is not None:
            try:
                self._packed = packages.packed(found)
            except LimitError as error:
                self._packed = None
                self._report("warning", f"the list of packages is not sent: {error}")
        if self._packed is None or not self._outflow.wanted(node) or self._outflow.full:
            return
        collectors = (node.groups.collector_of(group.group_id) for group in node.groups.joined())
        whom = next((each.keys.signing_public.hex() for each in collectors if each is not None), "")
        state = f"{packages.digest_of(self._packed).hex()[:16]} {whom[:16]}"
        sent, sent_us = self._store.conditions.values().get(_CONDITION, ("", 0))
        if sent == state and 0 <= now.wall_us - sent_us < PACKAGES_REPEATED_US:
            return
        if not self._outflow.waiting:  # a list that could not be queued the last time is still there
            for place, piece in enumerate(packages.pieces(self._packed)):
                self._outflow.add(packages.SERIES, "", now.monotonic_us + place, piece)
            self._waits = state
        state = self._waits

        def queued(work: Callable[[], int]) -> int:
            readings = work()
            self._store.conditions.set(_CONDITION, state, now.wall_us)
            return readings

        self._outflow.flush(node, now, queued)


def keep_inventories(store: SqliteStore, node: Node, landed: Iterable[LandedMessage]) -> None:
    """Keep the newest list of packages of each member whose list is among landed messages. Inside a transaction."""
    for each in landed:
        if len(each.message) < _SHORTEST or record_kind(each.message) is not RecordKind.MESSAGE:
            continue
        try:
            message = read_message(each.message, verify=False)
            if message.type is not MessageType.TELEMETRY or packages.SERIES.encode() not in message.body:
                continue
            _, batch = read_telemetry(message.body)
        except RemoteError:
            continue
        values = [value for name, _, _, value in batch.readings() if name == packages.SERIES]
        content = packages.joined(value for value in values if isinstance(value, bytes))
        if content is not None:
            store.inventories.keep(message.author, message.seq, each.received_at_us, content)
            members = {member.keys.signing_public for group in node.groups.joined() for member in group.members}
            store.inventories.forget_others(members)
