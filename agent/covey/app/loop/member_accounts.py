"""Accounts at the relay follow the groups: each member has one, also after a restore (docs/how-to/upkeep.md).

1. A member without an account gets it when its group's manifest is known here: at the start, and with each change. A
   restored authority hears of a device that joined after the backup from other members, and that device has its
   password still.
2. An account that a person removed stays removed. A board has none: its gateway carries for it.
3. A former member of all groups of this device loses its account `REMOVED_ACCOUNT_US` after this agent has first seen
   that it is in none of them. Until then it can learn of its removal. Other changes of the groups do not extend that
   time. The same applies to an account that came back with a backup.
   A device that is added again gets its account back, with the password that it has. So a hostile member that removes
   others shuts them out only until somebody adds them again.
   An account that a person made by hand stays until a person removes it: the device may be in groups of others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from covey.core.group.device_labels import DeviceLabels
from covey.core.group.manifest import read_manifest
from covey.core.ids import DeviceKey, GroupId, device_name, inbox_name, labelled_name
from covey.errors import CoveyError
from covey.limits.broker import MANIFESTS_LOOKED_AT, REMOVED_ACCOUNT_US
from covey.ports import Report

if TYPE_CHECKING:
    from covey.adapters.broker.authority import Authority
    from covey.adapters.sqlite.store import SqliteStore
    from covey.core.group.manifest import GroupManifest
    from covey.core.node import Node
    from covey.core.now import Now


class MemberAccounts:
    """Gives members the accounts that a restored authority lacks, and takes those of former members away."""

    def __init__(self, authority: Callable[[], Authority], store: SqliteStore, report: Report) -> None:
        self._authority = authority
        self._store = store
        self._report = report
        self._seen: int | None = None
        self._looked_at: dict[GroupId, int] = {}
        """Up to which version of each group's manifests `_listed` goes."""
        self._listed: set[DeviceKey] = set()
        """The devices that a manifest has listed, boards apart."""
        self._has_unread = False
        self._close_at_us: dict[DeviceKey, int] = {}
        """When the accounts of former members are to be closed, in monotonic microseconds (rule 3)."""

    def turn(self, node: Node, now: Now) -> int | None:
        """Look where the groups have changed; return when to be called next, in monotonic microseconds."""
        if self._seen != node.groups.generation:
            self._seen = node.groups.generation
            self._let_in(node)
            self._has_unread = True
        if self._has_unread:
            self._has_unread = self._look_further(node)
            self._note_former(node, now)
        due = [key for key, close_at_us in self._close_at_us.items() if close_at_us <= now.monotonic_us]
        if due:
            self._shut_out(due, node, now)
        return now.monotonic_us if self._has_unread else min(self._close_at_us.values(), default=None)

    def stop(self, node: Node, now: Now) -> None:
        """Nothing is open."""

    def _let_in(self, node: Node) -> None:
        groups = node.groups.joined()
        members = connecting(groups)
        try:
            made = self._authority().reinstate(map(inbox_name, members))
        except CoveyError as error:
            self._report("error", f"the relay accounts of members cannot be checked: {error}")
            return
        for user_name in made:
            self._report(
                "notice", f"{_named(user_name, members, groups)} is a member and had no relay account; it has one again"
            )

    def _look_further(self, node: Node) -> bool:
        """Look through some manifests; return whether there are more."""
        for group in node.groups.joined():
            first = self._looked_at.get(group.group_id, 0) + 1
            manifests = self._store.groups.manifests_from(group.group_id, first, MANIFESTS_LOOKED_AT)
            read = [read_manifest(raw, verify=False) for raw in manifests]
            self._listed |= connecting(read)
            if read:
                self._looked_at[group.group_id] = read[-1].version
                return True
        return False

    def _note_former(self, node: Node, now: Now) -> None:
        former = self._listed - connecting(node.groups.joined()) - {node.identity.signing_public}
        close_at_us = now.monotonic_us + REMOVED_ACCOUNT_US
        self._close_at_us = {key: self._close_at_us.get(key, close_at_us) for key in former}

    def _shut_out(self, due: Iterable[DeviceKey], node: Node, now: Now) -> None:
        pairing = {row.joiner for row in self._store.pairings.all() if row.ended is None}
        closing = [key for key in due if key not in pairing]
        for key in due:
            self._close_at_us[key] = now.monotonic_us + REMOVED_ACCOUNT_US  # where that fails, or the device is pairing
        try:
            closed = self._authority().close(map(inbox_name, closing))
        except CoveyError as error:
            self._report("error", f"the relay accounts of former members cannot be removed: {error}")
            return
        for key in closing:
            del self._close_at_us[key]
        groups = node.groups.joined()
        for user_name in closed:
            self._report(
                "notice", f"{_named(user_name, closing, groups)} is no longer a member; its relay account was removed"
            )


def _named(user_name: str, keys: Iterable[DeviceKey], groups: Iterable[GroupManifest]) -> str:
    key = next(key for key in keys if inbox_name(key) == user_name)
    return labelled_name(device_name(key), DeviceLabels(groups).label(key))


def connecting(groups: Iterable[GroupManifest]) -> set[DeviceKey]:
    """Return the members of groups that sign in at relays themselves."""
    return {member.keys.signing_public for group in groups for member in group.members if not member.is_board}
