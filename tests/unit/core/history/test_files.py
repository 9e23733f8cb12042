"""Offers of files: what their bodies may be, and how a file is sealed for a group."""

from __future__ import annotations

from typing import Any

import pytest

from covey.core.crypto import aead_open, aead_seal, blake3_hash
from covey.core.history.files import FileOffer, bound_to, content_key
from covey.core.ids import GroupId
from covey.errors import RemoteError
from covey.limits.content import CHUNK_BYTES
from tests.vectors import load, octets, vectors


@pytest.mark.parametrize("entry", vectors("content", "offers"))
# accepts: 002.33
def test_offers_are_taken_and_refused_as_the_vectors_say(entry: dict[str, Any]) -> None:
    body = bytes.fromhex(entry["bytes"])
    if entry["code"] is None:
        assert FileOffer.from_wire(body).to_wire() == body
        return
    with pytest.raises(RemoteError) as refused:
        FileOffer.from_wire(body)
    assert refused.value.code == entry["code"]


@pytest.mark.parametrize("entry", vectors("content", "files"))
# accepts: 002.20, 002.21, 002.22
def test_files_are_sealed_as_the_vectors_say(entry: dict[str, Any]) -> None:
    loaded = load("content")
    key = content_key(bytes.fromhex(loaded["epoch_secret"]), bytes.fromhex(loaded["file_id"]))
    assert key.hex() == loaded["key"]
    associated = bound_to(GroupId(bytes.fromhex(loaded["group_id"])), bytes.fromhex(loaded["file_id"]))
    plain, nonce = octets(entry, "plain"), bytes.fromhex(loaded["nonce"])
    sealed = aead_seal(plain, associated, nonce, key)
    assert len(sealed) == entry["sealed_size"] == len(plain) + 16
    assert (sealed[:32].hex(), sealed[-16:].hex()) == (entry["sealed_start"], entry["sealed_end"])
    index = b"".join(blake3_hash(sealed[at : at + CHUNK_BYTES]) for at in range(0, len(sealed), CHUNK_BYTES))
    assert index.hex() == entry["index"]
    offer = FileOffer.from_wire(bytes.fromhex(entry["offer"]))
    assert offer.content.hash == blake3_hash(sealed)
    assert offer.content.index == blake3_hash(index)
    assert (offer.content.chunks, offer.content.index_size) == (len(index) // 32, len(index))
    assert aead_open(sealed, associated, nonce, key) == plain


# accepts: 002.32
def test_a_reference_shows_nothing_of_what_it_refers_to() -> None:
    """Hash, nonce and ids stand in no log."""
    offer = FileOffer.from_wire(bytes.fromhex(load("content")["files"][1]["offer"]))
    shown = repr(offer)
    for secret in (offer.content.hash, offer.content.index, offer.content.nonce, offer.file_id):
        assert repr(secret) not in shown
        assert secret.hex() not in shown
