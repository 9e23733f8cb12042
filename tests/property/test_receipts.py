"""No forgery of a receipt proves what its device has not signed; `bench/messages/forgeries.py` tries a million."""

from __future__ import annotations

import pytest

from tests.receipt_forgeries import Forger


@pytest.mark.parametrize("seed", range(4))
def test_no_forgery_is_accepted(seed: int) -> None:
    tally = Forger(seed).run(400)
    assert tally.accepted == []
    assert tally.harmless < tally.tried / 10, "most forgeries change what is said"


@pytest.mark.slow
def test_no_forgery_of_many_is_accepted() -> None:
    assert Forger(99).run(10_000).accepted == []
