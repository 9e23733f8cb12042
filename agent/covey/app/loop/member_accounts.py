"""Accounts at the relay follow the groups: each member has one, also after a restore (docs/how-to/upkeep.md).

1. A member without an account gets it when its group's manifest is known here: at the start, and with each change. A
   restored authority hears of who joined after the backup from other members, and that device has its password still.
2. An account that a person or Covey removed stays removed. A board has none: its gateway carries for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from covey.core.group.device_labels import DeviceLabels
from covey.core.ids import DeviceKey, device_name, labelled_name
from covey.errors import CoveyError
from covey.ports import Report

if TYPE_CHECKING:
    from covey.core.group.manifest import GroupManifest
    from covey.core.node import Node
    from covey.core.now import Now


class MemberAccounts:
    """Gives members the accounts that a restored authority lacks."""

    def __init__(self, reinstate: Callable[[Iterable[str]], list[str]], report: Report) -> None:
        """`reinstate` takes user names, makes the accounts that are missing, and returns which."""
        self._reinstate = reinstate
        self._report = report
        self._seen: int | None = None

    def turn(self, node: Node, now: Now) -> int | None:  # noqa: ARG002 - as every role
        """Look where the groups have changed."""
        generation = node.groups.generation
        if generation == self._seen:
            return None
        self._seen = generation
        groups = node.groups.joined()
        try:
            made = self._reinstate(key.hex() for key in connecting(groups))
        except CoveyError as error:
            self._report("error", f"the relay accounts of members cannot be checked: {error}")
            return None
        labels = DeviceLabels(groups)
        for user_name in made:
            key = DeviceKey(bytes.fromhex(user_name))
            name = labelled_name(device_name(key), labels.label(key))
            self._report("notice", f"{name} is a member and had no relay account; it has one again")
        return None

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""


def connecting(groups: Iterable[GroupManifest]) -> set[DeviceKey]:
    """Return the members of groups that sign in at relays themselves."""
    return {member.keys.signing_public for group in groups for member in group.members if not member.is_board}
