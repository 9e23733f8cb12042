"""personal.json: histories of a personal group, and what they come to; bodies of plans for several groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from covey.adapters.sqlite.store import empty_history
from covey.core.crypto import Identity
from covey.core.group.manifest import Member, Mode, genesis, secret_id, sign_manifest
from covey.core.history.bodies import Opaque
from covey.core.history.body import OperationBody
from covey.core.history.kinds import OperationKind
from covey.core.history.operation import Log, Operation, sign_operation
from covey.core.history.personal import FleetPlan, Holding, OwnGroup, Preference
from covey.core.ids import GroupId
from covey.core.orders.plans import kept_plans
from covey.core.own.state import PersonalState, personal_state
from tests.vectors.makers.cast import ALICE, BOB, CAROL, GROUP_ID, INCARNATION, NOW_US, keys, seeded
from tests.vectors.makers.plans import REMOVAL, SPEED, plan_bodies

_ALONE = sign_manifest(genesis(GROUP_ID, Member(ALICE.keys), secret_id(seeded("epoch")), Mode.PERSONAL), ALICE)
_WITH_CAROL = sign_manifest(_ALONE.adding(Member(BOB.keys)).adding(Member(CAROL.keys)), ALICE)
_PERSONAL = sign_manifest(_WITH_CAROL.removing(CAROL.signing_public, secret_id(seeded("next epoch"))), ALICE)
_PUMPS = GroupId(seeded("pumps"))
_FIELDS = GroupId(seeded("fields"))


def _said(author: Identity, body: OperationBody, *before: Operation) -> Operation:
    """Return an operation that follows all of those before it."""
    own = [each for each in before if each.author == author.signing_public]
    return sign_operation(
        Operation(
            GROUP_ID,
            Log(author.signing_public, INCARNATION),
            len(own) + 1,
            own[-1].id if own else None,
            (before[-1].id,) if before else (),
            len(before) + 1,
            _WITH_CAROL.hash,
            NOW_US,
            int(OperationKind.PLAN if isinstance(body, Opaque) else body.kind),
            body.to_wire(),
        ),
        author,
    )


def _history(*said: tuple[Identity, OperationBody]) -> list[Operation]:
    found: list[Operation] = []
    for author, body in said:
        found.append(_said(author, body, *found))
    return found


_HELD, _LEFT = OwnGroup(_PUMPS, Holding.HELD, "Pumpen"), OwnGroup(_PUMPS, Holding.LEFT, "Pumpen")
_SCENARIOS = {
    "held": _history((ALICE, _HELD)),
    "held, then left by another device": _history((ALICE, _HELD), (BOB, _LEFT)),
    "left, then erased": _history((ALICE, _HELD), (BOB, _LEFT), (BOB, OwnGroup(_PUMPS, Holding.ERASED))),
    "left, and held again": _history((ALICE, _HELD), (BOB, _LEFT), (ALICE, _HELD)),
    "left by a device that is no member any more": _history((ALICE, _HELD), (CAROL, _LEFT)),
    "held by a device that is no member any more": _history((CAROL, _HELD)),
    "of the personal group itself": _history((ALICE, OwnGroup(GROUP_ID, Holding.ERASED))),
    "preferences": _history(
        (ALICE, Preference(None, "theme", "dark")),
        (BOB, Preference(None, "theme", "light")),
        (BOB, Preference(_FIELDS, "muted", "yes")),
        (ALICE, Preference(None, "units", "SI")),
        (ALICE, Preference(None, "units", None)),
    ),
    "two plans": _history((ALICE, SPEED), (BOB, REMOVAL)),
    "two words about one plan": _history(
        (ALICE, SPEED), (BOB, replace(SPEED, text="something else", groups=(_PUMPS,)))
    ),
    "a plan by a device that is no member any more": _history((CAROL, SPEED)),
    "a plan that cannot be read": _history((ALICE, Opaque(14, b"\x80")), (ALICE, _HELD)),
}


def _state(operations: list[Operation]) -> tuple[PersonalState, list[FleetPlan]]:
    with empty_history() as tables:
        for each in operations:
            tables.add(each, _WITH_CAROL.version, NOW_US)
        members = {each.keys.signing_public for each in _PERSONAL.members}
        plans = [plan for plan, _ in kept_plans(tables, GROUP_ID, ()).values()]
        return personal_state(tables, GROUP_ID, (), members), plans


def _scenario(name: str, operations: list[Operation]) -> dict[str, Any]:
    state, plans = _state(operations)
    return {
        "name": name,
        "operations": [each.raw.hex() for each in operations],
        "groups": [[each.group_id.hex(), int(each.holding), each.title] for each in state.groups.values()],
        "preferences": [
            [None if group is None else group.hex(), key, value] for (group, key), value in state.preferences.items()
        ],
        "plans": [[each.id.hex(), each.given, each.text, [group.hex() for group in each.groups]] for each in plans],
    }


def make() -> dict[str, Any]:
    """Return the file."""
    return {
        "about": "A device holds a personal group's history, all of which counts by section 23; the last manifest "
        "lists who is a member. `groups` are [group, holding, title], `preferences` [group or null, key, value], "
        "`plans` [id, kind or null, text, groups]. `bodies` are those of plans; one with a code is opaque.",
        "keys": keys(),
        "group_id": GROUP_ID.hex(),
        "manifests": [each.raw.hex() for each in (_ALONE, _WITH_CAROL, _PERSONAL)],
        "bodies": plan_bodies(),
        "scenarios": [_scenario(name, operations) for name, operations in _SCENARIOS.items()],
    }
