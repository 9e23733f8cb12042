"""`covey.core.orders.selector`: whom an order is for."""

from __future__ import annotations

import pytest

from covey.core.crypto import Identity
from covey.core.group.manifest import BOARD, COLLECTOR, Member
from covey.core.ids import device_name, fingerprint, key_text
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind, read_selector
from covey.errors import RemoteError, UsageError
from tests.vectors.makers.cast import ALICE, BOB, CAROL, MALLORY


def _member(identity: Identity, label: str, *capabilities: str) -> Member:
    return Member(identity.keys, label, capabilities=capabilities)


PUMP, ROOF, OFFICE, BOARD_MEMBER = (
    _member(ALICE, "pump"),
    _member(BOB, "roof"),
    _member(CAROL, "office", COLLECTOR),
    _member(MALLORY, "pump", BOARD),
)
_MEMBERS = (PUMP, ROOF, OFFICE, BOARD_MEMBER)


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("all", [PUMP, ROOF, OFFICE]),
        ("label:pump", [PUMP]),
        ("capability:collector", [OFFICE]),
        (device_name(BOB.signing_public), [ROOF]),
        (BOB.signing_public.hex(), [ROOF]),
        (key_text("sign", BOB.signing_public), [ROOF]),
        (device_name(MALLORY.signing_public), [BOARD_MEMBER]),  # a board by itself, and with nobody else
        ("pump", [BOARD_MEMBER]),
        ("roof", [ROOF]),
        ("roof, office", [ROOF, OFFICE]),
        (f"{fingerprint(BOB.signing_public)}, {device_name(ALICE.signing_public)}", [PUMP, ROOF]),
    ],
)
def test_a_selector_text_selects_its_members(text: str, selected: list[Member]) -> None:
    selector = read_selector(text, _MEMBERS)
    assert [member for member in _MEMBERS if selector.selects(member)] == selected
    assert Selector.from_wire(selector.to_wire()) == selector


@pytest.mark.parametrize(
    "text",
    [
        "",
        "everybody",
        "label:",
        "label:cellar",
        "capability:x",
        "ffffffff",
        "tag:pump",
    ],
)
def test_a_selector_of_nobody_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        read_selector(text, _MEMBERS)


def test_of_several_devices_with_one_label_none_is_meant() -> None:
    shed = _member(CAROL, "pump")
    with pytest.raises(UsageError, match="several devices") as caught:
        read_selector("pump", (PUMP, shed))
    assert "label:pump" in caught.value.hint
    called = _member(CAROL, device_name(ALICE.signing_public))
    assert read_selector(called.label, (PUMP, called)).devices == (ALICE.signing_public,), "a name goes before a label"


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        [0, 1],
        [False],
        [True, "pump"],
        [1],
        [1, ""],
        [1, b"pump"],
        [2, "x" * 33],
        [3, []],
        [3, [b"short"]],
        [3, [bytes([2]) * 32, bytes([1]) * 32]],
        [3, [bytes(32), bytes(32)]],
        [4, "x"],
        ["1", "x"],
        [[1], "x"],
    ],
)
def test_no_selector(value: object) -> None:
    with pytest.raises(RemoteError):
        Selector.from_wire(value)


def test_selectors_have_readable_texts() -> None:
    assert str(EVERYBODY) == "all"
    assert str(Selector(SelectorKind.LABEL, name="pump")) == "label:pump"
    assert str(read_selector(device_name(BOB.signing_public), _MEMBERS)) == device_name(BOB.signing_public)
