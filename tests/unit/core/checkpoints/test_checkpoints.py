"""`covey.core.checkpoints`: what a state is made of, whose word makes a checkpoint count, and what is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from covey.adapters.sqlite.history.operations import OperationTables
from covey.adapters.sqlite.store import empty_history
from covey.core.checkpoints.checkpoints import MINORITY, OPERATORS, PARTS, STATE, VOID, Checkpoint, Checkpoints
from covey.core.checkpoints.state import CheckpointState, KeptOrder
from covey.core.crypto import Identity
from covey.core.group.manifest import GroupManifest, Mode, Role, read_manifest
from covey.core.history.bodies import GroupProfile, Note, read_body
from covey.core.history.checkpoint import CheckpointPart, divided
from covey.core.history.operation import Operation, read_operation
from covey.core.history.orders import Approval, SettingOrder
from covey.core.ids import DeviceKey, OperationId
from covey.core.orders.authority import Pins
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.errors import LimitError, MalformedError, RemoteError
from covey.limits.history import CHECKPOINT_PART_BYTES, CHECKPOINT_PARTS
from tests.vectors import vectors
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY
from tests.vectors.makers.checkpoints import proposed, state_over
from tests.vectors.makers.groups import WITH_CAROL
from tests.vectors.makers.orders import adds, as_they_may_come, said

_PINS = Pins(frozenset({ALICE.signing_public}))
_ADMINS = replace(
    WITH_CAROL,
    mode=Mode.ADMIN_INVITES,
    members=tuple(replace(each, role=Role.ADMIN) for each in WITH_CAROL.members),
)
_PUMPS = Selector(SelectorKind.LABEL, name="Pumpe 3")


def _set(key: str, value: str | int | None, *parents: Operation, selector: Selector = EVERYBODY) -> Operation:
    return said(ALICE, SettingOrder(selector, key, value), *parents)


def _found(
    operations: Iterable[Operation],
    pins: Pins = _PINS,
    void: frozenset[OperationId] = frozenset(),
    manifest: GroupManifest | None = _ADMINS,
) -> list[Checkpoint]:
    with empty_history() as tables:
        _fill(tables, operations)
        return list(Checkpoints(tables, GROUP_ID, pins, void, lambda _: manifest).newest_first())


def _fill(tables: OperationTables, operations: Iterable[Operation]) -> None:
    for operation in as_they_may_come(operations):
        tables.add(operation, 1, 0)


def _agree(who: Identity, last: Operation) -> Operation:
    return said(who, Approval(last.id), last)


_HISTORY = (
    (first := said(ALICE, adds(BOB, "Frida"))),
    (titled := said(CAROL, GroupProfile("Pumps"), first)),
    (eco := _set("app.mode", "eco", titled)),
    (fast := _set("app.mode", "fast", eco, selector=_PUMPS)),
    (secret := said(BOB, SettingOrder(EVERYBODY, "app.token", sealed=b"ciphertext"), fast)),
)


@pytest.mark.parametrize("vector", vectors("checkpoints", "cases"))
@pytest.mark.parametrize("step", [1, -1])
def test_vectors(vector: dict[str, Any], step: int) -> None:
    keys = frozenset(DeviceKey(bytes.fromhex(each)) for each in vector["pinned"])
    operations = [read_operation(bytes.fromhex(raw)) for raw in vector["operations"]]
    manifest = read_manifest(bytes.fromhex(vector["manifest"]))
    found = _found(operations[::step], Pins(keys, vector["threshold"]), manifest=manifest)
    assert [
        {
            "id": each.id.hex(),
            "signers": sorted(key.hex() for key in each.signers),
            "electors": len(each.electors),
            "code": each.code,
            "state": each.state.to_wire().hex() if each.state is not None else None,
        }
        for each in found
    ] == vector["checkpoints"]


def test_a_state_has_what_holds_for_somebody_and_nothing_that_is_sealed() -> None:
    older = _set("app.mode", "old")
    state = state_over((older, *_HISTORY[1:], *_joined(first, older)), _PINS, _ADMINS)
    [pumps, everybody] = state.settings["app.mode"]
    assert (pumps.value, pumps.selector, everybody.value) == ("fast", _PUMPS, "eco"), "and not what eco has replaced"
    assert state.settings["app.token"][0].sealed
    assert state.settings["app.token"][0].author == BOB.signing_public
    assert b"ciphertext" not in state.to_wire()
    assert state.operators == {ALICE.signing_public: "", BOB.signing_public: "Frida"}
    assert state.profile is not None
    assert state.profile.operation == titled.id
    assert CheckpointState.from_wire(state.to_wire()) == state


def test_of_a_key_a_state_has_only_what_can_hold_for_somebody() -> None:
    history = [first]
    for author, key, value, selector in (
        (BOB, "app.mode", 1, _PUMPS),
        (ALICE, "app.mode", 2, _PUMPS),
        (BOB, "app.lamp", 1, _PUMPS),
        (ALICE, "app.lamp", 2, EVERYBODY),
    ):
        history.append(said(author, SettingOrder(selector, key, value), history[-1]))
    state = state_over(history, _PINS, _ADMINS)
    assert {key: [each.value for each in kept] for key, kept in state.settings.items()} == {
        "app.mode": [2],
        "app.lamp": [2],
    }


def _joined(*heads: Operation) -> tuple[Operation, ...]:
    return *heads, said(CAROL, Note("text/plain", b""), *heads)


def test_it_counts_once_more_than_half_have_signed() -> None:  # accepts: 003.22
    *parts, last = proposed(ALICE, _HISTORY, _PINS, _ADMINS)
    said_so = [*_HISTORY, *parts, last]
    [alone] = _found(said_so)
    assert (alone.code, alone.why) == (MINORITY, "signed by 1 of 3; more than half have to sign it")
    [still] = _found([*said_so, _agree(MALLORY, last), _agree(ALICE, last)])
    assert still.code == MINORITY, "nobody signs twice, and a stranger not at all"
    [counting] = _found([*said_so, _agree(BOB, last)])
    assert (counting.code, counting.why, counting.objection) == ("", "", "")
    assert counting.signers == {ALICE.signing_public, BOB.signing_public}


def test_a_member_that_is_no_admin_signs_nothing() -> None:
    members = tuple(
        replace(each, role=Role.MEMBER if each.keys.signing_public == BOB.signing_public else Role.ADMIN)
        for each in WITH_CAROL.members
    )
    manifest = replace(_ADMINS, members=members)
    *parts, last = proposed(ALICE, _HISTORY, _PINS, manifest)
    [found] = _found([*_HISTORY, *parts, last, _agree(BOB, last)], manifest=manifest)
    assert found.why == "signed by 1 of 2; more than half have to sign it"


def test_a_false_state_counts_for_nobody_even_if_all_sign_it() -> None:
    correct = state_over(_HISTORY, _PINS, _ADMINS)
    [kept] = correct.settings["app.token"]
    for false in (
        replace(correct, settings={**correct.settings, "app.token": (replace(kept, value="mine", sealed=False),)}),
        replace(correct, operators={**correct.operators, MALLORY.signing_public: ""}),
        replace(correct, profile=None),
        replace(correct, covers=first.id),
    ):
        *parts, last = proposed(ALICE, _HISTORY, _PINS, _ADMINS, state=false)
        [found] = _found([*_HISTORY, *parts, last, *(_agree(each, last) for each in (BOB, CAROL))])
        assert (found.code, found.objection) == (STATE, STATE)
        assert "its state differs" in found.objection_text


def test_a_state_is_named_by_its_digest_and_follows_what_it_covers_and_nothing_else() -> None:
    merge, last = proposed(ALICE, _HISTORY, _PINS, _ADMINS)
    body = read_body(last)
    assert isinstance(body, CheckpointPart)
    [unnamed] = _found([*_HISTORY, merge, said(ALICE, replace(body, digest=bytes(32)), merge)])
    assert unnamed.code == PARTS
    note = said(CAROL, Note("text/plain", b"after it"), merge)
    [later] = _found([*_HISTORY, merge, note, said(ALICE, body, note)])
    assert (later.code, later.objection) == (STATE, STATE)


def test_concurrent_operations_do_not_change_a_checkpoint() -> None:
    *parts, last = proposed(ALICE, _HISTORY, _PINS, _ADMINS)
    beside = _set("app.mode", "beside", titled)
    [found] = _found([*_HISTORY, beside, *parts, last, _agree(BOB, last)])
    assert (found.code, found.objection) == ("", "")


def test_of_two_rivals_both_can_count_and_the_last_one_holds() -> None:
    lower = proposed(ALICE, _HISTORY, _PINS, _ADMINS)
    more = [*_HISTORY, _set("app.mode", "night", _HISTORY[-1])]
    higher = proposed(BOB, more, _PINS, _ADMINS)
    agreed = [_agree(CAROL, each[-1]) for each in (lower, higher)]
    found = _found([*more, *lower, *higher, *agreed])
    assert [(each.author, each.code) for each in found] == [(BOB.signing_public, ""), (ALICE.signing_public, "")]


def test_a_long_state_takes_several_parts_which_are_whole_or_count_for_nobody() -> None:
    picture = said(CAROL, GroupProfile("P", "d" * 4_000), first)
    many = [picture]
    for number in range(8):
        many.append(_set(f"app.{number}", "x" * 12_000, many[-1]))
    history = [first, *many]
    parts = proposed(ALICE, history, _PINS, _ADMINS)
    assert len(parts) == 3, "a merge, and two parts"
    [found] = _found([*history, *parts])
    assert (found.code, found.objection, found.state_bytes > CHECKPOINT_PART_BYTES) == (MINORITY, "", True)
    assert _found([*history, *parts[:-1]]) == [], "its last part is what it is known by"
    body = read_body(parts[2])
    assert isinstance(body, CheckpointPart)
    for forged in (replace(body, digest=bytes(32)), replace(body, content=b""), replace(body, index=0, count=1)):
        [refused] = _found([*history, *parts[:-1], said(ALICE, forged, parts[1])])
        assert (refused.code, refused.state) == (PARTS, None)
    [stray] = _found([*history, said(ALICE, body, history[-1])])
    assert stray.code == PARTS
    note = said(CAROL, Note("text/plain", b"beside it"))
    [more] = _found([*history, *parts[:-1], note, said(ALICE, body, parts[1], note)])
    assert more.code == PARTS, "each part follows the one before it, and nothing else"
    [others] = _found([*history, *parts[:-1], said(BOB, body, parts[1])])
    assert others.code == PARTS, "nobody finishes what somebody else has begun"


def test_a_void_operation_signs_no_checkpoint() -> None:
    *parts, last = proposed(ALICE, _HISTORY, _PINS, _ADMINS)
    by_bob = _agree(BOB, last)
    every = [*_HISTORY, *parts, last, by_bob]
    [unsigned] = _found(every, void=frozenset({by_bob.id}))
    assert unsigned.code == MINORITY
    [itself] = _found(every, void=frozenset({last.id}))
    assert itself.code == VOID
    [covers] = _found(every, void=frozenset({secret.id}))
    assert (covers.code, covers.objection) == ("", VOID), "for whom it covers is settled; this device does not sign it"


def test_without_admins_the_owners_pinned_operators_sign() -> None:
    *parts, last = proposed(ALICE, _HISTORY, _PINS, WITH_CAROL)
    every = [*_HISTORY, *parts, last]
    [half] = _found([*every, _agree(CAROL, last)], manifest=WITH_CAROL)
    assert half.why == "signed by 1 of 2; more than half have to sign it"
    [whole] = _found([*every, _agree(BOB, last)], manifest=WITH_CAROL)
    assert whole.code == ""
    [foreign] = _found(every, Pins(frozenset({CAROL.signing_public})), manifest=WITH_CAROL)
    assert (foreign.code, foreign.objection) == (OPERATORS, OPERATORS)
    nobody = Pins(frozenset())
    [empty] = _found([*_HISTORY, *proposed(ALICE, _HISTORY, nobody, WITH_CAROL)], nobody, manifest=WITH_CAROL)
    assert "no device can sign it" in empty.why


def test_other_operators_than_the_pinned_ones_are_not_agreed_to() -> None:
    *parts, last = proposed(ALICE, _HISTORY, Pins(frozenset({MALLORY.signing_public})), _ADMINS)
    [found] = _found([*_HISTORY, *parts, last])
    assert (found.code, found.objection) == (MINORITY, OPERATORS)


@pytest.mark.slow
def test_a_thousand_keys_take_less_than_a_hundred_kilobytes() -> None:
    authors = [DeviceKey(bytes([number]) * 32) for number in range(4)]
    settings: dict[str, tuple[KeptOrder, ...]] = {
        f"app.pump.{number:04}.speed": (
            KeptOrder(OperationId(number.to_bytes(32)), authors[number % 4], 1_790_000_000_000_000, EVERYBODY, 1_200),
        )
        for number in range(1_000)
    }
    state = CheckpointState(first.id, _PINS, dict.fromkeys(authors, "Frida"), None, settings, bytes(32))
    length = sum(len(part.to_wire()) for part in divided(state.to_wire()))
    assert length <= 100_000
    assert len(divided(state.to_wire())) == 2


def test_a_state_without_bound_is_not_written() -> None:
    with pytest.raises(LimitError):
        divided(bytes(CHECKPOINT_PARTS * CHECKPOINT_PART_BYTES + 1))


@pytest.mark.parametrize(
    "part",
    [
        CheckpointPart(1, 1, bytes(32), b""),
        CheckpointPart(0, 0, bytes(32), b""),
        CheckpointPart(0, CHECKPOINT_PARTS + 1, bytes(32), b""),
        CheckpointPart(0, 1, bytes(31), b""),
        CheckpointPart(0, 1, bytes(32), bytes(CHECKPOINT_PART_BYTES + 1)),
    ],
)
def test_a_part_beyond_its_bounds_is_refused(part: CheckpointPart) -> None:
    with pytest.raises(RemoteError):
        CheckpointPart.from_wire(part.to_wire())


def test_a_state_in_another_order_is_refused() -> None:
    state = state_over(_HISTORY, _PINS, _ADMINS).to_wire()
    [one, two] = sorted((ALICE.signing_public, BOB.signing_public))
    swapped = state.replace(one, b"\x00" * 32).replace(two, one).replace(b"\x00" * 32, two)
    with pytest.raises(MalformedError):
        CheckpointState.from_wire(swapped)
