"""`covey.core.checkpoints.graph`: what remains of what a checkpoint covers, part by part."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.checkpoints.graph import HistoryGraph, digest_of_parts
from covey.errors import RemoteError
from tests.vectors import vectors


@pytest.mark.parametrize("vector", vectors("checkpoints", "graphs"))
def test_vectors(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is None:
        graph = HistoryGraph.from_wire(body)
        assert graph.to_wire() == body
        assert digest_of_parts(graph.hashes).hex() == vector["graph"]
    else:
        with pytest.raises(RemoteError) as refused:
            HistoryGraph.from_wire(body)
        assert refused.value.code == vector["code"]


@pytest.mark.parametrize("cut", [0, 1, 100, -1])
def test_a_truncated_graph_is_refused(cut: int) -> None:
    [vector] = [each.values[0] for each in vectors("checkpoints", "graphs") if each.values[0]["code"] is None]
    body = bytes.fromhex(vector["bytes"])
    with pytest.raises(RemoteError):
        HistoryGraph.from_wire(body[:cut])
