"""What members say of files: bodies that are taken and refused."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.content.messages import ContentAcknowledgement, ContentPart, ContentPull
from covey.errors import RemoteError
from covey.limits.content import CHUNK_BYTES
from tests.vectors import vectors

_KINDS: dict[str, Any] = {"pull": ContentPull, "part": ContentPart, "acknowledgement": ContentAcknowledgement}


@pytest.mark.parametrize("entry", vectors("content", "bodies"))
def test_bodies_are_taken_and_refused_as_the_vectors_say(entry: dict[str, Any]) -> None:
    kind, body = _KINDS[entry["kind"]], bytes.fromhex(entry["bytes"])
    if entry["code"] is None:
        assert kind.from_wire(body).to_wire() == body
        return
    with pytest.raises(RemoteError) as refused:
        kind.from_wire(body)
    assert refused.value.code == entry["code"]


def test_a_part_is_no_larger_than_a_chunk() -> None:
    largest = ContentPart(bytes(32), 0, bytes(CHUNK_BYTES))  # type: ignore[arg-type]
    assert ContentPart.from_wire(largest.to_wire()) == largest
    with pytest.raises(RemoteError) as refused:
        ContentPart.from_wire(ContentPart(bytes(32), 0, bytes(CHUNK_BYTES + 1)).to_wire())  # type: ignore[arg-type]
    assert refused.value.code == "limit"
