"""A recovery file that k of n operators open together: k parts open it, fewer do not, and nobody else can."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from covey.adapters.keys.shared_recovery import AdoptionRequest, SharedRecovery, read_shared, share
from covey.core.wire import cbor
from covey.errors import ConfigurationError, LocalError
from covey.limits.key import MAXIMUM_HUB_OPERATORS
from tests.fleet import identity

_HUB = identity("hub")
_OPERATORS = [identity(f"operator {number}") for number in range(4)]
_RANDOM = random.Random(1)


def _rng(size: int) -> bytes:
    return _RANDOM.randbytes(size)


def _shared(needed: int, count: int = 4) -> tuple[SharedRecovery, bytes]:
    drawn: list[bytes] = []

    def seal(passphrase: bytearray) -> bytes:
        drawn.append(bytes(passphrase))
        return b"a recovery file"

    people = [(each.signing_public, f"op {place}") for place, each in enumerate(_OPERATORS[:count])]
    shared = share(_HUB.signing_public, "hub", 7, people, needed, seal, _rng)
    read = read_shared(shared.to_wire())
    assert read == shared
    return shared, drawn[0]


def _approvals(shared: SharedRecovery, asked: AdoptionRequest, places: tuple[int, ...]) -> None:
    for place in places:
        asked.take(shared.approve(_OPERATORS[place], asked.text, _rng))


@pytest.mark.parametrize("needed", range(1, 5))
def test_any_k_operators_open_it(needed: int) -> None:
    shared, passphrase = _shared(needed)
    for places in combinations(range(4), needed):
        asked = AdoptionRequest(shared, _rng)
        _approvals(shared, asked, places[::-1])
        assert asked.is_complete
        assert asked.approved == tuple(f"op {place}" for place in places)
        assert asked.passphrase() == passphrase


def test_fewer_than_k_operators_open_nothing() -> None:
    shared, _ = _shared(3)
    asked = AdoptionRequest(shared, _rng)
    _approvals(shared, asked, (0, 2, 2))
    assert not asked.is_complete
    with pytest.raises(ConfigurationError, match="do not open"):
        asked.passphrase()


def test_an_approval_serves_the_machine_that_asked_alone() -> None:
    shared, _ = _shared(1)
    asked, other = AdoptionRequest(shared, _rng), AdoptionRequest(shared, _rng)
    approval = shared.approve(_OPERATORS[0], asked.text, _rng)
    for wrong in (approval, "", "covey-approval-00", approval[:-2] + "00", asked.text):
        with pytest.raises(LocalError, match="no approval of this request"):
            other.take(wrong)
    assert not other.is_complete


def test_parts_of_another_file_do_not_open_it() -> None:
    (shared, _), (other, _) = _shared(2), _shared(2)
    asked = AdoptionRequest(shared, _rng)
    _approvals(shared, asked, (0,))
    _approvals(other, asked, (1,))
    assert not asked.is_complete
    with pytest.raises(ConfigurationError, match="do not open"):
        asked.passphrase()


def test_a_wrong_part_only_costs_one_operator_more() -> None:
    (shared, passphrase), (other, _) = _shared(2), _shared(2)
    asked = AdoptionRequest(shared, _rng)
    _approvals(other, asked, (0,))
    _approvals(shared, asked, (1,))
    assert not asked.is_complete
    _approvals(shared, asked, (3,))
    assert asked.is_complete
    assert asked.passphrase() == passphrase


def test_only_an_operator_with_a_part_approves() -> None:
    shared, _ = _shared(2, count=3)
    with pytest.raises(LocalError, match="has no part"):
        shared.approve(_OPERATORS[3], AdoptionRequest(shared, _rng).text, _rng)
    with pytest.raises(LocalError, match="no request"):
        shared.approve(_OPERATORS[0], "covey-request-00", _rng)


@pytest.mark.parametrize("changed", [{1: bytes(32)}, {2: "other hub"}, {3: 8}, {7: b"another file"}])
def test_an_operator_refuses_a_file_that_says_something_else_than_when_it_was_written(
    changed: dict[int, object],
) -> None:
    shared, _ = _shared(2)
    content = cbor.decode(shared.to_wire(), 100_000)
    assert isinstance(content, list)
    for place, value in changed.items():
        content[place] = value
    forged = read_shared(cbor.encode(content))
    assert forged is not None
    with pytest.raises(ConfigurationError, match="was changed"):
        forged.approve(_OPERATORS[0], AdoptionRequest(forged, _rng).text, _rng)


def test_fewer_operators_cannot_be_made_enough_by_changing_the_file() -> None:
    shared, _ = _shared(2)
    content = cbor.decode(shared.to_wire(), 100_000)
    assert isinstance(content, list)
    content[4], content[6] = 1, content[6][:4]
    forged = read_shared(cbor.encode(content))
    assert forged is not None
    with pytest.raises(ConfigurationError, match="was changed"):
        forged.approve(_OPERATORS[0], AdoptionRequest(forged, _rng).text, _rng)


def test_a_damaged_file_is_refused_and_another_file_is_none() -> None:
    raw = _shared(2)[0].to_wire()
    assert read_shared(cbor.encode([1, b"", 1])) is None
    for damaged in (raw[:-1], raw + b"\0", cbor.encode([2]), b"", cbor.encode([2, *[b""] * 7])):
        with pytest.raises(ConfigurationError):
            read_shared(damaged)


def test_too_few_and_too_many_operators_are_refused() -> None:
    for needed in (0, 5):
        with pytest.raises(LocalError, match="operators are needed"):
            _shared(needed)
    many = [(each.signing_public, "") for each in map(identity, map(str, range(MAXIMUM_HUB_OPERATORS + 1)))]
    with pytest.raises(LocalError, match="at most 12"):
        share(_HUB.signing_public, "hub", 7, many, 2, bytes, _rng)
    largest = share(_HUB.signing_public, "hub", 7, many[:-1], 6, lambda _: b"", _rng)
    assert read_shared(largest.to_wire()) == largest
    assert len(largest.to_wire()) < 64 * 1024
