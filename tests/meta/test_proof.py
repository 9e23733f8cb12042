"""Tests of the tests are marked `proof`, and no others are."""

from __future__ import annotations

import pytest

from tests.examples import Share, parameters
from tests.proof import begins, expected


def test_a_test_of_the_tests_without_the_mark_fails() -> None:
    with pytest.raises(AssertionError, match="mark it `proof`"), expected("this one", marked=False):
        begins()


def test_a_test_of_the_product_with_the_mark_fails() -> None:
    with pytest.raises(AssertionError, match="it is no `proof`"), expected("this one", marked=True):
        pass


def test_further_examples_are_left_to_the_proofs() -> None:
    marks = [[mark.name for mark in each.marks] for each in parameters(range(4), quick=1, plain=2)]
    assert marks == [[], ["slow"], ["proof"], ["proof"]]


def test_shares_have_each_case_once() -> None:
    found = [Share(number, 3).of("abcdefgh") for number in range(3)]
    assert found == [["a", "d", "g"], ["b", "e", "h"], ["c", "f"]]
