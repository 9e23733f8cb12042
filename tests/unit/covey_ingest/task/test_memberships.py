"""`covey_ingest.task.memberships`: landed manifests and profiles to rows; what is not signed goes into quarantine."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.vault.documents import SegmentRecord
from covey.core.vault.landed_records import landed_manifest
from tests.group_manifests import ANN, BEN, NOON_US, first, with_ben
from tests.unit.covey_ingest.recorded import recorded
from tests.vectors import load

pytest.importorskip("pyarrow", reason="the ingest is not installed")


def _rows(*raws: bytes) -> list[dict[str, Any]]:
    records = [SegmentRecord(NOON_US, raw, 1, index) for index, raw in enumerate(raws)]
    return [row for batch in recorded(records) for row in batch.to_pylist()]


def test_the_vector_gives_a_row_for_each_member_and_for_theprofile() -> None:
    [segment] = [each for each in load("vault")["segments"] if each["name"].startswith("a manifest")]
    rows = _rows(*(bytes.fromhex(raw) for _, raw in segment["records"]))
    assert {row["kind"] for row in rows} == {"membership"}
    assert [row["membership"]["title"] for row in rows] == [None] * (len(rows) - 1) + ["Pumpen"]
    assert len({row["group"] for row in rows}) == 1


def test_a_row_says_who_is_called_what_by_which_manifest() -> None:
    manifest = with_ben(first())
    rows = {row["author"]: row["membership"] for row in _rows(landed_manifest(manifest))}
    assert rows[BEN.signing_public.hex()] == {
        "said": manifest.hash.hex(),
        "version": 2,
        "signer": ANN.signing_public.hex(),
        "label": "barn",
        "role": "member",
        "board": False,
        "title": None,
    }
    assert rows.keys() == {ANN.signing_public.hex(), BEN.signing_public.hex()}


def test_a_manifest_not_signed_by_its_issuer_is_quarantined() -> None:
    raw = bytearray(landed_manifest(first()))
    raw[20] ^= 1  # in the signature
    [row] = _rows(bytes(raw))
    assert (row["kind"], row["reason"]) == ("quarantine", "signature")
    [row] = _rows(landed_manifest(first())[:-1])
    assert (row["kind"], row["reason"]) == ("quarantine", "malformed")
