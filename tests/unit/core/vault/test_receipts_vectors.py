"""The vectors of receipts, as the product reads them and as `tests/outside/receipt.py` does."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.ids import DeviceKey
from covey.core.vault.receipts import verify_receipt
from covey.errors import RemoteError
from tests.outside.receipt import InvalidError, verify
from tests.vectors import from_json, load, vectors

_KEY = DeviceKey(bytes.fromhex(load("receipts")["keys"]["alice"]["signing_public"]))


@pytest.mark.parametrize("vector", vectors("receipts"))
def test_the_product_and_the_outside_agree(vector: dict[str, Any]) -> None:
    raw = bytes.fromhex(vector["bytes"])
    if vector["code"] is None:
        mine, theirs = verify_receipt(raw, _KEY), verify(raw, _KEY)
        expected = from_json(vector["reading"])
        assert [mine.name, mine.unit, mine.time_us, mine.value] == expected
        assert [theirs.name, theirs.unit, theirs.time, theirs.value] == expected
        return
    with pytest.raises(RemoteError) as refusal:
        verify_receipt(raw, _KEY)
    assert refusal.value.code == vector["code"]
    with pytest.raises(InvalidError):
        verify(raw, _KEY)
