"""Secret arguments: who can read them, as part of what, and what is left of them in what a program writes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from covey.core.actions.secrets import SealedArguments, redacted, seal_arguments
from covey.core.crypto import NoiseKey, NoiseKeys
from covey.core.history.orders import CommandOrder
from covey.core.ids import DeviceKey, GroupId
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.core.settings.secrets import SealedValue, seal_value
from covey.core.wire import cbor
from covey.errors import DecryptionError, LocalError, MalformedError, RemoteError
from covey.limits.group import MAXIMUM_MEMBERS
from covey.limits.history import MAXIMUM_OPERATION_BODY_BYTES
from covey.limits.orders import MAXIMUM_ARGUMENT_BYTES, MAXIMUM_ARGUMENTS, MAXIMUM_SEALED_BYTES, MAXIMUM_SECRET_BYTES
from tests.vectors import vectors

_GROUP, _AUTHOR, _ONCE = GroupId(bytes([1]) * 32), DeviceKey(bytes([2]) * 32), bytes([3]) * 16
_PUMPS = Selector(SelectorKind.LABEL, name="pump")
_ABOUT = (_GROUP, _AUTHOR, "set-wifi", _ONCE, EVERYBODY)
_GIVEN = {"key": "hunter2", "pin": "7"}


def _noise(number: int) -> NoiseKeys:
    return NoiseKeys((NoiseKey.of(number.to_bytes(32, "big")),))


_BEN, _MIA = _noise(5), _noise(6)


def _sealed(given: dict[str, str], seed: int = 1) -> bytes:
    recipients = [_BEN.current.public, _MIA.current.public]
    return seal_arguments(given, recipients, *_ABOUT, random.Random(seed).randbytes)


def test_only_the_targets_can_read_the_secret_arguments() -> None:
    sealed = SealedArguments.of(_sealed(_GIVEN), *_ABOUT)
    assert sealed.open(_BEN) == sealed.open(_MIA) == _GIVEN
    assert sealed.open(NoiseKeys((*_noise(7).keys, *_BEN.keys))) == _GIVEN, "by a retired key, too"
    assert SealedArguments.from_stored(sealed.to_stored()) == sealed
    assert "hunter2" not in repr(sealed)
    with pytest.raises(DecryptionError):
        sealed.open(_noise(7))


@pytest.mark.parametrize(
    "other",
    [
        (GroupId(bytes(32)), *_ABOUT[1:]),
        (_GROUP, DeviceKey(bytes(32)), *_ABOUT[2:]),
        (_GROUP, _AUTHOR, "show-wifi", _ONCE, EVERYBODY),
        (_GROUP, _AUTHOR, "set-wifi", bytes(16), EVERYBODY),
        (_GROUP, _AUTHOR, "set-wifi", _ONCE, _PUMPS),
    ],
)
def test_they_open_in_the_command_that_they_were_given_in_only(
    other: tuple[GroupId, DeviceKey, str, bytes, Selector],
) -> None:
    with pytest.raises(DecryptionError):
        SealedArguments.of(_sealed(_GIVEN), *other).open(_BEN)


def test_a_secret_setting_is_no_argument_nor_the_other_way_round() -> None:
    setting = seal_value("a", [_BEN.current.public], _GROUP, _AUTHOR, "app.a", EVERYBODY, random.Random(1).randbytes)
    with pytest.raises(DecryptionError):
        SealedArguments.of(setting, *_ABOUT).open(_BEN)
    with pytest.raises(DecryptionError):
        SealedValue.of(_sealed(_GIVEN), _GROUP, _AUTHOR, "app.a", EVERYBODY).open(_BEN)


def test_neither_names_nor_lengths_show() -> None:
    assert len(_sealed({"a": "b"})) == len(_sealed({"key": "b" * 50})) < len(_sealed({"key": "b" * 60}))
    assert b"key" not in _sealed({"key": "hunter2"})


@pytest.mark.parametrize("vector", vectors("orders", "secret_arguments"))
def test_the_vectors(vector: dict[str, Any]) -> None:
    sealed = SealedArguments.of(
        bytes.fromhex(vector["bytes"]),
        GroupId(bytes.fromhex(vector["group_id"])),
        DeviceKey(bytes.fromhex(vector["author"])),
        vector["action"],
        bytes.fromhex(vector["once"]),
        Selector.from_wire(cbor.decode(bytes.fromhex(vector["selector"]), MAXIMUM_SEALED_BYTES)),
    )
    keys = NoiseKeys((NoiseKey.of(bytes.fromhex(vector["noise_secret"])),))
    if vector["code"] is None:
        assert sealed.open(keys) == vector["arguments"]
        return
    with pytest.raises(RemoteError) as caught:
        sealed.open(keys)
    assert caught.value.code == vector["code"]


@pytest.mark.parametrize("stored", [b"", b"\x80", cbor.encode([b"a"]), cbor.encode([b"a", 1])])
def test_damaged_sealed_arguments_are_refused(stored: bytes) -> None:
    with pytest.raises(RemoteError):
        SealedArguments.from_stored(stored)


def test_the_most_of_them_fit_into_a_command_for_a_whole_group() -> None:
    others = range(1, MAXIMUM_MEMBERS)  # of a secret the lowest bits say nothing
    everybody = [_BEN.current.public, *(NoiseKey.of((8 * each).to_bytes(32, "little")).public for each in others)]
    assert len({*everybody}) == MAXIMUM_MEMBERS
    selector = Selector(SelectorKind.LABEL, name="p" * 64)
    about = (_GROUP, _AUTHOR, "a" * 48, _ONCE, selector)
    given = {f"n{number}": "x" * MAXIMUM_ARGUMENT_BYTES for number in range(MAXIMUM_SECRET_BYTES // 1_032)}
    sealed = seal_arguments(given, everybody, *about, random.Random(1).randbytes)
    order = CommandOrder(selector, "a" * 48, {}, _ONCE, 2**60, sealed)
    assert len(order.to_wire()) <= MAXIMUM_OPERATION_BODY_BYTES
    assert CommandOrder.from_wire(order.to_wire()).sealed == sealed
    assert SealedArguments.of(sealed, *about).open(_BEN) == given
    with pytest.raises(LocalError):
        _sealed({f"n{number}": "x" * MAXIMUM_ARGUMENT_BYTES for number in range(MAXIMUM_ARGUMENTS)})


def test_a_wave_of_a_roll_out_has_none() -> None:
    plan: list[object] = [[0], [1], 2, 1, 0]
    with pytest.raises(MalformedError):
        CommandOrder.from_wire(cbor.encode([[0], "set-wifi", {}, _ONCE, None, b"sealed", plan]))


@pytest.mark.parametrize(
    ("output", "secrets", "cut", "kept"),
    [
        (b"no hunter2, hunter2!", ["hunter2"], False, b"no ***, ***!"),
        (b"hunter22", ["hunter2", "hunter22"], False, b"***"),
        (b"a.b*c", ["a.b", "*"], False, b"******c"),
        ("schl\u00fcssel".encode(), ["schl\u00fcssel"], False, b"***"),
        (b"it is hunt", ["hunter2"], False, b"it is hunt"),
        (b"it is hunt", ["hunter2"], True, b"it is "),
        (b"it is hunter2", ["hunter2"], True, b"it is ***"),
        (b"aXa", ["aXa"], True, b"***"),
        (b"as it is\xff", [""], True, b"as it is\xff"),
        (b"as it is\xff", [], True, b"as it is\xff"),
    ],
)
def test_secrets_are_redacted_from_output(output: bytes, secrets: list[str], cut: bool, kept: bytes) -> None:
    assert redacted(output, secrets, cut=cut) == kept
