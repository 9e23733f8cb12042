"""The kinds of operations and their traits: the one table that everything else reads (docs/protocol/history.md,
"History").

An operation of a kind that is not in the table is *opaque*: devices keep, forward, count and show it, and others may
follow it, but it has no effect. Kinds from `FIRST_UNJUDGED` on are opaque to older builds. So the content of such an
operation is never a reason to refuse it: a newer build that refused it would miss what follows it, and older builds
would not. An operation whose body does not match its kind is opaque as well. A change that devices must understand is
therefore a new kind: no even key of an extension map will ever be assigned in an operation.

To add a kind: give it a number in `OperationKind`, a row in `KINDS`, and a body class derived from `OperationBody`
(`body.py`), which defines its wire form, its sentence for people, its table row, and its targets. Acceptance, the index
of orders, checkpoints, forgetting, attempts, the history's JSON, completions and the ingest read the table and the
body.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum


class OperationKind(IntEnum):
    """What an operation is."""

    MERGE = 0
    NOTE = 1
    PROFILE = 2
    SESSION = 3
    OPERATOR = 4
    SETTING = 5
    COMMAND = 6
    APPROVAL = 7
    OBEYING = 8
    CHECKPOINT = 9
    OWN_GROUP = 10
    PREFERENCE = 11
    FILE = 12
    RELEASE = 13
    PLAN = 14

    @property
    def word(self) -> str:
        """The kind as people, programs and tables read it."""
        return self.name.lower()


FIRST_UNJUDGED = 14
"""The kinds below it came with version 1: every device knows them, and refuses one that breaks their rules."""


def kind_word(kind: int) -> str:
    """Return a kind as people read it, also one of a newer Covey."""
    return OperationKind(kind).word if kind in KINDS else f"kind {kind}"


class Place(Enum):
    """In which groups a kind may be written."""

    ANYWHERE = "anywhere"
    PERSONAL = "only in the group of one person's own devices"
    SHARED = "in any group but a personal one"


@dataclass(frozen=True, slots=True)
class KindTraits:
    """A kind's traits other than its body.

    `body` is `module:Class`, imported when the first one is read. `by_admins`: where the group's mode has admins, only
    they write it. `is_order`: operators say it to devices; collectors land it, and the table `orders` has a row for it.
    `gives`: it asks devices for something, so that one by a device without authority is an attempt. `targeted`: it is
    for the devices of a selector, and its targets remain when its content is deleted. `by_key`: it sets a key, and the
    last one for a key counts. `in_waves`: those with the same subject are waves of one plan. `bears_on_orders`: judging
    orders needs to know what follows it (`order_index.py`, in the store). `judged_by_place`: once a checkpoint covers
    it, nothing is judged by its content, which may be deleted. `by_threshold`: it counts when `operations.threshold`
    operators have signed it; otherwise its author's signature is enough.
    """

    body: str
    place: Place = Place.ANYWHERE
    by_admins: bool = False
    is_order: bool = False
    gives: bool = False
    targeted: bool = False
    by_key: bool = False
    in_waves: bool = False
    bears_on_orders: bool = False
    judged_by_place: bool = False
    by_threshold: bool = False


_BODIES, _ORDERS = "covey.core.history.bodies", "covey.core.history.orders"

KINDS: dict[OperationKind, KindTraits] = {
    OperationKind.MERGE: KindTraits(f"{_BODIES}:Merge", judged_by_place=True),
    OperationKind.NOTE: KindTraits(f"{_BODIES}:Note", judged_by_place=True),
    OperationKind.PROFILE: KindTraits(
        f"{_BODIES}:GroupProfile", by_admins=True, bears_on_orders=True, judged_by_place=True
    ),
    OperationKind.SESSION: KindTraits(f"{_BODIES}:Session", judged_by_place=True),
    OperationKind.OPERATOR: KindTraits(
        f"{_ORDERS}:OperatorChange", is_order=True, bears_on_orders=True, by_threshold=True
    ),
    OperationKind.SETTING: KindTraits(
        f"{_ORDERS}:SettingOrder",
        is_order=True,
        gives=True,
        targeted=True,
        by_key=True,
        bears_on_orders=True,
        by_threshold=True,
    ),
    OperationKind.COMMAND: KindTraits(
        f"{_ORDERS}:CommandOrder",
        is_order=True,
        gives=True,
        targeted=True,
        in_waves=True,
        bears_on_orders=True,
        by_threshold=True,
    ),
    OperationKind.APPROVAL: KindTraits(f"{_ORDERS}:Approval", is_order=True, bears_on_orders=True),
    OperationKind.OBEYING: KindTraits(f"{_ORDERS}:Obeying", bears_on_orders=True),
    OperationKind.CHECKPOINT: KindTraits(
        "covey.core.history.checkpoint:CheckpointPart",
        place=Place.SHARED,
        by_admins=True,
        bears_on_orders=True,
        judged_by_place=True,
    ),
    OperationKind.OWN_GROUP: KindTraits("covey.core.history.personal:OwnGroup", place=Place.PERSONAL),
    OperationKind.PREFERENCE: KindTraits("covey.core.history.personal:Preference", place=Place.PERSONAL),
    OperationKind.FILE: KindTraits("covey.core.history.files:FileOffer"),
    OperationKind.RELEASE: KindTraits(
        "covey.core.history.releases:ReleaseChange", is_order=True, gives=True, bears_on_orders=True
    ),
    OperationKind.PLAN: KindTraits("covey.core.history.personal:FleetPlan", place=Place.PERSONAL),
}


def kinds_that(has: Callable[[KindTraits], bool]) -> tuple[OperationKind, ...]:
    """Return the kinds whose traits are so, by number."""
    return tuple(kind for kind, traits in KINDS.items() if has(traits))


ORDER_KINDS = kinds_that(lambda traits: traits.is_order)
GIVING_KINDS = kinds_that(lambda traits: traits.gives)
TARGETED_KINDS = frozenset(kinds_that(lambda traits: traits.targeted))
PERSONAL_KINDS = (OperationKind.OWN_GROUP, OperationKind.PREFERENCE)
"""What a person's devices say of their groups and preferences; programs get an event of each."""
JUDGED_BY_PLACE = frozenset(kinds_that(lambda traits: traits.judged_by_place))
BEARING_ON_ORDERS = frozenset(kinds_that(lambda traits: traits.bears_on_orders))
