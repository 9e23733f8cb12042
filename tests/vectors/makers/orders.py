"""orders.json: bodies of what operators say, which orders of a history count, and bodies of what became of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from covey.core.actions.secrets import seal_arguments
from covey.core.crypto import Identity
from covey.core.history.body import OperationBody
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.orders import Approval, CommandOrder, Obeying, OperatorChange, SettingOrder
from covey.core.history.releases import ReleaseChange, ReleaseState
from covey.core.ids import Incarnation, NoisePublic, OperationId
from covey.core.orders.roll_out import RollOut, Wave
from covey.core.orders.selector import EVERYBODY, Selector, SelectorKind
from covey.core.settings.secrets import seal_value
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, MALLORY, NOW_US, cbor, keys, seeded
from tests.vectors.makers.groups import WITH_CAROL
from tests.vectors.makers.order_reports import reports, results
from tests.vectors.makers.plans import order_plans

_ONCE = seeded("once", 16)
_DEVICES = Selector(SelectorKind.DEVICES, devices=tuple(sorted((ALICE.signing_public, BOB.signing_public))))
_PUMPS = Selector(SelectorKind.LABEL, name="Pumpe 3")
_REBOOT = CommandOrder(EVERYBODY, "reboot", {}, _ONCE)


def said(author: Identity, body: OperationBody, *parents: Operation, log: str = "") -> Operation:
    """Return an operation that begins a log of its own, made of what it says, where, and `log`."""
    height = 1 + max((parent.height for parent in parents), default=0)
    ids = tuple(sorted(parent.id for parent in parents))
    incarnation = Incarnation(seeded(f"{author.signing_public.hex()} {body.to_wire().hex()} {height} {log}", 8))
    first = Log(author.signing_public, incarnation)
    return sign_operation(
        Operation(GROUP_ID, first, 1, None, ids, height, WITH_CAROL.hash, NOW_US, int(body.kind), body.to_wire()),
        author,
    )


def as_they_may_come(operations: Iterable[Operation]) -> Iterator[Operation]:
    """Yield operations in their order here, but each after those of them that it follows."""
    waiting = {operation.id: operation for operation in operations}

    def with_parents(operation: Operation) -> Iterator[Operation]:
        stack = [operation]
        while stack:
            below = [waiting[each] for each in stack[-1].parents if each in waiting]
            if below:
                stack += below
            else:
                found = stack.pop()
                if waiting.pop(found.id, None) is not None:
                    yield found

    while waiting:
        yield from with_parents(next(iter(waiting.values())))


def adds(who: Identity, label: str = "") -> OperatorChange:
    """Return the change that makes a device an operator."""
    return OperatorChange(who.signing_public, label, added=True)


def removes(who: Identity) -> OperatorChange:
    """Return the change after which a device is none."""
    return OperatorChange(who.signing_public, "", added=False)


def order(number: int = 0) -> CommandOrder:
    """Return a command."""
    return CommandOrder(EVERYBODY, "reboot", {}, seeded(f"once {number}", 16))


def _wave(selector: Selector, stop: int = 2, seen_within_us: int | None = None) -> CommandOrder:
    """Return one wave of a plan."""
    waves = (Wave(devices=1), Wave(percent=100))
    plan = RollOut(EVERYBODY, waves, stop, 900_000_000, 0, seen_within_us)
    return CommandOrder(selector, "pump", {}, _ONCE, roll_out=plan)


def _bodies() -> list[dict[str, Any]]:
    arguments = {"unit": "sshd.service", "lines": "50"}
    taken: dict[str, OperationBody] = {
        "an operator is added": adds(BOB, "Frida, Werkstatt"),
        "an operator is removed": removes(BOB),
        "a setting for everybody": SettingOrder(EVERYBODY, "telemetry.batch_seconds", "2.5"),
        "a setting of a program": SettingOrder(_PUMPS, "app.pump.speed", 1_200),
        "a setting is unset": SettingOrder(_DEVICES, "sensors.enabled"),
        "a sealed setting": SettingOrder(_DEVICES, "app.pump.token", sealed=b"\x01"),
        "a setting with a once-id": SettingOrder(_PUMPS, "app.pump.speed", 1_200, once=_ONCE),
        "a truth value": SettingOrder(Selector(SelectorKind.CAPABILITY, name="collector"), "sensors.enabled", False),
        "a command": CommandOrder(_DEVICES, "journal", arguments, _ONCE, NOW_US + 3_600_000_000),
        "a command without arguments": _REBOOT,
        "a command with sealed arguments": CommandOrder(_DEVICES, "set-wifi", {"ssid": "barn"}, _ONCE, sealed=b"\x01"),
        "a wave of a roll-out": CommandOrder(
            _DEVICES,
            "fetch-file",
            {},
            _ONCE,
            roll_out=RollOut(_PUMPS, (Wave(devices=1), Wave(percent=10), Wave(percent=100)), 2, 900_000_000, 0),
        ),
        "the third wave of a roll-out": replace(_wave(_DEVICES), wave=3),
        "a wave whose devices have to be heard": _wave(_DEVICES, seen_within_us=600_000_000),
        "a release is paused": ReleaseChange(_ONCE, ReleaseState.PAUSED, "1 failed: pump-3"),
        "a release is aborted": ReleaseChange(_ONCE, ReleaseState.ABORTED),
        "a release goes on in spite of one": ReleaseChange(
            _ONCE, ReleaseState.GOING, accepted=(BOB.signing_public,), stop_percent=5
        ),
        "an approval": Approval(OperationId(seeded("order"))),
        "somebody obeys": Obeying(),
    }
    everybody: list[object] = [0]
    refused: dict[tuple[str, int, str], object] = {
        ("an operator without a label", 4, "malformed"): [ALICE.signing_public, True],
        ("an operator's key too short", 4, "malformed"): [b"key", "", True],
        ("a selector of an unknown kind", 5, "malformed"): [[4, "x"], "a", 1, None],
        ("a selector of no label", 5, "malformed"): [[1, ""], "a", 1, None],
        ("a selector of no device", 5, "malformed"): [[3, []], "a", 1, None],
        ("a device selected twice", 5, "malformed"): [[3, [bytes(32), bytes(32)]], "a", 1, None],
        ("a setting's key with a space", 5, "malformed"): [everybody, "a b", 1, None],
        ("a setting open and sealed", 5, "malformed"): [everybody, "a", 1, b"\x01"],
        ("a setting that is a list", 5, "malformed"): [everybody, "a", [1], None],
        ("a setting with a once-id under an even key", 5, "unsupported"): [everybody, "a", 1, None, {2: _ONCE}],
        ("a setting with its once-id among the fields", 5, "malformed"): [everybody, "a", 1, None, _ONCE],
        ("a setting too long", 5, "limit"): [everybody, "a", "x" * 16_385, None],
        ("an action that is a path", 6, "malformed"): [everybody, "../sh", {}, _ONCE, None, None],
        ("an action of no name", 6, "malformed"): [everybody, "", {}, _ONCE, None, None],
        ("an argument's name with a space", 6, "malformed"): [everybody, "a", {"a b": ""}, _ONCE, None, None],
        ("an argument that is a number", 6, "malformed"): [everybody, "a", {"a": 1}, _ONCE, None, None],
        ("seventeen arguments", 6, "limit"): [everybody, "a", {f"a{n}": "" for n in range(17)}, _ONCE, None, None],
        ("a once-id too short", 6, "malformed"): [everybody, "a", {}, b"once", None, None],
        ("a roll-out of no wave", 6, "malformed"): [everybody, "a", {}, _ONCE, None, None, [everybody, [], 2, 1, 0]],
        ("a wave of nobody", 6, "malformed"): [everybody, "a", {}, _ONCE, None, None, [everybody, [0], 2, 1, 0]],
        ("a wave beyond all", 6, "malformed"): [
            everybody,
            "a",
            {},
            _ONCE,
            None,
            None,
            [everybody, [[101]], 2, 1, 0],
        ],
        ("a wave with sealed arguments", 6, "malformed"): [
            everybody,
            "a",
            {},
            _ONCE,
            None,
            b"\x01",
            [everybody, [1], 2, 1, 0],
        ],
        ("seventeen waves", 6, "limit"): [everybody, "a", {}, _ONCE, None, None, [everybody, [1] * 17, 2, 1, 0]],
        ("an approval of nothing", 7, "malformed"): [None],
        ("somebody obeys something", 8, "malformed"): [1],
        ("a release of an unknown state", 13, "malformed"): [_ONCE, 3, "", [], None],
        ("a release paused in spite of one", 13, "malformed"): [_ONCE, 1, "", [bytes(32)], None],
        ("a release aborted with a bound", 13, "malformed"): [_ONCE, 2, "", [], 5],
        ("a device accepted twice", 13, "malformed"): [_ONCE, 0, "", [bytes(32), bytes(32)], None],
        ("a release paused at length", 13, "limit"): [_ONCE, 1, "x" * 257, [], None],
    }
    return [
        *(
            {"name": name, "code": None, "kind": int(body.kind), "bytes": body.to_wire().hex()}
            for name, body in taken.items()
        ),
        *(
            {"name": name, "code": code, "kind": kind, "bytes": cbor(body).hex()}
            for (name, kind, code), body in refused.items()
        ),
    ]


def _secrets() -> list[dict[str, Any]]:
    """Sealed values, drawn with fixed randomness, and what Bob reads in them."""
    alice, bob = ALICE.noise_public, BOB.noise_public
    cases: list[tuple[str, Selector, list[NoisePublic], str, int]] = [
        ("for one device", _DEVICES, [bob], "hunter2", 0),
        ("for two devices", EVERYBODY, [alice, bob], "x" * 61, 0),
        ("in the second bucket", EVERYBODY, [alice, bob], "x" * 62, 0),
        ("for another device", EVERYBODY, [alice], "hunter2", 0),
        ("cut off", EVERYBODY, [bob], "hunter2", 1),
    ]
    found: list[dict[str, Any]] = []
    for name, selector, recipients, value, cut in cases:
        drawn = iter((seeded(f"ephemeral {name}"), seeded(f"content {name}")))

        def draw(_: int, drawn: Iterator[bytes] = drawn) -> bytes:
            return next(drawn)

        about = (GROUP_ID, ALICE.signing_public, "app.token", selector)
        sealed = seal_value(value, recipients, *about, draw)
        opens = bob in recipients and not cut
        found.append(
            {
                "name": name,
                "group_id": GROUP_ID.hex(),
                "author": ALICE.signing_public.hex(),
                "key": "app.token",
                "selector": cbor(selector.to_wire()).hex(),
                "noise_secret": BOB.noise_secret.hex(),
                "bytes": sealed[: len(sealed) - cut].hex(),
                "value": value if opens else None,
                "code": None if opens else "malformed" if cut else "decryption",
            }
        )
    return found


def _secret_arguments() -> list[dict[str, Any]]:
    """Sealed arguments, drawn with fixed randomness, and what Bob reads in them."""
    alice, bob = ALICE.noise_public, BOB.noise_public
    wifi = {"key": "hunter2", "pin": "7"}
    as_given = (GROUP_ID, ALICE.signing_public, "set-wifi", _ONCE, _DEVICES)
    others = {
        "in another group": (seeded("another group"), *as_given[1:]),
        "by another author": (GROUP_ID, MALLORY.signing_public, *as_given[2:]),
        "in a command for another action": (*as_given[:2], "show-wifi", *as_given[3:]),
        "in another command": (*as_given[:3], seeded("another once", 16), _DEVICES),
        "in a command for others": (*as_given[:4], EVERYBODY),
    }
    cases: list[tuple[str, list[NoisePublic], dict[str, str], tuple[Any, ...], str | None]] = [
        ("for one device", [bob], wifi, as_given, None),
        ("for two devices", [alice, bob], {"key": "x" * 54}, as_given, None),
        ("in the second bucket", [alice, bob], {"key": "x" * 58}, as_given, None),
        ("for another device", [alice], wifi, as_given, "decryption"),
        ("a name with a space", [bob], {"a key": "hunter2"}, as_given, "malformed"),
        ("an argument too long", [bob], {"key": "x" * 1_025}, as_given, "limit"),
        *((f"copied: {name}", [bob], wifi, about, "decryption") for name, about in others.items()),
    ]
    found: list[dict[str, Any]] = []
    for name, recipients, arguments, about, code in cases:
        drawn = iter((seeded(f"ephemeral of arguments {name}"), seeded(f"content of arguments {name}")))

        def draw(_: int, drawn: Iterator[bytes] = drawn) -> bytes:
            return next(drawn)

        group_id, author, action, once, selector = about
        found.append(
            {
                "name": name,
                "group_id": group_id.hex(),
                "author": author.hex(),
                "action": action,
                "once": once.hex(),
                "selector": cbor(selector.to_wire()).hex(),
                "noise_secret": BOB.noise_secret.hex(),
                "bytes": seal_arguments(arguments, recipients, *as_given, draw).hex(),
                "arguments": arguments if code is None else None,
                "code": code,
            }
        )
    return found


def _case(
    name: str,
    operators: tuple[Identity, ...],
    counts: tuple[Operation, ...],
    *written: Operation,
    threshold: int = 1,
    members: tuple[Identity, ...] = (ALICE, BOB, CAROL, MALLORY),
) -> dict[str, Any]:
    """Say who is an operator in the end, and which of the commands count, where Alice is pinned; by 2, Bob as well."""
    pinned = (ALICE,) if threshold == 1 else (ALICE, BOB)
    return {
        "name": name,
        "pinned": [each.signing_public.hex() for each in pinned],
        "threshold": threshold,
        "members": [each.signing_public.hex() for each in members],
        "operations": [each.raw.hex() for each in written],
        "operators": sorted(each.signing_public.hex() for each in operators),
        "counts": sorted(each.id.hex() for each in counts),
    }


def _single() -> list[dict[str, Any]]:
    by_alice, by_mallory = said(ALICE, order()), said(MALLORY, order())
    self_made = said(MALLORY, adds(MALLORY))
    bob = said(ALICE, adds(BOB, "Frida"))
    by_bob, too_soon = said(BOB, order(), bob), said(BOB, order(1))
    carol = said(BOB, adds(CAROL), bob)
    bob_gone = said(ALICE, removes(BOB), bob, by_bob)
    beside = said(BOB, order(2), bob)
    late = said(BOB, order(3), bob_gone)
    back = said(ALICE, adds(BOB), bob_gone)
    readded = said(BOB, order(4), back)
    accomplice = said(BOB, adds(MALLORY), bob)
    by_accomplice = said(MALLORY, order(5), accomplice)
    by_carol = said(CAROL, order(6), carol)
    alice_gone = said(BOB, removes(ALICE), bob)
    rival = said(ALICE, removes(BOB), bob)
    revenge = said(BOB, removes(ALICE), rival)
    return [
        _case("by whoever is pinned", (ALICE,), (by_alice,), by_alice),
        _case("by nobody of note", (ALICE,), (), by_mallory),
        _case("by one that made itself an operator", (ALICE,), (), self_made, said(MALLORY, order(), self_made)),
        _case("by one that was added", (ALICE, BOB), (by_bob,), bob, by_bob),
        _case("by one that did not know yet", (ALICE, BOB), (), bob, too_soon),
        _case("a chain of additions", (ALICE, BOB, CAROL), (by_carol,), bob, carol, by_carol),
        _case("before the removal, and it knew", (ALICE,), (by_bob,), bob, by_bob, bob_gone),
        _case("beside the removal", (ALICE,), (by_bob,), bob, by_bob, bob_gone, beside),
        _case("after the removal", (ALICE,), (by_bob,), bob, by_bob, bob_gone, late),
        _case("after it was added again", (ALICE, BOB), (by_bob, readded), bob, by_bob, bob_gone, late, back, readded),
        _case(
            "what it added stays",
            (ALICE, CAROL),
            (by_carol,),
            bob,
            carol,
            by_carol,
            said(ALICE, removes(BOB), by_carol),
        ),
        _case(
            "what it added beside its removal does not",
            *((ALICE,), (by_bob,)),
            *(bob, by_bob, bob_gone, accomplice, by_accomplice),
        ),
        _case("two that remove each other", (), (), bob, alice_gone, rival, said(ALICE, order(), bob)),
        _case("a removed one removes nobody", (ALICE,), (), bob, rival, revenge),
        _case("by one that is no member any more", (ALICE, BOB), (), bob, by_bob, members=(ALICE, CAROL)),
        _case("one that removes itself", (BOB,), (), bob, said(ALICE, removes(ALICE), bob)),
    ]


def _by_two() -> list[dict[str, Any]]:
    one = said(ALICE, order())
    approved = said(BOB, Approval(one.id), one)
    by_stranger = said(MALLORY, Approval(one.id), one)
    carol = said(ALICE, adds(CAROL))
    carol_too = said(BOB, Approval(carol.id), carol)
    by_carol = said(CAROL, order(1), carol_too)
    carol_approved = said(ALICE, Approval(by_carol.id), by_carol)
    too_early = said(CAROL, order(1), carol)
    early_approved = said(ALICE, Approval(too_early.id), too_early)
    draft = said(MALLORY, order(2))
    both = said(ALICE, Approval(draft.id), draft), said(BOB, Approval(draft.id), draft)
    bob_gone = said(ALICE, removes(BOB), one)
    later_gone = said(ALICE, removes(BOB), one, carol_too)
    carol_agrees = said(CAROL, Approval(later_gone.id), later_gone)
    return [
        _case("one of two", (ALICE, BOB), (), one, threshold=2),
        _case("two of two", (ALICE, BOB), (one,), one, approved, threshold=2),
        _case("one, twice", (ALICE, BOB), (), one, said(ALICE, Approval(one.id), one), threshold=2),
        _case("one, and a stranger", (ALICE, BOB), (), one, by_stranger, threshold=2),
        _case("a stranger's, approved by two", (ALICE, BOB), (), draft, *both, threshold=2),
        _case("added by one of two", (ALICE, BOB), (), carol, too_early, early_approved, threshold=2),
        _case(
            "added by two of two",
            *((ALICE, BOB, CAROL), (by_carol,)),
            *(carol, carol_too, by_carol, carol_approved),
            threshold=2,
        ),
        _case("removed by one of two", (ALICE, BOB), (one,), one, approved, bob_gone, threshold=2),
        _case(
            "removed by two, beside an approval",
            *((ALICE, CAROL), ()),
            *(one, approved, carol, carol_too, later_gone, carol_agrees),
            threshold=2,
        ),
    ]


def _waves() -> list[dict[str, Any]]:
    """Waves where two have to agree: with one of a plan they agree with all of it, and with nothing else."""
    first = said(ALICE, _wave(_DEVICES))
    agreed = said(BOB, Approval(first.id), first)
    second, by_bob = said(ALICE, _wave(EVERYBODY), first), said(BOB, _wave(EVERYBODY), agreed)
    other_plan = said(ALICE, _wave(EVERYBODY, stop=50), agreed)
    by_stranger = said(MALLORY, _wave(EVERYBODY), agreed)
    return [
        _case("a wave that one of two has given", (ALICE, BOB), (), first, second, threshold=2),
        _case("each wave of a plan of two", (ALICE, BOB), (first, second), first, agreed, second, threshold=2),
        _case("a wave by whoever agreed", (ALICE, BOB), (first, by_bob), first, agreed, by_bob, threshold=2),
        _case("a wave of another plan", (ALICE, BOB), (first,), first, agreed, other_plan, threshold=2),
        _case("a stranger's wave of a plan of two", (ALICE, BOB), (first,), first, agreed, by_stranger, threshold=2),
    ]


def make() -> dict[str, Any]:
    """Return the file."""
    judgements = [*_single(), *_by_two(), *_waves()]
    return {
        "keys": keys(),
        "group_id": GROUP_ID.hex(),
        "bodies": _bodies(),
        "plans": order_plans(),
        "judgements": judgements,
        "results": results(),
        "reports": reports(),
        "secrets": _secrets(),
        "secret_arguments": _secret_arguments(),
    }
