"""The secret of a file that is for some devices alone: who reads it, as what, and what is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest

from covey.core.crypto import NoiseKey, NoiseKeys
from covey.core.history.files import FileOffer, content_key
from covey.core.ids import DeviceKey, GroupId
from covey.core.orders.sealing import FILE_SECRET_BYTES, open_file_secret, seal, seal_file_secret
from covey.core.wire import cbor
from covey.errors import RemoteError
from covey.limits.group import MAXIMUM_MEMBERS
from tests.vectors import load, vectors


@pytest.mark.parametrize("entry", vectors("content", "secrets"))
# accepts: 002.17, 002.22
def test_secrets_are_read_and_refused_as_the_vectors_say(entry: dict[str, Any]) -> None:
    sealed, group_id, author, file_id, secret = (
        bytes.fromhex(entry[name]) for name in ("bytes", "group_id", "author", "file_id", "noise_secret")
    )
    words = GroupId(group_id), DeviceKey(author), file_id, NoiseKeys((NoiseKey.of(secret),))
    if entry["code"] is None:
        found = open_file_secret(sealed, *words)
        assert (found.hex(), content_key(found, file_id).hex()) == (entry["secret"], entry["key"])
        return
    with pytest.raises(RemoteError) as refused:
        open_file_secret(sealed, *words)
    assert refused.value.code == entry["code"]


def test_a_secret_of_another_length_is_none() -> None:
    keys, about = NoiseKeys((NoiseKey.of(bytes([5]) * 32),)), (GroupId(bytes(32)), DeviceKey(bytes(32)), bytes(16))
    binding = cbor.encode(["covey/1 file", *about])
    sealed = seal(bytes(FILE_SECRET_BYTES - 1), [keys.current.public], binding, random.Random(1).randbytes)
    with pytest.raises(RemoteError):
        open_file_secret(sealed, *about, keys)


def test_an_offer_for_a_whole_group_is_one_that_members_take() -> None:
    readers = [NoiseKey.of(each.to_bytes(32, "big")).public for each in range(1, MAXIMUM_MEMBERS + 1)]
    about = GroupId(bytes(32)), DeviceKey(bytes(32)), bytes(16)
    sealed = seal_file_secret(bytes(FILE_SECRET_BYTES), readers, *about, random.Random(1).randbytes)
    body = bytes.fromhex(load("content")["files"][0]["offer"])
    offer = FileOffer.from_wire(body)
    given = FileOffer("n" * 255, offer.file_id, offer.epoch_id, offer.content, sealed)
    assert FileOffer.from_wire(given.to_wire()) == given
