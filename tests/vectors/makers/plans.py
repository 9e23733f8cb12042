"""Plans for several groups: bodies of kind PLAN (personal.json), and the orders of a plan (orders.json)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.orders import Approval, CommandOrder, SettingOrder
from covey.core.history.personal import FleetPlan
from covey.core.ids import GroupId, OperationId, PlanId
from covey.core.orders.plans import plan_id
from covey.core.orders.roll_out import RollOut, Wave
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from tests.vectors.makers.cast import ALICE, BOB, NOW_US, cbor, seeded

_ONCE = seeded("once of a plan", 16)
_ONE_DEVICE, _OTHER_DEVICE = (Selector(SelectorKind.DEVICES, devices=(each.signing_public,)) for each in (ALICE, BOB))
_PUMPS = Selector(SelectorKind.LABEL, name="Pumpe 3")
PUMPS, FIELDS = sorted(GroupId(seeded(name)) for name in ("pumps", "fields"))
SPEED = FleetPlan(PlanId(seeded("plan")), int(OperationKind.SETTING), "app.pump.speed = 1200", (PUMPS, FIELDS))
REBOOT = CommandOrder(EVERYBODY, "reboot", {}, _ONCE)
WITH_ORDER = FleetPlan(PlanId(seeded("plan 2")), int(REBOOT.kind), "reboot", (PUMPS, FIELDS), REBOOT.to_wire())
REMOVAL = FleetPlan(PlanId(seeded("removal")), None, "removed Frida", (PUMPS,))


def plan_bodies() -> list[dict[str, Any]]:
    """Return bodies of kind PLAN: those that say something, and those that are opaque, with the code why."""
    taken = {"a setting in two groups": SPEED, "a removal": REMOVAL, "a command with its order": WITH_ORDER}
    fields = [SPEED.id, SPEED.given, SPEED.text, [PUMPS, FIELDS]]
    many = sorted(seeded(f"group {number}") for number in range(129))
    rows: list[tuple[str, str | None, object]] = [
        ("no words", None, [*fields[:2], "", fields[3]]),
        ("the longest words", None, [*fields[:2], "é" * 128, fields[3]]),
        ("the highest kind", None, [fields[0], 255, *fields[2:]]),
        ("as many groups as a device is in", None, [*fields[:3], many[:-1]]),
        ("an odd key", None, [*fields, {1: "more"}]),
        ("an even key", "unsupported", [*fields, {2: "more"}]),
        ("an even key, and a field fewer", "unsupported", [*fields[:3], {2: "more"}]),
        ("no group", "malformed", [*fields[:3], []]),
        ("a group twice", "malformed", [*fields[:3], [PUMPS, PUMPS]]),
        ("groups descending", "malformed", [*fields[:3], [FIELDS, PUMPS]]),
        ("a group's id too short", "malformed", [*fields[:3], [PUMPS[:-1]]]),
        ("a group too many", "limit", [*fields[:3], many]),
        ("a byte too many of words", "limit", [*fields[:2], "x" * 257, fields[3]]),
        ("a kind beyond all", "malformed", [fields[0], 256, *fields[2:]]),
        ("a kind by its name", "malformed", [fields[0], "setting", *fields[2:]]),
        ("an id of 16 bytes", "malformed", [SPEED.id[:16], *fields[1:]]),
        ("a field missing", "malformed", fields[:3]),
        ("the longest order", None, [*fields, bytes(57_344)]),
        ("a byte too many of an order", "limit", [*fields, bytes(57_345)]),
        ("no order where there is one", "malformed", [*fields, None]),
        ("a field too many", "malformed", [*fields, b"order", None]),
    ]
    return [
        *({"name": name, "code": None, "bytes": body.to_wire().hex()} for name, body in taken.items()),
        *({"name": name, "code": code, "bytes": cbor(body).hex()} for name, code, body in rows),
    ]


def _wave(selector: Selector = EVERYBODY, stop: int = 2, **arguments: str) -> CommandOrder:
    plan = RollOut(selector, (Wave(percent=100),), stop, 900_000_000, 0)
    return CommandOrder(_ONE_DEVICE, "pump", arguments, _ONCE, roll_out=plan)


def order_plans() -> list[dict[str, Any]]:
    """Return orders by Alice, and by Bob, with the plan that each belongs to; null where it belongs to none."""
    setting = SettingOrder(EVERYBODY, "app.pump.speed", 1_200, once=_ONCE)
    command = CommandOrder(EVERYBODY, "reboot", {"delay": "5"}, _ONCE)
    orders: dict[str, OperationBody] = {
        "a setting": setting,
        "the same setting, of another plan": SettingOrder(EVERYBODY, "app.pump.speed", 1_200, once=seeded("2nd", 16)),
        "another value": SettingOrder(EVERYBODY, "app.pump.speed", 1_300, once=_ONCE),
        "a value unset": SettingOrder(EVERYBODY, "app.pump.speed", once=_ONCE),
        "a sealed value": SettingOrder(EVERYBODY, "app.pump.speed", sealed=b"\x01", once=_ONCE),
        "a sealed value, sealed otherwise in another group": SettingOrder(
            EVERYBODY, "app.pump.speed", sealed=b"\x02", once=_ONCE
        ),
        "a setting for a label": SettingOrder(_PUMPS, "app.pump.speed", 1_200, once=_ONCE),
        "a setting for one device": SettingOrder(_ONE_DEVICE, "app.pump.speed", 1_200, once=_ONCE),
        "a setting for another device": SettingOrder(_OTHER_DEVICE, "app.pump.speed", 1_200, once=_ONCE),
        "a setting without a once-id": SettingOrder(EVERYBODY, "app.pump.speed", 1_200),
        "a command": command,
        "a command with a deadline": CommandOrder(EVERYBODY, "reboot", {"delay": "5"}, _ONCE, NOW_US),
        "a command with sealed arguments": CommandOrder(EVERYBODY, "reboot", {}, _ONCE, sealed=b"\x01"),
        "a command for devices": CommandOrder(_OTHER_DEVICE, "reboot", {"delay": "5"}, _ONCE),
        "a wave of a roll-out": _wave(),
        "a wave for other devices": replace(_wave(), selector=_OTHER_DEVICE, wave=2),
        "a wave in one group": _wave(group="01", file="02"),
        "a wave in another group": _wave(group="03", file="04"),
        "a wave with another argument": _wave(group="03", file="04", mode="fast"),
        "a wave with another bound": _wave(stop=5),
        "a wave of a roll-out for a label": _wave(_PUMPS),
        "a wave of a roll-out for one device": _wave(_ONE_DEVICE),
        "a wave of a roll-out for another device": _wave(_OTHER_DEVICE),
        "an approval": Approval(OperationId(seeded("order"))),
    }
    said = [[0], "app.pump.speed", 1_200, None]
    odd: dict[str, object] = {
        "a once-id of 15 bytes": {1: _ONCE[:-1]},
        "a once-id of 17 bytes": {1: _ONCE + b"\0"},
        "a once-id that is text": {1: "x" * 16},
        "a once-id, and another odd key": {1: _ONCE, 3: "more"},
    }
    found = [
        *(_belongs(name, ALICE.signing_public, body, body.to_wire()) for name, body in orders.items()),
        _belongs("a setting, by another operator", BOB.signing_public, setting, setting.to_wire()),
    ]
    for name, extensions in odd.items():
        raw = cbor([*said, extensions])
        found.append(_belongs(name, ALICE.signing_public, SettingOrder.from_wire(raw), raw))
    return found


def _belongs(name: str, author: Any, body: OperationBody, raw: bytes) -> dict[str, Any]:
    plan = plan_id(author, body)
    return {
        "name": name,
        "author": author.hex(),
        "kind": int(body.kind),
        "bytes": raw.hex(),
        "code": None,
        "plan": None if plan is None else plan.hex(),
    }
