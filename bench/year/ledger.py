"""The independent ledger: what agents acknowledged and what programs obeyed, against the tables and the last order.

It uses nothing of Covey's.

1. A reading is a device's own number, which counts up. It is *acknowledged* when the agent has answered the program
   that measured it. One that is refused, because the disk is full, is offered again.
2. At the end each acknowledged number is in the tables once. Otherwise it is *missing* or a *duplicate*; a row that is
   of no such number is *foreign*.
3. A reading's time is *wrong* if it differs from the right time by more than `TOLERANCE_S`, though the device's clock
   was right until it had left the device's memory in a message, which says how the clock went.
4. A program is handed orders with growing numbers. One that is lower than one before is *stale*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

TOLERANCE_S = 900.0
"""A reading is handed over right after a jump, and an agent on a busy machine is slow: some seconds of its time are
many seconds of the world's."""

_UNSEALED = 3
"""A message is made a minute after its first reading. An agent on a busy machine may be some hours late."""


@dataclass(slots=True)
class Balance:
    """What the ledger says of one device."""

    device: str
    acknowledged: int
    missing: int
    duplicates: int
    foreign: int
    wrong_times: list[tuple[int, int]]
    """Numbers, and by how many seconds their times are wrong."""
    orders: int
    stale: int
    obeys_newest: bool

    @property
    def is_right(self) -> bool:
        """Whether everything was read once, and the newest order holds."""
        return self.obeys_newest and not (
            self.missing or self.duplicates or self.foreign or self.wrong_times or self.stale
        )


@dataclass(slots=True)
class Account:
    """One device's part of the ledger."""

    device: str
    acknowledged: dict[int, float | None] = field(default_factory=dict)
    """The right time of each number, in seconds since 1970; None where the clock was wrong."""
    pending: list[int] = field(default_factory=list)
    """Numbers that were refused so far."""
    obeyed: list[int] = field(default_factory=list)
    refused: int = 0
    next: int = 0

    def measure(self) -> list[int]:
        """Make one more number; return all that are to be offered, the oldest first."""
        self.pending.append(self.next)
        self.next += 1
        return list(self.pending)

    def acknowledge(self, number: int, at_s: float | None) -> None:
        """Note that the agent has it."""
        self.acknowledged[number] = at_s
        self.pending.remove(number)

    def clear_newest_times(self) -> None:
        """Note that the clock is set wrong before the newest readings are in a message."""
        for number in list(self.acknowledged)[-_UNSEALED:]:
            self.acknowledged[number] = None

    def obey(self, order: int) -> None:
        """Note what the device's program was handed."""
        if not self.obeyed or self.obeyed[-1] != order:
            self.obeyed.append(order)

    def balance(self, rows: Iterable[tuple[float, float | None]], newest: int) -> Balance:
        """Compare with the rows of the tables: number, and time in seconds since 1970; None of one that is unknown."""
        found: Counter[float] = Counter()
        wrong_times = []
        for number, at_s in rows:
            found[number] += 1
            right_s = self.acknowledged.get(int(number))
            if right_s is not None and at_s is not None and abs(at_s - right_s) > TOLERANCE_S:
                wrong_times.append((int(number), round(at_s - right_s)))
        foreign = found.keys() - self.acknowledged.keys()
        return Balance(
            self.device,
            len(self.acknowledged),
            len(self.acknowledged.keys() - found.keys()),
            sum(times - 1 for number, times in found.items() if number not in foreign),
            sum(found[number] for number in foreign),
            wrong_times,
            len(self.obeyed),
            sum(later < before for before, later in zip(self.obeyed, self.obeyed[1:], strict=False)),
            bool(self.obeyed) and self.obeyed[-1] == newest,
        )
