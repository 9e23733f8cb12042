"""`StorageKey`: what it wraps opens for the same device at the same place, unchanged, and nowhere else."""

from __future__ import annotations

import pytest

from covey.adapters.keys.storage_key import WRAPPING_BYTES, StorageKey
from covey.errors import DecryptionError
from tests.fleet import identity

_PLACE = "epoch_secret", b"group", b"epoch"


def test_what_is_wrapped_opens_at_its_place_only() -> None:
    key, secret = StorageKey.of(identity("ann")), b"a group's secret"
    stored = key.wrap(secret, *_PLACE)
    assert len(stored) == len(secret) + WRAPPING_BYTES
    assert secret not in stored
    assert StorageKey.of(identity("ann")).unwrap(stored, *_PLACE) == secret
    with pytest.raises(DecryptionError):
        StorageKey.of(identity("ben")).unwrap(stored, *_PLACE)
    for place in ((), ("epoch_secret", b"group", b"other"), ("epoch_secret", b"groupepoch"), ("vote", *_PLACE[1:])):
        with pytest.raises(DecryptionError):
            key.unwrap(stored, *place)


def test_damage_anywhere_shows() -> None:
    key = StorageKey.of(identity("ann"))
    stored = key.wrap(b"secret", *_PLACE)
    for place in range(len(stored)):
        for damaged in (stored[:place], stored[:place] + bytes([stored[place] ^ 1]) + stored[place + 1 :]):
            with pytest.raises(DecryptionError):
                key.unwrap(damaged, *_PLACE)


def test_the_same_secret_never_looks_the_same_twice() -> None:
    key = StorageKey.of(identity("ann"))
    assert key.wrap(b"secret", *_PLACE) != key.wrap(b"secret", *_PLACE)


def test_it_is_not_shown_and_can_be_wiped() -> None:
    key = StorageKey.of(identity("ann"))
    stored = key.wrap(b"secret", *_PLACE)
    assert repr(key).startswith("<covey.adapters.keys.storage_key.StorageKey object")
    key.wipe()
    with pytest.raises(DecryptionError):
        key.unwrap(stored, *_PLACE)
