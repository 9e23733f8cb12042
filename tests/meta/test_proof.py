"""Tests of the tests are marked `proof`, and no others are."""

from __future__ import annotations

import pytest

from tests.proof import begins, expected


def test_a_test_of_the_tests_without_the_mark_fails() -> None:
    with pytest.raises(AssertionError, match="mark it `proof`"), expected("this one", marked=False):
        begins()


def test_a_test_of_the_product_with_the_mark_fails() -> None:
    with pytest.raises(AssertionError, match="it is no `proof`"), expected("this one", marked=True):
        pass
