"""`DeviceApi` on the opened state: for commands while no agent answers, and for the agent's own local API.

A request that names an idempotency key queues its content once:

1. The key, a digest of the request and its result are stored in the commit that queues. A client that got no answer
   repeats the request with the same key and gets the first answer, from the agent or from the state.
2. The same key with different content is refused.
3. The latest `IDEMPOTENCY_KEYS` are kept.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from threading import Lock
from typing import TYPE_CHECKING

from covey.adapters.services import hint_for
from covey.app.checks.metrics import metrics_of
from covey.app.checks.status import outbox_of, status_of
from covey.app.device.device import pick_group
from covey.app.groups.groups import pick_member
from covey.app.loop.relay_loop import wait_until
from covey.app.telemetry.publisher import device_publisher
from covey.app.telemetry.publishing import readings_of_request
from covey.app.wording import count
from covey.client import Blob
from covey.core.ids import DeviceKey, GroupId, device_name
from covey.core.telemetry.line_protocol import read_lines
from covey.errors import CoveyError, IdempotencyError, LocalError, ReadingError, UsageError
from covey.limits.storage import IDEMPOTENCY_KEY_LENGTH

if TYPE_CHECKING:
    from covey.adapters.sqlite.counters import Idempotency
    from covey.app.checks.documents import Status
    from covey.app.device.device import Device
    from covey.app.history.documents import HistoryEntry
    from covey.app.history.pages import HistoryQuery
    from covey.app.relays.documents import HandedOver, Outbox
    from covey.app.telemetry.doors import DoorStatus
    from covey.app.telemetry.publisher import Publisher
    from covey.core.node import Node
    from covey.core.now import Now
    from covey.core.telemetry.reading import Reading


_DIGEST_BYTES = 16
_PARSING = Lock()
"""Requests are parsed one at a time: a parsed body takes many times its bytes."""


def check_key(key: str | None) -> None:
    """Check what a request names itself by, if it does, whether or not there is anything to do for it.

    Raises:
        UsageError: it is no key.
    """
    if key is not None and not (key.isascii() and key.isprintable() and 0 < len(key) <= IDEMPOTENCY_KEY_LENGTH):
        raise UsageError(f"an idempotency key must have 1 to {IDEMPOTENCY_KEY_LENGTH} printable ASCII characters")


def digest_of(*request: object) -> bytes:
    """Return what a request is recognised by, with its key."""
    return hashlib.blake2b(repr(request).encode(), digest_size=_DIGEST_BYTES).digest()


def once(records: Idempotency, key: str | None, digest: bytes, work: Callable[[], int]) -> int:
    """Do the work, unless the request that names this key was done before; return its result. Inside a transaction.

    Raises:
        IdempotencyError: another request named this key.
        UsageError: it is no key.
    """
    check_key(key)
    if key is None:
        return work()
    found = records.find(key)
    if found is None:
        result = work()
        records.keep(key, digest, result)
        return result
    if found[0] != digest:
        raise IdempotencyError(
            "another request used this idempotency key", hint="use a new key for each request; repeat it only to retry"
        )
    return found[1]


Commit = Callable[[Callable[["Node", "Now"], int], int], int]
"""Does some work, with content of so many bytes, in a transaction; returns its result once it is committed."""


class OpenedDevice:
    """Implements `device_api.DeviceApi`.

    Without a `commit` of its agent (`SharedCommits.commit`) each request to queue something is a commit of its own.
    """

    def __init__(self, device: Device, commit: Commit | None = None) -> None:
        self._device = device
        self._commit = commit or self._commit_alone

    def _commit_alone(self, work: Callable[[Node, Now], int], _size: int) -> int:
        with self._device.store.transaction():
            return work(self._device.node, self._device.now())

    def status(self) -> Status:
        return status_of(self._device)

    def outbox(self, limit: int) -> Outbox:
        return outbox_of(self._device, limit)

    def metrics(self, form: str) -> str:
        """Return the numbers as text in one of `metrics.FORMS`."""
        doors: list[DoorStatus] = []
        if self._device.folder.configuration.doors():
            from covey.app.telemetry.doors import door_statuses

            doors = door_statuses(self._device.folder, named=False)
        return metrics_of(self.status(), form, doors)

    def outlet(self, batch: int | None) -> IntoState:
        """Return where readings go, `batch` to a message."""
        return IntoState(self._device, batch)

    def publish(self, content: bytes, content_type: str, batch: int | None, key: str | None) -> int:
        """Queue a request's readings durably, all or none; return how many those were."""
        check_key(key)
        with _PARSING:
            publisher = device_publisher(self._device, batch)
            for each in readings_of_request(content, content_type, self._device.clock.monotonic_us()):
                publisher.add(each.name, each.unit, each.time_us, each.value)
            size = publisher.close()
        return self._queued(publisher, size, key, digest_of("publish", content, content_type, batch))

    def write_lines(self, content: bytes, precision: str, key: str | None = None) -> int:
        """Queue the readings of some lines of InfluxDB's protocol durably; return how many those were.

        A request with a key is recognised by it. Otherwise repeated lines are recognised if all have a time, because
        writers retry by themselves.

        Raises:
            ReadingError: some lines break a rule; the others are queued.
        """
        check_key(key)
        with _PARSING:
            lines, publisher = read_lines(content, precision), device_publisher(self._device)
            for each in lines.readings:
                publisher.add(each.name, each.unit, each.time_us, each.value)
            size = publisher.close()
            timed = all(each.time_us is not None for each in lines.readings)
            refused, reasons = lines.refused, lines.reasons
            del lines
        digest = hashlib.blake2b(precision.encode() + b" " + content, digest_size=16).hexdigest()
        named = f"lines {digest}" if timed and key is None else key
        request = digest_of("lines") if key is None else digest_of("lines", precision, content)
        queued = self._queued(publisher, size, named, request)
        if refused:
            more = f"; and {refused - len(reasons)} more" if refused > len(reasons) else ""
            raise ReadingError(
                f"{count(refused, 'line')} refused, {count(queued, 'reading')} of the others queued: "
                f"{'; '.join(reasons)}{more}"
            )
        return queued

    def _queued(self, publisher: Publisher, size: int, key: str | None, request: bytes) -> int:
        records = self._device.store.idempotency
        if not size:
            return 0
        try:
            return self._commit(
                lambda node, now: once(records, key, request, lambda: publisher.queue(node, now)),
                size,
            )
        except CoveyError:
            publisher.withdraw()
            raise

    def send(
        self, content: bytes, group: str | None, to: str | None, expires_s: int | None, key: str | None = None
    ) -> int:
        """Queue a blob durably; return for how many devices."""
        check_key(key)
        records = self._device.store.idempotency
        request = b"" if key is None else digest_of("send", content, group, to, expires_s or 0)
        lifetime_us = expires_s * 1_000_000 if expires_s else None

        def queue(node: Node, now: Now) -> int:
            manifest = pick_group(node, group)
            recipient = None if to is None else pick_member(manifest, to).keys.signing_public
            return node.send_blob(manifest.group_id, content, now, recipient, lifetime_us)

        return self._commit(lambda node, now: once(records, key, request, lambda: queue(node, now)), len(content))

    def send_ephemeral(self, content: bytes, group: str | None) -> int:
        """Refuse: only a running agent speaks with those who are there now.

        Raises:
            LocalError: always.
        """
        del content, group
        if self._device.folder.locks.agent_runs():
            raise LocalError(
                "an ephemeral message needs the agent's local API, which is off",
                hint="covey config set api.socket api.sock, and restart the agent",
            )
        raise LocalError(
            "an ephemeral message needs a running agent",
            hint=hint_for("covey", "start it: sudo systemctl start {unit}", "start it: covey run"),
        )

    def hand_over(self, to: str | None, seconds: float) -> HandedOver:
        """Have what waits, for one recipient or for all, kept by mailboxes at once; wait so long until it is.

        Raises:
            LocalError: something waits, and no group names a mailbox for it.
        """
        from covey.app.relays.mailbox import hand_over

        return hand_over(self._device, to, seconds)

    def receive(self, seconds: float, *, in_order: bool) -> Iterator[Blob]:
        """Yield the blobs that have arrived, waiting so long for the first."""
        store = self._device.store
        arrived = store.inbox.arrived_in_order if in_order else store.inbox.arrived
        if seconds and not arrived(1):
            wait_until(self._device, lambda: bool(arrived(1)), seconds)
        while rows := arrived(1):
            yield blob_of(rows[0])

    def delete(self, identifier: int) -> None:
        """Take a blob out of the inbox, durably."""
        inbox = self._device.store.inbox
        self._commit(lambda _node, _now: inbox.consume(identifier), 0)

    def history(self, query: HistoryQuery, *, follow: bool = False) -> Iterator[HistoryEntry]:
        """Yield what is wanted of a group's history, then perhaps what comes."""
        from covey.app.history.pages import pages

        event = ""
        for page in pages(self._device, query):
            event = page.event
            yield from page.entries
        if follow:
            yield from self._history_after(event, query)

    def _history_after(self, event: str, query: HistoryQuery) -> Iterator[HistoryEntry]:
        from covey.app.api.events import Events
        from covey.app.history.documents import HistoryEntry
        from covey.app.loop.following import Following

        following = Following(self._device.store, math.inf)
        group_id = self._device.pick_group(query.group).group_id
        events = Events(self._device, event, frozenset({"operation"}), group_id)
        while True:
            for found in events.read():
                if isinstance(found.data, HistoryEntry) and query.wants(found.data):
                    yield found.data
            following.wait()

    def waiting_after(self, seconds: float) -> int:
        """Return how many messages still wait after so long."""
        store = self._device.store
        wait_until(self._device, lambda: store.outbox.totals()[0] == 0, seconds)
        return store.outbox.totals()[0]


def blob_of(row: tuple[int, GroupId, DeviceKey, int, int, bytes]) -> Blob:
    """Return a blob of the store as programs get it."""
    identifier, group_id, author, sent_at_us, received_at_us, body = row
    return Blob(identifier, author.hex(), device_name(author), group_id.hex(), sent_at_us, received_at_us, body)


class IntoState:
    """Implements `device_api.Outlet`: batches are built here."""

    def __init__(self, device: Device, batch: int | None) -> None:
        self._device = device
        self._publisher = device_publisher(device, batch)

    def add(self, reading: Reading) -> bool:
        """Take a reading; return whether enough wait to be flushed."""
        return self._publisher.add(reading.name, reading.unit, reading.time_us, reading.value)

    def flush(self) -> int:
        """Queue what waits; return how many readings that were."""
        return self._publisher.flush(self._device.node)

    def flush_if_due(self) -> int:
        """Queue what has waited long enough."""
        due = self._publisher.due()
        return self.flush() if due is not None and self._device.clock.monotonic_us() >= due else 0
