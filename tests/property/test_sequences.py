"""`SequenceSet` against a plain set of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from covey.core.ids import Incarnation
from covey.core.wire.message import Acknowledgement
from covey.core.wire.sequences import SequenceSet

_LARGEST = 60
numbers = st.sets(st.integers(1, _LARGEST))
spans = st.tuples(st.integers(1, _LARGEST), st.integers(0, 8)).map(lambda span: (span[0], span[0] + span[1]))


def _made(model: set[int]) -> SequenceSet:
    result = SequenceSet()
    for number in sorted(model, key=lambda each: each * 37 % 61):
        result = result.add(number)
    return result


def _members(result: SequenceSet) -> set[int]:
    return {number for number in range(1, _LARGEST + 20) if number in result}


def _is_canonical(result: SequenceSet) -> bool:
    previous = result.upto
    for low, high in result.ranges:
        if low <= previous + 1 or high < low:
            return False
        previous = high
    return result.upto >= 0


@given(st.lists(spans, max_size=30))
def test_adding(added: list[tuple[int, int]]) -> None:
    result, model = SequenceSet(), set[int]()
    for first, last in added:
        result = result.add(first, last)
        model.update(range(first, last + 1))
        assert _members(result) == model
        assert _is_canonical(result)
        assert result.highest() == max(model)
        missing = set(range(1, max(model))) - model
        assert {number for low, high in result.holes() for number in range(low, high + 1)} == missing


@given(numbers, st.lists(spans, max_size=8), st.integers(0, _LARGEST))
def test_adding_many_counting_and_cutting(model: set[int], added: list[tuple[int, int]], last: int) -> None:
    result = _made(model).including(added)
    model = model.union(*(range(low, high + 1) for low, high in added))
    assert _members(result) == model
    assert result.count() == len(model)
    cut = result.up_to(last)
    assert _members(cut) == {number for number in model if number <= last}
    assert _is_canonical(cut)
    assert {number for number in range(1, _LARGEST + 20) if result.continues(number)} == (
        model | {number + 1 for number in model} | {1}
    ) & set(range(1, _LARGEST + 20))


@given(numbers, numbers)
def test_taking_out(model: set[int], taken: set[int]) -> None:
    result = _made(model).without(taken)
    assert _members(result) == model - taken
    assert _is_canonical(result)


@given(numbers, st.lists(spans, max_size=8))
def test_taking_out_ranges(model: set[int], taken: list[tuple[int, int]]) -> None:
    result = _made(model).excluding(taken)
    assert _members(result) == model.difference(*(range(low, high + 1) for low, high in taken))
    assert _is_canonical(result)
    assert result.spans() == SequenceSet(0).including(result.spans()).spans()


@given(st.permutations(list(range(1, 15))), st.integers(0, 14))
def test_the_order_of_arrival_makes_no_difference(order: list[int], count: int) -> None:
    result = SequenceSet()
    for number in order[:count]:
        result = result.add(number).add(number)
    assert result == _made(set(order[:count]))


@given(numbers, st.integers(0, 40))
def test_the_wire_loses_nothing_that_fits_and_adds_nothing(model: set[int], maximum: int) -> None:
    result = _made(model)
    reported = SequenceSet.from_wire(result.to_wire(maximum), maximum)
    assert _members(reported) <= model
    assert reported.upto == result.upto
    if len(result.ranges) <= maximum:
        assert reported == result


@given(numbers)
def test_an_acknowledgement_says_what_is_there(model: set[int]) -> None:
    acknowledgement = Acknowledgement(Incarnation(bytes(8)), _made(model))
    assert Acknowledgement.from_wire(acknowledgement.to_wire()) == acknowledgement
