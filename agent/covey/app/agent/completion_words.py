"""Completion candidates from local state: fast, offline, never raises.

Words come from other members, and shells expand what they complete with: so only letters, digits and `_.-` pass.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from covey.adapters.sqlite.completion_rows import newest_manifests, newest_operations, order_ids
from covey.adapters.state_path import default_state
from covey.errors import CoveyError

_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_SHORT = 8


def completion_words(kind: str, state: Path | None = None) -> list[str]:
    """Return the words of one of `KINDS` in a state, the default one if none is named; none where there are none."""
    found = dict.fromkeys(_KINDS[kind](state or default_state()))
    return [word for word in found if _PLAIN.fullmatch(word)]


def _actions(state: Path) -> list[str]:
    from covey.app import shipped_files

    shipped = [Path(name) for name in shipped_files.names() if name.startswith("operations.d/")]
    own = [*(state / "operations.d").glob("*.toml"), *Path("/etc/covey/operations.d").glob("*.toml")]
    return sorted({path.stem for path in (*shipped, *own)})


def _orders(state: Path) -> list[str]:
    from covey.core.history.kinds import kinds_that

    approved = kinds_that(lambda traits: traits.by_threshold)
    return [*_plans(state), *(each.hex()[:_SHORT] for each in order_ids(state, tuple(map(int, approved))))]


def _plans(state: Path) -> list[str]:
    from covey.core.history.kinds import OperationKind
    from covey.core.history.operation import read_operation
    from covey.core.history.personal import FleetPlan

    bodies = (read_operation(raw, verify=False).body for raw in newest_operations(state, OperationKind.PLAN))
    plans = map(FleetPlan.from_wire, bodies)
    return [each.id.hex()[:_SHORT] for each in plans if not each.text.startswith("release ")]


def _releases(state: Path) -> list[str]:
    from covey.core.history.kinds import OperationKind
    from covey.core.history.operation import read_operation
    from covey.core.history.orders import CommandOrder

    bodies = (read_operation(raw, verify=False).body for raw in newest_operations(state, OperationKind.COMMAND))
    orders = map(CommandOrder.from_wire, bodies)
    return [each.once.hex()[:_SHORT] for each in orders if each.roll_out is not None]


def _groups(state: Path) -> list[str]:
    from covey.core.group.manifest import read_manifest

    return [read_manifest(raw).group_id.hex()[:_SHORT] for raw in newest_manifests(state)]


def _devices(state: Path) -> list[str]:
    from covey.core.group.manifest import read_manifest

    members = [member for raw in newest_manifests(state) for member in read_manifest(raw).members]
    return sorted({member.label or member.keys.signing_public.hex()[:_SHORT] for member in members})


def _whom(state: Path) -> list[str]:
    return ["all", *_devices(state)]


def _quietly(find: Callable[[Path], list[str]]) -> Callable[[Path], list[str]]:
    def found(state: Path) -> list[str]:
        try:
            return find(state)
        except (CoveyError, OSError):
            return []

    return found


_KINDS = {
    "actions": _quietly(_actions),
    "devices": _quietly(_devices),
    "groups": _quietly(_groups),
    "orders": _quietly(_orders),
    "plans": _quietly(_plans),
    "releases": _quietly(_releases),
    "whom": _quietly(_whom),
}

KINDS = tuple(_KINDS)
"""What can be asked for."""
