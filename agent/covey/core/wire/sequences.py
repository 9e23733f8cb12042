"""A set of positive integers that is nearly contiguous: what a link has received.

Stored as `upto` (everything from 1 to it) and disjoint ascending ranges beyond it. Acknowledgements and the store use
the same shape.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from covey.core.wire import cbor
from covey.errors import MalformedError
from covey.limits.message import MAXIMUM_SEQUENCE

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SequenceSet:
    """Numbers from 1 on, each of one message: of a link in one incarnation of its author, or of an author's batches.

    A number in the set was received, or is known never to come. Numbers are never removed: `upto` says that all numbers
    from 1 to it are in, `ranges` are the inclusive ones beyond. The receiver limits the number of ranges
    (`link/receiver.py`). Immutable: every operation returns a new set.
    """

    upto: int = 0
    ranges: tuple[Range, ...] = ()

    def __contains__(self, number: int) -> bool:
        if number <= self.upto:
            return True
        index = bisect_right(self.ranges, (number, MAXIMUM_SEQUENCE)) - 1
        return index >= 0 and self.ranges[index][0] <= number <= self.ranges[index][1]

    def add(self, first: int, last: int | None = None) -> SequenceSet:
        """Return the set with `first` to `last` (inclusive) in it."""
        last = first if last is None else last
        if not self.ranges and first == self.upto + 1:
            return SequenceSet(last)
        return self.including([(first, last)])

    def including(self, spans: Iterable[Range]) -> SequenceSet:
        """Return the set with all numbers of some ranges in it, in one pass."""
        merged: list[Range] = []
        for low, high in sorted([*self.ranges, *spans]):
            if merged and low <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
            else:
                merged.append((low, high))
        upto = self.upto
        while merged and merged[0][0] <= upto + 1:
            upto = max(upto, merged.pop(0)[1])
        return SequenceSet(upto, tuple(merged))

    def without(self, numbers: Iterable[int]) -> SequenceSet:
        """Return the set with some numbers taken out."""
        result: list[Range] = []
        holes = sorted(set(numbers))
        for low, high in self.spans():
            start = low
            for hole in holes[bisect_left(holes, low) : bisect_right(holes, high)]:
                if start < hole:
                    result.append((start, hole - 1))
                start = hole + 1
            if start <= high:
                result.append((start, high))
        upto = result.pop(0)[1] if result and result[0][0] == 1 else 0
        return SequenceSet(upto, tuple(result))

    def excluding(self, spans: Iterable[Range]) -> SequenceSet:
        """Return the set without all numbers of some ranges, in one pass."""
        remaining: list[Range] = []
        excluded = deque(SequenceSet().including(spans).spans())
        for low, high in self.spans():
            start = low
            while excluded and excluded[0][0] <= high:
                first, last = excluded[0]
                if start < first:
                    remaining.append((start, first - 1))
                start = max(start, last + 1)
                if last > high:
                    break
                excluded.popleft()
            if start <= high:
                remaining.append((start, high))
        return SequenceSet().including(remaining)

    def spans(self) -> list[Range]:
        """Return all that is in the set as ranges, ascending."""
        return [(1, self.upto), *self.ranges] if self.upto else list(self.ranges)

    def up_to(self, last: int) -> SequenceSet:
        """Return the part of the set that is not above a number."""
        ranges = tuple((low, min(high, last)) for low, high in self.ranges if low <= last)
        return SequenceSet(min(self.upto, last), ranges)

    def continues(self, number: int) -> bool:
        """Say whether a number is in the set, or the next after one that is."""
        return number in self or number - 1 in self

    def highest(self) -> int:
        """Return the largest number in the set, or 0."""
        return self.ranges[-1][1] if self.ranges else self.upto

    def count(self) -> int:
        """Return how many numbers are in the set."""
        return self.upto + sum(last - first + 1 for first, last in self.ranges)

    def holes(self) -> Iterator[Range]:
        """Yield what is missing below `highest()`, oldest first."""
        expected = self.upto + 1
        for low, high in self.ranges:
            yield expected, low - 1
            expected = high + 1

    def to_wire(self, maximum_ranges: int) -> list[object]:
        """Return `[upto, [[first, last], ...]]` with at most so many ranges, oldest first."""
        return [self.upto, [list(span) for span in self.ranges[:maximum_ranges]]]

    @classmethod
    def from_wire(cls, value: object, maximum_ranges: int) -> SequenceSet:
        """Parse `to_wire`'s shape.

        Raises:
            MalformedError: ranges that are empty, overlap, touch or do not ascend.
        """
        upto, spans = cbor.record(value, "sequences", cbor.uint(MAXIMUM_SEQUENCE), cbor.many(_span, maximum_ranges))
        previous = upto
        for low, high in spans:
            if low <= previous + 1 or high < low:
                raise MalformedError("sequence ranges must be disjoint and ascend")
            previous = high
        return cls(upto, spans)


def _span(value: object) -> Range:
    first, last = cbor.record(value, "range", cbor.uint(MAXIMUM_SEQUENCE), cbor.uint(MAXIMUM_SEQUENCE))
    return first, last


def read_range(value: object) -> Range:
    """Return a range of numbers from 1 on, which is not empty.

    Raises:
        MalformedError: anything else.
    """
    first, last = _span(value)
    if not 1 <= first <= last:
        raise MalformedError("a range is empty")
    return first, last


def are_apart(ranges: Sequence[Range]) -> bool:
    """Say whether ranges ascend and do not touch each other."""
    return all(before[1] + 1 < after[0] for before, after in pairwise(ranges))
