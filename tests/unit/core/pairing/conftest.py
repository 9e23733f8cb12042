"""Two machines that know the same code."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from unittest import mock

import pytest
from spake2 import ed25519_basic

from tests.meeting import Meeting, inviter, joiner


@pytest.fixture(scope="package", autouse=True)
def _points_are_multiplied_once() -> Iterator[None]:
    """Remember points: the package multiplies in Python, which takes 3 ms, and most tests draw the same secrets."""
    multiply = ed25519_basic.Element.scalarmult

    @cache
    def product(point: tuple[int, ...], factor: int) -> object:
        return multiply(ed25519_basic.Element(point), factor)

    with (
        mock.patch.object(ed25519_basic.Element, "scalarmult", lambda point, factor: product(point.XYTZ, factor)),
        mock.patch.object(ed25519_basic, "bytes_to_element", cache(ed25519_basic.bytes_to_element)),
    ):
        yield


@pytest.fixture
def meeting() -> Meeting:
    """Return them before either has said a word."""
    return Meeting(inviter(), joiner())
