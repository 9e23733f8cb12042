"""Envelopes that relays delivered: processed in one transaction a turn, acknowledged to the relay after the commit.

1. Only durable messages are acknowledged to a relay.
2. If the disk refuses, every delivery is held and tried again later. A relay delivers no more than its window (MQTT's
   receive maximum) without an acknowledgement, so held deliveries are bounded, and nothing stalls forever.
3. An envelope that triggers a defect affects no other one, whatever it raises: the transaction is rolled back, the node
   is built again from the store (ADR 4), the envelopes before it are committed without it, and it is quarantined as its
   author's message, or dropped. A normal turn pays nothing for this; a hostile envelope costs two nodes and two
   commits, and a turn handles a bounded number of them. A savepoint for each envelope would cost every normal turn two
   statements each, and leave the node's memory ahead of the store.
4. While more worthless envelopes arrive than a device handles (`core/link/rates.py`), every delivery is held. None is
   lost, because the relay keeps unacknowledged ones.
5. Dropped envelopes write one log line per author and minute; counters count each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from covey.app.loop.relays import Relays
from covey.core.events import EnvelopeDropped
from covey.core.group.device_labels import DeviceLabels
from covey.core.ids import DeviceKey
from covey.core.node import Node
from covey.core.now import Now
from covey.core.receiving.outcome import UNFORESEEN, Seen
from covey.errors import StorageError
from covey.limits.rate import DROPPED_LINE_US, DROPPED_LINES
from covey.ports import Delivered, Report

if TYPE_CHECKING:
    from covey.adapters.sqlite.store import SqliteStore


_HELD_US = 5_000_000
"""When deliveries that the disk has refused are tried again: often enough for people, and no load."""

_DEFECTS = 8
"""Envelopes of one turn that are set aside; others wait for the next one, as the watchdog and the roles must not."""


class Deliveries:
    """The envelopes that are not acknowledged to their relays yet.

    `renew_node` puts another node in the place of one whose transaction was rolled back, and returns it.
    """

    def __init__(self, store: SqliteStore, relays: Relays, renew_node: Callable[[], Node], report: Report) -> None:
        self._store = store
        self._relays = relays
        self._renew_node = renew_node
        self._report = report
        self._held: list[Delivered] = []
        self._until_us = 0
        self._reported_us: int | None = None

    def add(self, events: Sequence[Delivered]) -> None:
        """Hold what relays have delivered; it is due at once."""
        self._held += events
        if events:
            self._until_us = 0

    def forget(self, relay: str) -> None:
        """Drop deliveries of a relay whose connection is lost: it delivers them again."""
        self._held = [held for held in self._held if held.relay != relay]

    def next_deadline(self) -> int | None:
        """Return when `receive` should be called, in monotonic microseconds."""
        return self._until_us if self._held else None

    def receive(self, node: Node, now: Now) -> None:
        """Take in what is due.

        Raises:
            StorageError: the disk refuses; what is not committed stays held.
        """
        if not self._held or now.monotonic_us < self._until_us:
            return
        rests_us = node.receiving_rests_us(now)
        if rests_us:
            self._until_us = now.monotonic_us + rests_us
            self._report_rest(now)
            return
        self._until_us = now.monotonic_us + _HELD_US
        together, defects = len(self._held), 0
        while self._held and defects < _DEFECTS:
            batch, seen = self._held[:together], list[Seen | None]()
            try:
                with self._store.transaction():
                    seen.extend(node.receive_envelope(event.payload, now) for event in batch)
            except (StorageError, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001 - rule 3: which nobody has foreseen
                node = self._renew_node()
                if seen and len(batch) > 1:
                    together = len(seen) if len(seen) < len(batch) else len(batch) // 2  # that failed at the commit
                    continue
                node = self._set_aside(node, batch[0], error, now)
                defects += 1
            else:
                self._acknowledge(batch, seen)
            together = len(self._held)
        self._until_us = now.monotonic_us

    def _report_rest(self, now: Now) -> None:
        if self._reported_us is None or now.monotonic_us >= self._reported_us + DROPPED_LINE_US:
            self._reported_us = now.monotonic_us
            self._report("warning", "too many worthless envelopes arrive; new envelopes wait at the relay")

    def _acknowledge(self, batch: list[Delivered], seen: list[Seen | None]) -> None:
        received = ((found, event.relay) for event, found in zip(batch, seen, strict=True) if found is not None)
        for (found, relay), _ in groupby(received):
            self._relays.note_received(found.device, relay, news=found.news)
        for event in batch:
            self._relays.acknowledge(event)
        del self._held[: len(batch)]

    def _set_aside(self, node: Node, event: Delivered, defect: Exception, now: Now) -> Node:
        """Quarantine the message that triggered a defect; return the node to use from now on."""
        author = None
        try:
            with self._store.transaction():
                author = node.set_aside(event.payload, now)
        except StorageError:
            raise
        except Exception:  # noqa: BLE001 - it cannot even be kept
            node = self._renew_node()
            with self._store.transaction():
                self._store.counters.count(f"dropped_{UNFORESEEN}")
        whose = f" from {DeviceLabels(node.groups.joined()).named(author)}" if author else ""
        self._report("error", f"an envelope{whose} triggered a defect of Covey and was set aside: {_place(defect)}")
        self._acknowledge([event], [None])
        return node


def _place(defect: Exception) -> str:
    trace = defect.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" in {trace.tb_frame.f_code.co_qualname}, line {trace.tb_lineno}"
    return type(defect).__name__ + where


@dataclass(slots=True)
class _LastLine:
    at_us: int
    unreported: int = 0


class DroppedLines:
    """When each author last had a line, and how many envelopes had none since; of many authors, the rest share one."""

    def __init__(self, named: Callable[[DeviceKey], str]) -> None:
        """Begin without any; `named` returns a device's name and label, and is asked for lines alone."""
        self._named = named
        self._lines: dict[DeviceKey | None, _LastLine] = {}

    def dropped(self, event: EnvelopeDropped, now_us: int) -> str | None:
        """Return the line of an envelope; None where its author had a line a short time ago."""
        author = event.author
        if author not in self._lines and len(self._lines) >= DROPPED_LINES:
            author = None
        line = self._lines.get(author)
        if line is not None:
            line.unreported += 1
            return None
        self._lines[author] = _LastLine(now_us)
        return f"dropped an envelope{self._whose(author)}: {event.code}: {event.reason}"

    def due(self, now_us: int) -> Iterator[str]:
        """Yield the lines that count what had none of its own, a minute after the last line about the same author."""
        for author, line in list(self._lines.items()):
            if now_us < line.at_us + DROPPED_LINE_US:
                continue
            del self._lines[author]
            if line.unreported:
                self._lines[author] = _LastLine(now_us)
                yield f"dropped {line.unreported} more envelopes{self._whose(author)}; 'covey status' counts why"

    def _whose(self, author: DeviceKey | None) -> str:
        return f" from {self._named(author)}" if author else ""
