"""The independent ledger: what the edge acknowledged, against what came out at the hub.

It knows messages by their numbers alone, and uses nothing of any system.

1. A message is *acknowledged* when the edge has answered the producer that it has it.
2. It is *not delivered* if it was acknowledged and has not arrived when the rig stops waiting. It is *lost* if it has
   not arrived after a restart of every program either.
3. It is a *duplicate* each time that it arrives again, except as the same place in the hub's own queue: that is what a
   hub offers its consumers to recognise a repetition by.
4. It is *changed* if its bytes are not those that the producer sent, or name no message at all.
5. A system has *recovered* when everything that arrives of what was acknowledged before the end of the fault has
   arrived, and also one message that was produced after it. If no such message arrives, it has not.
"""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import dataclass

SIZE = 200
"""Bytes of a message."""


@dataclass(frozen=True, slots=True)
class Balance:
    """What a ledger says at the end; `recovery_s` is None if the system has not recovered."""

    acknowledged: int
    undelivered: int
    lost: int
    duplicates: int
    changed: int
    recovery_s: float | None


def content(number: int) -> bytes:
    """Return the message of a number: the number, then bytes that follow from it."""
    head = b"%d " % number
    return head + hashlib.shake_256(head).hexdigest((SIZE - len(head)) // 2 + 1).encode()[: SIZE - len(head)]


class Ledger:
    """Filled by the producer and the consumer, which are threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._acknowledged: dict[int, float] = {}
        self._arrived: dict[int, float] = {}
        self._places: dict[object, bytes] = {}
        self._duplicates = self._changed = 0
        self._first_after: int | None = None
        self._fault_ended = 0.0

    def acknowledge(self, number: int) -> None:
        """Note that the edge has answered that it has this message."""
        with self._lock:
            self._acknowledged.setdefault(number, time.monotonic())

    def arrive(self, place: object, payload: bytes) -> None:
        """Note what the hub handed out; `place` names it in the hub's queue, None if the hub has no names."""
        with self._lock:
            if place is not None and self._places.get(place) == payload:
                return
            self._places[place] = payload
            number = _number(payload)
            if number is None:
                self._changed += 1
            elif number in self._arrived:
                self._duplicates += 1
            else:
                self._arrived[number] = time.monotonic()

    def end_fault(self, next_number: int) -> None:
        """Note that the fault is over, and the number of the next message that the producer makes."""
        with self._lock:
            self._fault_ended, self._first_after = time.monotonic(), next_number

    @property
    def acknowledged(self) -> int:
        """How many messages the edge has acknowledged."""
        return len(self._acknowledged)

    @property
    def missing(self) -> int:
        """How many acknowledged messages have not arrived."""
        with self._lock:
            return len(self._acknowledged.keys() - self._arrived.keys())

    @property
    def arrivals(self) -> int:
        """How much has arrived, whatever it was."""
        with self._lock:
            return len(self._arrived) + self._duplicates + self._changed

    @property
    def delivers_new(self) -> bool:
        """Whether a message has arrived that was produced after the fault."""
        with self._lock:
            return self._new_arrival() is not None

    def balance(self) -> Balance:
        """Return the sums as they are now."""
        missing = self.missing
        with self._lock:
            recovered = new = self._new_arrival()
            if new is not None:
                old = [
                    self._arrived[number]
                    for number, since in self._acknowledged.items()
                    if since <= self._fault_ended and number in self._arrived
                ]
                recovered = max([new, *old])
            return Balance(
                len(self._acknowledged),
                missing,
                missing,
                self._duplicates,
                self._changed,
                None if recovered is None else round(recovered - self._fault_ended, 1),
            )

    def _new_arrival(self) -> float | None:
        first = self._first_after
        if first is None:
            return None
        return min((at for number, at in self._arrived.items() if number >= first), default=None)


def _number(payload: bytes) -> int | None:
    """Return the number of a message that is as it was sent, else None."""
    head, _, _ = payload.partition(b" ")
    if not head.isdigit() or len(head) > 12:
        return None
    return int(head) if content(int(head)) == payload else None
