"""A command that goes to one wave of devices after the other, and stops if too many fail.

Each wave is a command of its own that lists its devices by key. All waves carry the same once-id, so a device runs it
once, whichever operator continues. Every wave contains the whole plan, so the history has all that another operator's
device needs. A release for several groups counts its waves over the devices of all of them (`plans.py`). A target reads
only the selector of the plan. On the wire `[selector, [1* count / [percent]], stop-percent, patience, soak, ? heard]`,
times in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from covey.core import crypto
from covey.core.ids import DeviceKey
from covey.core.orders.selector import Selector
from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.orders import MAXIMUM_SELECTED_DEVICES, MAXIMUM_WAVES

_Target = TypeVar("_Target")
_PERSON = b"covey/1 wave"
_FIELDS = 5


@dataclass(frozen=True, slots=True)
class Wave:
    """How many devices have the command given when this wave is under way: `devices`, or so many percent of all."""

    devices: int = 0
    percent: int = 0

    def size(self, total: int) -> int:
        """Return how many devices of a total that is; of percents the next whole number."""
        return min(total, self.devices or -(-total * self.percent // 100))

    def to_wire(self) -> object:
        """Return the number, or the percent in an array."""
        return self.devices or [self.percent]

    @classmethod
    def from_wire(cls, value: object) -> Wave:
        """Read a wave.

        Raises:
            RemoteError: it is none, or of nobody.
        """
        if isinstance(value, list):
            wave = cls(percent=cbor.record(value, "wave", cbor.uint(100))[0])
        else:
            wave = cls(devices=cbor.uint(MAXIMUM_SELECTED_DEVICES)(value))
        if not wave.devices and not wave.percent:
            raise MalformedError("a wave must have devices")
        return wave

    def __str__(self) -> str:
        """Return it as a person writes it."""
        return str(self.devices) if self.devices else f"{self.percent}%"


@dataclass(frozen=True, slots=True)
class RollOut:
    """The plan: its targets, its waves, and when it stops by itself.

    It stops if more than `stop_percent` of one wave's devices have failed, or fallen silent. A device has `patience_us`
    to report; then, all having reported, `soak_us` pass before the next wave. A device is silent that did it and is
    away by its own signs of life (`seen_within_us`: None), or not seen for so long; 0: none is.
    """

    selector: Selector
    waves: tuple[Wave, ...]
    stop_percent: int
    patience_us: int
    soak_us: int
    seen_within_us: int | None = None

    def to_wire(self) -> list[object]:
        """Return the plan's array."""
        waves = [wave.to_wire() for wave in self.waves]
        plan = [self.selector.to_wire(), waves, self.stop_percent, self.patience_us, self.soak_us]
        return plan if self.seen_within_us is None else [*plan, self.seen_within_us]

    @classmethod
    def from_wire(cls, value: object) -> RollOut:
        """Read a plan.

        Raises:
            RemoteError: malformed or beyond a bound.
        """
        says_when_seen = isinstance(value, list) and len(value) > _FIELDS
        selector, waves, *numbers = cbor.record(
            value,
            "roll-out",
            Selector.from_wire,
            cbor.many(Wave.from_wire, MAXIMUM_WAVES),
            cbor.uint(100),
            cbor.uint(),
            cbor.uint(),
            *([cbor.uint()] if says_when_seen else []),
        )
        if not waves:
            raise MalformedError("a roll-out must have a wave")
        return cls(selector, tuple(waves), *numbers)

    def next_wave(self, given: int, others: Sequence[_Target]) -> tuple[int, Sequence[_Target]] | None:
        """Return the number of the next wave, from 1 on, and who is in it.

        `given`: how many have the command, `others` are those that do not, in the order of their turns. None where the
        last wave is under way or over.
        """
        total = given + len(others)
        for number, wave in enumerate(self.waves, 1):
            if wave.size(total) > given:
                return number, others[: wave.size(total) - given]
        return None

    def stops(self, *, bad: int, given: int) -> bool:
        """Say whether so many of those of one wave are too many."""
        return bad * 100 > self.stop_percent * given


def in_turn(once: bytes, devices: Iterable[DeviceKey]) -> list[DeviceKey]:
    """Return devices in an order that differs for each release, but is the same for every reader."""
    return sorted(devices, key=lambda device: crypto.digest(_PERSON, once + device))
