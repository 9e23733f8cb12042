"""`covey.core.wire.heads`: digests and reports, against the committed vectors."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.ids import GroupId, ManifestHash, NoisePublic, OperationId
from covey.core.wire.heads import GroupHead, HeadsReport, agree, head_digest, history_digest, shared_digest
from covey.errors import RemoteError
from tests.vectors import vectors


@pytest.mark.parametrize("vector", vectors("heads", "digests"))
def test_digests(vector: dict[str, Any]) -> None:
    heads = [ManifestHash(bytes.fromhex(each)) for each in vector["heads"]]
    assert head_digest(heads).hex() == head_digest(reversed(heads)).hex() == vector["digest"]


@pytest.mark.parametrize("vector", vectors("heads", "histories"))
def test_digests_of_histories(vector: dict[str, Any]) -> None:
    heads = [OperationId(bytes.fromhex(each)) for each in vector["heads"]]
    assert history_digest(heads).hex() == history_digest(reversed(heads)).hex() == vector["digest"]


@pytest.mark.parametrize("vector", vectors("heads", "shared"))
def test_the_shared_digest_ignores_order(vector: dict[str, Any]) -> None:
    heads = [
        GroupHead(GroupId(bytes.fromhex(group)), number, bytes.fromhex(digest), bytes.fromhex(history or "") or None)
        for number, (group, digest, history) in enumerate(vector["groups"])
    ]
    assert shared_digest(heads).hex() == shared_digest(reversed(heads)).hex() == vector["shared"]


@pytest.mark.parametrize("vector", vectors("heads", "agreements"))
def test_agreements(vector: dict[str, Any]) -> None:
    one, other = (GroupId(bytes.fromhex(vector[key])) for key in ("one", "other"))
    assert agree(one, other) is agree(other, one) is vector["agree"]


@pytest.mark.parametrize("vector", vectors("heads", "bodies"))
def test_bodies(vector: dict[str, Any]) -> None:
    body = bytes.fromhex(vector["bytes"])
    if vector["code"] is not None:
        with pytest.raises(RemoteError) as caught:
            HeadsReport.from_wire(body)
        assert caught.value.code == vector["code"]
        return
    wants_answer, heads, *rest = vector["report"]
    expected = tuple(
        GroupHead(GroupId(bytes.fromhex(group)), version, *map(bytes.fromhex, digests))
        for group, version, *digests in heads
    )
    report = HeadsReport.from_wire(body)
    opens = NoisePublic(bytes.fromhex(rest[1])) if len(rest) > 1 else None
    assert report == HeadsReport(wants_answer, expected, takes_tags=rest[:1] == [True], opens=opens)
    assert (report.to_wire() == body) is vector["exact"]
