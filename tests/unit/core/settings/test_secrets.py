"""Secret values: who can read them, as what, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from covey.core.crypto import NoiseKey, NoiseKeys
from covey.core.history.orders import SettingOrder
from covey.core.ids import DeviceKey, GroupId, NoisePublic
from covey.core.orders import sealing
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.core.settings.secrets import SealedValue, seal_value
from covey.core.wire import cbor
from covey.errors import DecryptionError, MalformedError, RemoteError, SettingError
from covey.limits.group import MAXIMUM_MEMBERS
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES
from covey.limits.orders import MAXIMUM_SEALED_BYTES, MAXIMUM_SECRET_BYTES
from tests.vectors import vectors

_GROUP, _AUTHOR, _KEY = GroupId(bytes([1]) * 32), DeviceKey(bytes([2]) * 32), "app.token"
_PUMPS = Selector(SelectorKind.LABEL, name="pump")


def _noise(number: int) -> NoiseKeys:
    return NoiseKeys((NoiseKey.of(number.to_bytes(32, "big")),))


_BEN, _MIA = _noise(5), _noise(6)


def _sealed(value: str, recipients: list[NoisePublic] | None = None, seed: int = 1) -> bytes:
    recipients = [_BEN.current.public, _MIA.current.public] if recipients is None else recipients
    return seal_value(value, recipients, _GROUP, _AUTHOR, _KEY, EVERYBODY, random.Random(seed).randbytes)


def _open(content: bytes, keys: NoiseKeys = _BEN) -> object:
    return SealedValue.of(content, _GROUP, _AUTHOR, _KEY, EVERYBODY).open(keys)


def test_only_its_targets_read_a_secret_even_with_a_retired_key() -> None:
    sealed = _sealed("hunter2")
    assert _open(sealed) == _open(sealed, _MIA) == "hunter2"
    assert _open(sealed, NoiseKeys((*_noise(7).keys, *_BEN.keys))) == "hunter2"
    with pytest.raises(DecryptionError):
        _open(sealed, _noise(7))
    assert "hunter2" not in repr(SealedValue.of(sealed, _GROUP, _AUTHOR, _KEY, EVERYBODY))


@pytest.mark.parametrize(
    "other",
    [
        (GroupId(bytes(32)), _AUTHOR, _KEY, EVERYBODY),
        (_GROUP, DeviceKey(bytes(32)), _KEY, EVERYBODY),
        (_GROUP, _AUTHOR, "app.log", EVERYBODY),
        (_GROUP, _AUTHOR, _KEY, _PUMPS),
    ],
)
def test_it_opens_as_what_it_was_given_as_only(other: tuple[GroupId, DeviceKey, str, Selector]) -> None:
    with pytest.raises(DecryptionError):
        SealedValue.of(_sealed("hunter2"), *other).open(_BEN)


def test_neither_its_length_nor_its_recipients_show() -> None:
    assert len(_sealed("a")) == len(_sealed("a" * 60)) < len(_sealed("a" * 70))
    sealed = _sealed("hunter2")
    assert b"hunter2" not in sealed
    assert sealed.find(_BEN.current.public) == -1
    first, second = cbor_of(sealed)[1:], cbor_of(_sealed("hunter2", seed=2))[1:]
    assert not set(first) & set(second), "nothing is used twice"


def test_each_sealing_draws_its_own_key() -> None:
    def sealed(*drawn: bytes) -> list[bytes]:
        draws = iter(drawn)
        return cbor_of(seal_value("a", [_BEN.current.public], _GROUP, _AUTHOR, _KEY, EVERYBODY, lambda _: next(draws)))

    first, second = sealed(b"e" * 32, b"1" * 32), sealed(b"e" * 32, b"2" * 32)
    assert first[1] == second[1]
    assert not set(first[2:]) & set(second[2:])


def test_the_boxes_stand_in_the_order_of_the_keys() -> None:
    low, high = sorted((_BEN, _MIA), key=lambda keys: keys.current.public)
    first = _with(2, lambda boxes: boxes[:48])
    assert _open(first, low) == "hunter2"
    with pytest.raises(DecryptionError):
        _open(first, high)


def test_an_unpadded_secret_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sealing, "_BUCKETS_BYTES", (100,))
        sealed = _sealed("hunter2")
    with pytest.raises(MalformedError):
        _open(sealed)


@pytest.mark.parametrize("vector", vectors("orders", "secrets"))
def test_the_vectors(vector: dict[str, Any]) -> None:
    sealed = SealedValue.of(
        bytes.fromhex(vector["bytes"]),
        GroupId(bytes.fromhex(vector["group_id"])),
        DeviceKey(bytes.fromhex(vector["author"])),
        vector["key"],
        Selector.from_wire(cbor.decode(bytes.fromhex(vector["selector"]), MAXIMUM_SEALED_BYTES)),
    )
    keys = NoiseKeys((NoiseKey.of(bytes.fromhex(vector["noise_secret"])),))
    if vector["code"] is None:
        assert sealed.open(keys) == vector["value"]
        return
    with pytest.raises(RemoteError) as caught:
        sealed.open(keys)
    assert caught.value.code == vector["code"]


def cbor_of(sealed: bytes) -> list[bytes]:
    """Return the fields of a sealed value."""
    found = cbor.decode(sealed, MAXIMUM_SEALED_BYTES)
    assert isinstance(found, list)
    return found


def _with(place: int, change: Callable[[bytes], object]) -> bytes:
    fields: list[object] = list(cbor_of(_sealed("hunter2")))
    fields[place] = change(fields[place])  # type: ignore[arg-type]  # a field of bytes
    return cbor.encode(fields)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"ciphertext",
        _sealed("hunter2")[:-1],
        _with(0, lambda _: 2),
        _with(1, lambda _: bytes(32)),
        _with(1, lambda ephemeral: ephemeral[:-1]),
        _with(2, lambda _: b""),
        _with(2, lambda boxes: boxes[:-1]),
        _with(2, lambda boxes: bytes(len(boxes))),
        _with(2, lambda boxes: boxes[:48] * (MAXIMUM_MEMBERS + 1)),
        _with(3, lambda ciphertext: ciphertext[:-1]),
        _with(3, lambda ciphertext: bytes(len(ciphertext))),
    ],
)
def test_malformed_and_forged_secrets_are_refused(content: bytes) -> None:
    with pytest.raises(RemoteError):
        _open(content)


def test_the_largest_secret_fits_into_an_order_for_a_whole_group() -> None:
    others = range(1, MAXIMUM_MEMBERS)  # of a secret the lowest bits say nothing
    everybody = [_BEN.current.public, *(NoiseKey.of((8 * each).to_bytes(32, "little")).public for each in others)]
    assert len({*everybody}) == MAXIMUM_MEMBERS
    value = "x" * (MAXIMUM_SECRET_BYTES - 4)
    sealed = _sealed(value, everybody)
    assert len(sealed) <= MAXIMUM_SEALED_BYTES
    order = SettingOrder(Selector(SelectorKind.LABEL, name="p" * 64), "app." + "k" * 92, sealed=sealed)
    assert len(order.to_wire()) <= MAXIMUM_OPERATION_BODY_BYTES
    assert SettingOrder.from_wire(order.to_wire()).sealed == sealed
    assert _open(sealed, _BEN) == value
    with pytest.raises(SettingError):
        _sealed(value + "x")
    with pytest.raises(SettingError):
        _sealed("hunter2", [])
