"""`covey.core.wire.sequences`: examples; `tests/property` compares with a plain set."""

from __future__ import annotations

import pytest

from covey.core.wire.sequences import SequenceSet
from covey.errors import MalformedError
from covey.limits.message import MAXIMUM_SEQUENCE


def test_numbers_in_order_stay_one_run() -> None:
    numbers = SequenceSet()
    for number in range(1, 6):
        numbers = numbers.add(number)
    assert numbers == SequenceSet(5)
    assert list(numbers.holes()) == []


def test_a_hole_is_shown_until_it_is_filled() -> None:
    numbers = SequenceSet(3).add(5).add(8, 9)
    assert numbers == SequenceSet(3, ((5, 5), (8, 9)))
    assert list(numbers.holes()) == [(4, 4), (6, 7)]
    assert numbers.highest() == 9
    assert numbers.add(4) == SequenceSet(5, ((8, 9),))
    assert numbers.add(4, 7) == SequenceSet(9)


def test_ranges_that_meet_become_one() -> None:
    assert SequenceSet(0, ((5, 6), (8, 9))).add(7) == SequenceSet(0, ((5, 9),))
    assert SequenceSet(0, ((5, 6), (8, 9))).add(2, 20) == SequenceSet(0, ((2, 20),))
    assert SequenceSet(4).add(2, 3) == SequenceSet(4)


def test_taking_out_opens_holes() -> None:
    assert SequenceSet(9).without([4, 9]) == SequenceSet(3, ((5, 8),))
    assert SequenceSet(2, ((5, 7),)).without([1, 6]) == SequenceSet(0, ((2, 2), (5, 5), (7, 7)))
    assert SequenceSet(2).without([1, 2]) == SequenceSet()
    assert SequenceSet(2).without([]) == SequenceSet(2)


def test_membership() -> None:
    numbers = SequenceSet(2, ((5, 7), (9, MAXIMUM_SEQUENCE)))
    assert [number for number in range(1, 12) if number in numbers] == [1, 2, 5, 6, 7, 9, 10, 11]
    assert MAXIMUM_SEQUENCE in numbers


def test_the_wire_holds_only_the_one_shape() -> None:
    numbers = SequenceSet(2, ((5, 7), (9, 9)))
    assert numbers.to_wire(5) == [2, [[5, 7], [9, 9]]]
    assert numbers.to_wire(1) == [2, [[5, 7]]]
    assert SequenceSet.from_wire([2, [[5, 7], [9, 9]]], 2) == numbers
    for wrong in ([2, [[3, 4]]], [2, [[5, 7], [8, 9]]], [2, [[9, 9], [5, 7]]], [2, [[7, 5]]], [2, [5, 7]], [2]):
        with pytest.raises(MalformedError):
            SequenceSet.from_wire(wrong, 5)
