"""`covey.core.vault.receipts`: one reading is proven, its neighbours stay secret, and nothing else is proven."""

from __future__ import annotations

import random

import pytest

from covey.core import crypto
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Member, genesis, sign_manifest
from covey.core.ids import DeviceKey, EpochId, GroupId
from covey.core.telemetry.batch import (
    Alarm,
    Batch,
    BatchBuilder,
    ClockKind,
    ClockReading,
    Value,
    alarm_of,
    numbered,
    rows_of,
    split_number,
)
from covey.core.telemetry.decoding import read_batch, read_telemetry
from covey.core.vault import receipts
from covey.core.vault.receipts import ROWS_BYTES, SALT_BYTES, sign_rows, verify_receipt, write_receipt
from covey.core.wire import cbor
from covey.errors import LimitError, MalformedError, SignatureError, UnsupportedError
from covey.limits.telemetry import MAXIMUM_BATCH_READINGS, MAXIMUM_RECEIPT_BYTES
from tests.outside.receipt import InvalidError, verify

_RNG = random.Random(42)
_IDENTITY = Identity.from_seeds(_RNG.randbytes(32), _RNG.randbytes(32))
_OTHER = Identity.from_seeds(_RNG.randbytes(32), _RNG.randbytes(32))
_KEY = _IDENTITY.signing_public
_SALT = _RNG.randbytes(SALT_BYTES)
_BOOT = _RNG.randbytes(8)
_VALUES: tuple[tuple[str, list[Value]], ...] = (
    ("temperature", [20.5, 20.6, -3.25]),
    ("counter", [2**53 + 1, 2**60]),
    ("ratio", [1 / 3, 1e300]),
    ("open", [True, False]),
    ("note", ["", "grün"]),
    ("frame", [b"", b"\0\1"]),
)


def _batch(kind: ClockKind = ClockKind.SYNCHRONISED) -> bytes:
    builder = BatchBuilder()
    for place, (name, values) in enumerate(_VALUES):
        for second, value in enumerate(values):
            builder.add(name, "u", 1_000_000 * (second + place), value)
    return builder.body(ClockReading(_BOOT, 9_000_000, 1_800_000_000_000_000, kind))


def _even(count: int) -> bytes:
    builder = BatchBuilder()
    for second in range(count):
        builder.add("level", "m", second, second / 4)
    return builder.body(ClockReading(_BOOT, 9_000_000, 1_800_000_000_000_000, ClockKind.SYNCHRONISED))


def _receipt(batch: bytes, index: int) -> bytes:
    return write_receipt(_KEY, read_batch(batch), sign_rows(_IDENTITY, batch, _SALT), index)


@pytest.mark.parametrize("kind", ClockKind)
def test_each_reading_is_proven_as_its_batch_says_it(kind: ClockKind) -> None:
    batch = _batch(kind)
    for index, (name, unit, time_us, value) in enumerate(read_batch(batch).readings()):
        receipt = _receipt(batch, index)
        proven = verify_receipt(receipt, _KEY)
        assert (proven.name, proven.unit, proven.time_us, proven.value) == (name, unit, time_us, value)
        assert type(proven.value) is type(value)
        assert (proven.index, proven.readings, proven.clock.boot_id) == (index, read_batch(batch).count, _BOOT)
        found = verify(receipt, _KEY)
        assert (found.name, found.unit, found.time, found.value) == (name, unit, time_us, value)
        assert (found.clock, found.place, found.boot) == (kind.name.lower(), index, _BOOT)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 31, 33])
def test_trees_of_every_shape_prove_all_their_readings(count: int) -> None:
    batch = _even(count)
    for index in range(count):
        receipt = _receipt(batch, index)
        assert verify_receipt(receipt, _KEY).value == verify(receipt, _KEY).value == index / 4


def test_the_tree_is_that_of_rfc_6962() -> None:
    """The root of seven leaves, put together by hand: the left part is the largest power of two below seven."""
    leaves = [bytes([n]) * 32 for n in range(7)]
    node = receipts._node
    a, b, c, d, e, f, g = leaves
    left, right = node(node(a, b), node(c, d)), node(node(e, f), g)
    assert receipts._levels(leaves)[-1] == [node(left, right)]


@pytest.mark.slow
def test_a_receipt_of_the_largest_batch_is_short() -> None:
    batch = _even(MAXIMUM_BATCH_READINGS)
    receipt = _receipt(batch, MAXIMUM_BATCH_READINGS - 2)
    assert len(receipt) < 800
    assert verify_receipt(receipt, _KEY).value == (MAXIMUM_BATCH_READINGS - 2) / 4


def test_a_reading_that_is_too_long_has_no_receipt() -> None:
    builder = BatchBuilder()
    builder.add("log", "", 0, "x" * 1_700)
    builder.add("log", "", 0, "x" * 2_000)
    batch = builder.body(ClockReading(_BOOT, 0, 0, ClockKind.ASSERTED))
    assert len(_receipt(batch, 0)) <= MAXIMUM_RECEIPT_BYTES
    with pytest.raises(LimitError):
        _receipt(batch, 1)
    with pytest.raises(LimitError):
        verify_receipt(bytes(MAXIMUM_RECEIPT_BYTES + 1), _KEY)


def test_another_device_did_not_sign_it() -> None:
    receipt = _receipt(_even(3), 1)
    other = _OTHER.signing_public
    with pytest.raises(SignatureError):
        verify_receipt(receipt, other)
    with pytest.raises(InvalidError):
        verify(receipt, other)


def test_the_statement_of_another_device_that_one_has_signed_proves_nothing() -> None:
    """A device signs what it likes, also a statement that names its neighbour."""
    other = _OTHER
    head, _, statement, *rest = cbor.decode(_receipt(_even(3), 1), MAXIMUM_RECEIPT_BYTES)
    forged = cbor.encode([head, crypto.sign(b"covey/1 rows", statement, other), statement, *rest])
    for key in (_KEY, other.signing_public):
        with pytest.raises(SignatureError):
            verify_receipt(forged, key)
        with pytest.raises(InvalidError):
            verify(forged, key)


def test_a_receipt_may_grow_by_odd_keys() -> None:
    fields = cbor.decode(_receipt(_even(3), 1), MAXIMUM_RECEIPT_BYTES)
    for accepts in (lambda raw: verify_receipt(raw, _KEY), lambda raw: verify(raw, _KEY)):
        assert accepts(cbor.encode([*fields, {1: 5}])).value == 0.25
    with pytest.raises(UnsupportedError):
        verify_receipt(cbor.encode([*fields, {2: 5}]), _KEY)
    with pytest.raises(InvalidError):
        verify(cbor.encode([*fields, {2: 5}]), _KEY)


def test_neighbours_cannot_be_found_by_trying_their_values() -> None:
    """Without the batch's salt, no hash in a receipt is that of a guessed neighbour; with it, it is."""
    batch = _even(2)
    *_, salt, _, path, _ = cbor.decode(_receipt(batch, 0), MAXIMUM_RECEIPT_BYTES)
    neighbour = [*receipts._rows(read_batch(batch))][1]
    guesses = {receipts._leaf(each, neighbour) for each in (b"", bytes(16), salt, receipts._salt_of(salt, 1))}
    assert path[0] not in guesses
    assert path[0] == receipts._leaf(receipts._salt_of(_SALT, 1), neighbour)
    assert _SALT not in _receipt(batch, 0)


def test_rows_that_the_device_did_not_sign_get_no_receipt() -> None:
    batch = _even(3)
    rows = sign_rows(_IDENTITY, batch, _SALT)
    other: Batch = read_batch(_even(4))
    with pytest.raises(SignatureError):
        write_receipt(_KEY, other, rows, 0)
    with pytest.raises(SignatureError):
        write_receipt(DeviceKey(bytes(range(32))), read_batch(batch), rows, 0)
    with pytest.raises(MalformedError):
        write_receipt(_KEY, read_batch(batch), rows[:-1], 0)


@pytest.mark.parametrize("alarm", [None, *Alarm])
def test_a_body_has_its_alarm_and_its_rows(alarm: Alarm | None) -> None:
    batch = _batch()
    rows = sign_rows(_IDENTITY, batch, _SALT)
    for number in (1, 24, 256, 2**40):
        body = numbered(number, batch, alarm, rows)
        assert (alarm_of(body), rows_of(body), split_number(body)) == (alarm, rows, (number, batch))
        assert read_telemetry(body)[1].alarm == alarm
        plain = numbered(number, batch, alarm)
        assert (alarm_of(plain), rows_of(plain), split_number(plain)) == (alarm, b"", (number, batch))
    assert len(rows) == ROWS_BYTES
    assert len(numbered(1, batch, None, rows)) == len(numbered(1, batch)) + 84


def test_a_body_with_an_extension_of_a_newer_covey_still_has_its_number() -> None:
    body = numbered(7, _batch())
    newer = b"\x83" + body[1:] + cbor.encode({5: 1})
    assert (alarm_of(newer), rows_of(newer), split_number(newer)) == (None, b"", (7, _batch()))


def _founded(identity: Identity) -> GroupManifest:
    return sign_manifest(genesis(GroupId(bytes(32)), Member(identity.keys, "ann"), EpochId(bytes(32))), identity)


def test_a_manifest_in_a_receipt_is_signed_and_lists_the_device() -> None:
    """Nobody puts a label into a receipt that no issuer has given."""
    batch = _even(3)
    rows = sign_rows(_IDENTITY, batch, _SALT)

    def receipt(manifest: bytes) -> bytes:
        return write_receipt(_KEY, read_batch(batch), rows, 1, manifest)

    founded, other = (_founded(each) for each in (_IDENTITY, _OTHER))
    listed = verify_receipt(receipt(founded.raw), _KEY).manifest
    assert listed is not None
    assert listed.member(_KEY) is not None
    assert verify(receipt(founded.raw), _KEY).value == 0.25
    with pytest.raises(MalformedError):
        verify_receipt(receipt(other.raw), _KEY)
    with pytest.raises(SignatureError):
        verify_receipt(receipt(founded.raw[:5] + bytes([founded.raw[5] ^ 1]) + founded.raw[6:]), _KEY)
    with pytest.raises(LimitError):
        receipt(bytes(2_000))
