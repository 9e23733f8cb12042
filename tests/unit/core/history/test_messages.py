"""`covey.core.history.messages`: the bodies, by the vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from covey.core.history.messages import HistoryPull, OperationBundle
from covey.errors import RemoteError
from tests.vectors import vectors

_READERS: dict[str, Callable[[bytes], OperationBundle | HistoryPull]] = {
    "OPERATIONS": OperationBundle.from_wire,
    "HISTORY_PULL": HistoryPull.from_wire,
}


@pytest.mark.parametrize("vector", vectors("history", "bodies"))
def test_bodies(vector: dict[str, Any]) -> None:
    body, read = bytes.fromhex(vector["body"]), _READERS[vector["type"]]
    if vector["code"] is None:
        assert read(body).to_wire() == body
        return
    with pytest.raises(RemoteError) as caught:
        read(body)
    assert caught.value.code == vector["code"]
